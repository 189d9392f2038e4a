"""Requests in Python and compiled ones: the same calls come to the same rows, log, counts and answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, Final, cast
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from telemetry import limits
from telemetry.client import user_warnings
from telemetry.client.catalog import Catalog
from telemetry.client.native_recorders import build_recorders
from telemetry.client.recorders import Recorders, python_recorders
from telemetry.client.requests import conversations, in_flight, instruments, kind
from telemetry.client.requests.kinds import Kinds
from telemetry.client.requests.request import PythonRequest, Request, hold_chunks
from telemetry.wire.codec import decode_record
from telemetry.wire.events import Define
from telemetry.wire.request_log import EndedRequests

KEYS: Final = 3
EXPIRE_NS: Final = 300
HELD: Final = 4


class Interrupt:
    """A value whose every use is interrupted."""

    def _interrupt(self, *_: object) -> Any:
        raise KeyboardInterrupt

    __index__ = __float__ = __str__ = _interrupt


class Whole:
    """A number of tokens of a type of its own."""

    def __index__(self) -> int:
        return 3


ODD: Final = ("seven", -1, 1 << 40, 1 << 70, 1.5, float("nan"), float("inf"), Interrupt(), b"x")
AT: Final = st.one_of(st.integers(0, 400), st.sampled_from((10**18 + 5, (1 << 63) - 1, np.int64(9), True, *ODD)))
TOKENS: Final = st.one_of(
    st.just("one"), st.sampled_from((None, 0, 1, 2, 7, True, 2.0, np.int64(2), Whole(), (1 << 32) - 1, *ODD))
)
AMOUNT: Final = st.sampled_from(
    (None, None, 0, 1, 5, 2.5, True, 1 << 53, (1 << 53) + 1, 10**400, np.float32(2), *ODD)
)
SECRET: Final = "sk-" + "a1B2" * 12
REASON: Final[st.SearchStrategy[Any]] = st.sampled_from(
    (None, "", "stop", "length", "x" * 300, "\ud800", SECRET, Interrupt(), 5, [])
)
TEXT: Final = st.sampled_from((None, None, "some words", b"none"))
ISSUE: Final = st.fixed_dictionaries(
    {"at_ns": st.integers(0, 400)},
    optional={
        "planned": st.sampled_from((5, 100, 400, -1, 1 << 62, "odd")),
        "input_tokens": AMOUNT,
        "input_text": TEXT,
        "key": st.integers(0, 1),
        "conversation": st.integers(0, 1),
        "turn": st.sampled_from((1, 40, "odd")),
        "slo": st.sampled_from(("ttft:1", "gap:1 tpot:1", "odd")),
    },
)
CALL: Final = st.one_of(
    st.tuples(st.just("issue"), ISSUE),
    st.tuples(
        st.sampled_from(("first", "chunk", "chunk", "chunk")),
        st.fixed_dictionaries({"tokens": TOKENS, "at_ns": AT}),
    ),
    st.tuples(st.just("first"), st.fixed_dictionaries({"at_ns": st.integers(0, 400)})),
    st.tuples(
        st.just("complete"),
        st.fixed_dictionaries(
            {"at_ns": AT}, optional={"output_tokens": AMOUNT, "finish_reason": REASON, "output_text": TEXT}
        ),
    ),
    st.tuples(st.just("fail"), st.fixed_dictionaries({"at_ns": AT}, optional={"reason": REASON})),
    st.tuples(st.sampled_from(("give_up", "tend", "forget", "repr")), st.just({})),
)
CALLS: Final = st.lists(st.tuples(st.integers(0, KEYS - 1), CALL), max_size=60)


class Side:
    """A process whose requests are of one class."""

    def __init__(self, of: type[PythonRequest], recorders: Recorders, slo: str, *, logged: bool) -> None:
        self.request_class = of
        self.recorders = recorders
        self.unencodable = recorders.unencodable
        self.catalog = Catalog(recorders, recorders.unencodable)
        self.state, self.endpoint = "live", ""
        self.texts: list[bytes] = []
        self.kinds = Kinds(self)
        self.backlog = SimpleNamespace(records=deque[bytes](), weight=0)
        self.kinds.log.begin(self.backlog, wanted=logged)
        self.llm = self.kinds.requests("llm", {}, expire_s=EXPIRE_NS / 1e9, slo_text=slo)
        self.texts.clear()  # the limits, with the time
        self.held: list[PythonRequest] = [self.llm.find("nobody")] * KEYS
        self.issued: list[PythonRequest] = []

    def put_record(self, make: Callable[[], bytes]) -> None:
        try:
            self.texts.append(make())
        except ValueError:
            self.unencodable.hit()

    def call(self, which: int, what: str, given: dict[str, Any], now: int) -> object:
        """Return the answer, or the type of what was raised."""
        try:
            if what == "issue":
                with mock.patch.object(kind, "Request", self.request_class):
                    self.held[which] = self.llm.issue(**given)
                self.issued.append(self.held[which])
                return None
            if what == "tend":
                self.llm._look_at_ns = 0
                return self.llm.tend(now, logged=self.kinds.log.wanted)
            if what == "forget":
                self.llm.forget()
                return None
            if what == "repr":
                return repr(self.held[which])
            answer: object = getattr(self.held[which], what)(**given)
            return answer
        except KeyboardInterrupt:
            return KeyboardInterrupt

    @property
    def inside(self) -> list[object]:
        """All that the requests hold."""
        return [
            (
                repr(made),
                *(made._issued_ns, made._planned_ns, made._told_ns, made._first_ns, made._key, made._input),
                None if made._times is None else made._times.tolist(),
                None if made._tokens is None else made._tokens.tolist(),
                made._extras is None,
            )
            for made in self.issued
        ]

    @property
    def events(self) -> list[object]:
        known = [decode_record(Raw(encoded)) for encoded in self.catalog.definitions]
        flat = list(cast(Any, self.recorders.buffer))
        found: list[object] = []
        for row, at, value in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
            made = known[int(row)]
            assert isinstance(made, Define)
            found.append((made.name, sorted(made.labels.items()), int(at), value))
        return found

    @property
    def entries(self) -> list[object]:
        self.kinds.log.flush()
        found: list[object] = []
        for record in map(decode_record, map(Raw, self.backlog.records)):
            assert isinstance(record, EndedRequests)
            found.append((record.kind, record.labels, record.left_out, record.entries))
        return found

    @property
    def counted(self) -> tuple[int, int]:
        return self.recorders.refused.total, self.unencodable.total


class Clock:
    """One clock for all that Python reads."""

    def __init__(self) -> None:
        self.now = 0

    def monotonic_ns(self) -> int:
        return self.now

    @contextmanager
    def installed(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(mock.patch.object(user_warnings, "warn"))
            stack.enter_context(mock.patch.object(instruments, "time", self))
            for module in (kind, conversations, in_flight):
                stack.enter_context(mock.patch.object(module, "_now", self.monotonic_ns))
            yield


def sides(slo: str, *, logged: bool) -> list[Side]:
    """Return three sides: in Python, compiled with rows as a list, and compiled with rows in a ring."""
    made = [
        Side(PythonRequest, python_recorders(), slo, logged=logged),
        Side(Request, python_recorders(), slo, logged=logged),
        Side(Request, build_recorders(), slo, logged=logged),
    ]
    for side in made:
        side.recorders.install(side.recorders.buffer.extend)
    return made


@given(CALLS, st.sampled_from(("", "", "ttft:0.0001 tpot:0.0001")), st.booleans())
def test_both_ways_come_to_the_same(
    calls: list[tuple[int, tuple[str, dict[str, Any]]]], slo: str, logged: bool
) -> None:
    """Both ways give the same answers, rows in order, log and counts for any calls and arguments."""
    clock = Clock()
    hold_chunks(HELD)
    try:
        with clock.installed():
            made = sides(slo, logged=logged)
            for which, (what, given_here) in calls:
                clock.now += 40
                arguments = {name: value for name, value in given_here.items() if value != "one"}
                answers = [side.call(which, what, arguments, clock.now) for side in made]
                assert answers == answers[:1] * len(made), (what, arguments)
                inside = [side.inside for side in made]
                assert inside == inside[:1] * len(made), (what, arguments)
    finally:
        hold_chunks(limits.CHUNKS_HELD)
    for figure in ("events", "entries", "counted", "texts"):
        found = [getattr(side, figure) for side in made]
        assert found == found[:1] * len(made), figure
    assert len({side.llm.in_flight for side in made}) == 1
