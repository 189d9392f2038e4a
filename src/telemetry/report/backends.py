"""The section of a report about backends: delivered data, missing data with reasons, and where to find the data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import number_of, printable
from telemetry.report.table import ReportTable, Section, TableColumn
from telemetry.wire.report import Report
from telemetry.wire.snapshot import BACKEND_ENDED, BackendStat

_UNDELIVERED: Final = ("undelivered", "failed")
_SERVER: Final = "prometheus"
"""Kind of backend whose writer serves the data at an address. The address is gone once the writer has ended."""
_NOUNS: Final[Mapping[str, Sequence[str]]] = {
    "params": ("set of parameters", "sets of parameters"),
    "live": ("snapshot",),
}
"""Nouns of kinds of items that have another name: singular, and a plural without `s`."""


def backends(report: Report) -> Section:
    """Return the section "Backends": a table with a row per backend, and notes.

    The notes say how to deliver what is left, why data is missing, and where users find the delivered data.
    """
    heads = [
        TableColumn("backend"),
        TableColumn("state", right=False),
        TableColumn("delivered"),
        TableColumn("left", 1),
        TableColumn("dropped", 2),
        TableColumn("unsupported", 5),
        TableColumn("repeated", 4),
        TableColumn("retried", 3),
        TableColumn("restarts", 6),
    ]
    rows = [[printable(stat.name), state(stat, report)[0], *_numbers(stat)] for stat in report.snapshot.backends]
    return Section("Backends", table=ReportTable(heads, rows), notes=list(notes(report)))


def state(stat: BackendStat, report: Report) -> tuple[str, wording.Health]:
    """Return the state in words, and its health. After the end of a run, a writer should end too."""
    if report.final and stat.state not in BACKEND_ENDED:
        return f"{stat.state}, not ended", "warn"
    text, health = wording.backend_state(stat, report.snapshot.time_ns)
    return text, "warn" if health == "good" and stat.dropped else health


def notes(report: Report) -> Iterator[str]:
    """Yield notes. Undelivered data comes first, with the command that delivers it."""
    stats = report.snapshot.backends
    left = [stat for stat in stats if stat.state in BACKEND_ENDED and wording.undelivered(stat)]
    yield from map(wording.undelivered, left)
    resumable = [stat for stat in left if wording.resumable(stat)]
    if resumable:
        mended = (
            "; after fixing the cause, deliver it with"
            if all(stat.state == "failed" for stat in resumable)
            else "; deliver it with"
        )
        what = f"undelivered data is kept in the run directory{mended}"
        yield f"{what}\n{wording.resume_command(report.directory)}"  # on its own line, the command can be copied
    for stat in stats:
        name = printable(stat.name)
        if stat.dropped:
            yield f"{name}, dropped: {wording.counted(stat.dropped)}"
        if stat.no_place:
            yield f"{name} does not support: {_items(stat.no_place)}"
        if stat.repeated:
            yield (f"{name}: {number_of(stat.repeated, 'item')} may appear twice, because its writer was restarted")
        if stat.last_error and stat.state not in _UNDELIVERED:
            yield f"{name}, last error: {printable(stat.last_error)}"
    for stat in stats:
        if stat.place:
            yield at_place(stat)


def at_place(stat: BackendStat) -> str:
    """Return where users find the data that a backend received, or found it while its writer ran."""
    location = printable(stat.place)
    if stat.kind == _SERVER and stat.state in BACKEND_ENDED:
        return f"{printable(stat.name)}: was at {location} until its writer ended"
    return f"{printable(stat.name)}: see {location}"


def line(report: Report) -> str:
    """Return all backends in one line.

    An example is `tensorboard ✓ 12,300 · wandb undelivered, 3,200 queued: connection refused`.
    """
    stats = [(stat, wording.looked_at_ns(stat, report.snapshot)) for stat in report.snapshot.backends]
    return " · ".join(f"{printable(stat.name)} {wording.backend(stat, now_ns)}" for stat, now_ns in stats)


def _items(numbers: Mapping[str, int]) -> str:
    """Format numbers of items by kind, in alphabetical order: `3 readings, 1 span`."""
    return ", ".join(
        number_of(number, *_NOUNS.get(kind, (printable(kind),))) for kind, number in sorted(numbers.items())
    )


def _numbers(stat: BackendStat) -> Iterator[str]:
    lost, homeless = sum(stat.dropped.values()), sum(stat.no_place.values())
    for number in (stat.written, stat.queued, lost, homeless, stat.repeated, stat.retried, stat.restarts):
        yield formatting.count(number)
