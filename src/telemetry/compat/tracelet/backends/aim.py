"""The tracker Aim as a class."""

from telemetry.compat.tracelet.core.run_backends import RunBackend


class AimBackend(RunBackend):
    kind = "aim"
