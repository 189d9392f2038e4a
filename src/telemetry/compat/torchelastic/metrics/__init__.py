"""The metrics interface of torchelastic, `torch.distributed.elastic.metrics`.

Change only the import:

    import telemetry.compat.torchelastic.metrics as metrics

    metrics.put_metric("examples", 512, "train")

Handlers work as documented there. Besides, each metric is a series of the run, with the group as its label.
"""

from __future__ import annotations

from telemetry.compat.torchelastic.metrics.api import *  # noqa: F403
from telemetry.compat.torchelastic.metrics.api import __all__ as __all__
