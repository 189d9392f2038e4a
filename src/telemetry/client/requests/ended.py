"""Requests that have ended, on their way to the request log: any thread adds one, the flusher makes records."""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Callable
from itertools import count
from operator import sub
from typing import TYPE_CHECKING, Final, Protocol, cast

import msgspec

from telemetry import limits
from telemetry.client.recorders import TIME_LIMIT
from telemetry.client.records import RECORD_BYTES, clean
from telemetry.client.redaction import REDACTION
from telemetry.client.signal_safe import Locked
from telemetry.wire.request_log import EndedRequests, Outcome, RequestEntry

if TYPE_CHECKING:
    from telemetry.client.requests.instruments import Family

HEAD: Final = 5
"""Number of values at the head of the times of a request.

They are the tokens of the first output (UNKNOWN_TOKENS if unknown), the tokens of chunks no longer held, the number
of these, the largest gap between them, and the time before the first held chunk.
"""
UNKNOWN_TOKENS: Final = (1 << 33) - 1
_PLACES_BITS: Final = 46
PLACES: Final = 1 << _PLACES_BITS
"""Factor that leaves room for the tokens of all buffered chunks, or UNKNOWN_TOKENS of each, beside an index."""
Ended = tuple[
    "Family",
    int,
    Outcome,
    str,
    int,
    int,
    "int | None",
    "int | None",
    "array[int] | None",
    "array[int] | None",
    "float | str | None",
    "float | None",
    str,
    "dict[str, int]",
]
"""A request that has ended.

Instruments, number, outcome, reason, times of issue and end, planned time, time of the first output, times and
tokens of the chunks, input and output tokens, turn, and own limits. It is a plain tuple because the caller's thread
makes it, and anything else takes several times as long.
"""


class CompiledEnded(Protocol):
    """A request that has ended, made by the compiled recorder."""

    @property
    def family(self) -> Family: ...

    def encode(self, label: Callable[[str], str], /) -> bytes:
        """Return its entry, encoded. `label` makes a text fit, without secrets."""


EndedRequest = Ended | CompiledEnded

_ENCODE: Final = msgspec.msgpack.Encoder().encode
_TOKENS: Final = PLACES - 1
_ENTRY_BYTES: Final = 400
_TEXT_BYTES: Final = 4 * 2 * limits.LABEL_VALUE_CHARS
_CHUNK_BYTES: Final = 18  # a gap and a number of tokens of nine bytes each
_ROOM: Final = 2  # records of ended requests take half of the room for records at most


class Backlog(Protocol):
    """Interface of the outbox, as the request log uses it."""

    records: deque[bytes]

    @property
    def weight(self) -> int: ...


class EndedLog(Locked):
    """A bounded list of requests that have ended since the last flush. One per process."""

    def __init__(
        self, number: Callable[[], int] | None = None, logged: Callable[[int], object] = lambda requests: None
    ) -> None:
        """Make an empty list. `number` numbers requests, and `logged` is told how many more are in records."""
        super().__init__()
        self.wanted = False
        """True while requests that end are logged."""
        self.number = number or count().__next__
        """Function that returns the number of the next request."""
        self._logged = logged
        self._waiting: list[EndedRequest] = []
        self._left_out: Counter[Family] = Counter()
        """Number of requests that found no room, by their instruments."""
        self._backlog: Backlog | None = None

    def begin(self, backlog: Backlog, *, wanted: bool) -> None:
        """Make records for a new producer from now on."""
        self._backlog = backlog
        self.wanted = wanted

    def forget(self) -> None:
        """Drop all requests: they belong to a parent process or to another run."""
        self.wanted = False
        self._backlog = None
        self._waiting.clear()
        self._left_out = Counter()

    def add(self, ended: EndedRequest) -> None:
        """Add a request, or count it as left out. Never blocks."""
        if len(self._waiting) < limits.REQUESTS_WAITING:
            self._waiting.append(ended)
        else:
            with self._lock:
                self._left_out[_family_of(ended)] += 1

    def close(self) -> None:
        """Make records of all requests so far. Requests that end later are not logged. Never blocks."""
        turns = len(self._waiting) // limits.REQUESTS_A_TURN + 1
        for _ in range(turns):  # first, because it takes a while and other threads end requests meanwhile
            self.flush()
        self.wanted = False
        while self._waiting and self._backlog is not None:
            self.flush()
        self.flush()

    def flush(self) -> bool:
        """Make records of a bounded number of requests. Without room for records, leave the requests out.

        Return False if no request has ended since the last call.
        """
        backlog = self._backlog
        if backlog is None or not (self._waiting or self._left_out):
            return False
        with self._lock:
            ended = self._waiting[: limits.REQUESTS_A_TURN]
            del self._waiting[: len(ended)]
            if backlog.weight > limits.RECORDS_BUFFERED_BYTES // _ROOM or (
                len(backlog.records) > limits.RECORDS_BUFFERED // _ROOM
            ):
                self._left_out.update(map(_family_of, ended))
                return True
            by_family: dict[Family, list[EndedRequest]] = {family: [] for family in self._left_out}
            for each in ended:
                by_family.setdefault(_family_of(each), []).append(each)
            left_out, self._left_out = self._left_out, Counter()
            for family, entries in by_family.items():
                backlog.records.extend(_records(family, entries, left_out[family]))
                self._logged(len(entries) + left_out[family])
        return True


class _Labels(dict[str, str]):
    """Labels of texts in which the redactor matches nothing. A masked text is counted each time."""

    def __missing__(self, text: str) -> str:
        label = _label(text)
        if label == text:
            self[text] = label
        return label


def _family_of(ended: EndedRequest) -> Family:
    return ended[0] if isinstance(ended, tuple) else ended.family


def _records(family: Family, ended: list[EndedRequest], left_out: int) -> list[bytes]:
    """Return the records of requests of one kind and window. Each record fits in a batch."""
    records: list[bytes] = []
    entries: list[RequestEntry | msgspec.Raw] = []
    room = RECORD_BYTES
    label = _Labels().__getitem__
    for each in ended:
        entry: RequestEntry | msgspec.Raw
        if isinstance(each, tuple):
            entry, size = entry_of(each), _size(each)
        else:
            encoded = each.encode(label)
            entry, size = msgspec.Raw(encoded), len(encoded)
        if entries and (size > room or len(entries) >= limits.REQUESTS_PER_RECORD):
            records.append(_record(family, entries, left_out))
            entries, room, left_out = [], RECORD_BYTES, 0
        entries.append(entry)
        room -= size
    if entries or left_out:
        records.append(_record(family, entries, left_out))
    return records


def _record(family: Family, entries: list[RequestEntry | msgspec.Raw], left_out: int) -> bytes:
    redactor = REDACTION.redactor
    kind, labels = redactor.name(family.kind), redactor.labels(family.labels)
    return _ENCODE(EndedRequests(kind, labels, cast(list[RequestEntry], entries), left_out))


def _size(ended: Ended) -> int:
    """Return an upper bound of the bytes of an entry."""
    times = ended[8]
    chunks = 0 if times is None else len(times) - HEAD
    return _ENTRY_BYTES + (_TEXT_BYTES if ended[3] or ended[12] else 0) + _CHUNK_BYTES * chunks


def _label(text: str) -> str:
    """Return a text as it fits in an entry, without secrets."""
    if not text:
        return text
    masked = REDACTION.redactor.name(clean(text, limits.LABEL_VALUE_CHARS))
    return masked[: limits.LABEL_VALUE_CHARS]


def entry_of(ended: Ended) -> RequestEntry:
    """Return the entry of a request."""
    _, number, outcome, reason, issued, at, planned, first, times, tokens, given, produced, turn, own = ended
    gaps: list[int] = []
    chunk_tokens: list[int | None] = []
    first_tokens: int | None = None if first is None else 1
    left_out = 0
    if times is not None and first is not None:
        moments = times[HEAD - 1 :].tolist()
        gaps = list(map(sub, moments[1:], moments))
        first_tokens = None if times[0] == UNKNOWN_TOKENS else times[0]
        left_out = times[2]
        if tokens is not None:
            chunk_tokens = [1] * len(gaps)
            for packed in tokens:
                token_count = packed & _TOKENS
                chunk_tokens[packed >> _PLACES_BITS] = None if token_count == UNKNOWN_TOKENS else token_count
    return RequestEntry(
        number,
        issued,
        at,
        outcome,
        _label(reason),
        planned,
        first,
        first_tokens,
        gaps,
        chunk_tokens,
        left_out,
        None if isinstance(given, str) else _amount(given),
        _amount(produced),
        _label(turn),
        own,
    )


def _amount(tokens: float | None) -> int | float | None:
    """Return a number of tokens, as an integer if it is whole; None if it is unknown or not possible."""
    if tokens is None or not 0 <= tokens < TIME_LIMIT:
        return None
    return int(tokens) if isinstance(tokens, float) and tokens.is_integer() else tokens
