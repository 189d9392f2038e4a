"""Translation of RL-Insight's events to instruments and spans, for its capture and its compatible interface."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final

import msgspec

from telemetry import limits
from telemetry.client import module_level as telemetry
from telemetry.client import user_warnings
from telemetry.client.process import PROCESS
from telemetry.client.records import clean
from telemetry.errors import InstrumentError, error_text
from telemetry.integrations.metric_points import unit_of
from telemetry.wire.events import Span

COUNTER: Final = "counter"
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"
TRACE: Final = "trace"
SEGMENT: Final = "monitor.trace_segment"
LANE: Final = "state_lane_id"
BELOW_ZERO: Final = "below_zero"
"""End of the name under which negative amounts and samples are recorded, without their sign."""
_SHAPES: Final = 1_000  # remembered; others are checked at each span
_FIRST: Final = (LANE, "state_name", SEGMENT, "monitor.trace_source", "process_id", "project", "experiment_name")
"""Attributes that a span keeps if it has more than fit."""
_LAST: Final = ("sample", "session", "traj", "uid", "session_id")
"""Attributes that a span gives up first: its lane names most of them."""

_ENCODE: Final = msgspec.msgpack.Encoder().encode

Recorder = Callable[[Any], None]


class EventTranslator:
    """A translator of events. Thread-safe. Its methods never raise."""

    def __init__(self) -> None:
        self._recorders: dict[tuple[Any, ...], Recorder] = {}
        self._label_sets: dict[tuple[str, str], int] = {}
        self._local = threading.local()
        self._shapes: set[tuple[str, ...]] = set()
        """Names of spans with the keys of their attributes, checked."""
        self._warned: set[str] = set()

    def apply(self, event: Mapping[str, Any]) -> None:
        """Record one event as RL-Insight's clients get it."""
        kind: Any = event.get("kind")
        try:
            if kind == TRACE:
                times = int(event["start_time_ns"]), int(event["end_time_ns"])
                self._span(event["name"], *times, event.get("attributes") or {})
            elif kind in _KINDS:
                labels = event.get("labels") or {}
                self._metric(kind, event["name"], event["value"], labels, event.get("documentation") or "")
            else:
                self._warn(f"an event of the unknown kind {kind!r} is not recorded")
        except Exception as error:  # noqa: BLE001 – labels may raise anything, which must not reach the program
            self._refuse(event.get("name"), error)

    def metric(self, kind: str, name: str, value: Any, labels: Mapping[str, Any], documentation: str = "") -> None:
        """Record a count, a gauge or a sample of a histogram."""
        try:
            self._metric(kind, name, value, labels, documentation)
        except Exception as error:  # noqa: BLE001 – as above
            self._refuse(name, error)

    def span(self, name: str, start_ns: int, end_ns: int, attributes: Mapping[str, Any]) -> None:
        """Record a span by its Unix times."""
        try:
            self._span(name, int(start_ns), int(end_ns), attributes)
        except Exception as error:  # noqa: BLE001 – as above
            self._refuse(name, error)

    def without_gauges(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function and leave out gauges of this thread meanwhile. The caller records their values itself."""
        local = self._local
        outer = getattr(local, "muted", False)
        local.muted = True
        try:
            return function(*args, **kwargs)
        finally:
            local.muted = outer

    # --- metrics ---------------------------------------------------------------------------------

    def _metric(self, kind: str, name: str, value: Any, labels: Mapping[str, Any], documentation: str) -> None:
        if kind == GAUGE and getattr(self._local, "muted", False):
            return
        if type(value) is not float:
            with suppress(Exception):  # the recorder below refuses and counts what is no number
                value = float(value)
        if kind != GAUGE and type(value) is float and value < 0.0:
            name, value, documentation = f"{name}.{BELOW_ZERO}", -value, ""
        texts = {key: label if type(label) is str else str(label) for key, label in labels.items()}
        key = (kind, name, *texts, *texts.values())
        recorder = self._recorders.get(key)
        if recorder is None:
            recorder = self._define(kind, str(name), texts, documentation)
            if len(self._recorders) < limits.PRODUCER_IDS:
                self._recorders[key] = recorder
        recorder(value)

    def _define(self, kind: str, name: str, labels: Mapping[str, str], documentation: str) -> Recorder:
        sets = self._label_sets[kind, name] = self._label_sets.get((kind, name), 0) + 1
        if sets == 1 and documentation not in ("", f"{kind.capitalize()} {name}"):
            telemetry.params({"rl_insight": {"help": {name: documentation}}})
        if sets <= limits.EVENT_LABEL_SETS:
            return _recorder(kind, name, self._fitting_labels(name, labels))
        self._warn(
            f"{name!r} has more than {limits.EVENT_LABEL_SETS} sets of labels in this process; of further "
            'sets, counts and samples are added up under labels="other", and gauges become texts'
        )
        if kind == GAUGE:
            return lambda value: telemetry.text(name, json.dumps({"value": value, **labels}, default=str))
        return _recorder(kind, name, {"labels": "other"})

    def _fitting_labels(self, name: str, labels: Mapping[str, str]) -> dict[str, str]:
        if len(labels) > limits.LABEL_COUNT:
            self._warn(f"{name!r} has {len(labels)} labels; the first {limits.LABEL_COUNT} are recorded")
        return {
            clean(key, limits.LABEL_KEY_CHARS) or "_": clean(label, limits.LABEL_VALUE_CHARS)
            for key, label in islice(labels.items(), limits.LABEL_COUNT)
        }

    # --- traces ----------------------------------------------------------------------------------

    def _span(self, name: str, start_ns: int, end_ns: int, attributes: Mapping[str, Any]) -> None:
        shift_ns = time.monotonic_ns() - time.time_ns()
        start_ns, end_ns = start_ns + shift_ns, end_ns + shift_ns
        texts = {
            str(key): value if type(value) is str else str(value)
            for key, value in attributes.items()
            if value is not None
        }
        name, track = str(name), texts.get(LANE, "")
        if PROCESS.state == "live" and self._fits(name, texts) and 0 <= start_ns <= end_ns:
            PROCESS.put_records(lambda: (_ENCODE(Span(name, start_ns, end_ns, track, texts)),))
            telemetry.put_span_duration(name, end_ns, end_ns - start_ns)
            return
        labels, rest = _fitting_attributes(texts)
        telemetry.span_at(name, start_ns, end_ns, track, labels=labels)
        if rest:
            lane = {LANE: track} if track else {}
            telemetry.text(f"{name}.attributes", json.dumps(lane | rest, ensure_ascii=False), at_ns=end_ns)

    def _fits(self, name: str, texts: Mapping[str, str]) -> bool:
        """Return whether a span can be encoded as it is, which takes a third of the time. Most spans can."""
        shape = (name, *texts)
        if shape not in self._shapes:
            keys_fit = 0 < len(texts) <= limits.LABEL_COUNT and min(map(len, shape)) > 0
            if not keys_fit or max(map(len, shape)) > limits.LABEL_KEY_CHARS or not "".join(shape).isascii():
                return False
            if len(self._shapes) < _SHAPES:
                self._shapes.add(shape)
        values = "".join(texts.values())
        most = limits.LABEL_VALUE_CHARS
        return values.isascii() and (len(values) <= most or max(map(len, texts.values())) <= most)

    def _refuse(self, name: object, error: Exception) -> None:
        self._warn(f"{name!r} is not recorded: {error_text(error)}")

    def _warn(self, message: str) -> None:
        if message not in self._warned and len(self._warned) < limits.WARNINGS_KEPT:
            self._warned.add(message)
            user_warnings.warn(message)


EVENTS: Final = EventTranslator()
"""The translator of this process."""


def _recorder(kind: str, name: str, labels: Mapping[str, str]) -> Recorder:
    """Return the recorder of an instrument, whose unit is that at the end of its name.

    A name that is taken by another kind gets the kind behind it.
    """
    name, unit = clean(name, limits.NAME_CHARS) or "_", unit_of(name.removesuffix(f".{BELOW_ZERO}"))
    try:
        return _KINDS[kind](name, unit, labels)
    except InstrumentError:
        return _KINDS[kind](clean(f"{name}.{kind}", limits.NAME_CHARS), unit, labels)


_KINDS: Final[Mapping[Any, Callable[[str, str, Mapping[str, str]], Recorder]]] = {
    COUNTER: lambda name, unit, labels: telemetry.counter(name, unit, labels=labels).add,
    GAUGE: lambda name, unit, labels: telemetry.gauge(name, unit, labels=labels).set,
    HISTOGRAM: lambda name, unit, labels: telemetry.series(name, unit, labels=labels).record,
}


def _fitting_attributes(texts: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the labels of a span, and the attributes that are too many or too long for it."""
    kept = list(texts)
    if len(kept) > limits.LABEL_COUNT:
        kept = sorted(kept, key=lambda key: (key in _LAST or not texts[key]) - (key in _FIRST))
    labels = {key: texts[key] for key in kept[: limits.LABEL_COUNT]}
    rest = {
        key: text
        for key, text in texts.items()
        if key not in labels or len(key) > limits.LABEL_KEY_CHARS or len(text) > limits.LABEL_VALUE_CHARS
    }
    return labels, rest
