"""The requests of a run one by one, from its request log."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from telemetry.common import formatting
from telemetry.common.formatting import number_of
from telemetry.errors import RunDirectoryError
from telemetry.store.final_snapshot import find_final
from telemetry.store.request_log import RequestLogReader
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.codec import Malformed, decode_record, record_tag
from telemetry.wire.request_log import EndedRequests, RequestEntry, RequestTokens
from telemetry.wire.snapshot import RequestLogStat

Word = Literal["input_tokens", "output_tokens"]
_TOKENS: Final = str(RequestTokens.__struct_config__.tag)


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """A request that has ended. The times of `entry` are the monotonic clock of its producer."""

    kind: str
    labels: dict[str, str]
    producer: str
    entry: RequestEntry
    """Knowledge of the program, with the tokens that were counted later."""
    offset_ns: int
    """A time plus this is on the run's clock, on which distances between any two times are right."""
    shift_ns: int
    """A time plus this is on the run's wall clock, by which times of day are told."""


@dataclass(frozen=True, slots=True)
class RequestLogFacts:
    kept: int
    """Number of requests in the log."""
    left_out: int
    """Number of requests that ended and are not in the log."""
    bytes: int
    reason: str = ""
    """Reason why the log lacks requests; empty if it has all."""


class RequestLog:
    """The request log of a run. It may be read while the run goes on, and any number of times."""

    def __init__(self, directory: RunDirectory) -> None:
        self._reader = RequestLogReader(directory.requests)

    @property
    def damage(self) -> str:
        """Description of the damage that the last complete iteration met; empty if there is none."""
        if self._reader.damaged_bytes:
            size = number_of(self._reader.damaged_bytes, "byte")
            return f"can't read {size} at the end of {self._reader.path}: the requests there are left out"
        if self._reader.unreadable:
            batches = number_of(self._reader.unreadable, "batch", "batches")
            return f"{batches} of {self._reader.path} can't be read by this version and are left out"
        return ""

    def __iter__(self) -> Iterator[LoggedRequest]:
        """Yield the requests in the order in which they ended, by and large. Blocks on the disk.

        Reads the file twice, the first time for tokens that were counted later. Raises RunDirectoryError if the
        file can't be read. It ends at a damaged place.
        """
        tokens = self._tokens()
        for frame in self._reader.frames():
            shift_ns = frame.offset_ns + frame.step_ns
            for raw in frame.records:
                record = _read(raw)
                if isinstance(record, EndedRequests):
                    for entry in record.entries:
                        if tokens.found:
                            entry = tokens.fill_in(frame.producer, entry)  # noqa: PLW2901 – the same request
                        yield LoggedRequest(
                            record.kind, record.labels, frame.producer, entry, frame.offset_ns, shift_ns
                        )

    def _tokens(self) -> _TokensLater:
        tokens = _TokensLater()
        for frame in self._reader.frames():
            for raw in frame.records:
                if record_tag(raw) == _TOKENS and isinstance(record := _read(raw), RequestTokens):
                    tokens.add(record)
        tokens.sort()
        return tokens


def read(directory: RunDirectory) -> Iterator[LoggedRequest]:
    """Yield the requests of a run as `RequestLog` does. Yields none if the run has no request log."""
    return iter(RequestLog(directory))


def facts(directory: RunDirectory) -> RequestLogFacts | None:
    """Return the size of the request log, or None if the run has none.

    The numbers come from the result. Without one they are counted in the log, which may take seconds.
    """
    path = RequestLogReader(directory.requests).path
    size = path.stat().st_size if path.is_file() else 0
    stat = _told(directory)
    if stat is None and not size:
        return None
    if stat is None:
        stat = _counted(directory)
    return RequestLogFacts(stat.kept, stat.left_out, size, why_not_all(stat, is_merged=_is_merged(directory)))


def why_not_all(stat: RequestLogStat, *, is_merged: bool) -> str:
    """Return why a request log lacks requests, as a sentence; empty if it has all.

    `is_merged`: the log has those of several runs, one after the other.
    """
    if not stat.left_out:
        return ""
    ended = number_of(stat.kept + stat.left_out, "request")
    if stat.cap_bytes:
        cap = f"run.request_log_cap, {formatting.size(stat.cap_bytes)}"
        if is_merged:
            kept = formatting.count(stat.kept)
            return (
                f"the request log has {kept} of {ended}: the log of one of the merged runs or more is full ({cap})"
            )
        return f"the request log has the first {formatting.count(stat.kept)} of {ended}: it is full ({cap})"
    missing = formatting.count(stat.left_out)
    return f"the request log lacks {missing} of {ended}: their programs could not send them in time"


def _is_merged(directory: RunDirectory) -> bool:
    with suppress(RunDirectoryError):
        return bool(directory.read_manifest().merged_from)
    return False


def _told(directory: RunDirectory) -> RequestLogStat | None:
    final = find_final(directory)
    try:
        return None if final is None else final.read().request_log
    except RunDirectoryError:
        return None


def _counted(directory: RunDirectory) -> RequestLogStat:
    kept = left_out = 0
    for frame in RequestLogReader(directory.requests).frames():
        for raw in frame.records:
            record = _read(raw)
            if isinstance(record, EndedRequests):
                kept, left_out = kept + len(record.entries), left_out + record.left_out
    return RequestLogStat(kept=kept, left_out=left_out)


def _read(raw: bytes | object) -> object:
    """Return a record, or None for one that this version can't read."""
    try:
        return decode_record(raw)  # type: ignore[arg-type]
    except Malformed:
        return None


class _TokensLater:
    """Tokens that were counted after the end of their requests, in 16 bytes each."""

    def __init__(self) -> None:
        self.found = False
        self._numbers: dict[tuple[str, str], array[int]] = {}
        self._tokens: dict[tuple[str, str], array[float]] = {}
        self._sorted: dict[tuple[str, str], tuple[NDArray[np.int64], NDArray[np.float64]]] = {}

    def add(self, record: RequestTokens) -> None:
        key = record.producer, record.word
        self._numbers.setdefault(key, array("q")).append(record.number)
        self._tokens.setdefault(key, array("d")).append(record.tokens)
        self.found = True

    def sort(self) -> None:
        """Prepare for `fill_in`, after the last `add`."""
        for key, numbers in self._numbers.items():
            request_numbers = np.frombuffer(numbers, np.int64)
            order = np.argsort(request_numbers, kind="stable")
            self._sorted[key] = request_numbers[order], np.frombuffer(self._tokens[key], np.float64)[order]
        self._numbers, self._tokens = {}, {}

    def fill_in(self, producer: str, entry: RequestEntry) -> RequestEntry:
        """Return the request with the tokens that it lacks."""
        missing: tuple[Word, ...] = ("input_tokens", "output_tokens")
        token_counts = {
            word: tokens
            for word in missing
            if getattr(entry, word) is None and (tokens := self._of(producer, word, entry.number)) is not None
        }
        return replace(entry, **token_counts) if token_counts else entry

    def _of(self, producer: str, word: Word, number: int) -> int | float | None:
        if (producer, word) not in self._sorted:
            return None
        numbers, tokens = self._sorted[producer, word]
        at = int(np.searchsorted(numbers, number))
        if at == len(numbers) or numbers[at] != number:
            return None
        value = float(tokens[at])
        return int(value) if value.is_integer() else value
