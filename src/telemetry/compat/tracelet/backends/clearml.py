"""The tracker ClearML as a class."""

from telemetry.compat.tracelet.core.run_backends import RunBackend


class ClearMLBackend(RunBackend):
    kind = "clearml"
