"""The tracker W&B as a class."""

from telemetry.compat.tracelet.core.run_backends import RunBackend


class WandbBackend(RunBackend):
    kind = "wandb"
