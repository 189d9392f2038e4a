"""Sections of a report about losses and producers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import number_of, printable
from telemetry.report.table import ReportTable, Section, TableColumn
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot, ProducerStat

PRODUCERS_SHOWN: Final = 20
_GAPS_SHOWN: Final = 4


def losses(snapshot: MetricsSnapshot) -> Section:
    """Return events and frames that are missing from the numbers, by reason."""
    account = snapshot.accounting
    lost = [
        *((reason, number, "event") for reason, number in account.dropped_by_producer.items()),
        *((reason, number, "event") for reason, number in account.dropped.items()),
        *((reason, number, "frame") for reason, number in account.bad_frames.items()),
    ]
    rows = [
        [printable(reason), number_of(number, what), wording.REASON_WORDS.get(reason, "")]
        for reason, number, what in lost
    ]
    if account.missing:
        rows.append(["missing", number_of(account.missing, "event"), "sent, but never arrived"])
    if account.waiting:
        rows.append(["waiting", number_of(account.waiting, "event"), "no definition has arrived for their id"])
    return Section(
        "Losses",
        table=ReportTable(
            [TableColumn("reason"), TableColumn("how many"), TableColumn("why", 1, right=False)], rows
        ),
    )


def troubled(report: Report) -> list[ProducerStat]:
    """Return the producers whose events are not all counted. Collectors are no part of the job."""
    return [stat for stat in report.snapshot.own_producers if stat.completeness != "complete" or stat.missing]


def producers(report: Report) -> Section:
    """Return one line if all producers are complete, else a table of the others. Those of nodes are left out."""
    everyone, total = report.snapshot.own_producers, report.snapshot.direct_producers
    lacking = troubled(report)
    if not everyone:
        return Section("Producers", [] if report.snapshot.nodes else ["none"])
    fine = formatting.count(total - len(lacking))
    if not lacking:
        repairs = report.snapshot.accounting.repaired - sum(node.account.repaired for node in report.snapshot.nodes)
        repaired = f", {wording.batches(repairs)} repaired" if repairs else ""
        return Section("Producers", [f"{fine}, all complete{repaired}", *_killed(report)])
    heads = [
        TableColumn("producer"),
        TableColumn("status", 2, right=False),
        TableColumn("result", right=False),
        TableColumn("emitted", 1),
        TableColumn("received", 3),
        TableColumn("applied", 1),
        TableColumn("missing", 1),
    ]
    rows = [_producer_row(stat, over=is_over(report)) for stat in lacking]
    notes = [f"{fine} more, all complete"] if len(lacking) < total else []
    for stat in lacking[:PRODUCERS_SHOWN]:
        problems = list(_producer_notes(stat, report, alone=total == 1))
        notes += [f"{wording.producer(stat)}: {' · '.join(problems)}"] if problems else []
    notes += _killed(report)
    return Section("Producers", table=ReportTable(heads, rows), notes=notes, rows_shown=PRODUCERS_SHOWN)


def _killed(report: Report) -> list[str]:
    """Return the first complete producers that were killed and whose last events were salvaged."""
    lacking = {stat.producer for stat in troubled(report)}
    killed = [stat for stat in report.snapshot.own_producers if stat.salvaged and stat.producer not in lacking]
    lines = [f"{wording.producer(stat)}: killed{wording.salvaged(stat.salvaged)}" for stat in killed]
    return lines[:PRODUCERS_SHOWN]


def is_over(report: Report) -> bool:
    """Return whether the run is over, as far as is known."""
    return report.source != "status" or report.final


def _producer_row(stat: ProducerStat, *, over: bool) -> list[str]:
    """Return the row of a producer. `over` means that the run has ended, so no producer is live."""
    status = "not ended" if over and stat.status == "live" else stat.status
    has_losses = stat.missing or stat.unrepairable or stat.dropped or stat.dropped_by_producer
    well = status == "live" and stat.completeness == "incomplete" and not has_losses
    numbers = (stat.emitted, stat.received, stat.applied, stat.missing)
    return [
        wording.producer(stat),
        status,
        "complete so far" if well else stat.completeness,
        *(formatting.count(number) for number in numbers),
    ]


def _producer_notes(stat: ProducerStat, report: Report, *, alone: bool) -> Iterator[str]:
    """Yield the problems of a producer. Losses of a single producer are in the losses of the run."""
    if whereabouts := _whereabouts(stat, report):
        yield whereabouts
    losses = {**stat.dropped_by_producer, **stat.dropped}
    if losses and not alone:
        yield printable(", ".join(f"{reason} {formatting.count(n)}" for reason, n in losses.items()))
    if stat.missing_batches:
        may_come = "" if report.final else ", which may still arrive"
        yield f"missing batches {_ranges(stat.missing_batches)}{may_come}"
    if stat.unrepairable:
        which = f" ({_ranges(stat.unrepairable_batches)})" if stat.unrepairable_batches else ""
        yield f"{wording.batches(stat.unrepairable)} permanently lost{which}"
    if stat.repaired:
        yield f"{wording.batches(stat.repaired)} repaired"
    if stat.salvaged:
        yield f"killed{wording.salvaged(stat.salvaged)}"


def _whereabouts(stat: ProducerStat, report: Report) -> str:
    """Return the last sign of life of a producer that has not ended; empty if it is well."""
    over = is_over(report)
    if stat.completeness in ("complete", "lossy") or (stat.status == "live" and not over):
        return ""
    if stat.unfinished:
        return "still recording when the run ended"
    silence = report.snapshot.time_ns - stat.last_event_ns
    age = f"{formatting.duration_ns(max(0, silence))} {'before the end' if over else 'ago'}"
    last = f"its last event was {age}" if stat.last_event_ns else "no events arrived"
    return f"never ended, {last}" if over and stat.completeness == "incomplete" else last


def _ranges(batches: Sequence[tuple[int, int]]) -> str:
    shown = [(formatting.count(first), formatting.count(last)) for first, last in batches[:_GAPS_SHOWN]]
    ranges = [first if first == last else f"{first}–{last}" for first, last in shown]
    return ", ".join([*ranges, "…"] if len(batches) > _GAPS_SHOWN else ranges)
