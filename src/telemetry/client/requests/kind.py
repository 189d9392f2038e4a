"""`run.requests(name)`: a kind of request, of which a program issues any number.

The figures of a request are computed in the program: one object per request in flight, and rows of ordinary
counters and series once its outcome is known. The aggregator keeps no state per request.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping
from itertools import islice
from types import FunctionType
from typing import Any, Final, SupportsFloat, cast

from telemetry import limits
from telemetry.client.recorders import discard
from telemetry.client.requests.conversations import Conversation, Conversations
from telemetry.client.requests.ended import EndedLog
from telemetry.client.requests.in_flight import Extras
from telemetry.client.requests.instruments import EARLY_NS, FAR_NS, OTHER, Family, Host, KindState, with_ids
from telemetry.client.requests.request import Request
from telemetry.client.requests.stopping import Condition, PercentileStatus, StatusQuery, condition, judge, parse
from telemetry.errors import UsageError
from telemetry.wire import requests as words

_now: Final = time.monotonic_ns
_LOOKS: Final = 4  # checks for expired requests per expiry time


class Requests:
    """Issuer of requests of one kind. Threads of a process share one object per name and labels."""

    def __init__(
        self,
        host: Host,
        name: str,
        labels: Mapping[str, str],
        asker: StatusQuery,
        log: EndedLog,
    ) -> None:
        self.name = name
        self.labels = labels
        self.expire_s: float | None = None
        self.stop_when = ""
        self.slo = ""
        """Limits that the program set, as text."""
        self.limits: dict[str, int] = {}
        """Limits for a request, in nanoseconds by key."""
        self._asker = asker
        self._enough: set[str] = set()
        """Tracking windows in which `enough` is True. They need no further check."""
        self._host = host
        self._shared: KindState[Request] = KindState(log=log)
        self._open, self._by_key = self._shared.open, self._shared.by_key
        self._conversations = Conversations()
        self._family = self._outside = Family(host, name, dict(labels), self._shared)
        """Family of requests outside any window.

        Families of closed windows are not kept: the catalog has their instruments.
        """
        self._unknown = _ended(self._outside)
        self._ignored = _ended(self._silent())
        self._look_at_ns = 0

    def __repr__(self) -> str:
        labels = "".join(f", {key}={value!r}" for key, value in self.labels.items())
        return f"<Requests {self.name!r}{labels}, {self.in_flight} in flight>"

    @property
    def in_flight(self) -> int:
        """Number of requests of this process that were issued and have not ended."""
        return len(self._open)

    def issue(
        self,
        *,
        key: Hashable = None,
        planned: int | None = None,
        input_tokens: SupportsFloat | None = None,
        input_text: str | None = None,
        conversation: Hashable = None,
        turn: int | None = None,
        slo: str | None = None,
        at_ns: int | None = None,
    ) -> Request:
        """Issue a request that is sent now, or was sent at `at_ns`.

        `planned` is its due time. Both times are monotonic ns. `find` returns the request by `key` while it is in
        flight. If another request in flight has the key, that request keeps it. In a `conversation`, a request
        without `turn` gets the next number, from 1. `slo` has limits that this request has instead of those of its
        kind, key by key, such as "ttft:1s". An invalid value is counted and left out. Raises TypeError,
        before any change, for a key or conversation that can't be hashed. Without a run, the request is not kept.
        """
        if self._host.state == "idle":
            return self._ignored
        family = self._family
        at = now = _now()
        if at_ns is not None:
            at = family.moment(at_ns)
        due = planned
        if due is not None and not (type(due) is int and EARLY_NS <= due < at + FAR_NS):
            due = family.due(due, at)
        given: int | float | str | None = None
        if input_tokens is not None:
            given = input_tokens if type(input_tokens) is int else family.amount(input_tokens, "`input_tokens`")
        if given is None and input_text is not None:
            given = family.text(input_text, "`input_text`")
        extras = None
        if conversation is not None or turn is not None or slo is not None:
            hash(key)  # raises before a turn is counted
            extras = self._extras(conversation, family, at, turn, slo)
        request = Request(family, at, due, key, given, extras, now)
        if key is not None and self._by_key.setdefault(key, request) is not request:
            request._key = None
        request._begin()
        return request

    def find(self, key: Hashable) -> Request:
        """Return the request in flight with this key.

        If there is none, return a request whose calls are counted and ignored.
        """
        return self._by_key.get(key, self._ignored if self._host.state == "idle" else self._unknown)

    def end_conversation(self, key: Hashable, at_ns: int | None = None) -> None:
        """Record the result of a conversation, from its first issue to its last end, as of now or `at_ns`.

        Idle conversations end automatically after `expire_s`, all others at the end of the run. An unknown key is
        ignored.
        """
        ended = self._conversations.end(key)
        if ended is not None:
            self._record(ended, _now() if at_ns is None else ended.family.moment(at_ns))

    def _extras(self, conversation: Hashable, family: Family, at: int, turn: int | None, slo: str | None) -> Extras:
        number = None if turn is None else family.whole(turn, "a `turn`")
        talk = None
        if conversation is not None:
            talk, number, gone = self._conversations.turn(conversation, family, at, number)
            if gone is not None:
                self._record(gone, at)
        own = None
        if slo is not None:
            if family.limits is None:
                self._judge_all({})
            own = family.own_limits(slo)
        return Extras(talk, _turn_label(number), own)

    def _record(self, ended: Conversation, at: int) -> None:
        rows = ended.rows(at)
        ended.family.put(rows)

    # --- stop conditions -------------------------------------------------------------------------

    def known(
        self,
        percentile: str | float = "99",
        *,
        of: str = words.LATENCY,
        confidence: float | None = None,
        within: float | None = None,
        tolerance: float | None = None,
    ) -> PercentileStatus:
        """Return what is known of a percentile of the requests in the open tracking window, or outside any window.

        `percentile` is a number such as 99 or text such as "p99". A percentile below 1 must be text, such as
        "p0.5".

        `confidence` is the probability that the bound is right. `tolerance` is how much less than the percentile
        may be below the bound. Their defaults are the settings (0.99 and 0).

        With `within`, the percentile is known only if its bound exceeds the value by at most this share of the
        value, as far as the display histogram shows. Samples must be independent. Asks the aggregator at most once
        a second and blocks for its answer for at most a second; without an answer, the percentile is not known.
        Raises UsageError.
        """
        return self._judge(condition(percentile, of, confidence, within, tolerance), self._family)

    @property
    def enough(self) -> bool:
        """True if the condition `stop_when` is met. It then stays True in its tracking window.

        Without `stop_when` it is always False, and one message is printed. Blocks like `known`.
        """
        family = self._family
        window = family.labels.get(words.WINDOW, "")
        if window in self._enough:
            return True
        if not self.stop_when:
            family.say_once(
                "enough",
                f"`enough` of the requests {self.name!r} is never true without a stop condition: "
                f'use run.requests({self.name!r}, stop_when="p99 known")',
            )
        elif self._judge(parse(self.stop_when), family).known:
            self._enough.add(window)
            return True
        return False

    def _judge(self, asked: Condition, family: Family) -> PercentileStatus:
        rule = self._asker.rule
        snapshot = self._asker.ask()
        return judge(
            snapshot, self.name, family.labels, asked, confidence=rule.confidence, tolerance=rule.tolerance
        )

    # --- for the process -------------------------------------------------------------------------

    def judge(self, limits_of_all: dict[str, int]) -> None:
        """Judge requests by these limits from now on. Without any, they are judged only if they have their own."""
        self.limits = limits_of_all
        if limits_of_all:
            self._judge_all(limits_of_all)

    def _judge_all(self, limits_of_all: Mapping[str, int]) -> None:
        for family in {self._outside, self._family}:
            family.judge(limits_of_all)

    def enter(self, window: str) -> None:
        """Assign requests issued from now on to this tracking window. Empty: to no window."""
        if window:
            self._family = Family(self._host, self.name, {**self.labels, words.WINDOW: window}, self._shared)
            if self._outside.limits is not None:
                self._family.judge(self._outside.limits.by_key)
        else:
            self._family = self._outside

    def forget(self) -> None:
        """Drop open requests and conversations: they belong to a parent process or to another run."""
        self._open.clear()
        self._by_key.clear()
        self._conversations.forget()
        self._enough.clear()

    def close(self) -> None:
        """Record the results of open conversations. Never blocks."""
        now_ns = _now()
        self._append([number for ended in self._conversations.end_all() for number in ended.rows(now_ns)])

    def tend(self, now_ns: int, *, logged: bool = False) -> int:
        """End expired requests and idle conversations, oldest first, and return the number of events recorded.

        With `logged`, the requests go to the request log. Handles a bounded number of them. Never blocks.
        """
        if self.expire_s is None or now_ns < self._look_at_ns:
            return 0
        oldest = self._oldest()
        if oldest is None:
            return 0
        age_ns = int(self.expire_s * 1e9)
        rows: list[float] = []
        for request in oldest:
            if now_ns - request._told_ns >= age_ns:
                rows += request.expire(now_ns, logged=logged) or ()
        for idle in self._conversations.end_idle(now_ns - age_ns):
            rows += idle.rows(now_ns)
        self._append(rows)
        if not rows:
            self._look_at_ns = now_ns + age_ns // _LOOKS
        return len(rows) // 3

    def _oldest(self) -> list[Request] | None:
        """Return the oldest requests, in order of issue.

        Return None if they change meanwhile; the next call tries again.
        """
        try:
            return list(islice(self._open, limits.EXPIRED_A_TURN))
        except RuntimeError:  # another thread issued or ended one
            return None

    def _append(self, rows: list[float]) -> None:
        """Append rows without waiting for room: the caller is the thread that makes room."""
        if rows:
            self._host.recorders.buffer.extend(with_ids(rows, self._host.unencodable))

    def _silent(self) -> Family:
        """Return the family of requests that are issued without a run. It records no events."""
        family = Family(self._host, self.name, {}, KindState[Request]())
        family.put, family.ring = discard, None
        family.ids[words.AFTER_END] = 0.0
        return family


class RefusedKind(Requests):
    """A replacement for request kinds beyond the limit.

    Each of its requests counts as one dropped event, and no state is kept of it.
    """

    def __init__(self, host: Host, asker: StatusQuery) -> None:
        super().__init__(host, OTHER, {}, asker, EndedLog())

    def issue(self, **given: Any) -> Request:
        """Count a dropped event and return a request whose calls are ignored."""
        self._host.unencodable.hit()
        return self._ignored

    def find(self, key: Hashable) -> Request:
        """Return a request whose calls are ignored."""
        return self._ignored

    @property
    def enough(self) -> bool:
        """False always: no figures exist for dropped requests, and a message about them was printed."""
        return False


def check_arguments(name: str, given: Mapping[str, object]) -> None:
    """Raise UsageError for an argument that `Requests.issue` does not have."""
    parameters = cast(FunctionType, Requests.issue).__kwdefaults__ or {}
    unknown = sorted(given.keys() - parameters.keys())
    if unknown:
        raise UsageError(
            f"a request of {name!r} was issued with {unknown[0]!r} but requests of this kind have "
            f"the labels {', '.join(parameters)}",
            hint=f"set labels, expire_s and stop_when on the kind: run.requests({name!r}, …).issue(…)",
        ) from None


def _ended(family: Family) -> Request:
    """Return a request that was never in flight."""
    return Request(family, 0, None, None, None, None, 0, 0)


def _turn_label(turn: int | None) -> str:
    if turn is None:
        return ""
    return str(turn) if turn <= limits.TURNS else f"{limits.TURNS}+"
