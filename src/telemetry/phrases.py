"""What parts of a snapshot are called, the same in every report and on every screen.

All text from outside passes through `printable`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from telemetry import humane
from telemetry.humane import NOTHING, printable
from telemetry.ledger import Reason
from telemetry.wire.snapshot import CommandFacts, Pending, ProducerStat, SeriesStat

REASON_WORDS: Final[dict[str, str]] = {
    Reason.BUFFER_FULL: "the producer's buffer was full",
    Reason.BLOCK_TIMEOUT: "the producer waited for room, then gave up",
    Reason.NOT_A_NUMBER: "the producer was given no number",
    Reason.UNENCODABLE: "the producer could not encode it",
    Reason.AFTER_FINISH: "recorded after the producer's finish",
    Reason.UNSENT_AT_EXIT: "unsent when the producer's process ended",
    Reason.NOT_FINITE: "the value was NaN or infinite",
    Reason.NEGATIVE: "a negative value or increment",
    Reason.UNKNOWN_ID: "no definition came for its id",
    Reason.DEFINITION_CONFLICT: "the name has another kind or unit",
    Reason.DEFINITION_INVALID: "its definition was not valid",
    Reason.MALFORMED_RECORD: "the record could not be read",
    Reason.MALFORMED_ROWS: "the rows could not be read",
    Reason.AFTER_END: "arrived after the producer's end",
    Reason.TEXTS_FULL: "too many texts waited to be counted",
    Reason.FRAME_TOO_LARGE: "larger than the protocol allows",
    Reason.FRAME_UNREADABLE: "not a message of this protocol",
    Reason.WRONG_TOPIC: "sent under another topic",
    Reason.WRONG_VERSION: "another protocol version",
    Reason.TOO_MANY_PRODUCERS: "too many producers",
    Reason.IMPLAUSIBLE: "its numbering can't be true",
}
"""Why an event or a frame is lost, short enough for 80 columns."""


def instrument(name: str, labels: Mapping[str, str], unit: str = "") -> str:
    """`name{key=value} [unit]`; the unit only where the numbers don't carry it."""
    inside = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    text = f"{name}{{{inside}}}" if inside else name
    return printable(text if not unit or unit == "1" or humane.carries_unit(unit) else f"{text} [{unit}]")


def error_bound(stat: SeriesStat) -> str:
    """`exact`, `±0.1 %`, `±0.1 % or ±1.00 ns`, `unbounded`; nothing for a series without values.

    The resolution is named only where the smallest value is small enough for it to matter.
    """
    if not stat.count:
        return NOTHING
    if stat.exact:
        return "exact"
    if stat.error_bound is None:
        return "unbounded"
    text = f"±{humane.percent(stat.error_bound)}"
    coarse = stat.resolution > (stat.min or 0) * stat.error_bound
    return f"{text} or ±{humane.quantity(stat.resolution, stat.unit)}" if coarse else text


def producer(stat: ProducerStat) -> str:
    rank = f" rank {stat.rank}" if stat.rank is not None else ""
    where = f" ({stat.host}:{stat.pid})" if stat.host and stat.pid else ""
    return printable(f"{stat.name or stat.producer}{rank}{where}")


def batches(number: int) -> str:
    return "1 batch" if number == 1 else f"{humane.count(number)} batches"


def waiting(pending: Pending) -> Iterator[str]:
    """What a run waits for beside producers."""
    if pending.events:
        yield f"{humane.count(pending.events)} events without a definition"
    if pending.deferred:
        yield f"{humane.count(pending.deferred)} deferred tasks"


def outside(stat: SeriesStat) -> str:
    """Values that a series could not count as they are; empty if there are none."""
    parts = {"below the range": stat.below, "above the range": stat.above, "beyond 2^53, rounded": stat.imprecise}
    return ", ".join(f"{humane.count(number)} {what}" for what, number in parts.items() if number)


def ending(command: CommandFacts) -> str:
    """How a command ended: `exit code 0`, `ended by SIGTERM`, `still running`."""
    if command.signal:
        return printable(f"ended by {command.signal}")
    return "still running" if command.exit_code is None else f"exit code {command.exit_code}"
