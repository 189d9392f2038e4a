"""The aggregator process: the composition of all lower packages, without logic of its own."""

from telemetry.daemon.build import run_daemon
from telemetry.daemon.options import DaemonOptions

__all__ = ["DaemonOptions", "run_daemon"]
