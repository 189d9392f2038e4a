"""The tracker Aim as a class."""

from telemetry.compat.tracelet.backends.run_backend import RunBackend


class AimBackend(RunBackend):
    """The tracker Aim."""

    kind = "aim"
