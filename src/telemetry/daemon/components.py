"""Components of the aggregator process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from telemetry.aggregator import Aggregator
from telemetry.common.clock import Clock
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.options import DaemonOptions
from telemetry.daemon.process_watch import ProcessWatch
from telemetry.daemon.signal_pipe import SignalPipe
from telemetry.daemon.tokens.pool import TokenCounter
from telemetry.daemon.worker_thread import Worker
from telemetry.store.history import HistoryWriter
from telemetry.store.journal import JournalWriter
from telemetry.store.records import RecordLog
from telemetry.store.request_log import RequestLogWriter
from telemetry.store.run_directory import RunDirectory
from telemetry.transport.hub import Hub


@dataclass(frozen=True)
class DaemonParts:
    """Components of the aggregator, assembled by `telemetry.daemon.build` and used by the loop and its helpers."""

    options: DaemonOptions
    clock: Clock
    hub: Hub
    numbers: Numbers
    directory: RunDirectory
    let_go: Callable[[], None]
    """Function that releases the run directory."""
    journal: JournalWriter | None
    history: HistoryWriter | None
    records: RecordLog
    requests: RequestLogWriter
    worker: Worker
    process_watch: ProcessWatch
    signals: SignalPipe | None
    host: str
    counter: TokenCounter | None = None
    """Counter of tokens, if a tokenizer is set."""

    @property
    def aggregator(self) -> Aggregator:
        return self.numbers.aggregator
