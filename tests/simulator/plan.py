"""The plan of a story: the choices that are made before it begins, and simpler plans that fail in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Final, Literal

_FAULTS: Final = (
    *("kills", "breaks", "disk_faults", "power_cuts", "clock_steps", "pauses", "producer_kills", "tracker_faults"),
)
_MIB: Final = 1 << 20
_USUAL: Final[dict[str, object]] = {
    "pipe_frames": 1_000,
    "queue_frames": 1_000,
    "buffer_events": 100_000,
    "ring_bytes": _MIB,
    "segment_bytes": _MIB,
    "cap_bytes": 16 * _MIB,
    "outbox_bytes": 16 * _MIB,
    "refresh_hz": 10.0,
    "policy": "drop",
    "has_journal": True,
    "stops_early": False,
    "interrupts": False,
}


@dataclass(frozen=True)
class Plan:
    """The choices of a story that are made before it begins."""

    leaves: int
    """Number of leaves; 0 for a run on one machine."""
    producers: int
    """Number of producers, of all aggregators together."""
    writers: int
    """Number of trackers that the run is written to."""
    bursts: int
    """Number of times that each producer records."""
    pipe_frames: int
    queue_frames: int
    kills: int
    """Number of aggregators that are killed."""
    restarts: float
    """Chance that somebody starts it again."""
    breaks: int
    """Number of connections that break."""
    disk_faults: int
    power_cuts: int
    clock_steps: int
    """Number of times that a wall clock is set."""
    pauses: int
    """Number of times that a process is stopped for a while, as by SIGSTOP or a busy machine."""
    producer_kills: int
    tracker_faults: int
    """Number of times that a tracker fails, or its writer is killed."""
    buffer_events: int
    ring_bytes: int
    """Size of the ring of batches that wait for their acknowledgement."""
    segment_bytes: int
    """Size of a segment of the journal."""
    cap_bytes: int
    """Cap of the journal's size."""
    outbox_bytes: int
    """Size of the batches of a leaf that wait for the root."""
    policy: Literal["drop", "block"]
    has_journal: bool
    refresh_hz: float
    stops_early: bool
    interrupts: bool

    @staticmethod
    def of(random: Random) -> Plan:
        """Draw a plan."""
        plan = Plan(
            leaves=random.choice((0, 0, 0, 0, 1, 2, 3)),
            producers=random.choice((1, 1, 1, 2, 3)),
            writers=random.choice((0, 0, 1)),
            bursts=random.randint(1, 12),
            pipe_frames=random.choice((2, 5, 1_000)),
            queue_frames=random.choice((3, 1_000)),
            kills=random.choice((0, 1, 1, 2)),
            restarts=random.choice((1.0, 1.0, 0.7)),
            breaks=random.choice((0, 0, 1, 3)),
            disk_faults=random.choice((0, 0, 0, 1)),
            power_cuts=random.choice((0, 0, 1)),
            clock_steps=random.choice((0, 0, 0, 1)),
            pauses=random.choice((0, 0, 1, 2)),
            producer_kills=random.choice((0, 0, 0, 1)),
            tracker_faults=random.choice((0, 1, 3)),
            buffer_events=random.choice((100, 1_000, 100_000)),
            ring_bytes=random.choice((20_000, _MIB)),
            segment_bytes=random.choice((20_000, _MIB)),
            cap_bytes=random.choice((60_000, 16 * _MIB)),
            outbox_bytes=random.choice((1 << 16, 16 * _MIB, 16 * _MIB)),
            policy=random.choice(("drop", "drop", "block")),
            has_journal=random.random() < 0.95,
            refresh_hz=random.choice((1.0, 2.0, 10.0)),
            stops_early=random.random() < 0.3,
            interrupts=random.random() < 0.15,
        )
        choice = random.random()
        if choice < 0.1:
            return plan.faultless()
        if choice < 0.2:
            return replace(plan.faultless(), breaks=random.choice((1, 3)), clock_steps=plan.clock_steps)
        return plan.lossless() if choice < 0.4 else plan

    @property
    def costs_nothing(self) -> bool:
        """True if nothing in the story may cost an event: connections may break, and wall clocks may be set."""
        harmless = replace(self.faultless(), breaks=self.breaks, clock_steps=self.clock_steps)
        return self == harmless and (not self.breaks or self.has_journal)

    def lossless(self) -> Plan:
        """Return the plan without faults that may cost events of a producer that ends."""
        plan = replace(self, disk_faults=0, power_cuts=0, has_journal=True)
        return replace(plan, buffer_events=100_000, ring_bytes=_MIB)

    def faultless(self) -> Plan:
        """Return the plan without faults, and with room for all events."""
        plan = replace(self, **dict.fromkeys(_FAULTS, 0))
        return replace(plan, buffer_events=100_000, stops_early=False, interrupts=False)


def simpler(plan: Plan | None) -> Iterator[Plan]:
    """Yield plans that differ from this one by a simpler choice."""
    if plan is None:
        return
    for name in (*_FAULTS, "leaves", "writers"):
        if number := getattr(plan, name):
            yield replace(plan, **{name: number - 1})
    for name in ("producers", "bursts"):
        if (number := getattr(plan, name)) > 1:
            yield replace(plan, **{name: number // 2})
            yield replace(plan, **{name: number - 1})
    for name, value in _USUAL.items():
        if getattr(plan, name) != value:
            yield replace(plan, **{name: value})
