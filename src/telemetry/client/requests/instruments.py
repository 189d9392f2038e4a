"""Instruments of one kind of request in one tracking window, and the state that they share."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite, ldexp
from operator import index
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, SupportsFloat, SupportsIndex, TypeVar

from telemetry import limits
from telemetry.client import records, user_warnings
from telemetry.client.catalog import NO_ID, Catalog
from telemetry.client.native_module import RECORDER
from telemetry.client.recorders import Recorders, Rows, checked_ns
from telemetry.client.requests.ended import EndedLog
from telemetry.client.requests.judging import KindLimits, Later, OwnLimits
from telemetry.client.signal_safe import HitCounter
from telemetry.errors import UsageError
from telemetry.wire import requests as words
from telemetry.wire.events import Uncounted

OTHER: Final = "other"
FAR_NS: Final = 86_400 * 10**9
"""A day in ns. Larger distances between sending and due time are errors."""
EARLY_NS: Final = 2 * 10**9
"""Lower bound in ns of a plausible time on a clock that starts with the machine.

Numbers of seconds and values of time.time() are below it, running programs above it.
"""
_WALL_NS: Final = 10**18
"""Lower bound in ns of wall clock times: no machine has been up for thirty years."""
_GIVEN_CHARS: Final = 40
_LONG_NS: Final = 3_600 * 10**9
_WHOLE: Final = 1 << 32  # so that the sum over the chunks of a request fits in an integer of 64 bits
_AT_ZERO: Final = (words.FAILED, words.EXPIRED)
"""Counters made together with the first issue, so that zero failures are reported as 0."""
_LEFT_OUT: Final = (
    "so it was ignored: `planned` must be whole nanoseconds of time.monotonic_ns(), not seconds or wall-clock time"
)


class _PythonBase:
    """Attributes of a family that the compiled part of requests reads."""

    __slots__ = ("ids", "limits", "log", "open", "ring")

    ids: _Ids
    limits: KindLimits | None
    """Limits of requests. None: requests are not judged."""
    log: EndedLog
    open: dict[Any, Any]
    """Requests in flight, in order of issue."""
    ring: object
    """Ring into which compiled requests put their rows themselves. None if only `put` knows where they go."""


if TYPE_CHECKING or RECORDER is None:  # noqa: SIM108 – type checkers understand this form
    _Base = _PythonBase
else:
    _Base = RECORDER.FamilyBase


class Family(_Base):
    """Instruments shared by requests of one window. Thread-safe. Its methods do not raise for invalid values."""

    __slots__ = ("_host", "_said_before", "_values", "by_key", "claim", "kind", "labels", "put")

    def __init__(self, host: Host, kind: str, labels: Mapping[str, str], shared: KindState[Any]) -> None:
        self.kind = kind
        self.open = shared.open
        self.claim = shared.open.pop
        self.by_key = shared.by_key
        self.put: Callable[[Rows], object] = host.recorders.put
        """Function that records rows.

        Replaced once an id is requested beyond the limit: look it up after the ids of the rows.
        """
        self.ring = host.recorders.buffer
        self.ids = _Ids(self._make)
        self._host = host
        self.labels = labels
        self._values = shared.values
        self._said_before = shared.said
        self.log = shared.log
        self.limits = None

    def judge(self, limits_by_key: Mapping[str, int]) -> None:
        """Judge requests by these limits from now on."""
        self.limits = KindLimits(limits_by_key)
        if words.ISSUED in self.ids:
            self._make_good(limits_by_key)

    def _make_good(self, keys: Iterable[str]) -> None:
        """Make the counters of good requests, so that zero good requests are reported as 0."""
        self.ids[words.GOOD]
        for key in keys:
            self.ids[words.MET, key]

    def own_limits(self, text: str) -> OwnLimits | None:
        """Return the limits of a single request. For invalid ones, count them and return None."""
        judged = self.limits or KindLimits({})
        try:
            own_limits = judged.own(text)
        except UsageError as error:
            self._host.recorders.refused.hit()
            self.say_once("slo", f"the limits of a request of {self.kind!r} are ignored: {error}")
            return None
        self._make_good(own_limits.own)
        return own_limits

    def moment(self, at_ns: SupportsIndex) -> int:
        """Return `at_ns` if it is a valid time. Otherwise count it and return the time now."""
        moment = self.moment_or_none(at_ns)
        if moment is None:
            self._say(at_ns, "an `at_ns`", "so the current time is used")
            return time.monotonic_ns()
        if moment >= _WALL_NS:
            self._say(at_ns, "an `at_ns`", "which is wall-clock time: use time.monotonic_ns()")
        return moment

    def moment_or_none(self, at_ns: SupportsIndex) -> int | None:
        """Return `at_ns` if it is a valid time. Otherwise count it and return None."""
        try:
            return checked_ns(at_ns)
        except Exception:  # noqa: BLE001 – a value may raise anything; it is counted and reported with the run
            self._host.recorders.refused.hit()
            return None

    def due(self, planned: SupportsIndex, at: int) -> int | None:
        """Return the due time of a request sent at `at`. For an implausible time, count it and return None.

        A time below EARLY_NS is valid only if the request is sent within the hour after it, as in a replay that
        starts at 0.
        """
        moment = self.moment_or_none(planned)
        if moment is None:
            self.say_once("planned", f"`planned` of a request of {self.kind!r} is not a time, {_LEFT_OUT}")
            return None
        if moment - at >= FAR_NS:
            wrong = f"{(moment - at) / FAR_NS:,.0f} days in the future"
        elif moment < min(EARLY_NS, at - _LONG_NS):
            wrong = f"{(at - moment) / _LONG_NS:,.0f} h in the past"
        else:
            return moment
        self._host.recorders.refused.hit()
        self.say_once("planned", f"`planned` of a request of {self.kind!r} is {wrong}, {_LEFT_OUT}")
        return None

    def _refuse(self, value: object, what: str) -> None:
        self._host.recorders.refused.hit()
        self._say(value, what, "so it was ignored")

    def _say(self, value: object, what: str, outcome: str) -> None:
        """Print one message per `what` about an invalid value and its consequence."""
        if what in self._said_before:
            return
        try:
            text = records.clean(value, _GIVEN_CHARS)
            given = repr(text) if isinstance(value, str) else text
        except Exception:  # noqa: BLE001 – `str` of the caller's object may raise anything
            given = f"a {type(value).__name__}"
        self.say_once(what, f"a request of {self.kind!r} got {given} as {what}, {outcome}")

    def say_once(self, what: str, line: str) -> None:
        """Print a line at the terminal, only once for each subject `what`."""
        if what not in self._said_before:
            self._said_before.add(what)
            user_warnings.warn(line)

    def tokens(self, tokens: SupportsIndex) -> int:
        """Return a number of tokens. For an invalid value, count it and return 0."""
        return self.whole(tokens, "the tokens of a piece") or 0

    def whole(self, value: SupportsIndex, what: str) -> int | None:
        """Return an integer from 0 up. For an invalid value, count it and return None."""
        try:
            plain = int(index(value))
        except Exception:  # noqa: BLE001 – a value that is no integer may still be a whole number
            plain = _whole_float(value)
        if 0 <= plain < _WHOLE:
            return plain
        self._refuse(value, what)
        return None

    def amount(self, value: SupportsFloat, what: str) -> float | None:
        """Return a total of tokens. For an invalid value, count it and return None."""
        try:
            plain = ldexp(value, 0)
        except Exception:  # noqa: BLE001 – a value may raise anything; it is counted and reported with the run
            plain = -1.0
        if plain >= 0 and isfinite(plain):
            return plain
        self._refuse(value, what)
        return None

    def text(self, text: object, what: str) -> str | None:
        """Return text as a plain `str`. For an invalid value, count it and return None."""
        if isinstance(text, str):
            return str.__str__(text)
        self._refuse(text, what)
        return None

    def after_end(self, at: int) -> None:
        """Count a call for a request that had already ended."""
        rows = (self.ids[words.AFTER_END], at, 1.0)
        self.put(rows)

    def in_order(self, rows: list[float], at: int) -> list[float]:
        """Return the rows without durations below 0, and add a row that counts the removed ones.

        A duration below 0 ends before it begins. All other values of a request are 0 or more.
        """
        if min(rows[2::3]) >= 0:
            return rows
        kept = [number for i in range(0, len(rows), 3) if rows[i + 2] >= 0 for number in rows[i : i + 3]]
        return [*kept, self.ids[words.OUT_OF_ORDER], at, (len(rows) - len(kept)) / 3]

    def free(self, key: Hashable) -> None:
        """Free the key of a request that has just ended, so that another request may use it."""
        try:
            self.by_key.pop(key, None)
        except Exception:  # noqa: BLE001 – the caller's key may compare in any way; it is counted with the run
            self._host.recorders.refused.hit()

    def said(self, value: object) -> str:
        """Return a label value as text for `labelled`; empty for None.

        Count a value without text and return `other`.
        """
        if value is None:
            return ""
        try:
            text = records.clean(value, limits.LABEL_VALUE_CHARS)
        except Exception:  # noqa: BLE001 – a value may raise anything; it is counted and reported with the run
            text = None
        if type(text) is str:
            return text
        self._host.recorders.refused.hit()
        return OTHER

    def labelled(self, word: str, value: str) -> float:
        """Return the id of an instrument with one more label.

        A label has a bounded number of values: further ones become `other`. `value` must be a `str`, no subclass.
        """
        row_id = self.ids.get((word, value))
        return row_id if row_id is not None else self._label(word, value)

    def _label(self, word: str, value: str) -> float:
        values = self._values.setdefault(word, set())
        if value not in values:
            value = records.clean(value, limits.LABEL_VALUE_CHARS)
        if value not in values and len(values) >= limits.REASONS:
            value = OTHER
        else:
            values.add(value)
        return self.ids[word, value]

    def count_later(
        self,
        word: str,
        text: str,
        at: int,
        number: int | None,
        *,
        first: int | None = None,
        skipped: int = 0,
        later: Later | None = None,
    ) -> None:
        """Send text to the aggregator's workers, which count its tokens.

        With `first`, they also record the time per token after it, unless `first` is after the end `at`, and judge
        it by the limit in `later`. `number` is that of the request in the request log. Text that can't be sent is
        counted, and one message is printed.
        """
        span_ns = -1 if first is None else at - first
        self.ids[word]  # the worker knows only the name of the series, so define the series here
        if first is not None and span_ns < 0:
            rows = (self.ids[words.OUT_OF_ORDER], at, 1.0)
            self.put(rows)

        def encode() -> bytes:
            record = Uncounted(
                text=text,
                tokens=words.name_of(self.kind, word),
                time_ns=at,
                labels=dict(self.labels),
                per_token=words.name_of(self.kind, words.TPOT) if span_ns >= 0 else "",
                span_ns=max(0, span_ns),
                skipped=skipped,
                number=number,
                tpot_limit_ns=None if later is None else later.tpot_limit_ns,
                otherwise_good=later is not None and later.otherwise_good,
            )
            try:
                return records.uncounted(record)
            except ValueError as error:
                self.say_once(
                    word,
                    f"{record.tokens} can't count the tokens of a text: {error}. The text counts "
                    f"as unencodable; this warning appears once. Pass `{word}=` with a number for "
                    "such texts",
                )
                raise

        self._host.put_record(encode)

    def _make(self, key: str | tuple[str, str]) -> float:
        word, *value = (key,) if isinstance(key, str) else key
        labels = {**self.labels, words.LABEL_OF[word]: value[0]} if value else self.labels
        kind, unit = words.INSTRUMENTS[word]
        within = words.name_of(self.kind, words.LATENCY) if word in words.WITHIN else ""
        row_id = self._host.catalog.row_id(kind, words.name_of(self.kind, word), unit, labels, within=within)
        if row_id == NO_ID:
            self.put, self.ring = self._put_known, None
        if key == words.ISSUED:
            for outcome in _AT_ZERO:
                self.ids[outcome]
            if self.limits is not None:
                self._make_good(self.limits.by_key)
        return row_id

    def _put_known(self, rows: Rows) -> None:
        usable_rows = with_ids(rows, self._host.unencodable)
        if usable_rows:
            self._host.recorders.put(usable_rows)


def _whole_float(value: object) -> int:
    """Return a number without a fraction as an integer, or -1 for any other value."""
    try:
        exact = ldexp(value, 0)  # type: ignore[arg-type]
        plain = int(exact)
    except Exception:  # noqa: BLE001 – a value may raise anything; the caller counts it
        return -1
    return plain if plain == exact else -1


def with_ids(rows: Rows, lost: HitCounter) -> Rows:
    """Return the rows that have an id. Rows of instruments without an id are removed and counted."""
    without = rows[::3].count(NO_ID)
    if not without:
        return rows
    lost.hit_many(without)
    return [number for at in range(0, len(rows), 3) if rows[at] != NO_ID for number in rows[at : at + 3]]


class _Ids(dict[str | tuple[str, str], float]):
    """Row ids by word, or by word and label value."""

    def __init__(self, make: Callable[[str | tuple[str, str]], float]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: str | tuple[str, str]) -> float:
        row_id = self[key] = self._make(key)
        return row_id


R = TypeVar("R")
"""A request in flight. Its class comes later: it holds a `Family`."""


class Host(Protocol):
    """Interface of the process, as requests use it."""

    catalog: Catalog
    recorders: Recorders
    unencodable: HitCounter
    endpoint: str

    @property
    def state(self) -> str:
        """State of the process. `idle` means that no events are recorded."""
        ...

    def put_record(self, make: Callable[[], bytes]) -> None: ...


@dataclass(frozen=True)
class KindState(Generic[R]):
    """State shared by all families of a kind of request."""

    open: dict[R, R] = field(default_factory=dict)
    """Requests in flight, in order of issue. The thread that pops a request is the only one that ends it."""
    by_key: dict[Hashable, R] = field(default_factory=dict)
    """Requests in flight that have a key."""
    values: dict[str, set[str]] = field(default_factory=dict)
    """Known values of each label that only some instruments have."""
    said: set[str] = field(default_factory=set)
    """Subjects of the warnings printed so far. Each warning is printed once."""
    log: EndedLog = field(default_factory=EndedLog)
