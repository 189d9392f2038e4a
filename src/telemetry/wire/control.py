"""Control messages: DEALER ⇄ ROUTER, one msgpack map per message, its type under the key `type`.

A request carries an `id` that its sender chose; its response carries the same. Responses with id 0 are pushed by
the aggregator. An unknown message always gets an `error`.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Raw, Struct

from telemetry import limits
from telemetry.wire.events import Digits, Drops, Name, Natural, ProducerId, RunId, Step, StreamRecord, Text
from telemetry.wire.nodes import Found, Search
from telemetry.wire.snapshot import BackendStat, CommandFacts, MetricsSnapshot, State
from telemetry.wire.version import PROTOCOL, Version

ShortText = Annotated[str, Meta(max_length=limits.NAME_CHARS)]
_PIDS: Final = 1 << 31  # the system's own type for process ids has this range
TOKEN_COUNTER: Final = "telemetry.tokens"
"""Id of the aggregator's own producer, which counts tokens and ends when the run's accounts are closed."""


class _Message(Struct, kw_only=True, frozen=True, tag_field="type"):
    id: int = 0


# --- requests ------------------------------------------------------------------------------------


class Hello(_Message, tag="hello", kw_only=True, frozen=True):
    """The first message of every peer. A producer gives its id; an observer leaves it empty."""

    version: Version = PROTOCOL
    producer: Annotated[str, Meta(max_length=limits.PRODUCER_ID_CHARS)] = ""
    name: ShortText = ""
    host: ShortText = ""
    pid: Annotated[int, Meta(ge=0, lt=_PIDS)] = 0
    rank: int | None = None
    mono_ns: Natural = 0
    node: ShortText = ""
    """Name of the node of which this producer is the leaf; empty for any other producer."""
    ring: Annotated[str, Meta(max_length=limits.PATH_CHARS)] = ""
    """Path of the file in which it keeps its latest events, on its host; empty if they end with its process."""
    names_run: bool = False
    """True if `name` is one that the program chose: a run that was started without a name takes it."""


class Ping(_Message, tag="ping", kw_only=True, frozen=True):
    """A regular sign of life of a producer, so that it is not marked late; also measures the clock offset."""

    producer: Annotated[str, Meta(max_length=limits.PRODUCER_ID_CHARS)] = ""
    mono_ns: Natural = 0


class End(_Message, tag="end", kw_only=True, frozen=True):
    """The last message of a producer: how much it emitted.

    Answered when all its events are in, or when that has become impossible.
    """

    producer: ProducerId
    batches: Natural
    emitted: Natural
    dropped: Drops = {}
    unfinished: bool = False
    """True if the end of the run forced it: the program may go on recording, and those events are in no result."""


class CannotResend(_Message, tag="cannot_resend", kw_only=True, frozen=True):
    """A producer's notice that batches `first … last`, which it was asked for, are lost. Not answered."""

    producer: ProducerId
    first: Natural
    last: Natural


class Barrier(_Message, tag="barrier", kw_only=True, frozen=True):
    """A request to wait until all batches before `batches` are in the numbers."""

    producer: ProducerId
    batches: Natural


class GetStatus(_Message, tag="status", kw_only=True, frozen=True):
    """A request for the newest snapshot."""


class GetHistory(_Message, tag="history", kw_only=True, frozen=True):
    """A request for intervals of the run's history.

    `level_s` 0 means the finest level that exists for each moment.
    """

    start_ns: Natural = 0
    end_ns: Natural = (1 << 63) - 1
    level_s: int = 0
    slices: bool = False
    """True: slices instead of seconds that have them; with level 0."""


class Catchup(_Message, tag="catchup", kw_only=True, frozen=True):
    """A request for records of the record stream, from a sequence number on."""

    from_seq: Natural = 0


class Stop(_Message, tag="stop", kw_only=True, frozen=True):
    """A request to end the run: drain, then COMPLETE; with `interrupted`, INTERRUPTED."""

    reason: Text = "stopped on request"
    interrupted: bool = False
    command: CommandFacts | None = None


class Watch(_Message, tag="watch", kw_only=True, frozen=True):
    """A request to keep the run alive as long as this process on the aggregator's host.

    Answered with `watching`.
    """

    pid: Annotated[int, Meta(gt=0, lt=_PIDS)]


class TellBackend(_Message, tag="backend", kw_only=True, frozen=True):
    """A writer's report of its own state: after each progress, and about twice a second.

    Changes no number. Every snapshot repeats the newest report. The journal has the first report of each backend,
    with its name and kind only, and the report that a writer has ended.
    """

    stat: BackendStat


class GetStep(_Message, tag="step", kw_only=True, frozen=True):
    """A request for the state of one step, and for what backends have of it."""

    axis: Name
    step: Step


class ExpectNodes(_Message, tag="nodes", kw_only=True, frozen=True):
    """A notice that these nodes belong to the run. It can't be complete without the account of each."""

    nodes: Annotated[list[ShortText], Meta(max_length=limits.NODES)] = []
    count: Annotated[int, Meta(ge=0, le=limits.NODES)] = 0
    """Number of nodes that the run has at least, whatever their names."""


class GetMembers(_Message, tag="members", kw_only=True, frozen=True):
    """A request for the producers of a node."""

    node: ShortText
    """Name of the node, or run id of its leaf."""


Request = (
    Hello
    | Ping
    | End
    | CannotResend
    | Barrier
    | GetStatus
    | GetHistory
    | Catchup
    | Stop
    | Watch
    | TellBackend
    | GetStep
    | ExpectNodes
    | GetMembers
    | Found
)


# --- responses -----------------------------------------------------------------------------------


class Welcome(_Message, tag="welcome", kw_only=True, frozen=True):
    version: Version = PROTOCOL
    run_id: RunId
    name: str
    epoch: str
    state: State
    events: str
    """Address where producers connect their XPUB socket."""
    snapshots: str
    """Address where subscribers connect their SUB socket for `sn/1`."""
    records: str
    """Address where subscribers connect their SUB socket for `rec/1`."""
    directory: str = ""
    refresh_hz: float = 0.0
    mono_ns: int = 0
    """Monotonic clock of the aggregator."""
    wall_ns: int = 0
    echo_ns: int = 0
    """`mono_ns` of the request."""


class Pong(_Message, tag="pong", kw_only=True, frozen=True):
    epoch: str
    state: State
    mono_ns: int = 0
    echo_ns: int = 0
    drain_s: float | None = None
    """Time that the drain still lasts at most, in seconds; null if there is no drain."""


class Ack(_Message, tag="ack", kw_only=True, frozen=True):
    """A push once per tick: batches `< batches` of this producer are in the journal, so it can drop them."""

    epoch: str
    batches: int


class Resend(_Message, tag="resend", kw_only=True, frozen=True):
    """A push that asks the producer to send batches `first … last` again."""

    first: Natural
    last: Natural


class Ended(_Message, tag="ended", kw_only=True, frozen=True):
    """The account of a producer that ended."""

    emitted: int
    received: int
    missing: int


class BarrierReached(_Message, tag="barrier_reached", kw_only=True, frozen=True):
    """The answer to `barrier`, with what the producer has lost since it began."""

    batches: int
    dropped: Drops = {}
    """Events that were dropped, by reason, whether by the producer or by the aggregator."""
    given_up: Natural = 0
    """Batches that never arrived, and can't arrive any more."""


class Status(_Message, tag="status", kw_only=True, frozen=True):
    snapshot: MetricsSnapshot


class SeriesKey(Struct, kw_only=True, frozen=True):
    """The series, counter or gauge that an index in history columns stands for."""

    index: int
    name: str
    kind: str
    unit: str = ""
    labels: dict[str, str] = {}
    digits: Digits = limits.DIGITS
    ticks_per_unit: float = 1.0


class History(_Message, tag="history", kw_only=True, frozen=True):
    """Intervals in order of time, each in its form on disk. Ask again from `next_ns` until it is null."""

    keys: list[SeriesKey] = []
    intervals: list[Raw] = []
    next_ns: int | None = None


class CaughtUp(_Message, tag="caught_up", kw_only=True, frozen=True):
    """Records in order. Ask again from `next_seq` while it is not above `last_seq`."""

    records: list[StreamRecord] = []
    next_seq: int = 0
    last_seq: int = -1


class Stopping(_Message, tag="stopping", kw_only=True, frozen=True):
    state: State


class Watching(_Message, tag="watching", kw_only=True, frozen=True):
    pid: int


class Noted(_Message, tag="noted", kw_only=True, frozen=True):
    """The answer to `backend`, `nodes` and `found`."""

    state: State


StepCondition = Literal["unknown", "open", "closed", "forgotten"]
"""State of a step.

`unknown`: the step has no values, and the first one opens it. `forgotten`: the step was closed long ago or skipped,
and new values are dropped.
"""


class StepDistribution(Struct, kw_only=True, frozen=True):
    """A distribution of a step: `counts[i]` values from `edges[i]` up to `edges[i + 1]`."""

    edges: list[float]
    counts: list[Natural]


class StepState(_Message, tag="step_state", kw_only=True, frozen=True):
    """The answer to `step`. A backend has a closed step once its `next_record` has reached that of the answer."""

    state: StepCondition
    values: dict[str, float | None] = {}
    """Values of all producers, merged; of a step with very many names the first ones."""
    producers: Natural = 0
    """Number of producers that reported a value."""
    revision: Natural = 0
    """Revision of the newest record of a closed step."""
    next_record: Natural = 0
    """Number of the next record of the stream. All records of a closed step are below it."""
    backends: list[BackendStat] = []
    texts: dict[str, str] = {}
    """Newest text of each name, on a reported axis. A step may have these alone."""
    distributions: dict[str, StepDistribution] = {}


class MemberFacts(Struct, kw_only=True, frozen=True):
    """A producer of a node, as it introduced itself to its leaf."""

    producer: str
    name: str = ""
    host: str = ""
    pid: int = 0
    rank: int | None = None


class Members(_Message, tag="members", kw_only=True, frozen=True):
    """Producers of a node, the newest NODE_MEMBERS of all nodes."""

    members: list[MemberFacts] = []


ErrorCode = Literal["unknown_message", "wrong_version", "wrong_run", "unavailable", "refused", "no_room"]


class Error(_Message, tag="error", kw_only=True, frozen=True):
    code: str
    """A code of `ErrorCode`; newer minor versions may add codes."""
    message: str


Response = (
    Welcome
    | Pong
    | Ack
    | Resend
    | Ended
    | BarrierReached
    | Status
    | History
    | CaughtUp
    | Stopping
    | Watching
    | Noted
    | StepState
    | Members
    | Search
    | Error
)
PUSHED: Final = (Ack, Resend, Search)
