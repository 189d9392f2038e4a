"""Words for parts of a snapshot, the same in every report and on every screen.

All external text passes through `printable`.
"""

from __future__ import annotations

import re
import shlex
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol

from telemetry import limits
from telemetry.common import formatting
from telemetry.common.formatting import NOTHING, number_of, printable
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.gates import RUN_EXIT_CODES, GateResult, worst
from telemetry.wire.snapshot import (
    BACKEND_ENDED,
    PROGRAM_FAILED,
    TERMINAL,
    BackendStat,
    CommandFacts,
    CounterStat,
    GaugeStat,
    MetricsSnapshot,
    NodeStat,
    ProducerStat,
    SeriesStat,
)

Health = Literal["good", "calm", "warn", "bad"]
_EXCEPTION: Final = re.compile(
    r"(?:[\w ]{1,60} failed: )?[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)(?:: |$)"
)
"""Text of a mark that an exception made."""
_IN_NAME: Final = re.compile(r"[\\{}]")
_IN_LABEL: Final = re.compile(r"[\\{},=]")


class MarkText(Protocol):
    """The part of a mark that tells an exception."""

    @property
    def text(self) -> str: ...

    @property
    def time_ns(self) -> int: ...


class BackendWording(NamedTuple):
    """The state of a backend in words.

    `state`: `✓ 12,300` (items delivered), or a problem such as `retrying`. `amounts`: what is left, such as `,
    3,200 queued`. `why`: the reason, if known.
    """

    state: str
    amounts: str
    why: str
    health: Health

    def __str__(self) -> str:
        return f"{self.state}{self.amounts}{f': {self.why}' if self.why else ''}"


REASON_WORDS: Final[dict[str, str]] = {
    Reason.BUFFER_FULL: "the producer's buffer was full",
    Reason.BLOCK_TIMEOUT: "the producer waited for room and timed out",
    Reason.NOT_A_NUMBER: "the value is not a number",
    Reason.UNENCODABLE: "the producer could not encode it",
    Reason.AFTER_FINISH: "recorded after the producer's finish",
    Reason.UNSENT_AT_EXIT: "unsent when the producer's process ended",
    Reason.NOT_FINITE: "the value was NaN or infinite",
    Reason.NEGATIVE: "a negative value or increment",
    Reason.UNKNOWN_ID: "no definition arrived for its id",
    Reason.DEFINITION_CONFLICT: "the name has another kind or unit",
    Reason.DEFINITION_INVALID: "its definition was not valid",
    Reason.MALFORMED_RECORD: "the record could not be read",
    Reason.MALFORMED_ROWS: "the rows could not be read",
    Reason.AFTER_END: "arrived after the producer's end",
    Reason.TEXTS_FULL: "too many texts waited to be counted",
    Reason.RECORDS_FULL: "the record log was full",
    Reason.STEPS_FULL: "too many axes, or values in open steps",
    Reason.STEP_TOO_LATE: "the step was closed long before",
    Reason.FRAME_TOO_LARGE: "larger than the protocol allows",
    Reason.FRAME_UNREADABLE: "not a message of this protocol",
    Reason.WRONG_TOPIC: "sent under another topic",
    Reason.WRONG_VERSION: "another protocol version",
    Reason.TOO_MANY_PRODUCERS: "too many producers",
    Reason.IMPLAUSIBLE: "its numbering is inconsistent",
}
"""Reasons for the loss of an event or a frame, short enough for 80 columns."""
HANGING_S: Final = 5.0
"""Duration from which a call into a tracker's library is reported: most take milliseconds."""
_CAUSES: Final[Mapping[str, str]] = {
    "SIGKILL": "perhaps out of memory",
    "SIGSEGV": "segmentation fault",
    "SIGABRT": "aborted",
    "SIGBUS": "bus error",
    "SIGFPE": "arithmetic error",
    "SIGILL": "illegal instruction",
    "SIGINT": "interrupted",
    "SIGXCPU": "CPU time limit",
    "SIGXFSZ": "file size limit",
}
BEHIND_S: Final = 3.0
"""Age of a node's newest interval from which the root counts as behind: a leaf sends one a second."""
_OWING_SHOWN: Final = 4
"""Largest number of producers of a node that are named in a line."""
_HEALTH: Final[Mapping[str, tuple[str, Health]]] = {
    "starting": ("starting", "calm"),
    "writing": ("writing", "good"),
    "idle": ("up to date", "good"),
    "retrying": ("retrying", "warn"),
    "closing": ("closing", "calm"),
    "done": ("done", "good"),
    "undelivered": ("undelivered", "bad"),
    "failed": ("failed", "bad"),
}


def labelled(name: str, labels: Mapping[str, str]) -> str:
    """Return `name{key=value,…}` with sorted keys. The text is unique for each instrument.

    Characters with a meaning here get a backslash if they are part of a name or a label.
    """
    name = _IN_NAME.sub(r"\\\g<0>", name)
    if not labels:
        return name
    inside = ",".join(f"{_label(key)}={_label(value)}" for key, value in sorted(labels.items()))
    return f"{name}{{{inside}}}"


def _label(text: str) -> str:
    return _IN_LABEL.sub(r"\\\g<0>", text)


def instrument(name: str, labels: Mapping[str, str], unit: str = "") -> str:
    """Format `name{key=value} [unit]`, with the unit only if the numbers don't include it."""
    inside = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    text = f"{name}{{{inside}}}" if inside else name
    return printable(text if not unit or unit == "1" or formatting.carries_unit(unit) else f"{text} [{unit}]")


def error_bound(stat: SeriesStat) -> str:
    """Format `exact`, `±0.1 %`, `±0.1 % or ±1.00 ns`, `unbounded`; a dash for a series without values.

    The resolution is shown only if the smallest value is so small that it matters.
    """
    if not stat.count:
        return NOTHING
    if stat.exact:
        return "exact"
    if stat.error_bound is None:
        return "unbounded"
    text = f"±{formatting.percent(stat.error_bound)}"
    matters_below = stat.resolution / stat.error_bound if stat.error_bound else 0.0
    coarse = (stat.min or 0) < matters_below  # whole numbers of any size can be compared, not multiplied
    return f"{text} or ±{formatting.quantity(stat.resolution, stat.unit)}" if coarse else text


def producer(stat: ProducerStat) -> str:
    rank = f" rank {stat.rank}" if stat.rank is not None else ""
    where = f" ({stat.host}:{stat.pid})" if stat.host and stat.pid else ""
    return printable(f"{stat.name or stat.producer}{rank}{where}")


def names(snapshot: MetricsSnapshot) -> dict[str, str]:
    """Return names of producers by id, and of nodes by the id of their leaf and by their own name."""
    name_by_id = {stat.producer: producer(stat) for stat in snapshot.producers}
    for stat in snapshot.nodes:
        name_by_id[stat.leaf or stat.node] = name_by_id[stat.node] = printable(f"node {stat.node}")
    return name_by_id


def not_ended(snapshot: MetricsSnapshot) -> list[str]:
    """Return the ids of producers that the run waits for, or waited for, without nodes."""
    nodes = {stat.node for stat in snapshot.nodes} | {""}
    return [key for key in snapshot.pending.producers if key not in nodes]


def overflow(snapshot: MetricsSnapshot) -> str:
    """Return how many instruments have no figures of their own, such as `100 gauges`; empty if all have."""
    nouns = {"counter": ("counter", "counters"), "gauge": ("gauge", "gauges"), "series": ("series", "series")}
    return ", ".join(number_of(count, *nouns[kind]) for kind, count in snapshot.overflow.items() if count)


def incomplete_nodes(snapshot: MetricsSnapshot) -> list[str]:
    """Return the names of nodes that are not complete at the end of a run."""
    nodes = [printable(stat.node) for stat in snapshot.nodes if not node_is_well(stat, over=True)]
    unnamed = snapshot.missing_nodes
    return nodes + ([f"{number_of(unnamed, 'node')} that never connected"] if unnamed else [])


# --- nodes ---------------------------------------------------------------------------------------


def node_is_well(stat: NodeStat, *, over: bool) -> bool:
    """Return whether all events of a node are counted, so far or at the end. `over`: the run has ended."""
    losses = stat.account.lost or stat.missing_batches or stat.unrepairable
    if stat.completeness == "complete":
        return not losses
    return not (over or losses) and stat.status == "live" and bool(stat.leaf) and stat.completeness == "incomplete"


def behind_s(stat: NodeStat, snapshot: MetricsSnapshot) -> float | None:
    """Return the age of the newest interval of a node that the root has taken, in seconds.

    Return None before the first, and after the end of the node or the run.
    """
    if not stat.interval_ns or stat.status == "ended" or snapshot.state in TERMINAL:
        return None
    return max(0, snapshot.time_ns - stat.interval_ns) / 1e9


def behind(snapshot: MetricsSnapshot) -> str:
    """Return how far the root is behind its slowest live leaf, such as `58 s behind`; empty if it is not.

    A leaf that sends nothing is `late` or `lost` instead.
    """
    return max((_behind(stat, snapshot) for stat in snapshot.nodes), default=(0.0, ""))[1]


def _behind(stat: NodeStat, snapshot: MetricsSnapshot) -> tuple[float, str]:
    age_s = behind_s(stat, snapshot) or 0.0
    is_behind = stat.status == "live" and age_s > BEHIND_S
    return (age_s, f"{_seconds(age_s)} behind") if is_behind else (0.0, "")


def node_status(stat: NodeStat, *, over: bool) -> str:
    """Return the status of a node: `live`, `late`, `lost`, `ended`, `not connected`, `not ended`."""
    if not stat.leaf:
        return "not connected"
    return "not ended" if over and stat.status == "live" else stat.status


def node_result(stat: NodeStat, *, over: bool) -> str:
    """Return the completeness of a node: `complete`, `complete so far`, `lossy`, `incomplete`, `interrupted`."""
    if stat.completeness != "complete" and node_is_well(stat, over=over):
        return "complete so far"
    return stat.completeness


def node_troubles(stat: NodeStat, snapshot: MetricsSnapshot, *, over: bool) -> Iterator[str]:
    """Yield why a node is not complete, worst first, then its lateness and warnings. Empty if all is well."""
    if not node_is_well(stat, over=over):
        yield from _node_lacks(stat, snapshot, over=over)
    if age := _behind(stat, snapshot)[1]:
        yield age
    yield from (f"warning: {printable(warning)}" for warning in stat.warnings)


def _node_lacks(stat: NodeStat, snapshot: MetricsSnapshot, *, over: bool) -> Iterator[str]:
    if not stat.leaf:
        yield f"it {'never connected' if over else 'has not connected yet'}"
        return
    # A node that goes on has one reason, that it has not ended, which says too little.
    reason = stat.reason if over or stat.status == "ended" or stat.completeness != "incomplete" else ""
    if reason:
        yield printable(reason)
    if stat.status in ("late", "lost") and not over and stat.last_seen_ns:
        yield f"silent for {_seconds(max(0, snapshot.time_ns - stat.last_seen_ns) / 1e9)}"
    if stat.owing and (over or stat.status in ("lost", "ended")):
        shown = ", ".join(printable(name) for name in stat.owing[:_OWING_SHOWN])
        yield f"never ended there: {shown}{', …' if len(stat.owing) > _OWING_SHOWN else ''}"
    if not reason:
        if stat.account.missing:
            yield f"{number_of(stat.account.missing, 'event')} missing"
        if stat.missing_batches:
            yield f"{batches(stat.missing_batches)} of its leaf missing"
        if stat.unrepairable:
            yield f"{batches(stat.unrepairable)} of its leaf permanently lost"
    dropped = {**stat.account.dropped_by_producer, **stat.account.dropped}
    if dropped:
        yield f"dropped there: {counted(dropped)}"


def nodes(snapshot: MetricsSnapshot, *, over: bool) -> str:
    """Return the number of nodes and producers: `4 nodes, 3 complete, 32 producers`; empty without nodes.

    While the run goes on, it also tells how far the root is behind: `4 nodes, all complete so far, 58 s behind, …`.
    """
    number = snapshot.node_count
    if not number:
        return ""
    fine = sum(node_is_well(stat, over=over) for stat in snapshot.nodes)
    share = "all" if fine == number > 1 else formatting.count(fine)
    complete = "complete" if over else "complete so far"
    late = f", {age}" if (age := behind(snapshot)) else ""
    return (
        f"{number_of(number, 'node')}, {share} {complete}{late}, {number_of(snapshot.producer_count, 'producer')}"
    )


def salvaged(number: int) -> str:
    """Return the events of killed processes in brackets, with a space before; empty without any."""
    return f" ({number_of(number, 'event')} salvaged)" if number else ""


def batches(number: int) -> str:
    return number_of(number, "batch", "batches")


def waiting(snapshot: MetricsSnapshot) -> Iterator[str]:
    """Yield texts about events that arrived and are in no number yet: a draining run waits for them."""
    pending, yet = snapshot.pending, "" if snapshot.state in TERMINAL else " yet"
    if pending.events:
        yield f"{number_of(pending.events, 'event')} without a definition"
    if pending.deferred:
        yield f"{number_of(pending.deferred, 'text')} not counted{yet}"


def outside(stat: SeriesStat | CounterStat | GaugeStat) -> str:
    """Describe values that an instrument could not count exactly; empty if there are none."""
    parts = {"beyond 2^53, rounded": stat.imprecise}
    if isinstance(stat, SeriesStat):
        parts = {"below the range": stat.below, "above the range": stat.above, **parts}
    return ", ".join(f"{formatting.count(number)} {what}" for what, number in parts.items() if number)


def ending(command: CommandFacts) -> str:
    """Describe how a command ended: `exit code 0`, `ended by SIGTERM`, `still running`."""
    if command.signal:
        return printable(f"ended by {command.signal}")
    return "still running" if command.exit_code is None else f"exit code {command.exit_code}"


def gate_evidence(result: GateResult) -> str:
    """Return the interval of a gate and the number of values behind it; empty if there is neither."""
    parts = []
    if result.low is not None or result.high is not None:
        low, high = (_gate_value(end, result.unit) for end in (result.low, result.high))
        parts.append(f"95 %: {low} to {high}")
    if result.samples is not None:
        parts.append(number_of(result.samples, "value"))
    return ", ".join(parts)


def gate_reason(result: GateResult) -> str:
    """Return the reason of an outcome, with its evidence in brackets."""
    evidence = gate_evidence(result)
    return printable(result.reason) + (f" ({evidence})" if evidence else "")


def _gate_value(value: float | None, unit: str) -> str:
    if value is None:
        return NOTHING
    if formatting.carries_unit(unit):
        return formatting.quantity(value, unit)
    if unit.endswith("/s"):
        return formatting.rate(value, unit.removesuffix("/s"))
    return f"{formatting.scaled(value)} {printable(unit)}".rstrip()


def run_ending(command: CommandFacts, gates: Sequence[GateResult]) -> str:
    """Describe how a command ended, with the exit code of `telemetry run` if gates gave it another one."""
    of_run = RUN_EXIT_CODES[worst(list(gates))]
    return f"exit code: command 0, run {of_run}" if command.exit_code == 0 and of_run else ending(command)


def failure(snapshot: MetricsSnapshot) -> str:
    """Describe how a command failed: `exit code 1`, `SIGSEGV (segmentation fault)`; empty if it did not fail.

    A program that started its own run has no command. Its failure is the reason of the end: `the program failed`.
    """
    command = snapshot.command
    if command is None:
        return printable(snapshot.reason) if snapshot.reason.startswith(PROGRAM_FAILED) else ""
    if not (command.signal or command.exit_code):
        return ""
    why = f" ({found})" if (found := cause(command)) else ""
    return f"{printable(command.signal) if command.signal else ending(command)}{why}"


def last_exception(marks: Iterable[MarkText]) -> str:
    """Return the newest mark that an exception made: `RuntimeError: shard 7 is corrupt`; empty without one.

    An exception that leaves the `with` block of a run, or ends the program, is such a mark.
    """
    exceptions = [mark for mark in marks if _EXCEPTION.match(mark.text)]
    newest = max(exceptions, key=lambda mark: mark.time_ns, default=None)
    return "" if newest is None else printable(" ".join(newest.text.split()))


def cause(command: CommandFacts) -> str:
    """Explain how a command failed in few words: `segmentation fault`, `perhaps out of memory`; empty if unknown.

    A shell reports a program that was killed by a signal as the exit code 128 + the signal's number.
    """
    if command.signal:
        return _CAUSES.get(command.signal, "")
    code = command.exit_code or 0
    name = next((member.name for member in signal.Signals if member == code - 128), "")
    return ", ".join(filter(None, (name, _CAUSES.get(name, ""))))


def backend_state(stat: BackendStat, now_ns: int) -> tuple[str, Health]:
    """Return the activity of a writer in few words, and its health; `now_ns`: wall clock."""
    if is_silent(stat, now_ns):
        return f"silent for {_seconds((now_ns - stat.time_ns) / 1e9)}", "warn"
    if stat.calling_s > HANGING_S and stat.state not in BACKEND_ENDED:
        for_s = f"for {_seconds(stat.calling_s)}"
        return (f"closing {for_s}", "calm") if stat.state == "closing" else (f"hanging {for_s}", "warn")
    return _HEALTH[stat.state]


def looked_at_ns(stat: BackendStat, snapshot: MetricsSnapshot) -> int:
    """Return the wall clock at which to judge a writer's report: the time of its snapshot.

    Return the current time for a report after the end of its run: such a report comes from a writer on this
    machine, and no snapshot follows.
    """
    afterwards = snapshot.state in TERMINAL and stat.time_ns > snapshot.time_ns
    return time.time_ns() if afterwards else snapshot.time_ns


def is_silent(stat: BackendStat, now_ns: int) -> bool:
    """Return whether the newest report of a writer that has not ended is too old."""
    silent_s = (now_ns - stat.time_ns) / 1e9 if stat.time_ns else 0.0
    return stat.state not in BACKEND_ENDED and silent_s > limits.BACKEND_SILENT_S


def backend(stat: BackendStat, now_ns: int) -> BackendWording:
    """Describe a backend in part of a line."""
    state, health = backend_state(stat, now_ns)
    dropped = sum(stat.dropped.values())
    behind = stat.queued > limits.BACKEND_QUEUE_ITEMS
    waiting = f", {formatting.count(stat.queued)} queued" if stat.queued and (behind or health != "good") else ""
    lost = f", {formatting.count(dropped)} dropped" if dropped else ""
    if health == "good":
        health = "warn" if dropped or behind else health
        return BackendWording(f"✓ {formatting.count(stat.written)}", f"{waiting}{lost}", "", health)
    return BackendWording(state, f"{waiting}{lost}", printable(stat.last_error), health)


def shortfall(stat: BackendStat, directory: str) -> str:
    """Describe what an ended writer did not deliver, and the remedy; empty if everything was delivered."""
    text = undelivered(stat)
    if text:
        how = f"; {'after fixing the cause, ' if stat.state == 'failed' else ''}{resume_command(directory)}"
        return f"{text}{how if resumable(stat) else ''}"
    if stat.dropped:
        lost = sum(stat.dropped.values())
        what = number_of(lost, "item was", "items were")
        return f"{printable(stat.name)}: {what} not accepted: {counted(stat.dropped)}"
    return ""


def undelivered(stat: BackendStat) -> str:
    """Describe what an ended writer still has to deliver; empty if that is nothing."""
    why = f" ({printable(stat.last_error)})" if stat.last_error else ""
    if stat.state == "failed":
        what = "stopped" if stat.next_record or stat.written else "could not start"
        return f"{printable(stat.name)}: its writer {what}{why}"
    if stat.state == "done":
        return ""
    what = f"{number_of(stat.queued, 'record is', 'records are')} not" if stat.queued else "not all is"
    return f"{printable(stat.name)}: {what} delivered{why}"


def resumable(stat: BackendStat) -> bool:
    """Return whether a writer that has not delivered everything can be resumed.

    A writer that failed before its first report, such as one for an unknown backend, left nothing to resume.
    """
    return stat.state != "failed" or stat.time_ns > 0


def resume_command(directory: str) -> str:
    """Return the command that delivers the rest."""
    return printable(f"telemetry export --resume {shlex.quote(directory) if directory else 'RUN'}")


def counted(numbers: Mapping[str, int]) -> str:
    """Format numbers by name, in alphabetical order: `12 refused, 3 too_large`."""
    return ", ".join(f"{formatting.count(number)} {printable(what)}" for what, number in sorted(numbers.items()))


def _seconds(duration_s: float) -> str:
    """Format a duration in whole seconds, because it changes all the time."""
    return f"{duration_s:.0f} s" if duration_s < 120 else formatting.duration_s(duration_s)


def by_number(percentile: str) -> tuple[bool, float, str]:
    """Return a sort key for percentiles. Text that is not a number is last."""
    try:
        return False, float(percentile), percentile
    except ValueError:
        return True, 0.0, percentile
