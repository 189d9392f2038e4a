"""Events in, snapshots out: counters, gauges and series of one run. Pure: no sockets, files, threads or clocks."""

from __future__ import annotations

from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.core import Aggregator
from telemetry.aggregator.lifecycle import Lifecycle
from telemetry.aggregator.records import StreamedRecord
from telemetry.aggregator.snapshotter import SnapshotFacts

__all__ = ["Aggregator", "AggregatorConfig", "Lifecycle", "SnapshotFacts", "StreamedRecord"]
