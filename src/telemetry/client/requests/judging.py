"""Requests judged by their limits: rows for the limits that are met, and for requests that meet all of them."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from operator import sub
from typing import TYPE_CHECKING, Final, NamedTuple

from telemetry import limits
from telemetry.client.requests.ended import HEAD, UNKNOWN_TOKENS
from telemetry.common import slo
from telemetry.errors import UsageError
from telemetry.wire import requests as words

if TYPE_CHECKING:
    from telemetry.client.requests.in_flight import InFlight


_MET: Final = {key: (words.MET, key) for key in slo.KEYS}
"""Keys of the counters of requests within one limit, in the row ids of a family."""


class OwnLimits(NamedTuple):
    """Limits that a request has instead of those of its kind."""

    own: dict[str, int]
    combined: dict[str, int]
    """All limits of the request: those of the kind, replaced key by key by its own."""


class Later(NamedTuple):
    """A limit for the time per token that is judged once the tokens are counted."""

    tpot_limit_ns: int
    otherwise_good: bool
    """True if the request meets all its other limits."""


class KindLimits:
    """Limits of the requests of a kind, in nanoseconds by key, and those of single requests by their text."""

    __slots__ = ("_own", "by_key")

    def __init__(self, by_key: Mapping[str, int]) -> None:
        self.by_key = by_key
        self._own: dict[str, OwnLimits] = {}

    def own(self, text: str) -> OwnLimits:
        """Return the limits of a single request. Raise UsageError for invalid ones."""
        if not isinstance(text, str):
            raise UsageError(f"limits are text, not {type(text).__name__}", hint='write limits such as "ttft:200"')
        own_limits = self._own.get(text)
        if own_limits is None:
            own = slo.parse(text)
            own_limits = OwnLimits(own, slo.combined(self.by_key, own))
            if len(self._own) < limits.REASONS:
                self._own[text] = own_limits
        return own_limits


def judge(
    request: InFlight, of_kind: KindLimits, rows: list[float], at: int, *, tokens: float | None, counted: bool
) -> Later | None:
    """Add rows for the limits that a completed request meets. Return what is left to judge.

    `tokens` is the number of its output tokens. With `counted`, it is counted later.
    """
    first, times, extras, ids = request._first_ns, request._times, request._extras, request._family.ids
    by_key = of_kind.by_key if extras is None or extras.limits is None else extras.limits.combined
    tpot = None
    if counted and first is not None and slo.TPOT in by_key:
        tpot = by_key[slo.TPOT]
        by_key = {key: limit for key, limit in by_key.items() if key != slo.TPOT}
    gap = None
    if times is not None and (len(times) > HEAD or times[2]):
        gap = largest_gap(times) if slo.GAP in by_key else times[3]
    is_good = True
    for key, is_met in slo.met(
        by_key,
        issued_ns=request._issued_ns,
        ended_ns=at,
        planned_ns=request._planned_ns,
        first_ns=first,
        first_tokens=None if times is None or times[0] == UNKNOWN_TOKENS else times[0],
        output_tokens=tokens,
        largest_gap_ns=gap,
    ).items():
        if is_met:
            rows += (ids[_MET[key]], at, 1.0)
        else:
            is_good = False
    if tpot is not None:
        return Later(tpot, is_good)
    if is_good:
        rows += (ids[words.GOOD], at, 1.0)
    return None


def largest_gap(times: array[int]) -> int:
    """Return the largest gap between chunks, those that are no longer held included."""
    return max(times[3], max(map(sub, times[HEAD:], times[HEAD - 1 :]), default=0))
