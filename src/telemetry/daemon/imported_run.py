"""A run made from the results of another tool: they are recorded again, on a clock that shows their own times.

    columns → events in order of time → recorders → batches → write-ahead log → history, logs, exact pass → result

The run directory is the same as that of a live run, and so is each step on the way.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator import Aggregator
from telemetry.client.process import Process
from telemetry.client.producer_parts import make_outbox
from telemetry.client.recorders import Record
from telemetry.client.recording import Recording
from telemetry.client.requests.request import Request
from telemetry.common.formatting import duration_s, printable
from telemetry.common.memory import keep_small
from telemetry.compat.importers.results import UNKNOWN, RequestColumns, Results, ValueColumns
from telemetry.config.schema import Config
from telemetry.daemon.cost import rss_bytes
from telemetry.daemon.exact_percentiles import Refiner
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.recovery.recover import OnProgress
from telemetry.daemon.run_opening import aggregator_config, open_history, open_journal
from telemetry.daemon.run_status import RunStatus
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.errors import UsageError
from telemetry.store.final_snapshot import write_final
from telemetry.store.imported_file import write_imported
from telemetry.store.records import RecordLog
from telemetry.store.request_log import RequestLogWriter
from telemetry.store.run_directory import RunDirectory, manifest_for
from telemetry.wire.codec import carriable
from telemetry.wire.control import End, Hello
from telemetry.wire.events import StreamRecord
from telemetry.wire.imported import ImportedFile, StatedFigure
from telemetry.wire.journal import Ending, RunState
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot, SelfCost
from telemetry.wire.version import PROTOCOL

_SECOND_NS: Final = 1_000_000_000
_TICK_NS: Final = _SECOND_NS // 10
_ORIGIN_NS: Final = 1_000 * _SECOND_NS
"""Start of the run on the monotonic clock, as of a machine that was started a while before."""
_LONGEST_NS: Final = 31 * 86_400 * _SECOND_NS
_LATEST_NS: Final = 1 << 62
_PACKED_ROWS: Final = limits.BATCH_EVENTS // 2
_AT_ONCE: Final = 65_536  # events as Python objects
_LOOK_EVERY_S: Final = 0.1
_NS_PER_MS: Final = 1e6
_SEVERAL: Final = 2

Recompute = Callable[[MetricsSnapshot, RunDirectory], Sequence[StatedFigure]]
Integers = NDArray[np.int64]


class _PlayedClock:
    """A clock that shows the time of the event that is recorded."""

    def __init__(self, started_wall_ns: int) -> None:
        self.now_ns = _ORIGIN_NS
        self._offset_ns = started_wall_ns - _ORIGIN_NS

    def monotonic_ns(self) -> int:
        return self.now_ns

    def wall_ns(self) -> int:
        return self.now_ns + self._offset_ns


def import_results(
    results: Results,
    origin: ImportedFile,
    config: Config,
    *,
    name: str,
    run_id: str,
    written_ns: int,
    argv: Sequence[str],
    recompute: Recompute,
    on_progress: OnProgress = lambda *_: None,
) -> Report:
    """Make a run directory from results and return its report.

    `written_ns` is the time at which the file was written, for a file without a time of day. `recompute` returns
    the figures that the tool states, with ours beside them. Raises UsageError for times that can't be those of
    one run, RunDirectoryError if the directory can't be written.
    """
    keep_small()
    start_ns, end_ns = results.time_range()
    if end_ns - start_ns > _LONGEST_NS:
        raise UsageError(
            f"the times in {printable(origin.file)} are {duration_s((end_ns - start_ns) / _SECOND_NS)} apart",
            hint=f"a run takes {duration_s(_LONGEST_NS / _SECOND_NS)} at most: split the file or correct its times",
        )
    if results.started_ns is not None:
        started_wall_ns = results.started_ns + start_ns
    else:
        started_wall_ns = start_ns if results.is_dated else written_ns - (end_ns - start_ns)
    started_wall_ns = min(max(0, started_wall_ns), _LATEST_NS)
    directory = RunDirectory.create(Path(config.run.dir), name, run_id, started_wall_ns)
    run = RunState(
        run_id=run_id,
        name=name,
        started_ns=started_wall_ns,
        started_mono_ns=_ORIGIN_NS,
        rolled_wall_ns=started_wall_ns,
        rolled_mono_ns=_ORIGIN_NS,
    )
    with ExitStack() as undo:
        undo.callback(directory.remove)
        lock = directory.lock()
        undo.callback(lock.release)
        directory.write_manifest(manifest_for(directory, name, run_id, argv, ""))
        player = _Player(results, config, directory, run, origin)
        undo.callback(player.let_go)
        player.play(start_ns, end_ns, on_progress)
        snapshot = player.conclude(on_progress)
        if origin.stated:
            origin = replace(origin, stated=list(recompute(snapshot, directory)))
        write_imported(directory, origin)
        write_final(snapshot, [directory.final])
        undo.pop_all()
        player.let_go()
        lock.release()
    return Report(snapshot=snapshot, source="file", imported=origin)


class _Player:
    """The recording of results into a new run directory."""

    def __init__(
        self, results: Results, config: Config, directory: RunDirectory, run: RunState, origin: ImportedFile
    ) -> None:
        self._results = results
        self._origin = origin
        self._directory = directory
        self._clock = _PlayedClock(run.started_ns)
        self._numbers = Numbers(Aggregator(aggregator_config(config)), run)
        self._journal = open_journal(config, directory, self._numbers, _ORIGIN_NS)
        self._history = open_history(config, directory)
        self._records = RecordLog(directory.records)
        self._requests = RequestLogWriter(directory.requests)
        self._log = WriteAheadLog(self._numbers, self._journal, self._clock, _ORIGIN_NS)
        self._producer = os.urandom(8).hex()
        self._process = Process()
        memory = self._process.recorders.memory
        memory.open(self._producer, config.emit.buffer_events, self._process.catalog.definitions)
        self._outbox = make_outbox(
            self._producer, config.emit, self._process.recorders, self._process.catalog, self._clock
        )
        self._process.record_offline(self._outbox, config.emit)
        self._recording = Recording(self._process)
        self._log.hello(Hello(producer=self._producer, name=origin.tool))
        self._next_tick_ns = _ORIGIN_NS + _TICK_NS
        self._shift_ns = 0
        """Difference from the times of the results to those of the played clock."""

    def let_go(self) -> None:
        """Close all files, in any state."""
        self._process.recorders.memory.remove()
        self._journal.close()
        if self._history is not None:
            self._history.close()
        self._records.close()
        self._requests.close()

    # --- the events ------------------------------------------------------------------------------

    def play(self, start_ns: int, end_ns: int, on_progress: OnProgress) -> None:
        """Record all events at their times."""
        self._shift_ns = _ORIGIN_NS - start_ns
        if self._results.params:
            self._recording.params(self._results.params, at_ns=_ORIGIN_NS)
        actions, times, numbers, rows = self._events()
        total, buffer = max(1, times.size), self._process.recorders.buffer
        for first in range(0, times.size, _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            for at_ns, number, row in zip(
                times[part].tolist(), numbers[part].tolist(), rows[part].tolist(), strict=True
            ):
                if at_ns >= self._next_tick_ns:
                    self._move_to(at_ns)
                self._clock.now_ns = at_ns
                actions[number](at_ns, row)
                if buffer.waiting >= _PACKED_ROWS:
                    self._pack()
            self._pack()
            on_progress("importing", first / total)
        self._move_to(end_ns + self._shift_ns)
        self._clock.now_ns = max(self._clock.now_ns, end_ns + self._shift_ns)

    def _events(self) -> tuple[list[Callable[[int, int], object]], Integers, Integers, Integers]:
        """Return what each source of events does, and for all events in order: time, source, and row in it."""
        actions: list[Callable[[int, int], object]] = []
        times: list[Integers] = []
        for requests in self._results.requests.values():
            issue, end = _request_actions(self._recording, requests, self._shift_ns)
            actions += [issue, end]
            times += [np.frombuffer(requests.starts, np.int64), np.frombuffer(requests.ends, np.int64)]
        for values in self._results.instruments.values():
            actions.append(_value_action(self._recording, values))
            times.append(np.frombuffer(values.times, np.int64))
        marks = self._results.marks
        actions.append(lambda at_ns, row: self._recording.mark(marks[row][1], at_ns=at_ns))
        times.append(np.array([at_ns for at_ns, _ in marks], np.int64))
        sizes = [part.size for part in times]
        numbers = np.repeat(np.arange(len(sizes)), sizes)
        rows = np.concatenate([np.arange(size) for size in sizes])
        all_times = np.concatenate(times) + self._shift_ns
        order = np.argsort(all_times, kind="stable")  # stable: a request starts before it ends
        return actions, all_times[order], numbers[order], rows[order]

    def _move_to(self, at_ns: int) -> None:
        """End all slices and seconds of the history before a time."""
        run, aggregator = self._numbers.run, self._numbers.aggregator
        while self._next_tick_ns <= at_ns:
            self._clock.now_ns = self._next_tick_ns
            self._pack()
            self._log.renew(())
            run = self._numbers.run
            if (self._next_tick_ns - _ORIGIN_NS) % _SECOND_NS == 0:
                self._roll()
            elif (
                self._history is not None
                and run.slices < limits.SLICES
                and aggregator.book.counted_events
                and aggregator.instruments <= limits.SLICED_INSTRUMENTS
            ):
                self._log.slice()
                self._history.append_slices(self._log.take_slices())
            self._next_tick_ns += _TICK_NS

    def _pack(self) -> None:
        """Apply all events that are recorded."""
        while self._process.kinds.log.flush() or not self._outbox.empty:
            self._outbox.settle()
            if (packed := self._outbox.pack()) is not None:
                self._keep(self._log.turn([bytes(packed.frame)]))
                self._outbox.announcer.acknowledged(packed.seq + 1)

    def _keep(self, streamed: Sequence[Any]) -> None:
        """Write records and ended requests to their files."""
        run_id, following = self._numbers.run.run_id, self._records.next_seq
        self._records.append(
            [
                StreamRecord(PROTOCOL, run_id, seq, item.producer, item.wall_ns, item.record)
                for seq, item in enumerate(streamed, following)
            ]
        )
        self._requests.append(*self._log.take_logged())

    def _roll(self) -> None:
        number = self._numbers.run.rolls
        interval = self._log.roll(0)
        self._keep(self._log.take_streamed())
        if self._history is not None:
            self._history.append(interval, self._numbers.aggregator.keys(), number, self._log.take_slices())

    # --- the end ---------------------------------------------------------------------------------

    def conclude(self, on_progress: OnProgress) -> MetricsSnapshot:
        """Close the books, compute exact percentiles and write the result."""
        self._process.kinds.close()
        self._pack()
        outbox = self._outbox
        self._log.end(
            End(
                producer=self._producer,
                batches=outbox.next_seq,
                emitted=outbox.emitted,
                dropped=outbox.dropped,
            )
        )
        interrupted, origin = self._results.is_interrupted, self._origin
        self._log.ending(
            Ending(reason=f"imported from {origin.tool}, {os.path.basename(origin.file)}", interrupted=interrupted)
        )
        self._roll()
        self._log.close()
        self._keep(self._log.take_streamed())
        self._journal.sync()
        self._journal.close()
        if self._history is not None:
            self._history.close()
        numbers = self._numbers
        run_status = RunStatus.of(numbers.run, epoch="", directory=carriable(str(self._directory.path)))
        run_status.lifecycle.to("DRAINING")
        run_status.lifecycle.to("INTERRUPTED" if interrupted else "COMPLETE")
        self._refine(run_status, on_progress)
        files = {"history": self._history, "record log": self._records, "request log": self._requests}
        run_status.warn(
            f"can't write the {what}: {file.failed}" for what, file in files.items() if file and file.failed
        )
        now_ns = self._clock.now_ns
        cost = SelfCost(
            rss_bytes=rss_bytes(),
            frames=numbers.frames,
            frame_bytes=numbers.frame_bytes,
            journal_bytes=self._journal.bytes_written,
            history_bytes=self._history.bytes_written if self._history is not None else 0,
            series=len(numbers.aggregator.series),
            pages=numbers.aggregator.series.pages,
        )
        self._requests.close()
        return numbers.aggregator.snapshot(run_status.facts(now_ns, cost), now_ns, numbers.wall_ns(now_ns))

    def _refine(self, run_status: RunStatus, on_progress: OnProgress) -> None:
        over = threading.Event()
        refiner = Refiner(self._numbers.aggregator, self._directory.journal, math.inf, over.set)
        while not over.wait(_LOOK_EVERY_S):
            on_progress("computing exact percentiles", math.nan)
        refinement = refiner.outcome
        assert refinement is not None
        self._numbers.aggregator.series.apply_exact(refinement.values)
        run_status.exact, run_status.exact_reason = refinement.exact, refinement.reason
        run_status.warn(refinement.warnings)


def _request_actions(
    recording: Recording, requests: RequestColumns, shift_ns: int
) -> tuple[Callable[[int, int], object], Callable[[int, int], object]]:
    """Return what records the issue and the end of a request by its row."""
    kind = recording.requests(requests.name, slo=requests.slo)
    series = [recording.series(f"{requests.name}.{name}", unit).record for name, unit in requests.figures.items()]
    parts = (
        [] if len(requests.parts) < _SEVERAL else [_part(recording, requests.name, part) for part in requests.parts]
    )
    of_parts, untimed = requests.of_parts, requests.untimed
    values, width = requests.values, len(series)
    in_flight: dict[int, Request] = {}
    starts, firsts, failures, reasons = requests.starts, requests.firsts, requests.failures, [*requests.reasons]
    input_tokens, output_tokens = requests.input_tokens, requests.output_tokens
    chunks, chunk_ends = requests.chunks, requests.chunk_ends

    def issue(at_ns: int, row: int) -> None:
        tokens = input_tokens[row]
        in_flight[row] = kind.issue(at_ns=at_ns, input_tokens=None if tokens == UNKNOWN else tokens)

    def end(at_ns: int, row: int) -> None:
        request, first_ns, failure = in_flight.pop(row), firsts[row], failures[row]
        if row in untimed:
            request.fail_untimed(reasons[failure], at_ns)
            return
        if parts:
            parts[of_parts[row]]((at_ns - starts[row] - shift_ns) / _NS_PER_MS, at_ns)
        for record, value in zip(series, values[row * width : (row + 1) * width], strict=True):
            if value == value:  # noqa: PLR0124 – not NaN
                record(value, at_ns)
        if first_ns != UNKNOWN:
            token = None if output_tokens[row] == UNKNOWN else 1
            request.first(token, at_ns=first_ns + shift_ns)
            for chunk_ns in chunks[chunk_ends[row - 1] if row else 0 : chunk_ends[row]]:
                request.chunk(token, at_ns=chunk_ns + shift_ns)
        if failure != UNKNOWN:
            request.fail(reasons[failure], at_ns=at_ns)
        else:
            tokens = output_tokens[row]
            request.complete(None if tokens == UNKNOWN else tokens, at_ns=at_ns)

    return issue, end


def _part(recording: Recording, kind: str, part: str) -> Record:
    """Return what records the durations of a part of the load. Those of failed requests count as well."""
    return recording.series(f"{kind}.duration", "ms", labels={"name": part}).record


def _value_action(recording: Recording, of: ValueColumns) -> Callable[[int, int], object]:
    """Return what records a value by its row."""
    values = of.values
    if of.kind == "counter":
        add = recording.counter(of.name, of.unit, labels=of.labels).add
        return lambda at_ns, row: add(values[row], at_ns)
    instrument = recording.series if of.kind == "series" else recording.gauge
    made: Any = instrument(of.name, of.unit, labels=of.labels)
    record = made.record if of.kind == "series" else made.set
    return lambda at_ns, row: record(values[row], at_ns)
