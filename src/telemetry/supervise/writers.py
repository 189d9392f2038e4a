"""Backend writers beside a run: each a `telemetry export --writer` of its own, which is started again if it dies.

A writer has all it needs in its folder of the run directory, so that whatever happens to it costs nobody anything:
the next one goes on where it was.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from telemetry import limits
from telemetry.errors import UsageError
from telemetry.formatting import printable
from telemetry.supervise.child import Child, ChildPolicy
from telemetry.supervise.spawn import environment, telemetry_command, working_directory
from telemetry.wire.codec import BAD_INPUT
from telemetry.wire.report import Report
from telemetry.wire.snapshot import BackendStat, BackendState
from telemetry.wording import shortfall

OURS: Final = frozenset(
    ("aim", "clearml", "console", "jsonl", "mlflow", "otlp", "prometheus", "tensorboard", "trackio", "wandb")
)
"""Kinds of backends that come with the package. This process does not load what they are."""
_GROUP: Final = "telemetry.backends"
"""Entry points of those that come with others."""
_DIED: Final = 1
_NOT_CONFIGURED: Final = 2
_UNDELIVERED: Final = 6
MANNER: Final = ChildPolicy(
    "writer",
    restart_codes=frozenset({_DIED}),
    told_codes=frozenset({_NOT_CONFIGURED, _UNDELIVERED}),
    pause_s=limits.RESTART_PAUSE_S,
    lasts_s=limits.RESTART_LASTS_S,
)
_LAST_WORDS_S: Final = 2.0  # for the batch that is being written, and a checkpoint
_TELL_S: Final = 1.0
_UNTOLD_S: Final = 1.9  # of waiting, which is looked at after each `_TELL_S`
_OPTIONS: Final = re.compile(r"(?:\\.|[^\\,])+|\\", re.DOTALL)
_OVER: Final = ("done", "undelivered", "failed")
_ENDED: Final[dict[int | None, BackendState]] = {0: "done", _NOT_CONFIGURED: "failed"}

Command = Callable[[str, str, str, float | None], list[str]]


def writer_command(to: str, endpoint: str, directory: str, every_s: float | None) -> list[str]:
    """What starts the writer of one `--to` text for the run at `endpoint`."""
    every = [] if every_s is None else ["--every", repr(every_s)]
    words = ["export", directory, "--writer", "--to", to, "--endpoint", endpoint, *every]
    return [*telemetry_command(), *words]


def name_of(to: str) -> str:
    """What the writer of a `--to` text is called: its option `as`, else the kind of backend."""
    kind, _, options = to.partition(":")
    for option in _OPTIONS.findall(options):
        key, _, value = option.partition("=")
        if key.strip() == "as":
            return re.sub(r"\\([\\,])", r"\1", value)
    return kind


def check_kinds(to: Sequence[str]) -> None:
    """Raises UsageError for a backend that nobody has. What its options say, its writer knows."""
    kinds = [text.partition(":")[0] for text in to]
    if set(kinds) <= OURS:
        return
    from importlib.metadata import entry_points

    known = OURS | {point.name for point in entry_points(group=_GROUP)}
    for kind in kinds:
        if kind not in known:
            from difflib import get_close_matches

            close = get_close_matches(kind, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"one of {', '.join(sorted(known))}"
            raise UsageError(f"there is no backend {printable(kind)!r}", hint=hint)


class _Status(Struct, frozen=True):
    """What is read of a writer's `status.json`."""

    status: BackendStat


class Writers:
    """The writers of one run. A context manager, which leaves no process behind. One thread at a time; what the
    writers say goes to `say` from threads of their own."""

    def __init__(
        self,
        to: Sequence[str],
        say: Callable[[str], object],
        *,
        every_s: float | None = None,
        command: Command = writer_command,
    ) -> None:
        """`every_s`: the time between two readings of instruments, if it is not to be the setting. Raises
        UsageError for writers that can't be told apart, or are too many."""
        self._to = {name_of(text): text for text in to}
        if len(self._to) < len(to):
            raise UsageError("two backends have one name", hint="give one another: --to KIND:as=NAME")
        if len(to) > limits.BACKENDS:
            raise UsageError(f"{len(to):,} backends are more than the {limits.BACKENDS} of a run")
        self._say = say
        self._every_s = every_s
        self._command = command
        self._directory = ""
        self._children: list[Child] = []
        self.stats: list[BackendStat] = []
        """What became of each, in the order they were given. To be asked after `end`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(0.0)

    def __bool__(self) -> bool:
        return bool(self._to)

    @property
    def failed(self) -> bool:
        """Whether one of them has not delivered all there was. To be asked after `end`."""
        return any(stat.state != "done" or stat.dropped for stat in self.stats)

    def begin(self, endpoint: str, directory: str) -> None:
        """Starts them for the run that listens there. One that can't be started is said; the run goes on."""
        self._directory = directory
        environ, folder = environment({}), working_directory()
        for name, text in self._to.items():
            command = self._command(text, endpoint, directory, self._every_s)
            try:
                one = Child(name, command, MANNER, self._say, environment=environ, folder=folder)
                self._children.append(one)
            except (OSError, ValueError) as error:  # no process takes words with a NUL in them
                why = getattr(error, "strerror", None) or str(error)
                self._say(f"{printable(name)}: the writer can't be started: {why}")

    def end(
        self,
        timeout_s: float,
        told: Iterable[BackendStat] = (),
        waiting: Callable[[list[BackendStat]], object] = lambda stats: None,
    ) -> None:
        """Lets those of a run that is over deliver the rest, and ends what is not done in time. Says what is not
        delivered. Blocks for at most `timeout_s`, and a moment for killing. May be called twice.

        `told`: what the run's last snapshot says of backends; it may know of more records than the writers do.
        `waiting` is given those that are not done, once a second.
        """
        if self.stats or not self._directory:
            return
        now_s = time.monotonic()
        try:
            self._await(now_s + max(timeout_s / 2, timeout_s - _LAST_WORDS_S), waiting)
        finally:
            self._end_the_rest(min(now_s + timeout_s, time.monotonic() + _LAST_WORDS_S))
        self._conclude(list(told))

    def _await(self, deadline_s: float, waiting: Callable[[list[BackendStat]], object]) -> None:
        while late := [one for one in self._children if not one.ended]:
            now_s = time.monotonic()
            if now_s >= deadline_s:
                return
            if not late[0].wait(min(deadline_s, now_s + _TELL_S)):
                waiting([self._read(one.name) for one in late])

    def _end_the_rest(self, deadline_s: float) -> None:
        late = [one for one in self._children if not one.ended]
        for one in late:
            one.ask_to_end()
        for one in late:
            if not one.wait(deadline_s):
                one.kill()

    def _conclude(self, told: list[BackendStat]) -> None:
        known = {one.name: one for one in self._children}
        stats = [concluded(self._read(name), known.get(name)) for name in self._to]
        records = max((stat.next_record + stat.queued for stat in (*stats, *told)), default=0)
        self.stats = [replace(stat, queued=max(0, records - stat.next_record)) for stat in stats]
        for stat in self.stats:
            if words := shortfall(stat, self._directory):
                self._say(words)

    def _read(self, name: str) -> BackendStat:
        """The writer's last report; an empty one if there is none."""
        kind = self._to[name].partition(":")[0]
        try:
            data = (Path(self._directory) / "backends" / name / "status.json").read_bytes()
            return msgspec.json.decode(data, type=_Status).status
        except (OSError, *BAD_INPUT):
            return BackendStat(name=name, kind=kind)


def said_when_long(
    say: Callable[[str], object], timeout_s: float, clock: Callable[[], float] = time.monotonic
) -> Callable[[list[BackendStat]], None]:
    """To be given to `Writers.end` as `waiting`: once it has waited for a while, one line says for whom, and how
    long that may take."""
    began_s = clock()
    said: list[str] = []

    def tell(late: list[BackendStat]) -> None:
        waited_s = clock() - began_s
        if waited_s >= _UNTOLD_S and not said:
            said.append(printable(", ".join(stat.name for stat in late)))
            say(f"waiting for {said[0]}, for {max(0.0, timeout_s - waited_s):.0f} s more at most")

    return tell


def concluded(stat: BackendStat, child: Child | None) -> BackendStat:
    """A report, as the end of its process has it: one that was killed could say nothing of that."""
    if child is None:
        return replace(stat, state="failed", last_error="the writer can't be started")
    state = stat.state if stat.state in _OVER else _ENDED.get(child.code, "undelivered")
    return replace(stat, state=state, restarts=max(stat.restarts, child.restarts))


def with_backends(report: Report, stats: Collection[BackendStat]) -> Report:
    """The report with the last states of these backends; what it says of others stays."""
    own: Mapping[str, BackendStat] = {stat.name: stat for stat in stats}
    others = [stat for stat in report.snapshot.backends if stat.name not in own]
    return replace(report, snapshot=replace(report.snapshot, backends=[*others, *own.values()]))
