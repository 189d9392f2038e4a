"""The collector `host`: CPU, memory, disks and network of a machine, and of the processes of the command."""

from telemetry.collectors.host.collector import HostCollector

__all__ = ["HostCollector"]
