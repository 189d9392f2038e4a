"""Several finished runs as one: histograms added exactly, and what each run said by itself kept."""

from __future__ import annotations

from telemetry.merging.inputs import Input, gather
from telemetry.merging.run import Merged, Place, merge

__all__ = ["Input", "Merged", "Place", "gather", "merge"]
