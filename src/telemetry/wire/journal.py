"""What the journal says beside batches: everything else that changes a run's numbers, and where they stood.

The journal is the complete input of the aggregator, in order: batches, and between them notes. Whoever applies the
same frames to a new aggregator gets the same numbers to the last bit, intervals of the history included. A
checkpoint saves them the way up to it.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct

from telemetry.wire.control import CannotResend, End, Hello, Watch
from telemetry.wire.events import Drops, Natural
from telemetry.wire.snapshot import CommandFacts
from telemetry.wire.version import SCHEMA


class _Note(Struct, kw_only=True, frozen=True, tag_field="type"):
    """Its moment is the stamp of its frame."""


class Rolled(_Note, tag="rolled", kw_only=True, frozen=True):
    """An interval of the history ended. From here on wall clock = stamp + (`end_wall_ns` - this stamp)."""

    start_wall_ns: Natural
    end_wall_ns: Natural
    elapsed_ns: Natural
    snapshot_seq: Natural = 0
    """Of the newest snapshot that was published."""


class BadFrames(_Note, tag="bad_frames", kw_only=True, frozen=True):
    """Frames that could not be taken, by reason, since the note before."""

    counts: Drops


class Ending(_Note, tag="ending", kw_only=True, frozen=True):
    """Somebody or something ended the run."""

    reason: str
    interrupted: bool = False
    command: CommandFacts | None = None


class Closed(_Note, tag="closed", kw_only=True, frozen=True):
    """The books were closed: open steps are said, and rows without a definition given up. What follows came to an
    aggregator that went on with the run; its values of steps that were said correct them."""


Note = Hello | End | CannotResend | Watch | Rolled | BadFrames | Ending | Closed
NOTES: Final = (Hello, End, CannotResend, Watch, Rolled, BadFrames, Ending, Closed)


class RunState(Struct, kw_only=True, frozen=True):
    """What the daemon knows of a run besides the aggregator's numbers."""

    run_id: str
    name: str
    host: str = ""
    started_ns: Natural
    """Wall clock."""
    started_mono_ns: Natural
    rolled_wall_ns: Natural
    """Where the current interval of the history began, on both clocks; their difference is the clocks' offset."""
    rolled_mono_ns: Natural
    rolls: Natural = 0
    """Intervals that ended."""
    records: Natural = 0
    """Records of the stream so far: the next one's number."""
    snapshot_seq: Natural = 0
    watched: list[int] = []
    """Processes of `host` that the run belongs to, also those that are gone."""
    ending: Ending | None = None
    warnings: list[str] = []
    unaccounted: bool = False
    """An aggregator ended after its journal had failed: what it took in between may be in no account."""
    record_bytes: Natural = 0
    """What records of the stream take in the record log, at most."""
    frames: Natural = 0
    """Batches that were taken, as messages, and their bytes."""
    frame_bytes: Natural = 0
    restarts: Natural = 0
    """Aggregators that died before this one."""
    died: Natural = 0
    """The process of the last of them; 0: unknown."""


class Checkpoint(Struct, kw_only=True, frozen=True):
    """The whole state of a run between two frames of its journal."""

    schema_version: int = SCHEMA
    run: RunState
    numbers: Raw
    """The aggregator's own, as msgpack."""
