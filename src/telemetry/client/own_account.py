"""The account of this producer, added to a report whose data ends before the producer did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from telemetry.client.sending.flusher import ProducerEnding
from telemetry.common.formatting import number_of
from telemetry.wire.control import Hello
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.report import Report
from telemetry.wire.snapshot import Accounting, ProducerStat

_UNSENT: Final = Reason.UNSENT_AT_EXIT.value


def with_own_account(report: Report, producer: str, emitted: int) -> Report:
    """Add the events that this producer emitted after the data of the report ended, and count them as missing.

    This concerns reports from the journal and from the last live snapshot.
    """
    if report.source not in ("last_live", "journal"):
        return report
    snapshot = report.snapshot
    snapshot_count = next((stat.emitted for stat in snapshot.producers if stat.producer == producer), 0)
    unheard = max(0, emitted - snapshot_count)
    account = snapshot.accounting
    account = replace(account, emitted=account.emitted + unheard, missing=account.missing + unheard)
    producers = [
        replace(stat, emitted=emitted, missing=stat.missing + unheard) if stat.producer == producer else stat
        for stat in snapshot.producers
    ]
    return replace(report, snapshot=replace(snapshot, accounting=account, producers=producers))


def with_acknowledged(report: Report, hello: Hello, dropped: Mapping[str, int], ending: ProducerEnding) -> Report:
    """Add this producer's account to a report that has no producers.

    When the aggregator does not answer, the producer still knows which of its events were acknowledged: these are
    in the numbers of the run. Events without acknowledgement become a warning, because their fate is unknown. A
    report that has numbers of other producers is returned unchanged.
    """
    if report.source != "last_live" or report.snapshot.producers or report.snapshot.nodes:
        return report
    taken, lost = ending.taken, {reason: count for reason, count in dropped.items() if reason != _UNSENT}
    emitted = taken + sum(lost.values())
    own = ProducerStat(
        producer=hello.producer,
        name=hello.name,
        host=hello.host,
        pid=hello.pid,
        rank=hello.rank,
        emitted=emitted,
        received=taken,
        applied=taken,
        dropped_by_producer=lost,
    )
    account = Accounting(emitted=emitted, received=taken, applied=taken, dropped_by_producer=lost)
    warnings = []
    if ending.unacknowledged:
        events = number_of(ending.unacknowledged, "event of this program was", "events of this program were")
        warnings = [f"{events} not acknowledged and may be lost"]
    snapshot = replace(report.snapshot, accounting=account, producers=[own], warnings=warnings)
    return replace(report, snapshot=snapshot)
