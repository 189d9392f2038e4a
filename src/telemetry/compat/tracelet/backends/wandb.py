"""The tracker W&B as a class."""

from telemetry.compat.tracelet.backends.run_backend import RunBackend


class WandbBackend(RunBackend):
    """The tracker W&B."""

    kind = "wandb"
