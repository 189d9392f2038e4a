"""Backend writers of a run: each is a `telemetry export --writer` process that is restarted if it dies.

A writer keeps all its state in its folder of the run directory. So a failure delays only this writer: its successor
continues where it stopped.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Final, Self

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from telemetry import limits
from telemetry.common.files import read_file
from telemetry.common.formatting import printable
from telemetry.common.wording import shortfall
from telemetry.config.plugins.backends import BUILT_IN
from telemetry.errors import EndpointError, TelemetryError, UsageError
from telemetry.supervise.child import Child, ChildPolicy
from telemetry.supervise.spawn import environment, telemetry_command, working_directory
from telemetry.transport.client import ControlClient
from telemetry.transport.endpoints import refuses
from telemetry.wire.codec import BAD_INPUT
from telemetry.wire.control import TellBackend
from telemetry.wire.exit_codes import Exit
from telemetry.wire.report import Report
from telemetry.wire.snapshot import BACKEND_ENDED, BackendStat, BackendState

MANNER: Final = ChildPolicy(
    "writer",
    restart_codes=frozenset({Exit.ERROR}),
    told_codes=frozenset({Exit.USAGE, Exit.BACKEND_FAILED}),
    pause_s=limits.RESTART_PAUSE_S,
    lasts_s=limits.RESTART_LASTS_S,
)
_LAST_WORDS_S: Final = 2.0  # for the batch that is being written, and a checkpoint
_TELL_S: Final = 1.0
_TELL_AGAIN_S: Final = 0.2
_UNTOLD_S: Final = 1.9  # of waiting before a message; checked after each `_TELL_S`
_OPTIONS: Final = re.compile(r"(?:\\.|[^\\,])+|\\", re.DOTALL)
_ENDED: Final[dict[int | None, BackendState]] = {Exit.OK: "done", Exit.USAGE: "failed"}

NOTIFY: Final = "notify"
"""Kind of the backend that sends notifications."""

Command = Callable[[str, str, str, float | None], list[str]]
NO_VARIABLES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType({})


def writer_command(to: str, endpoint: str, directory: str, every_s: float | None) -> list[str]:
    """Return the command that starts the writer of one `--to` text for the run at `endpoint`."""
    every = [] if every_s is None else ["--every", repr(every_s)]
    arguments = ["export", directory, "--writer", "--to", to, "--endpoint", endpoint, *every]
    return [*telemetry_command(), *arguments]


def name_of(to: str) -> str:
    """Return the name of a writer: the option `as` of its `--to` text, else the kind of backend."""
    kind, _, options = to.partition(":")
    for option in _OPTIONS.findall(options):
        key, _, value = option.partition("=")
        if key.strip() == "as":
            return re.sub(r"\\([\\,])", r"\1", value)
    return kind


def kind_of(to: str) -> str:
    """Return the kind of backend of a `--to` text."""
    return to.partition(":")[0]


def with_notifications(to: Sequence[str], urls: Sequence[str], *, gates: bool = False) -> list[str]:
    """Return the `--to` texts, with one for notifications if they have receivers. `gates`: the run has gates."""
    every = [*to, *([NOTIFY] if urls and NOTIFY not in map(kind_of, to) else [])]
    if not gates:
        return every
    return [
        f"{text}{',' if ':' in text else ':'}gates=true"
        if kind_of(text) == NOTIFY and "gates=" not in text
        else text
        for text in every
    ]


def check_kinds(to: Sequence[str]) -> None:
    """Raise UsageError for an unknown backend. Each writer checks its own options."""
    kinds = [text.partition(":")[0] for text in to]
    if BUILT_IN.keys() >= set(kinds):
        return
    from telemetry.config.plugins.choice import unknown
    from telemetry.config.plugins.entry_points import plugins

    all_kinds = BUILT_IN.keys() | plugins("backends", {}).keys()
    for kind in kinds:
        if kind not in all_kinds:
            raise unknown(kind, "backend", all_kinds)


class _WriterStatus(Struct, frozen=True):
    """Content of a writer's `status.json`."""

    status: BackendStat


class Writers:
    """Backend writers of one run. A context manager that leaves no process behind.

    For one thread at a time. Messages of the writers are passed to `say` from other threads.
    """

    def __init__(
        self,
        to: Sequence[str],
        say: Callable[[str], object],
        *,
        every_s: float | None = None,
        command: Command = writer_command,
        variables: Mapping[str, Mapping[str, str]] = NO_VARIABLES,
    ) -> None:
        """Check the writers. `every_s` overrides the setting for the interval between two readings of instruments.

        `variables`: kind of backend → more variables for the environment of its writers. Raises UsageError for
        duplicate names or too many writers.
        """
        self._to = {name_of(text): text for text in to}
        if len(self._to) < len(to):
            raise UsageError("two backends have the same name", hint="rename one of them: --to KIND:as=NAME")
        if len(to) > limits.BACKENDS:
            raise UsageError(f"{len(to):,} backends are too many; the limit for a run is {limits.BACKENDS}")
        self._say = say
        self._every_s = every_s
        self._command = command
        self._variables = variables
        self._endpoint = ""
        self._directory = ""
        self._ending = threading.Event()
        self._children: list[Child] = []
        self.stats: list[BackendStat] = []
        """Final state of each writer, in the given order. Valid after `end`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(0.0)

    def __bool__(self) -> bool:
        return bool(self._to)

    @property
    def expected(self) -> list[BackendStat]:
        """The backends that the aggregator must know before the writers start.

        Without them, a step may be reported as delivered too early. Backends with invalid names are left out: their
        writers will say so and end.
        """
        from telemetry.config.plugins.choice import is_valid_name

        return [
            BackendStat(name=name, kind=kind_of(text)) for name, text in self._to.items() if is_valid_name(name)
        ]

    @property
    def failed(self) -> bool:
        """True if a writer has not delivered everything. Valid after `end`."""
        return any(stat.state != "done" or stat.dropped for stat in self.stats)

    def begin(self, endpoint: str, directory: str) -> None:
        """Start the writers for the run at `endpoint`. Report one that can't be started; the run continues."""
        self._endpoint, self._directory = endpoint, directory
        environ, folder = environment({}), working_directory()
        for name, text in self._to.items():
            command = self._command(text, endpoint, directory, self._every_s)
            its = {**environ, **self._variables.get(kind_of(text), {})}
            try:
                child = Child(
                    name, command, MANNER, self._say, environment=its, folder=folder, on_end=self._tell_end
                )
                self._children.append(child)
            except (OSError, ValueError) as error:  # a process accepts no arguments that contain NUL
                why = getattr(error, "strerror", None) or str(error)
                self._say(f"{printable(name)}: can't start the writer: {why}")
                stat = concluded(self._read(name), None)
                with suppress(RuntimeError):  # no thread can be started; `end` reports it all the same
                    threading.Thread(target=self._tell, args=(stat,), name="telemetry-writer", daemon=True).start()

    def end(
        self,
        timeout_s: float,
        snapshot_stats: Iterable[BackendStat] = (),
        waiting: Callable[[list[BackendStat]], object] = lambda stats: None,
    ) -> None:
        """Let the writers of an ended run deliver the rest, and end those that are late.

        Reports undelivered records. Blocks for at most `timeout_s` plus a moment for killing. May be called twice.
        `snapshot_stats` are the backend states of the run's last snapshot, which may know of more records than the
        writers do. `waiting` gets the states of unfinished writers once a second.
        """
        self._ending.set()
        if self.stats or not self._directory:
            return
        now_s = time.monotonic()
        try:
            self._await(now_s + max(timeout_s / 2, timeout_s - _LAST_WORDS_S), waiting)
        finally:
            self._end_the_rest(min(now_s + timeout_s, time.monotonic() + _LAST_WORDS_S))
        self._conclude(list(snapshot_stats))

    def _await(self, deadline_s: float, waiting: Callable[[list[BackendStat]], object]) -> None:
        while late := [child for child in self._children if not child.ended]:
            now_s = time.monotonic()
            if now_s >= deadline_s:
                return
            if not late[0].wait(min(deadline_s, now_s + _TELL_S)):
                waiting([self._read(child.name) for child in late])

    def _end_the_rest(self, deadline_s: float) -> None:
        late = [child for child in self._children if not child.ended]
        for child in late:
            child.ask_to_end()
        for child in late:
            if not child.wait(deadline_s):
                child.kill()

    def _tell_end(self, child: Child) -> None:
        """Tell the aggregator of a writer that has ended before the run. It may not have been able to do so."""
        stat = concluded(self._read(child.name), child)
        if stat.state != "done":
            self._tell(stat)

    def _tell(self, stat: BackendStat) -> None:
        """Send a report to the aggregator. Blocks while the aggregator is away, and until it ends."""
        until_s = time.monotonic() + limits.RESTART_TIMEOUT_S
        while not self._ending.is_set() and time.monotonic() < until_s:
            try:
                if not refuses(self._endpoint):
                    with ControlClient(self._endpoint) as client:
                        client.request(TellBackend(stat=stat), _TELL_S)
                    return
            except (EndpointError, OSError):
                pass  # it may be restarting, or no descriptor is free
            except TelemetryError:
                return
            self._ending.wait(_TELL_AGAIN_S)

    def _conclude(self, snapshot_stats: list[BackendStat]) -> None:
        child_by_name = {child.name: child for child in self._children}
        stats = [concluded(self._read(name), child_by_name.get(name)) for name in self._to]
        records = max((stat.next_record + stat.queued for stat in (*stats, *snapshot_stats)), default=0)
        self.stats = [replace(stat, queued=max(0, records - stat.next_record)) for stat in stats]
        for stat in self.stats:
            if text := shortfall(stat, self._directory):
                self._say(text)

    def _read(self, name: str) -> BackendStat:
        """Return the last report of a writer, or an empty report."""
        kind = self._to[name].partition(":")[0]
        try:
            path = Path(self._directory) / "backends" / name / "status.json"
            data = read_file(path, limits.FACTS_BYTES, depth=3)
            return msgspec.json.decode(data, type=_WriterStatus).status
        except (OSError, *BAD_INPUT):
            return BackendStat(name=name, kind=kind)


def said_when_long(
    say: Callable[[str], object], timeout_s: float, clock: Callable[[], float] = time.monotonic
) -> Callable[[list[BackendStat]], None]:
    """Return a callback for `waiting` of `Writers.end`.

    After a while it prints one line: the writers it waits for, and how long that may take.
    """
    began_s = clock()
    names: list[str] = []

    def tell(late: list[BackendStat]) -> None:
        waited_s = clock() - began_s
        if waited_s >= _UNTOLD_S and not names:
            names.append(printable(", ".join(stat.name for stat in late)))
            say(f"waiting for {names[0]}, for {max(0.0, timeout_s - waited_s):.0f} s more at most")

    return tell


def concluded(stat: BackendStat, child: Child | None) -> BackendStat:
    """Complete a report with the end of its process. A killed process could not report that itself."""
    if child is None:
        return replace(stat, state="failed", last_error="can't start the writer")
    state = stat.state if stat.state in BACKEND_ENDED else _ENDED.get(child.code, "undelivered")
    return replace(stat, state=state, restarts=max(stat.restarts, child.restarts))


def with_backends(report: Report, stats: Collection[BackendStat]) -> Report:
    """Return the report with the final states of these backends. States of other backends stay."""
    own: Mapping[str, BackendStat] = {stat.name: stat for stat in stats}
    others = [stat for stat in report.snapshot.backends if stat.name not in own]
    return replace(report, snapshot=replace(report.snapshot, backends=[*others, *own.values()]))
