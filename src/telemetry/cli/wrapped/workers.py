"""Producers that still record after the wrapped command has ended: workers that it started and did not wait for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final, NamedTuple

from telemetry import limits
from telemetry.common.formatting import listed, number_of, process
from telemetry.errors import TelemetryError
from telemetry.store.processes import process_lives
from telemetry.transport.client import ControlClient
from telemetry.wire.control import TOKEN_COUNTER, GetStatus, Status
from telemetry.wire.snapshot import MetricsSnapshot, ProducerStat

if TYPE_CHECKING:
    from telemetry.supervise.aggregator import AggregatorKeeper

_LOOK_S: Final = 0.1
_ANSWER_S: Final = 1.0
_SAY_AFTER_S: Final = 0.3  # most workers end together with the command and are not worth a message
_SILENT_NS: Final = 1_500_000_000  # a living producer reports once a second
_NAMED: Final = 5


class OpenWorkers(NamedTuple):
    """Producers of a run that have not ended and still may."""

    recording: list[ProducerStat]
    vanished: list[ProducerStat]
    """Producers whose process is gone from this host, but that reported a moment ago.

    Their last message may still be on its way, or their host uses other process ids than this one.
    """


def await_workers(
    keeper: AggregatorKeeper, grace_s: float, say: Callable[[str], object], *, besides: Collection[int] = ()
) -> None:
    """Wait until all producers of the run have ended, including new ones, for at most `grace_s`.

    `besides` are processes to ignore. `say` is called once with the names of the workers. Returns at once when the
    run is over or its aggregator is gone.
    """
    began_s = time.monotonic()
    is_reported = False
    with ControlClient(keeper.aggregator.endpoint) as client:
        while not keeper.deserted:
            snapshot = _ask(client)
            waited_s = time.monotonic() - began_s
            if snapshot is not None:
                workers = open_workers(snapshot, besides)
                if snapshot.state not in ("INITIALIZE", "LIVE") or not any(workers):
                    return
                if workers.recording and not is_reported and waited_s >= min(_SAY_AFTER_S, grace_s / 2):
                    is_reported = True
                    say(_waiting_for(workers.recording, grace_s))
            if waited_s >= grace_s:
                return
            time.sleep(min(_LOOK_S, grace_s - waited_s))


def open_workers(snapshot: MetricsSnapshot, besides: Collection[int] = ()) -> OpenWorkers:
    """Return the producers that are worth waiting for.

    A producer that never sent hello will not report its end. A producer of this host whose process is gone counts
    as ended once it has been silent for a while.
    """
    workers = OpenWorkers([], [])
    here = os.uname().nodename[: limits.NAME_CHARS]
    for stat in snapshot.producers:
        ended = stat.status in ("ended", "lost") or stat.completeness == "unknown"
        if ended or stat.producer == TOKEN_COUNTER or stat.is_collector or stat.pid in besides:
            continue
        if stat.host != here or not stat.pid or process_lives(stat.pid):
            workers.recording.append(stat)
        elif snapshot.time_ns - stat.last_seen_ns <= _SILENT_NS:
            workers.vanished.append(stat)
    return workers


def _ask(client: ControlClient) -> MetricsSnapshot | None:
    """Return the aggregator's snapshot, or None if the aggregator is silent, for example during a restart."""
    try:
        answer = client.request(GetStatus(), _ANSWER_S)
    except TelemetryError:
        return None
    return answer.snapshot if isinstance(answer, Status) else None


def _waiting_for(workers: list[ProducerStat], grace_s: float) -> str:
    several_hosts = len({stat.host for stat in workers}) > 1
    names = [
        process(worker.name or worker.producer, worker.pid, worker.host if several_hosts else "")
        for worker in workers
    ]
    who = number_of(len(workers), "worker")
    return f"waiting up to {grace_s:g} s for {who} still recording: {listed(names, _NAMED)}"
