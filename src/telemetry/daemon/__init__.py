"""The aggregator process: everything below put together, and nothing but that."""

from telemetry.daemon.build import run_daemon
from telemetry.daemon.options import DaemonOptions

__all__ = ["DaemonOptions", "run_daemon"]
