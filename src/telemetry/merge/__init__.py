"""Several finished runs as one: histograms added exactly, and what each run said by itself kept."""

from __future__ import annotations

from telemetry.merge.run import Merged, MergeTarget, merge
from telemetry.merge.sources import Input, gather

__all__ = ["Input", "MergeTarget", "Merged", "gather", "merge"]
