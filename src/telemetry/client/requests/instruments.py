"""The instruments of one kind of request in one tracking window, each made when it is first needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from math import isfinite, ldexp
from operator import index
from typing import TYPE_CHECKING, Final, Protocol, SupportsFloat, SupportsIndex

from telemetry import limits
from telemetry.client import notice, records
from telemetry.client.catalog import NO_ID, Catalog
from telemetry.client.recorders import Recorders, Rows, checked_ns
from telemetry.client.tally import Tally
from telemetry.wire import requests as words
from telemetry.wire.events import Uncounted

if TYPE_CHECKING:
    from telemetry.client.requests.request import Request

OTHER: Final = "other"
FAR_NS: Final = 86_400 * 10**9
"""A day: nobody sends a request so long before it is due."""
EARLY_NS: Final = 2 * 10**9
"""Of a clock that begins with the machine: numbers of seconds and time.time() are before it, programs after."""
_WALL_NS: Final = 10**18
"""No machine has been up for thirty years."""
_GIVEN_CHARS: Final = 40
_LONG_NS: Final = 3_600 * 10**9
_WHOLE: Final = 1 << 32  # the sum over the chunks of a request stays an integer of 64 bits
_AT_ZERO: Final = (words.FAILED, words.EXPIRED)
"""Counters that are there as soon as something is issued: that nothing failed is a number too."""
_LEFT_OUT: Final = (
    "which is left out: `planned` is a whole number of nanoseconds, as time.monotonic_ns() has it, neither seconds "
    "nor the wall clock's"
)


class Host(Protocol):
    """What requests need of their process."""

    catalog: Catalog
    recorders: Recorders
    unencodable: Tally
    endpoint: str

    @property
    def state(self) -> str:
        """`idle` while nothing is recorded."""
        ...

    def put_record(self, make: Callable[[], bytes]) -> None: ...


@dataclass(frozen=True)
class Shared:
    """What all families of a kind of request have in common."""

    open: dict[Request, Request] = field(default_factory=dict)
    """Requests in flight, in order of issue. Whoever pops one ends it: nobody else does."""
    by_key: dict[Hashable, Request] = field(default_factory=dict)
    """Those of them that have a key."""
    values: dict[str, set[str]] = field(default_factory=dict)
    """Of the label that an instrument has of its own."""
    said: set[str] = field(default_factory=set)
    """Warnings, each of them once."""


class Family:
    """Shared by the requests that were issued in one window. Thread-safe; nothing here raises for a value."""

    __slots__ = ("_host", "_said_before", "_values", "by_key", "claim", "ids", "kind", "labels", "open", "put")

    def __init__(self, host: Host, kind: str, labels: Mapping[str, str], shared: Shared) -> None:
        self.kind = kind
        self.open = shared.open
        self.claim = shared.open.pop
        self.by_key = shared.by_key
        self.put: Callable[[Rows], object] = host.recorders.put
        """Replaced when an id is asked for and there are no more: look it up after the ids of what it is given."""
        self.ids = _Ids(self._make)
        self._host = host
        self.labels = labels
        self._values = shared.values
        self._said_before = shared.said

    def moment(self, at_ns: SupportsIndex) -> int:
        """`at_ns` if it is a time; else now, and it is counted."""
        moment = self.moment_or_none(at_ns)
        if moment is None:
            self._say(at_ns, "an `at_ns`", "for which now is taken")
            return time.monotonic_ns()
        if moment >= _WALL_NS:
            self._say(at_ns, "an `at_ns`", "which is a time of time.monotonic_ns(), not of the wall clock")
        return moment

    def moment_or_none(self, at_ns: SupportsIndex) -> int | None:
        """`at_ns` if it is a time; else None, and it is counted."""
        try:
            return checked_ns(at_ns)
        except Exception:  # noqa: BLE001 – a value may raise anything; it is counted and reported with the run
            self._host.recorders.refused.hit()
            return None

    def due(self, planned: SupportsIndex, at: int) -> int | None:
        """When a request should go out that does at `at`; None for what is no such time, and it is counted. Before
        EARLY_NS that is only what goes out within the hour, as in a replay that begins at 0."""
        moment = self.moment_or_none(planned)
        if moment is None:
            self.say_once("planned", f"a `planned` of requests of {self.kind!r} is no time, {_LEFT_OUT}")
            return None
        if moment - at >= FAR_NS:
            wrong = f"{(moment - at) / FAR_NS:,.0f} days ahead"
        elif moment < min(EARLY_NS, at - _LONG_NS):
            wrong = f"{(at - moment) / _LONG_NS:,.0f} h ago"
        else:
            return moment
        self._host.recorders.refused.hit()
        self.say_once("planned", f"requests of {self.kind!r} were planned {wrong}, {_LEFT_OUT}")
        return None

    def _refuse(self, value: object, what: str) -> None:
        self._host.recorders.refused.hit()
        self._say(value, what, "which is left out")

    def _say(self, value: object, what: str, outcome: str) -> None:
        """What somebody gave for what, once for each."""
        if what in self._said_before:
            return
        try:
            said = records.clean(value, _GIVEN_CHARS)
            given = repr(said) if isinstance(value, str) else said
        except Exception:  # noqa: BLE001 – it is the caller's, and may have no words
            given = f"a {type(value).__name__}"
        self.say_once(what, f"requests of {self.kind!r} were given {given} as {what}, {outcome}")

    def say_once(self, what: str, line: str) -> None:
        """A line for the person at the terminal, the first time that it is about this."""
        if what not in self._said_before:
            self._said_before.add(what)
            notice.warn(line)

    def tokens(self, tokens: SupportsIndex) -> int:
        """A number of tokens; 0 for what is none, and it is counted."""
        return self.whole(tokens, "the tokens of a piece") or 0

    def whole(self, value: SupportsIndex, what: str) -> int | None:
        """A whole number from 0 up; None for what is none, and it is counted."""
        try:
            plain = int(index(value))
        except Exception:  # noqa: BLE001 – what is no integer may still be a whole number
            plain = _whole_float(value)
        if 0 <= plain < _WHOLE:
            return plain
        self._refuse(value, what)
        return None

    def amount(self, value: SupportsFloat, what: str) -> float | None:
        """A total of tokens; None for what is none, and it is counted."""
        try:
            plain = ldexp(value, 0)
        except Exception:  # noqa: BLE001 – a value may raise anything; it is counted and reported with the run
            plain = -1.0
        if plain >= 0 and isfinite(plain):
            return plain
        self._refuse(value, what)
        return None

    def text(self, text: object, what: str) -> str | None:
        """A text, of the plain type; None for what is none, and it is counted."""
        if isinstance(text, str):
            return str.__str__(text)
        self._refuse(text, what)
        return None

    def after_end(self, at: int) -> None:
        """A call for a request that had ended."""
        rows = (self.ids[words.AFTER_END], at, 1.0)
        self.put(rows)

    def in_order(self, rows: list[float], at: int) -> list[float]:
        """Return the rows without durations that end before they begin, and with a row that counts these. No other
        value of a request is below 0."""
        if min(rows[2::3]) >= 0:
            return rows
        kept = [number for i in range(0, len(rows), 3) if rows[i + 2] >= 0 for number in rows[i : i + 3]]
        return [*kept, self.ids[words.OUT_OF_ORDER], at, (len(rows) - len(kept)) / 3]

    def free(self, key: Hashable) -> None:
        """The key of a request that has just ended is anybody's again: until then no other has it."""
        try:
            self.by_key.pop(key, None)
        except Exception:  # noqa: BLE001 – the caller's key may compare in any way; it is counted with the run
            self._host.recorders.refused.hit()

    def said(self, value: object) -> str:
        """A label's value in words, as `labelled` takes it; none for None. What has no words is `other`, and it is
        counted."""
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
        """The id of an instrument with one label more, whose values are bounded: beyond, they are `other`. `value`
        is of the plain type."""
        found = self.ids.get((word, value))
        return found if found is not None else self._label(word, value)

    def _label(self, word: str, value: str) -> float:
        known = self._values.setdefault(word, set())
        if value not in known:
            value = records.clean(value, limits.LABEL_VALUE_CHARS)
        if value not in known and len(known) >= limits.REASONS:
            value = OTHER
        else:
            known.add(value)
        return self.ids[word, value]

    def count_later(self, word: str, text: str, at: int, first: int | None = None, skipped: int = 0) -> None:
        """Has the tokens of a text counted, and, with `first`, the time for each of them after it, unless that came
        after the end. A text that can't be sent is counted, which is said once."""
        span_ns = -1 if first is None else at - first
        self.ids[word]  # who counts knows no more of the series than its name: it is defined here
        if first is not None and span_ns < 0:
            rows = (self.ids[words.OUT_OF_ORDER], at, 1.0)
            self.put(rows)

        def made() -> bytes:
            record = Uncounted(
                text=text,
                tokens=words.name_of(self.kind, word),
                time_ns=at,
                labels=dict(self.labels),
                per_token=words.name_of(self.kind, words.TPOT) if span_ns >= 0 else "",
                span_ns=max(0, span_ns),
                skipped=skipped,
            )
            try:
                return records.uncounted(record)
            except ValueError as error:
                self.say_once(
                    word,
                    f"{record.tokens} lacks the tokens of a text: {error}. It counts as unencodable; this is said "
                    f"once. Give `{word}=`, a number, where texts may be like that",
                )
                raise

        self._host.put_record(made)

    def _make(self, key: str | tuple[str, str]) -> float:
        word, *value = (key,) if isinstance(key, str) else key
        labels = {**self.labels, words.LABEL_OF[word]: value[0]} if value else self.labels
        kind, unit = words.INSTRUMENTS[word]
        within = words.name_of(self.kind, words.LATENCY) if word in words.WITHIN else ""
        made = self._host.catalog.row_id(kind, words.name_of(self.kind, word), unit, labels, within=within)
        if made == NO_ID:
            self.put = self._put_known
        if key == words.ISSUED:
            for outcome in _AT_ZERO:
                self.ids[outcome]
        return made

    def _put_known(self, rows: Rows) -> None:
        known = with_ids(rows, self._host.unencodable)
        if known:
            self._host.recorders.put(known)


def _whole_float(value: object) -> int:
    """A number without a fraction as an integer; -1 for anything else."""
    try:
        exact = ldexp(value, 0)  # type: ignore[arg-type]
        plain = int(exact)
    except Exception:  # noqa: BLE001 – a value may raise anything; whoever asks counts it
        return -1
    return plain if plain == exact else -1


def with_ids(rows: Rows, lost: Tally) -> Rows:
    """The rows without those of instruments for which there is no id; these are counted."""
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
        made = self[key] = self._make(key)
        return made
