"""Decodes what a receiver of OTLP was sent."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.backends.written import Written

from telemetry.common.wording import labelled

_FINAL = "final/"
Labels = tuple[tuple[str, str | int], ...]


@dataclass
class Got:
    """One point of a metric."""

    scope: str
    name: str
    kind: str
    unit: str
    labels: dict[str, str | int]
    time_ns: int
    start_ns: int
    data: Any = field(repr=False)

    @property
    def value(self) -> float:
        return float(self.data.as_double)


def requests(folder: Path, signal: str) -> Iterator[Any]:
    """Yield the requests of a signal in the order in which they came."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    kinds = {"metrics": ExportMetricsServiceRequest, "traces": ExportTraceServiceRequest}
    for path in sorted(folder.glob(f"*.{signal}.pb")):
        yield kinds[signal].FromString(path.read_bytes())


def points(folder: Path) -> Iterator[Got]:
    for request in requests(folder, "metrics"):
        for group in request.resource_metrics:
            for scope in group.scope_metrics:
                for metric in scope.metrics:
                    kind = metric.WhichOneof("data")
                    for data in getattr(metric, kind).data_points:
                        yield Got(
                            scope.scope.name,
                            metric.name,
                            kind,
                            metric.unit,
                            plain(data.attributes),
                            data.time_unix_nano,
                            data.start_time_unix_nano,
                            data,
                        )


def spans(folder: Path) -> list[Any]:
    return [
        span
        for request in requests(folder, "traces")
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def plain(attributes: Any) -> dict[str, str | int]:
    found: dict[str, str | int] = {}
    for pair in attributes:
        assert pair.key not in found
        found[pair.key] = pair.value.int_value if pair.value.HasField("int_value") else pair.value.string_value
    return found


def read_back(folder: Path, where: str = "") -> Written:
    """`folder` is that of the receiver."""
    found = Written(counts={"step": 0})
    readings = set()
    for got in points(folder):
        if got.scope == "telemetry.steps":
            found.value(str(got.labels["axis"]), int(got.labels["step"]), got.name, got.value)
        elif got.scope == "telemetry.params":
            found.params[got.name] = str(got.labels["value"])
        elif got.name.startswith(_FINAL):
            found.finals |= _flat(got)
        elif got.scope == "telemetry.readings":
            readings.add(got.time_ns)
    found.counts |= {"reading": len(readings), "span": len(spans(folder))}
    return found


def _flat(got: Got) -> dict[str, float]:
    """Return the values by the names that trackers of numbers would have for them."""
    labels = {key: str(value) for key, value in got.labels.items()}
    percentile = labels.pop("percentile", None)
    name = labelled(got.name.removeprefix(_FINAL), labels)
    if percentile is not None:
        return {f"{name}/p{percentile}": got.value}
    if got.kind in ("gauge", "sum"):
        return {name: got.value}
    count = got.data.count
    return {
        f"{name}/count": float(count),
        f"{name}/mean": got.data.sum / count if count else 0.0,
        f"{name}/min": got.data.min,
        f"{name}/max": got.data.max,
    }
