"""A recording whose records and values a test can read, and the requests that tests send to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from msgspec import Raw
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1 import metrics_pb2

from telemetry.client.process import Process
from telemetry.client.recording import Recording
from telemetry.gateway.otlp import Accepted, MetricState, take_metrics
from telemetry.wire.codec import decode_record
from telemetry.wire.events import Bins, Define, EventRecord

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
DELTA: Final = metrics_pb2.AGGREGATION_TEMPORALITY_DELTA
CUMULATIVE: Final = metrics_pb2.AGGREGATION_TEMPORALITY_CUMULATIVE
S: Final = 1_000_000_000
NOW_NS: Final = time.time_ns() - 100 * S
_Record = TypeVar("_Record")


class Value(NamedTuple):
    """One value of an instrument."""

    name: str
    labels: Mapping[str, str]
    value: float


class Program(Process):
    """A live process that keeps what is recorded instead of sending it."""

    def __init__(self) -> None:
        super().__init__()
        self.state = "live"
        self.recorders.install(self.recorders.buffer.extend)
        self.records: list[EventRecord] = []

    def put_records(self, make: Callable[[], Iterable[bytes]]) -> None:
        self.records += [decode_record(Raw(each)) for each in make()]


class Recorded(Recording):
    """The calls of a run, and what they recorded."""

    def __init__(self) -> None:
        self.program = Program()
        super().__init__(self.program)

    @property
    def definitions(self) -> list[Define]:
        found = [decode_record(Raw(each)) for each in self.program.catalog.definitions]
        return [each for each in found if isinstance(each, Define)]

    @property
    def values(self) -> list[Value]:
        known, flat = self.definitions, self.program.recorders.buffer
        ids = (int(row_id) for row_id in flat[::3])
        return [Value(known[at].name, known[at].labels, value) for at, value in zip(ids, flat[2::3], strict=True)]

    @property
    def times_ns(self) -> list[int]:
        return [int(at_ns) for at_ns in self.program.recorders.buffer[1::3]]

    def of(self, name: str) -> list[float]:
        """Return the values of all instruments of a name."""
        return [each.value for each in self.values if each.name == name]

    def units(self) -> dict[str, tuple[str, str]]:
        """Return kind and unit of each name."""
        return {each.name: (each.kind, each.unit) for each in self.definitions}

    def records(self, kind: type[_Record]) -> list[_Record]:
        return [each for each in self.program.records if isinstance(each, kind)]

    @property
    def bins(self) -> list[tuple[str, list[float], list[int]]]:
        return [(each.name, each.edges, each.counts) for each in self.records(Bins)]


# --- requests ------------------------------------------------------------------------------------


def attributes(**values: Any) -> list[KeyValue]:
    """Return attributes; two underscores in a key stand for a dot."""
    return [
        KeyValue(key=key.replace("__", "."), value=AnyValue(**{_FIELDS[type(value)]: value}))
        for key, value in values.items()
    ]


_FIELDS: Final = {str: "string_value", bool: "bool_value", int: "int_value", float: "double_value"}


def number(
    value: float, at_s: float = 1.0, *, start_s: float | None = 0.0, **labels: Any
) -> metrics_pb2.NumberDataPoint:
    """Return a point at a number of seconds after the state began."""
    kind = {"as_int": value} if isinstance(value, int) else {"as_double": value}
    return metrics_pb2.NumberDataPoint(**kind, **times(at_s, start_s), attributes=attributes(**labels))


def times(at_s: float, start_s: float | None) -> dict[str, int]:
    start_ns = 0 if start_s is None else NOW_NS + round(start_s * S)
    return {"time_unix_nano": NOW_NS + round(at_s * S), "start_time_unix_nano": start_ns}


def sums(
    name: str, *points: Any, temporality: int = CUMULATIVE, monotonic: bool = True, unit: str = ""
) -> metrics_pb2.Metric:
    data = metrics_pb2.Sum(data_points=points, aggregation_temporality=temporality, is_monotonic=monotonic)
    return metrics_pb2.Metric(name=name, unit=unit, sum=data)


def gauge(name: str, *points: Any, unit: str = "") -> metrics_pb2.Metric:
    return metrics_pb2.Metric(name=name, unit=unit, gauge=metrics_pb2.Gauge(data_points=points))


def request(*metrics: Any, service: str = "api", scope: str = "", **resource: Any) -> ExportMetricsServiceRequest:
    made = ExportMetricsServiceRequest()
    group = made.resource_metrics.add()
    group.resource.attributes.extend(attributes(**resource))
    if service:
        group.resource.attributes.extend(attributes(service__name=service))
    group.scope_metrics.add(metrics=metrics).scope.name = scope
    return made


def state() -> MetricState:
    """Return a state whose gateway listens from second 0."""
    return MetricState(NOW_NS)


def take(recorded: Recorded, known: MetricState, *metrics: Any, **options: Any) -> Accepted:
    """Send metrics as one request, and check that the answer agrees with the numbers."""
    made = request(*metrics, **options)
    body, accepted = take_metrics(made.SerializeToString(), PROTOBUF, recorded, known)
    partial = ExportMetricsServiceResponse.FromString(body).partial_success
    assert (partial.rejected_data_points, partial.error_message) == (accepted.refused, accepted.reason)
    return accepted
