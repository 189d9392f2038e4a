"""`telemetry.start` and the Run that it returns."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from msgspec.structs import replace

from telemetry import limits
from telemetry.client import user_warnings
from telemetry.client.catalog import check_text
from telemetry.client.exit_lines import write_exit_lines
from telemetry.client.own_account import with_acknowledged, with_own_account
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS, Process
from telemetry.client.recording import Recording
from telemetry.client.sending.flusher import ProducerEnding
from telemetry.common.programs import stem
from telemetry.config.load import DEFAULT, load
from telemetry.errors import EndpointError, NoRoomError, ProtocolError, TelemetryError, UsageError
from telemetry.supervise.aggregator import AggregatorKeeper
from telemetry.supervise.outcome import await_report, second_best
from telemetry.supervise.run_files import RunFiles
from telemetry.supervise.spawn import dismiss, spawn, variables
from telemetry.supervise.writers import (
    Writers,
    check_kinds,
    said_when_long,
    with_backends,
    with_notifications,
)
from telemetry.transport.client import ControlClient
from telemetry.transport.endpoints import refuses
from telemetry.transport.keeper_lock import keeper_of
from telemetry.transport.subscription import Subscription
from telemetry.wire.control import GetStatus, Status, Stop
from telemetry.wire.report import SOURCE_WORDS, Report
from telemetry.wire.snapshot import PROGRAM_FAILED
from telemetry.wire.upper_modules import provided

if TYPE_CHECKING:
    from telemetry.config import Config

_ASK_AGAIN_S = 1.0
_ASK_AGAIN_MOST_S = 8.0  # each retry waits longer for a slow aggregator, up to this
_REFUSALS = 2
_RECOVERY_AT_LEAST_S = 5.0  # for the journal of a dead aggregator, even if less time to finish is left
_DELIVERY_AT_LEAST_S = 1.0  # for backends, even if less time to finish is left
_NOTEBOOK_S = 1.0  # for the aggregator's answer, before a notebook shows the run without figures
_SHARE_FOR_FLUSH = 0.5  # of the time to finish; the rest is for the aggregator's drain and exact percentiles


class Run(Recording):
    """A run as seen by one process, made by `start`. Any thread may use it.

    Example:
        with telemetry.start("load-test") as run:
            latency = run.series("latency", unit="ms")
            with latency.time():
                search()

    The `with` block calls `finish` at its end, and records an exception that leaves the block as a mark.
    """

    def __init__(self, process: Process, name: str | None, config: Config, writers: Writers) -> None:
        super().__init__(process)
        self._is_named = name is not None
        name = name or process.own_name()
        self.name = name
        """Name of the run. If this process joined a run that was started with a name, that name."""
        self.asked_name = name
        """The name that `start` was given."""
        self.run_id = ""
        self.endpoint = ""
        """Control address of the aggregator. Empty if no aggregator was reached and `required` was False."""
        self.directory = ""
        self._config = config.emit
        self._redact = config.redact
        self._variables_before: dict[str, str | None] = {}
        """Variables of the environment that give the rules for masking to child processes, as they were before."""
        self._early_rule = config.early_stopping.rule
        self._fallback_dirs = config.run.fallback_dirs
        self._texts_s = config.tokens.budget_s if config.tokens.tokenizer else 0.0
        self._writers = writers
        self._delivery_s = config.backends.finish_timeout_s
        self._keeper: AggregatorKeeper | None = None
        self._snapshots: Subscription | None = None
        self._owner_pid = os.getpid()
        self._finishing = threading.RLock()
        self._report: Report | None = None
        self._no_endpoint = "no aggregator was reached"

    def __repr__(self) -> str:
        return f"<Run {self.name!r} {self.run_id or 'without an aggregator'}>"

    def _repr_html_(self) -> str:
        """Return the state, location and newest figures of the run as HTML for a notebook."""
        if not self.endpoint:
            return str(provided("reports").run_html(self, None))
        try:
            report = self._report or self._status(_NOTEBOOK_S)
        except TelemetryError:
            report = None
        return str(provided("reports").run_html(self, report))

    # --- the end ---------------------------------------------------------------------------------

    @property
    def owner(self) -> bool:
        """True in the process that started the aggregator. `finish` of this process ends the run."""
        return self._keeper is not None and self._owner_pid == os.getpid()

    @property
    def report(self) -> Report:
        """The result, once `finish` has returned or the `with` block has ended.

        Example:
            with telemetry.start("load-test") as run:
                ...
            run.report.save("report.html")

        Raises UsageError before that. Use `live_report` for the state so far.
        """
        if self._report is None:
            raise UsageError(
                f"the run {self.name!r} has no result yet",
                hint="call run.finish() first, or run.live_report() for the current state",
            )
        return self._report

    def live_report(self, timeout_s: float | None = None) -> Report:
        """Ask the aggregator for the state so far and return it. Block for at most `timeout_s` seconds, by default
        `emit.start_timeout_s`. Raise EndpointError if there is no answer.

        Example:
            print(run.live_report())
        """
        if not self.endpoint:
            raise EndpointError(f"the run {self.name!r} has no aggregator to query")
        return self._status(self._config.start_timeout_s if timeout_s is None else timeout_s)

    def finish(self, timeout: float | None = None) -> Report:
        """Send everything, wait until the aggregator has it, and return the result.

        Example:
            report = run.finish()
            print(report.completeness)

        In the process that started the aggregator, this ends the run. In other processes the run continues, and the
        result is its state so far.

        It blocks for at most about `timeout` seconds, by default `emit.finish_timeout_s`, plus `tokens.budget_s` if
        tokens are counted. It never raises for an aggregator in trouble: `source` and `source_reason` of the report
        tell where the numbers come from and why. Backends get the rest of that time, at least one second and at
        most `backends.finish_timeout_s`. A warning names what is not delivered by then, and `telemetry export
        --resume` delivers it later. A second call returns the same report.

        In the process that started the aggregator, it prints two lines on stderr: what was recorded, and how to
        open it. `emit.quiet` silences them.
        """
        with self._finishing:
            if self._report is None:
                timeout_s = self._config.finish_timeout_s if timeout is None else timeout
                self._texts_s = self._texts_s if timeout is None else 0.0
                is_owner = self.owner
                report = self._finish(time.monotonic() + timeout_s, timeout_s)
                self._report = replace(report, early_rule=self._early_rule)
                if is_owner and not self._config.quiet:
                    write_exit_lines(self._report)
            return self._report

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not (isinstance(error, SystemExit) and not error.code):
            self._process.note_exception(error)
        self.finish()

    def _finish(self, deadline: float, timeout_s: float) -> Report:
        if not self.endpoint:
            return second_best(self._files, None, self._no_endpoint)
        owner, flusher = self.owner, self._process.flusher
        ending = self._process.finish(timeout_s * _SHARE_FOR_FLUSH if owner else timeout_s)
        try:
            report = self._end_run(deadline) if owner else self._so_far(deadline, ending)
        finally:
            self._let_go()
        report = self._delivered(report, deadline) if owner else report
        if flusher is None or report.source == "status":
            return report
        if owner:
            return with_own_account(report, flusher.outbox.producer, flusher.outbox.emitted)
        return with_acknowledged(report, flusher.hello, flusher.outbox.dropped, ending)

    def _end_run(self, deadline: float) -> Report:
        """End the run as its owner: send stop, then wait for the final snapshot.

        The subscription must be older than the stop.
        """
        keeper, snapshots = self._keeper, self._snapshots
        assert keeper is not None
        assert snapshots is not None
        try:
            keeper.ask(Stop(reason=PROGRAM_FAILED if self._process.failed else "finished"), _left_s(deadline))
        except TelemetryError as error:
            why = f"can't ask the aggregator to stop: {error.message}"
            snapshots.recv(0.0)
            return second_best(keeper.files, snapshots.newest, why)
        left_s = _left_s(deadline) + self._texts_s
        return await_report(snapshots, keeper, left_s, recovery_s=max(_RECOVERY_AT_LEAST_S, left_s))

    def _delivered(self, report: Report, deadline: float) -> Report:
        """End the backends of a finished run and add their outcome to the report."""
        left_s = min(max(_DELIVERY_AT_LEAST_S, deadline - time.monotonic()), self._delivery_s)
        self._writers.end(left_s, report.snapshot.backends, said_when_long(user_warnings.warn, left_s))
        return with_backends(report, self._writers.stats)

    def _so_far(self, deadline: float, ending: ProducerEnding) -> Report:
        if message := ending.in_words():
            user_warnings.warn(message)
        try:
            report = self._status_while_there(deadline, ending)
        except TelemetryError as error:
            why = "; ".join(filter(None, (ending.reason, error.message)))
            return second_best(self._files, None, why, remedy=ending.remedy)
        return Report(snapshot=report.snapshot, source="status", source_reason=ending.reason)

    def _status_while_there(self, deadline: float, ending: ProducerEnding) -> Report:
        """Ask for the state until the deadline, while an aggregator listens or may be restarted.

        Raises EndpointError at once if the run has its result and its address refuses connections. Also raises it
        after two refusals in a row, a second or more apart, if no known process would restart the aggregator.
        """
        asked_s, refusals = _ASK_AGAIN_S, 0
        while True:
            refusals = refusals + 1 if refuses(self.endpoint) else 0
            may_return = keeper_of(self.run_id) > 0 or refusals <= _REFUSALS
            if refusals and (self._files.has_result() or not may_return):
                raise EndpointError(f"the aggregator at {self.endpoint} is gone")
            left_s = _left_s(deadline)
            try:
                return self._status(min(left_s, asked_s))
            except EndpointError:
                if ending.reason or left_s <= asked_s:
                    raise
                asked_s = min(2 * asked_s, _ASK_AGAIN_MOST_S) if not refusals else _ASK_AGAIN_S

    def _status(self, timeout_s: float) -> Report:
        with ControlClient(self.endpoint) as client:
            answer = client.request(GetStatus(), timeout_s)
        if not isinstance(answer, Status):
            raise ProtocolError(f"{self.endpoint} answered status with {type(answer).__name__}")
        return Report(snapshot=answer.snapshot, source="status")

    def _let_go(self) -> None:
        if self.owner:
            if self._keeper is not None:
                self._keeper.release()
            if self._snapshots is not None:
                self._snapshots.close()
            if os.environ.get(ENDPOINT_VARIABLE) == self.endpoint:
                del os.environ[ENDPOINT_VARIABLE]
                for name, text in self._variables_before.items():
                    os.environ.pop(name, None)
                    os.environ |= {name: text} if text is not None else {}
            self._process.finish_hook = None

    # --- the beginning ---------------------------------------------------------------------------

    def _attach(self, endpoint: str) -> None:
        """Attach to an aggregator. Raise EndpointError or ProtocolError if it can't be reached or refuses."""
        flusher = self._process.join(
            endpoint, self.name, self._config, names_run=self._is_named, redact=self._redact
        )
        try:
            welcome = flusher.wait_for_welcome(self._config.start_timeout_s)
        except NoRoomError as error:
            user_warnings.warn(f"nothing is recorded: {error}")
            self._no_endpoint = f"this process could not join the run: {error.message}"
            return
        except TelemetryError:
            self._process.detach()
            raise
        self.endpoint = endpoint
        self.name, self.run_id, self.directory = welcome.name, welcome.run_id, welcome.directory

    def _spawn(self, flags: Mapping[str, object]) -> None:
        """Start an aggregator and attach to it. Raise the error it reports, or EndpointError."""
        aggregator = spawn(
            self.name if self._is_named else stem(self.name),
            flags,
            owner_pid=os.getpid(),
            timeout_s=self._config.start_timeout_s,
            backends=self._writers.expected,
        )
        keeper = None
        try:
            keeper = AggregatorKeeper(aggregator, RunFiles.of(aggregator, self._fallback_dirs), user_warnings.warn)
            self._snapshots = Subscription(aggregator.snapshots)
            self._attach(aggregator.endpoint)
        except BaseException:
            if keeper is not None:
                keeper.release()
            dismiss(aggregator.process)
            raise
        self._keeper = keeper
        os.environ[ENDPOINT_VARIABLE] = aggregator.endpoint
        rules = variables({key: value for key, value in flags.items() if key.startswith("redact.")})
        self._variables_before = {name: os.environ.get(name) for name in rules}
        os.environ |= rules
        self._process.finish_hook = self._finish_at_exit
        self._writers.begin(aggregator.endpoint, self.directory)

    def _finish_at_exit(self) -> None:
        report = self.finish()
        if report.source_reason:
            user_warnings.warn(f"the result is from {SOURCE_WORDS[report.source]}: {report.source_reason}")

    @property
    def finished(self) -> bool:
        return self._report is not None

    @property
    def _files(self) -> RunFiles:
        return RunFiles(self.directory, self.run_id, self.name)


class _Starter:
    """Holder of the run of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.run: Run | None = None

    def after_fork_in_child(self) -> None:
        self.lock = threading.Lock()
        if self.run is not None:
            self.run._finishing = threading.RLock()


_STARTER = _Starter()


def start(
    name: str | None = None,
    *,
    dir: str | os.PathLike[str] | None = None,
    required: bool = True,
    policy: Literal["drop", "block"] | None = None,
    refresh_hz: float | None = None,
    flush_ms: float | None = None,
    buffer_events: int | None = None,
    block_timeout_s: float | None = None,
    start_timeout_s: float | None = None,
    finish_timeout_s: float | None = None,
    journal: bool | None = None,
    to: str | Sequence[str] | None = None,
    quiet: bool | None = None,
    redact_personal: bool | None = None,
    redact_patterns: Sequence[str] | None = None,
) -> Run:
    """Start the run of this process, or join the run of TELEMETRY_ENDPOINT, and return it.

    Example:
        with telemetry.start("load-test", to="tensorboard") as run:
            ...

    The first call starts the run; later calls return the same one until it is finished. With TELEMETRY_ENDPOINT in
    the environment, the process joins that aggregator, and `name` is the name of this producer. Otherwise the call
    starts an aggregator, which writes its result under `dir`, and sets TELEMETRY_ENDPOINT for child processes. Then
    `name` is the name of the run.

    A folder of runs that can't be written raises RunDirectoryError if `dir` or a setting names it. The default
    folder, `runs`, is replaced by a new temporary folder then, and a warning says so.

    The other arguments override the settings of the same names. `dir`, `refresh_hz`, `journal` and `to` apply only
    to an aggregator that is started here. `to` names the backends that get the run, each as in `telemetry run
    --to`, such as "tensorboard" or "wandb:project=mine". Each backend runs in its own process. A backend that can't
    start is reported, and the run continues. An unknown backend raises UsageError. `quiet` leaves out the two lines
    that the end of the run prints. `redact_personal` masks e-mail addresses and card numbers, and `redact_patterns`
    what these patterns match, each `NAME=REGEX`; secrets are masked anyway.

    Raises EndpointError, after at most `start_timeout_s`, if no aggregator answers. With `required=False` it warns
    instead, and instruments discard their values. Raises UsageError for a wrong argument.
    """
    if name is not None:
        check_text("the name of a run", name, limits.NAME_CHARS)
    flags = {
        "run.dir": None if dir is None else os.fspath(dir),
        "run.refresh_hz": refresh_hz,
        "journal.enabled": journal,
        "emit.policy": policy,
        "emit.flush_ms": flush_ms,
        "emit.buffer_events": buffer_events,
        "emit.block_timeout_s": block_timeout_s,
        "emit.start_timeout_s": start_timeout_s,
        "emit.finish_timeout_s": finish_timeout_s,
        "emit.quiet": quiet,
        "redact.personal": redact_personal,
        "redact.patterns": None if redact_patterns is None else list(redact_patterns),
    }
    with _STARTER.lock:
        if _STARTER.run is not None and not _STARTER.run.finished:
            _warn_of_other_name(_STARTER.run, name)
            return _STARTER.run
        config, origins = load(flags, origin="argument of start()")
        backends = config.backends.to if to is None else [to] if isinstance(to, str) else to
        backends = with_notifications(backends, config.notify.urls)
        if not os.environ.get(ENDPOINT_VARIABLE):  # a process that joins a run uses no backends and may lack them
            check_kinds(backends)
            if origins["run.dir"] == DEFAULT:
                flags["run.dir"] = _instead_of(config.run.dir)
        writers = Writers(backends, user_warnings.warn)
        PROCESS.reopen()
        _STARTER.run = _started(Run(PROCESS, name, config, writers), flags, required)
        return _STARTER.run


def _instead_of(folder: str) -> str | None:
    """Return a new folder for runs if this one can't be written, and warn. None without need, or without one."""
    path = Path(folder).absolute()
    if os.access(path if path.exists() else path.parent, os.W_OK | os.X_OK):
        return None
    import tempfile

    try:
        other = tempfile.mkdtemp(prefix="telemetry-runs-")
    except OSError:
        return None
    user_warnings.warn(
        f"can't write to {path}, so this run is in {other}: choose a folder with TELEMETRY_RUN__DIR or start(dir=…)"
    )
    return other


def _warn_of_other_name(run: Run, name: str | None) -> None:
    """Warn if `start` returns an open run whose name differs from the requested name.

    A forked child shares the run of its parent and may use any name.
    """
    if name is not None and run._owner_pid == os.getpid() and name not in (run.name, run.asked_name):
        user_warnings.warn(
            f"start({name!r}) returned the run {run.asked_name!r}, which is still open: call "
            "finish() on it before starting another"
        )


def _started(run: Run, flags: Mapping[str, object], required: bool) -> Run:
    endpoint = os.environ.get(ENDPOINT_VARIABLE, "")
    try:
        if endpoint:
            run._attach(endpoint)
        else:
            run._spawn(flags)
    except UsageError:
        raise
    except TelemetryError as error:
        if required:
            raise
        user_warnings.warn(f"nothing is recorded: {error}")
    return run


def _left_s(deadline: float) -> float:
    return max(0.1, deadline - time.monotonic())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_STARTER.after_fork_in_child)
