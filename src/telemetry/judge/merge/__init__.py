"""The merge of several finished runs into one, with exact sums of histograms and the results of each source."""

from __future__ import annotations

from telemetry.judge.merge.run import Merged, MergeTarget, merge
from telemetry.judge.merge.sources import Input, gather

__all__ = ["Input", "MergeTarget", "Merged", "gather", "merge"]
