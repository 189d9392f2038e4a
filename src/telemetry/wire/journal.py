"""Journal frames besides batches: every other input that changes a run's numbers, and checkpoints of its state.

The journal is the complete input of the aggregator, in order: batches, and notes between them. Applying the same
frames to a new aggregator gives the same numbers to the last bit, including the intervals of the history. A
checkpoint saves replaying the frames before it.
"""

from __future__ import annotations

from typing import Final

from msgspec import Raw, Struct

from telemetry.wire.control import CannotResend, End, ExpectNodes, Hello, TellBackend, Watch
from telemetry.wire.events import Drops, Natural, ProducerId, RunId
from telemetry.wire.snapshot import BackendStat, CommandFacts
from telemetry.wire.version import SCHEMA


class _Note(Struct, kw_only=True, frozen=True, tag_field="type"):
    """A note. Its time is the stamp of its frame."""


class Rolled(_Note, tag="rolled", kw_only=True, frozen=True):
    """The end of an interval of the history. From here on wall clock = stamp + (`end_wall_ns` - this stamp)."""

    start_wall_ns: Natural
    end_wall_ns: Natural
    elapsed_ns: Natural
    snapshot_seq: Natural = 0
    """Number of the newest published snapshot."""


class Sliced(_Note, tag="sliced", kw_only=True, frozen=True):
    """The end of a slice of the current interval. The interval ends its last slice."""


class BadFrames(_Note, tag="bad_frames", kw_only=True, frozen=True):
    """Frames that were refused since the previous note, by reason."""

    counts: Drops


class Ending(_Note, tag="ending", kw_only=True, frozen=True):
    """A request to end the run, from a person or a program."""

    reason: str
    interrupted: bool = False
    command: CommandFacts | None = None


class Closed(_Note, tag="closed", kw_only=True, frozen=True):
    """The closing of the accounts: open steps were published, and rows without a definition were dropped.

    Batches after this note reached an aggregator that continued the run; their values of closed steps are
    corrections.
    """

    lost_power: bool = False
    """True if a recovery closed them after the machine had restarted; see `RunState.lost_power`."""


class Salvaging(_Note, tag="salvaging", kw_only=True, frozen=True):
    """The death of a producer: what follows of it was read from its ring."""

    producer: ProducerId


Note = (
    Hello
    | End
    | CannotResend
    | Watch
    | Rolled
    | BadFrames
    | Ending
    | Closed
    | ExpectNodes
    | Salvaging
    | TellBackend
    | Sliced
)
NOTES: Final = (
    *(Hello, End, CannotResend, Watch, Rolled, BadFrames, Ending, Closed, ExpectNodes, Salvaging),
    TellBackend,
    Sliced,
)


class RunState(Struct, kw_only=True, frozen=True):
    """The daemon's knowledge of a run besides the aggregator's numbers."""

    run_id: RunId
    name: str
    host: str = ""
    started_ns: Natural
    """Wall clock."""
    started_mono_ns: Natural
    rolled_wall_ns: Natural
    """Start of the current history interval on both clocks; the difference is the offset of the clocks."""
    rolled_mono_ns: Natural
    rolls: Natural = 0
    """Number of completed intervals."""
    slices: Natural = 0
    """Number of completed slices."""
    interval_slices: Natural = 0
    """The same, of the current interval."""
    sliced_wall_ns: Natural = 0
    """End of the newest slice."""
    records: Natural = 0
    """Number of stream records so far; equals the number of the next one."""
    snapshot_seq: Natural = 0
    watched: list[int] = []
    """Processes of `host` that the run belongs to, including those that ended."""
    ending: Ending | None = None
    warnings: list[str] = []
    unaccounted: bool = False
    """True if an aggregator ended after its journal failed: events it received in between may be in no account."""
    lost_power: bool = False
    """True if the machine restarted before the books were closed: whole producers may be missing."""
    requests: Natural = 0
    """Number of frames of the request log so far; equals the number of the next one."""
    record_bytes: Natural = 0
    """Upper bound of the bytes that records of the stream take in the record log."""
    frames: Natural = 0
    """Accepted batch messages; `frame_bytes` is their size."""
    frame_bytes: Natural = 0
    restarts: Natural = 0
    """Number of aggregators that died before this one."""
    died: Natural = 0
    """Process id of the last aggregator that died; 0: unknown."""
    valueless_segments: Natural = 0
    """Number of the oldest journal segments without a value of a series. Exact percentiles don't need them."""
    backends: list[BackendStat] = []
    """Backends of the run: the last report of a writer that has ended, otherwise only name and kind."""
    boot_id: str = ""
    """Id of the start of the machine on which the last aggregator ran, if its system has one."""
    takes_name: bool = False
    """True until a producer names a run that was started without a name."""


class Checkpoint(Struct, kw_only=True, frozen=True):
    """The whole state of a run between two frames of its journal."""

    schema_version: int = SCHEMA
    run: RunState
    numbers: Raw
    """State of the aggregator, as msgpack."""
