"""Request kinds of a process, and its open tracking windows."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import TracebackType
from typing import Final, Self, TypeVar
from weakref import WeakSet

from telemetry import limits
from telemetry.client import records, user_warnings
from telemetry.client.catalog import check_text, checked_labels
from telemetry.client.requests.ended import EndedLog
from telemetry.client.requests.instruments import Host
from telemetry.client.requests.kind import RefusedKind, Requests
from telemetry.client.requests.stopping import StatusQuery, parse
from telemetry.common import slo
from telemetry.errors import InstrumentError, UsageError
from telemetry.wire import requests as words

T = TypeVar("T")

_OURS: Final = (words.WINDOW, words.REASON, words.FINISH, words.TURN, words.SLO)
_LONGEST_EXPIRY_S: Final = 1e9


class Kinds:
    """Registry of request kinds and tracking windows. Thread-safe."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._kinds: dict[tuple[str, tuple[tuple[str, str], ...]], Requests] = {}
        self._windows: list[Tracking] = []
        self._unentered: WeakSet[Tracking] = WeakSet()
        """Tracking windows that were made but never entered."""
        self._lock = threading.Lock()
        self._asker = StatusQuery(lambda: host.endpoint)
        self.log = EndedLog(host.recorders.next_request, host.recorders.requests_logged)
        self._refused: RefusedKind | None = None
        """Replacement for the kinds beyond the limit."""
        self._tended = 0
        """Index of the kind with which the next `tend` starts."""
        self._is_closed = False
        """True after the end of a run. Later events are not in its result, so no request expires."""

    def requests(
        self,
        name: str,
        labels: Mapping[str, object],
        expire_s: float | None = None,
        stop_when: str = "",
        slo_text: str | Sequence[str] = "",
    ) -> Requests:
        """Return the kind of this name and these labels.

        Beyond `limits.REQUEST_KINDS`, return a kind that drops its requests.

        Raises InstrumentError, and UsageError for `stop_when` and `slo_text`.
        """
        checked = _checked_labels(name, labels)
        age_s = None if expire_s is None else _checked_age(name, expire_s)
        if stop_when:
            parse(stop_when)
        own_slo = slo.to_text(slo.parse(slo_text)) if slo_text else ""
        kind = self._kinds.get((name, tuple(checked.items())))
        if kind is None:
            if len(self._kinds) >= limits.REQUEST_KINDS:
                return self._without_room(name)
            kind = self._make(name, checked)
        if age_s is not None:
            kind.expire_s = _settled(name, "expire_s", kind.expire_s, age_s)
        if stop_when:
            is_new = not kind.stop_when
            kind.stop_when = _settled(name, "stop_when", kind.stop_when, stop_when)
            if is_new:
                self._declare(kind)
        if own_slo and own_slo != kind.slo:
            kind.slo = _settled(name, "slo", kind.slo, own_slo)
            self._limit(kind)
        return kind

    def _limit(self, kind: Requests) -> None:
        """Set the limits of a kind: those of the program, replaced key by key by those of the environment."""
        of_program = slo.parse(kind.slo) if kind.slo else {}
        kind.judge(slo.combined(of_program, slo.for_kind(_limits_of_environment(), kind.name)))
        self._declare(kind)

    def _declare(self, kind: Requests) -> None:
        """Send the parameters of a kind. Without a run they are sent to the next producer."""
        if self._host.state == "live":
            for record in _declared(kind):
                self._host.put_record(lambda record=record: record)  # type: ignore[misc]

    def _make(self, name: str, labels: Mapping[str, str]) -> Requests:
        self._host.catalog.reserve(
            {words.name_of(name, word): meaning for word, meaning in words.INSTRUMENTS.items()}
        )
        with self._lock:
            kind = Requests(self._host, name, labels, self._asker, self.log)
            kind.enter(self.window)
            existing = self._kinds.setdefault((name, tuple(labels.items())), kind)
        if existing is kind:
            self._limit(kind)
        return existing

    def _without_room(self, name: str) -> Requests:
        """Return the kind that drops requests.

        Unbounded names and labels must not stop a program hours into its run.
        """
        with self._lock:
            existing = self._refused
            self._refused = kind = existing or RefusedKind(self._host, self._asker)
        if existing is None:
            user_warnings.warn(
                f"more than {limits.REQUEST_KINDS:,} kinds of requests in one process: requests of "
                f"{name!r} and later kinds are dropped. Names and labels should have a limited "
                "number of values"
            )
        return kind

    @property
    def window(self) -> str:
        """Name of the open tracking window. If several are open, the one opened last."""
        return self._windows[-1].window if self._windows else ""

    def await_entry(self, window: Tracking) -> None:
        """Register a window that must be entered. A window never entered is reported at the end of the run."""
        with self._lock:
            self._unentered.add(window)

    def track(self, window: Tracking) -> None:
        """Assign requests issued from now on to this window."""
        with self._lock:
            self._unentered.discard(window)
            self._windows.append(window)
            self._enter()

    def leave(self, window: Tracking) -> None:
        """Close a window. Later requests belong to the last opened window that is still open, if any."""
        with self._lock:
            if window in self._windows:
                self._windows.remove(window)
            self._enter()

    def _enter(self) -> None:
        for kind in self._kinds.values():
            kind.enter(self.window)

    # --- calls by the process --------------------------------------------------------------------

    def forget(self) -> None:
        """Drop open requests, conversations and figures: they belong to another run or process."""
        self._is_closed = False
        self._asker.forget()
        self.log.forget()
        for kind in list(self._kinds.values()):
            kind.forget()

    def after_fork_in_child(self) -> None:
        self._lock = threading.Lock()
        self._unentered = WeakSet()
        self.forget()

    def declarations(self) -> list[bytes]:
        """Return the limits and conditions to stop of all kinds, as records for a new producer."""
        return [record for kind in list(self._kinds.values()) for record in _declared(kind)]

    def close(self) -> None:
        """Report windows never entered, and record the results of open conversations and ended requests.

        No request expires from now on: it stays in flight. Never blocks.
        """
        self._is_closed = True
        with self._lock:
            unentered = list(self._unentered)
        for window in unentered:
            window.say_unentered()
        for kind in list(self._kinds.values()):
            kind.close()
        self.log.close()

    def tend(self) -> None:
        """End expired requests and conversations of all kinds.

        The work per call is bounded over all kinds; the next call continues with the next kind. Requests that have
        ended go to the request log. Never blocks.
        """
        self._expire()
        self.log.flush()

    def _expire(self) -> None:
        logged = self.log.wanted
        if (
            self._is_closed
        ):  # read after `wanted`, so that a turn which `close` interrupts logs each request that it counts
            return
        kinds = list(self._kinds.values())
        now_ns, left, first = time.monotonic_ns(), limits.EXPIRED_A_TURN, self._tended
        for number in range(first, first + len(kinds)):
            left -= kinds[number % len(kinds)].tend(now_ns, logged=logged)
            if left <= 0:
                self._tended = (number + 1) % len(kinds)
                return


class Tracking:
    """A `with` block whose requests carry the name of a tracking window. It is entered once.

    A block that is dropped or still unused at the end of the run has no effect and prints a message.
    """

    _entered = True

    def __init__(self, kinds: Kinds, host: Host, window: str) -> None:
        check_text("the name of a tracking window", window, limits.LABEL_VALUE_CHARS)
        self.window = window
        self._kinds = kinds
        self._host = host
        self._entered = False
        kinds.await_entry(self)

    def __del__(self) -> None:
        if not self._entered and not sys.is_finalizing():
            self.say_unentered()

    def say_unentered(self) -> None:
        """Print one message that no request belongs to this window."""
        if not self._entered:
            self._entered = True
            user_warnings.warn(
                f"the tracking window {self.window!r} was never entered, so it contains no "
                f"requests: use it as a block, `with run.tracking({self.window!r}):`"
            )

    def __enter__(self) -> Self:
        self._entered = True
        self._say("began")
        self._kinds.track(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kinds.leave(self)
        self._say("ended")

    def _say(self, what: str) -> None:
        now_ns = time.monotonic_ns()
        self._host.put_record(lambda: records.mark(f"tracking {self.window} {what}", {}, now_ns))


def _checked_labels(name: str, labels: Mapping[str, object]) -> dict[str, str]:
    check_text("the name of a kind of request", name, limits.NAME_CHARS)
    taken = sorted(labels.keys() & set(_OURS))
    if taken:
        raise InstrumentError(
            f"{name!r}: the label {taken[0]!r} is reserved for telemetry", hint="use another label"
        )
    if len(labels) > limits.LABEL_COUNT - 2:
        raise InstrumentError(
            f"{name!r} has {len(labels)} labels; the limit for requests is {limits.LABEL_COUNT - 2}"
        )
    return checked_labels(name, labels)


def _declared(kind: Requests) -> Iterator[bytes]:
    """Yield the parameters that hold the limits of a kind and its condition to stop."""
    values = {}
    if kind.limits:
        values[words.limits_param(kind.name, kind.labels)] = slo.to_text(kind.limits)
    if kind.stop_when:
        values[words.stop_param(kind.name, kind.labels)] = kind.stop_when
    yield from records.params(values, time.monotonic_ns()) if values else ()


@lru_cache(maxsize=1)
def _limits_of(text: str) -> dict[str, dict[str, int]]:
    """Return limits of the environment by kind. Print one message for invalid ones, which are ignored."""
    try:
        return slo.parse_by_kind(text)
    except UsageError as error:
        user_warnings.warn(f"{slo.GOODPUT_VARIABLE} is ignored: {error}")
        return {}


def _limits_of_environment() -> dict[str, dict[str, int]]:
    text = os.environ.get(slo.GOODPUT_VARIABLE, "").strip()
    return _limits_of(text) if text else {}


def _checked_age(name: str, expire_s: float) -> float:
    if not isinstance(expire_s, (int, float)) or not 0 < expire_s <= _LONGEST_EXPIRY_S:
        raise InstrumentError(f"{name!r}: expire_s is {expire_s!r}, must be a positive number of seconds")
    return float(expire_s)


def _settled(name: str, what: str, existing: T | None, new: T) -> T:
    if existing and existing != new:
        raise InstrumentError(
            f"the requests {name!r} have {what} {existing!r} already and can't have {new!r} as well"
        )
    return new
