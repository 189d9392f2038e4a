"""Producers that still record when the wrapped command has ended: workers that it started and did not wait for."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final, NamedTuple

from telemetry import limits
from telemetry.errors import TelemetryError
from telemetry.formatting import listed, number_of, process
from telemetry.store.live_runs import process_lives
from telemetry.transport.client import ControlClient
from telemetry.wire.control import TOKEN_COUNTER, GetStatus, Status
from telemetry.wire.snapshot import MetricsSnapshot, ProducerStat

if TYPE_CHECKING:
    from telemetry.supervise.aggregator import AggregatorKeeper

_LOOK_S: Final = 0.1
_ANSWER_S: Final = 1.0
_SAY_AFTER_S: Final = 0.3  # most workers end together with the command, and are not worth a line
_SILENT_NS: Final = 1_500_000_000  # a living producer is heard of once a second
_NAMED: Final = 5


class OpenWorkers(NamedTuple):
    """Producers of a run that have not ended and still may."""

    recording: list[ProducerStat]
    vanished: list[ProducerStat]
    """Their process is not here any more, and they were heard of a moment ago: a last word may be on its way, or
    their host's process ids are not ours."""


def await_workers(
    keeper: AggregatorKeeper, grace_s: float, say: Callable[[str], object], *, besides: Collection[int] = ()
) -> None:
    """Wait until all producers of the run have ended, for `grace_s` at most, also for those that come meanwhile.

    `besides` are processes that nobody waits for. `say` is told once who is waited for. Returns at once when the
    run is over or its aggregator is gone.
    """
    began_s = time.monotonic()
    said = False
    with ControlClient(keeper.aggregator.endpoint) as client:
        while not keeper.deserted:
            snapshot = _ask(client)
            waited_s = time.monotonic() - began_s
            if snapshot is not None:
                workers = open_workers(snapshot, besides)
                if snapshot.state not in ("INITIALIZE", "LIVE") or not any(workers):
                    return
                if workers.recording and not said and waited_s >= min(_SAY_AFTER_S, grace_s / 2):
                    said = True
                    say(_waiting_for(workers.recording, grace_s))
            if waited_s >= grace_s:
                return
            time.sleep(min(_LOOK_S, grace_s - waited_s))


def open_workers(snapshot: MetricsSnapshot, besides: Collection[int] = ()) -> OpenWorkers:
    """Return the producers that are worth waiting for.

    A producer that never said hello will not say when it ends. A producer of this host whose process is gone has
    ended without a word, once nothing was heard of it for a while.
    """
    found = OpenWorkers([], [])
    here = os.uname().nodename[: limits.NAME_CHARS]
    for stat in snapshot.producers:
        ended = stat.status in ("ended", "lost") or stat.completeness == "unknown"
        if ended or stat.producer == TOKEN_COUNTER or stat.pid in besides:
            continue
        if stat.host != here or not stat.pid or process_lives(stat.pid):
            found.recording.append(stat)
        elif snapshot.time_ns - stat.last_seen_ns <= _SILENT_NS:
            found.vanished.append(stat)
    return found


def _ask(client: ControlClient) -> MetricsSnapshot | None:
    """Return what is in the numbers now; None if the aggregator is silent, as one is that is being restarted."""
    try:
        answer = client.request(GetStatus(), _ANSWER_S)
    except TelemetryError:
        return None
    return answer.snapshot if isinstance(answer, Status) else None


def _waiting_for(workers: list[ProducerStat], grace_s: float) -> str:
    several_hosts = len({stat.host for stat in workers}) > 1
    names = [process(one.name or one.producer, one.pid, one.host if several_hosts else "") for one in workers]
    who = number_of(len(workers), "worker that is", "workers that are")
    return f"waiting up to {grace_s:g} s for {who} still recording: {listed(names, _NAMED)}"
