"""The tracker ClearML as a class."""

from telemetry.compat.tracelet.backends.run_backend import RunBackend


class ClearMLBackend(RunBackend):
    """The tracker ClearML."""

    kind = "clearml"
