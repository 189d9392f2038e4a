"""Requests, whatever is called in whatever order: nothing is counted twice, nothing is lost, figures are right."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from telemetry import limits
from telemetry.client import records
from telemetry.client.catalog import Catalog
from telemetry.client.native_recorders import build_recorders
from telemetry.client.recorders import Rows
from telemetry.client.requests import kind
from telemetry.client.requests.kinds import Kinds, Tracking
from telemetry.client.requests.request import Request
from telemetry.client.signal_safe import Tally
from telemetry.wire.codec import decode_record
from telemetry.wire.events import Define

Step = tuple[str, int, int, int, bool]
KEYS = 4
EXPIRE_NS = 300
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["issue", "issue", "first", "chunk", "chunk", "complete", "fail", "tend", "open", "close"]),
        st.integers(0, KEYS - 1),
        st.integers(0, 400),
        st.integers(0, 5),
        st.booleans(),
    ),
    max_size=60,
)


class Host:
    def __init__(self) -> None:
        self.recorders = build_recorders()
        self.recorders.install(self._put)
        self.unencodable = Tally()
        self.catalog = Catalog(self.recorders, self.unencodable)
        self.state, self.endpoint = "live", ""

    def put_record(self, make: Any) -> None:
        make()

    def _put(self, rows: Rows) -> None:
        assert len(rows) % 3 == 0
        self.recorders.buffer.extend(rows)

    def events(self) -> list[tuple[str, dict[str, str], int, float]]:
        known = [decode_record(Raw(encoded)) for encoded in self.catalog.definitions]
        flat = self.recorders.buffer
        found = []
        for row, at, value in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
            made = known[int(row)]
            assert isinstance(made, Define)
            found.append((made.name.removeprefix("llm."), made.labels, int(at), value))
        return found


@dataclass
class Model:
    """A request as somebody would write it who has all the time of the world."""

    issued: int
    planned: int | None
    told: int
    """When it was said to be issued."""
    outputs: list[tuple[int, int | None]] = field(default_factory=list)

    def complete(self, at: int, tokens: int | None) -> list[tuple[str, int, float]]:
        rows = [("completed", at, 1.0), ("latency", at, at - self.issued)]
        if self.planned is not None:
            late = max(0, self.issued - self.planned)
            rows.append(("latency_corrected", at, at - self.issued + late))
            rows.append(("queue_delay", self.issued, late))
        moments = [moment for moment, _ in self.outputs]
        if moments:
            rows.append(("ttft", moments[0], moments[0] - self.issued))
        for before, moment in pairwise(moments):
            rows.append(("itl", moment, moment - before))
        pieces = [count for _, count in self.outputs if count is not None]
        if tokens is None and moments and len(pieces) == len(moments):
            tokens = sum(pieces)
        if tokens is not None:
            rows.append(("output_tokens", at, tokens))
            first = self.outputs[0][1] if moments else 0
            after = tokens - (1 if first is None else first)
            if moments and after > 0:
                rows.append(("tpot", at, (at - moments[0]) / after))
        return in_order([(name, moment, float(value)) for name, moment, value in rows], at)


def in_order(rows: list[tuple[str, int, float]], at: int) -> list[tuple[str, int, float]]:
    """Return the rows in order.

    Rows that end before they begin are left out, and their number is a row `out_of_order`.
    """
    kept = [row for row in rows if row[2] >= 0]
    left_out = len(rows) - len(kept)
    return [*kept, ("out_of_order", at, float(left_out))] if left_out else kept


class Play:
    """The same calls to both."""

    def __init__(self) -> None:
        self.host = Host()
        self.kinds = Kinds(self.host)
        self.llm = self.kinds.requests("llm", {}, expire_s=EXPIRE_NS / 1e9)
        self.held: list[Request] = [self.llm.find("nobody")] * KEYS
        self.open: dict[Request, Model] = {}
        self.windows: dict[Request, str] = {}
        """Of every request, the window it was issued in."""
        self.tracking: list[Tracking] = []
        self.expected: Counter[tuple[str, str, int, float]] = Counter()
        self.now = 0
        """The clock of the process, which has nothing to do with the times that calls are given."""

    def clock(self) -> int:
        return self.now

    def expect(self, made: Request, rows: list[tuple[str, int, float]]) -> None:
        window = self.windows.get(made, "")
        self.expected.update((name, window, at, value) for name, at, value in rows)

    def call(self, step: Step) -> None:
        what, key, at, number, flag = step
        self.now += 20 * number
        if what == "issue":
            planned = number * 80 if flag else None
            made = self.held[key] = self.llm.issue(planned=planned, at_ns=at)
            self.windows[made] = self.kinds.window
            self.open[made] = Model(at, planned, self.now)
            self.expect(made, [("issued", at, 1.0)])
        elif what == "tend":
            self.llm._look_at_ns = 0
            self.llm.tend(self.now)
            for made in [made for made, old in self.open.items() if self.now - old.told >= EXPIRE_NS]:
                del self.open[made]
                self.expect(made, [("expired", self.now, 1.0)])
        elif what == "open":
            self.tracking.append(Tracking(self.kinds, self.host, f"w{number}"))
            self.tracking[-1].__enter__()
        elif what == "close":
            if self.tracking:
                self.tracking.pop(number % len(self.tracking)).__exit__(None, None, None)
        else:
            self.say(self.held[key], step)

    def say(self, made: Request, step: Step) -> None:
        what, _, at, number, flag = step
        tokens = number if flag else None
        piece = None if flag else number
        if what in ("first", "chunk"):
            told = getattr(made, what)(piece, at_ns=at)
        else:
            told = made.complete(tokens, at_ns=at) if what == "complete" else made.fail(at_ns=at)
        assert told == at
        model = self.open.get(made)
        if model is None:
            self.expect(made, [("after_end", at, 1.0)])
        elif what in ("first", "chunk"):
            model.outputs.append((at, piece))
        else:
            del self.open[made]
            failed = in_order([("failed", at, 1.0), ("failed_latency", at, float(at - model.issued))], at)
            self.expect(made, model.complete(at, tokens) if what == "complete" else failed)


@given(CALLS)
def test_every_request_has_one_outcome_and_the_figures_of_its_times(calls: list[Step]) -> None:
    """Twice, in the wrong order, at times that go back, after the end: what is recorded is what a plain model says,
    and issued = completed + failed + expired + in flight in each window."""
    play = Play()
    with mock.patch.object(kind, "_now", play.clock):
        for step in calls:
            play.call(step)
    events = play.host.events()
    assert (
        Counter((name, labels.get("window", ""), at, value) for name, labels, at, value in events) == play.expected
    )
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, labels, *_ in events:
        counts[labels.get("window", "")][name] += 1
    for window, seen in counts.items():
        flying = sum(play.windows[made] == window for made in play.open)
        assert seen["issued"] == seen["completed"] + seen["failed"] + seen["expired"] + flying
    assert play.llm.in_flight == len(play.open)


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_is_a_reason(failure: str, finish: str) -> None:
    """Any text becomes a label that the wire takes, as a reason or as a finish."""
    host = Host()
    llm = Kinds(host).requests("llm", {})
    llm.issue().fail(failure)
    llm.issue().complete(finish_reason=finish)
    labels = [labels for name, labels, *_ in host.events() if name in ("failed", "completed")]
    assert [set(found) for found in labels] == [{"reason"}, {"finish"} if finish else set()]
    for found in labels:
        assert all(0 < len(value) <= limits.LABEL_VALUE_CHARS for value in found.values())
    assert records.clean(failure, 10) == records.clean(records.clean(failure, 10), 10)
