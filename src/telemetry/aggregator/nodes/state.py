"""State of one leaf, beside its state as a producer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator.producers.account import ReasonWords
from telemetry.aggregator.run_clock import LATEST_NS
from telemetry.wire.control import Hello
from telemetry.wire.drop_reasons import Count, Reason
from telemetry.wire.events import Natural
from telemetry.wire.nodes import NodeAccount
from telemetry.wire.snapshot import Accounting

_USUAL: Final = frozenset(reason.value for reason in Reason)
_REASONS: Final = len(Reason) + limits.DROP_REASONS + 1
"""Number of reasons that an aggregator keeps apart: the usual ones, unusual ones, and `other`."""
_Offset = Annotated[int, Meta(ge=-LATEST_NS, le=LATEST_NS)]


class NodeState(Struct, kw_only=True):
    """A leaf as its root knows it. It is a plain value of a checkpoint."""

    name: Annotated[str, Meta(max_length=limits.NAME_CHARS)]
    account: NodeAccount | None = None
    """Newest account of the leaf."""
    values: Count = 0
    """Number of values of its intervals that are in the numbers."""
    interval_ns: Natural = 0
    """End of its newest interval in the numbers, on the run's clock. 0 before the first."""
    offset_ns: _Offset | None = None
    """Difference from its monotonic clock to the root's. Its hellos give upper bounds, and this is the lowest."""

    def hear(self, hello: Hello, now_ns: int) -> None:
        """Take the name and the clock from a hello. The name may change."""
        self.name = hello.node or self.name
        if hello.mono_ns:
            bound_ns = now_ns - hello.mono_ns
            self.offset_ns = bound_ns if self.offset_ns is None else min(self.offset_ns, bound_ns)

    def improves(self, hello: Hello, now_ns: int) -> bool:
        """Return whether a hello makes the offset of the clock better by an amount that matters."""
        if not hello.mono_ns:
            return False
        return self.offset_ns is None or now_ns - hello.mono_ns < self.offset_ns - limits.CLOCK_STEP_NS

    def add(self, values: int, end_ns: int = 0) -> None:
        """Register values that are in the numbers, and the end of their interval."""
        self.values += values
        self.interval_ns = max(self.interval_ns, end_ns)

    def replace_account(self, account: NodeAccount, reasons: ReasonWords) -> bool:
        """Take a newer account. Return False if its numbers can't be true.

        `reasons` bounds the reasons of all nodes together.
        """
        if not believable(account):
            return False
        if self.account is None or _place(account) >= _place(self.account):  # batches may come out of order
            self.account = replace(account, account=_with_words(account.account, reasons))
        return True

    @property
    def missing_values(self) -> int:
        """Number of values that the leaf has counted and the root has not added."""
        return max(0, self.account.values - self.values) if self.account is not None else 0


def _place(account: NodeAccount) -> tuple[int, bool]:
    """Return the order of an account. The last one may be of the same interval as the one before."""
    return account.roll, account.final


def believable(account: NodeAccount) -> bool:
    """Check that the numbers of an account are possible, and that each event is in one place."""
    sums = account.account
    maps = (sums.dropped, sums.dropped_by_producer, sums.bad_frames)
    counts = (sums.emitted, sums.received, sums.applied, sums.waiting, sums.missing)
    others = (sums.repaired, sums.unrepairable, sums.duplicates, sums.salvaged)
    if not all(map(_possible_reasons, maps)):
        return False
    if not all(0 <= count <= limits.EVENT_NUMBERS for count in (account.values, account.producers, account.nodes)):
        return False
    if not all(0 <= count <= limits.EVENT_NUMBERS for count in (*counts, *others)):
        return False
    return balances(sums)


def balances(sums: Accounting) -> bool:
    """Check that every emitted event is in exactly one place."""
    dropped, by_producer = sum(sums.dropped.values()), sum(sums.dropped_by_producer.values())
    return (
        sums.emitted == sums.received + by_producer + sums.missing
        and sums.received == sums.applied + dropped + sums.waiting
    )


def _possible_reasons(counts: Mapping[str, int]) -> bool:
    few = len(counts) <= _REASONS and max(map(len, counts), default=0) <= limits.REASON_CHARS
    return few and all(0 <= count <= limits.EVENT_NUMBERS for count in counts.values())


def _with_words(sums: Accounting, reasons: ReasonWords) -> Accounting:
    """Return an account in which reasons beyond the bound are called `other`."""
    return replace(
        sums,
        dropped=_renamed(sums.dropped, reasons),
        dropped_by_producer=_renamed(sums.dropped_by_producer, reasons),
        bad_frames=_renamed(sums.bad_frames, reasons),
    )


def _renamed(counts: Mapping[str, int], reasons: ReasonWords) -> dict[str, int]:
    named: Counter[str] = Counter()
    for reason, count in counts.items():
        named[reason if reason in _USUAL else reasons.word(reason)] += count
    return dict(sorted(named.items()))
