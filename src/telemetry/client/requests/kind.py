"""`run.requests(name)`: a kind of request, of which a program issues as many as it likes.

The figures of a request are made here, where it is: an object for each request in flight, and rows of ordinary
counters and series once its outcome is known. Nobody else keeps anything for it.
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
from telemetry.client.requests.instruments import EARLY_NS, FAR_NS, OTHER, Family, Host, Shared, with_ids
from telemetry.client.requests.request import Request, Turn
from telemetry.client.requests.stopping import Condition, Known, StatusQuery, condition, judge, parse
from telemetry.errors import UsageError
from telemetry.wire import requests as words

_now: Final = time.monotonic_ns
_LOOKS: Final = 4  # for requests that are too old, in the time after which they are


class Requests:
    """The requests of one kind. There is one object for each name and labels in a process; threads share it."""

    def __init__(
        self,
        host: Host,
        name: str,
        labels: Mapping[str, str],
        asker: StatusQuery,
    ) -> None:
        self.name = name
        self.labels = labels
        self.expire_s: float | None = None
        self.stop_when = ""
        self._asker = asker
        self._enough: set[str] = set()
        """Windows, of which nobody asks again."""
        self._host = host
        self._shared = Shared()
        self._open, self._by_key = self._shared.open, self._shared.by_key
        self._conversations = Conversations()
        self._family = self._outside = Family(host, name, dict(labels), self._shared)
        """Nothing else is kept of windows: the catalog knows their instruments."""
        self._unknown = _ended(self._outside)
        self._ignored = _ended(self._silent())
        self._look_at_ns = 0

    def __repr__(self) -> str:
        labels = "".join(f", {key}={value!r}" for key, value in self.labels.items())
        return f"<Requests {self.name!r}{labels}, {self.in_flight} in flight>"

    @property
    def in_flight(self) -> int:
        """Requests of this process that were issued and have not ended."""
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
        at_ns: int | None = None,
    ) -> Request:
        """A request that goes out now, or did at `at_ns`; `planned` is when it should have. Both are monotonic ns.

        `find` finds it by `key` while it is in flight; if another one in flight has the key, that one keeps it.
        In a `conversation`, a request without `turn` is the next one, from 1. A value that is none is counted and
        left out. Raises TypeError for a key or conversation that can't be hashed, and nothing has changed then.
        Without a run nothing is kept.
        """
        if self._host.state == "idle":
            return self._ignored
        family = self._family
        at = told = _now()
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
        place = None
        if conversation is not None or turn is not None:
            hash(key)  # no turn is counted for a request that can't be
            place = self._turn(conversation, family, at, turn)
        request = Request(family, at, due, key, given, place, told)
        if key is not None and self._by_key.setdefault(key, request) is not request:
            request._key = None
        rows = (family.ids[words.ISSUED], at, 1.0)
        family.put(rows)
        self._open[request] = request
        return request

    def find(self, key: Hashable) -> Request:
        """The request in flight that was issued with this key. If there is none, one whose calls are counted and
        change nothing."""
        return self._by_key.get(key, self._ignored if self._host.state == "idle" else self._unknown)

    def end_conversation(self, key: Hashable, at_ns: int | None = None) -> None:
        """Records, as of now or `at_ns`, what a conversation came to, from its first issue to its last end. Idle
        ones end by themselves with `expire_s`, all others with the run. Nothing happens if nobody knows it."""
        ended = self._conversations.end(key)
        if ended is not None:
            self._record(ended, _now() if at_ns is None else ended.family.moment(at_ns))

    def _turn(self, conversation: Hashable, family: Family, at: int, turn: int | None) -> Turn:
        number = None if turn is None else family.whole(turn, "a `turn`")
        if conversation is None:
            return Turn(None, _turn_label(number))
        talk, number, gone = self._conversations.turn(conversation, family, at, number)
        if gone is not None:
            self._record(gone, at)
        return Turn(talk, _turn_label(number))

    def _record(self, ended: Conversation, at: int) -> None:
        rows = ended.rows(at)
        ended.family.put(rows)

    # --- when to stop ----------------------------------------------------------------------------

    def known(
        self,
        percentile: str | float = "99",
        *,
        of: str = words.LATENCY,
        confidence: float | None = None,
        within: float | None = None,
        tolerance: float | None = None,
    ) -> Known:
        """What can be said of a percentile of requests of the tracking window that is open, or outside any. It is
        99 or "p99"; one below 1 only as text, such as "p0.5".

        `confidence` is how often the bound is right, `tolerance` how much less than the percentile may be below it;
        without them they are those of the settings (0.99 and 0).

        With `within` it is known only if its bound exceeds the value by no more than this share of it, as far as
        the display histogram tells. Samples have to be independent. Asks the aggregator, at most once a second, and
        blocks for the answer, a second at most; without one nothing is known. Raises UsageError.
        """
        return self._judge(condition(percentile, of, confidence, within, tolerance), self._family)

    @property
    def enough(self) -> bool:
        """Whether what `stop_when` names is known; once it is, it stays so in a tracking window. Without
        `stop_when` it never is, which is said once. Blocks as `known`."""
        family = self._family
        window = family.labels.get(words.WINDOW, "")
        if window in self._enough:
            return True
        if not self.stop_when:
            family.say_once(
                "enough",
                f"`enough` of requests of {self.name!r} is never true, as nothing says when that is: "
                f'run.requests({self.name!r}, stop_when="p99 known")',
            )
        elif self._judge(parse(self.stop_when), family).known:
            self._enough.add(window)
            return True
        return False

    def _judge(self, asked: Condition, family: Family) -> Known:
        rule = self._asker.rule
        found = self._asker.ask()
        return judge(found, self.name, family.labels, asked, confidence=rule.confidence, tolerance=rule.tolerance)

    # --- for the process -------------------------------------------------------------------------

    def enter(self, window: str) -> None:
        """Requests issued from now on belong to this tracking window; to none if it is empty."""
        if window:
            self._family = Family(self._host, self.name, {**self.labels, words.WINDOW: window}, self._shared)
        else:
            self._family = self._outside

    def forget(self) -> None:
        """Requests and conversations that are open are nobody's any more: of a parent, or of another run."""
        self._open.clear()
        self._by_key.clear()
        self._conversations.forget()
        self._enough.clear()

    def close(self) -> None:
        """Records what is left of conversations. Never blocks."""
        now_ns = _now()
        self._append([number for ended in self._conversations.end_all() for number in ended.rows(now_ns)])

    def tend(self, now_ns: int) -> int:
        """Ends what is too old, the oldest first, a bounded number of them, and returns how many events that made.
        Never blocks."""
        if self.expire_s is None or now_ns < self._look_at_ns:
            return 0
        oldest = self._oldest()
        if oldest is None:
            return 0
        age_ns = int(self.expire_s * 1e9)
        rows: list[float] = []
        for request in oldest:
            if now_ns - request._told_ns >= age_ns:
                rows += request.expire(now_ns) or ()
        for idle in self._conversations.end_idle(now_ns - age_ns):
            rows += idle.rows(now_ns)
        self._append(rows)
        if not rows:
            self._look_at_ns = now_ns + age_ns // _LOOKS
        return len(rows) // 3

    def _oldest(self) -> list[Request] | None:
        """In order of issue; None if nobody can tell: then the next turn looks again."""
        try:
            return list(islice(self._open, limits.EXPIRED_A_TURN))
        except RuntimeError:  # the collector let another thread in between
            return None

    def _append(self, rows: list[float]) -> None:
        """Past a policy that waits for room: only the caller of this makes any."""
        if rows:
            self._host.recorders.buffer.extend(with_ids(rows, self._host.unencodable))

    def _silent(self) -> Family:
        """Of requests that were issued without a run: nothing of them is anywhere."""
        made = Family(self._host, self.name, {}, Shared())
        made.put = discard
        made.ids[words.AFTER_END] = 0.0
        return made


class RefusedKind(Requests):
    """In place of all kinds for which there is no room: each of their requests counts as an event that is dropped,
    and nothing is kept of it."""

    def __init__(self, host: Host, asker: StatusQuery) -> None:
        super().__init__(host, OTHER, {}, asker)

    def issue(self, **given: Any) -> Request:
        """One whose calls change nothing."""
        self._host.unencodable.hit()
        return self._ignored

    def find(self, key: Hashable) -> Request:
        """The same."""
        return self._ignored

    @property
    def enough(self) -> bool:
        """Never, as nothing will be known of them; that they are dropped was said."""
        return False


def check_arguments(name: str, given: Mapping[str, object]) -> None:
    """Raises UsageError for an argument that `Requests.issue` has not."""
    known = cast(FunctionType, Requests.issue).__kwdefaults__ or {}
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        raise UsageError(
            f"a request of {name!r} is not issued with {unknown[0]!r}, but with {', '.join(known)}",
            hint=f"labels, expire_s and stop_when are those of its kind: run.requests({name!r}, …).issue(…)",
        ) from None


def _ended(family: Family) -> Request:
    """A request that is not in flight, and never was."""
    return Request(family, 0, None, None, None, None, 0, 0)


def _turn_label(turn: int | None) -> str:
    if turn is None:
        return ""
    return str(turn) if turn <= limits.TURNS else f"{limits.TURNS}+"
