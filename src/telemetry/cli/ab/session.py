"""The pairs of `telemetry ab`, one after the other, and the file that has them."""

from __future__ import annotations

import math
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from msgspec.structs import replace

from telemetry.cli.ab.checkouts import checkouts
from telemetry.cli.ab.children import ChildCommand, Children, EndedChild
from telemetry.cli.sweep_runs import result_of
from telemetry.common import wording
from telemetry.common.file_lock import FileLock, lock_path
from telemetry.errors import RunNotFoundError, TelemetryError, UsageError
from telemetry.history.request_model import request_counts
from telemetry.judge.ab.judge import AbJudge
from telemetry.judge.ab.model import SIDES, AbFigure, AbPair, AbResult, AbRun, Ending, Side
from telemetry.judge.compare.figures import COMMAND_WORDS, Directions, FigureKey, check, matches, readings
from telemetry.store.sealed_json import read_json, write_json

FOLDER: Final = "ab"
"""Folder in the parent folder of the run directories that has a folder for each call."""
FILE: Final = "ab.json"
FAILED: Final = "failed.log"
"""Output of the newest run that failed."""
_MOST_VOID: Final = 3
"""Void pairs one after the other that end the work: the next one would be void too."""
_WALL, _CPU = (FigureKey("command", "", (), statistic) for statistic in COMMAND_WORDS)
"""The figures of a command that is not recorded."""

_PATIENCE_S: Final = 1.0
"""Longest wait for the lock of a folder. `telemetry clean` has it for microseconds, to see whether it is free."""
_TOPOLOGY: Final = Path("/sys/devices/system/cpu")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commands:
    """All that is run, as it is run. A result has the same without secrets, in UTF-8."""

    before: Sequence[str]
    after: Sequence[str]
    setup: str = ""
    prepare: tuple[str, str] | None = None


class AbSession:
    """The pairs so far, and those to come."""

    def __init__(
        self, directory: Path, result: AbResult, commands: Commands, cwd: str, show: Callable[[AbResult], None]
    ) -> None:
        """Take the pairs of a result. Raises UsageError for a pattern that matches no figure."""
        self.result = result
        self._directory = directory
        self._commands = commands
        self._cwd = cwd
        self._show = show
        self._settings = result.settings
        self._children = Children()
        self._units: dict[FigureKey, str] = {} if self._settings.metrics else {_WALL: "s", _CPU: "s"}
        """All figures of the runs of this call, with their units."""
        valid = [pair for pair in result.pairs if not pair.void]
        self._judge = AbJudge(self._settings, result.figures, valid, result.final)
        if not (result.figures or self._settings.metrics):
            self._choose_figures()
        self._earlier = len(result.pairs)
        """Number of pairs of earlier calls: void ones among them don't end this call."""

    @property
    def ended_by(self) -> int:
        """Signal that ended the work; 0 without one."""
        return self._children.ended_by

    def run(self) -> AbResult:
        """Run pairs until the end, and write the file after each of them. Raises TelemetryError."""
        self._write()
        if not self.result.ending:
            with self._children.heeding(), self._folders() as folders:
                for number in range(self._settings.warmup):
                    self._pair(folders, "before", Random(f"{self._settings.seed}/warmup/{number}"))
                self._write()
                while not self.result.ending:
                    self._next(folders)
        return self.result

    def _next(self, folders: Sequence[str]) -> None:
        """Run a pair, and count it with its time."""
        begin_s = time.monotonic()
        order = Random(f"{self._settings.seed}/{len(self.result.pairs)}")
        pair = self._pair(folders, SIDES[order.random() < 0.5], order)
        if pair is not None:
            seconds = self.result.seconds + time.monotonic() - begin_s
            self.result = replace(self.result, pairs=[*self.result.pairs, pair], seconds=seconds)
            if not pair.void:
                self._judge.add(pair)
        self._write()
        self._show(self.result)

    def _write(self) -> None:
        """Write the pairs so far, with what they show."""
        judge = self._judge
        self.result = replace(self.result, verdicts=judge.verdicts(), final=judge.final, failures=judge.failures)
        self.result = replace(self.result, ending=self._ending())
        write_json(self._directory / FILE, self.result)

    def _ending(self) -> Ending:
        result = self.result
        newest = result.pairs[self._earlier :][-_MOST_VOID:]
        reasons: dict[Ending, bool] = {
            "decided": self._judge.is_decided and not self._settings.same,
            "stopped": bool(self.ended_by),
            "pairs": result.valid_pairs >= result.most_pairs,
            "void": len(newest) == _MOST_VOID and all(pair.void for pair in newest),
            "budget": result.budget_s is not None and result.seconds >= result.budget_s,
        }
        return next((ending for ending, holds in reasons.items() if holds), "")

    def _pair(self, folders: Sequence[str], first: Side, random: Random) -> AbPair | None:
        """Run a pair. Return None if a signal ends the work meanwhile: it has ended the runs too."""
        order = SIDES if first == "before" else SIDES[::-1]
        ids = {side: secrets.token_hex(4) if self._settings.metrics else "" for side in order}
        cores = halves(random) if self._settings.duet else (frozenset[int](), frozenset[int]())
        commands = {
            side: ChildCommand(argv=self._argv(side, ids[side]), cwd=folders[SIDES.index(side)], cores=own)
            for side, own in zip(order, cores, strict=True)
        }
        ended: list[EndedChild] = []
        for together in [order] if self._settings.duet else [(side,) for side in order]:
            for side in together:
                self._prepare(side, commands[side].cwd)
            ended += self._run([commands[side] for side in together])
        if self.ended_by:
            return None
        runs = {side: self._read(child, ids[side]) for side, child in zip(order, ended, strict=True)}
        void = self._void(runs)
        if not (void or self.result.figures):
            self._choose_figures()
        return AbPair(before=runs["before"], after=runs["after"], first=first, void=void)

    def _run(self, commands: Sequence[ChildCommand]) -> list[EndedChild]:
        output = self._directory / "output.log"
        ended = self._children.run(commands, output)
        if any(child.code for child in ended) and not self.ended_by:
            output.replace(self._directory / FAILED)
        return ended

    def _argv(self, side: Side, run_id: str) -> list[str]:
        """Return the command of a side; with `run_id` behind `telemetry run`, which records it."""
        from telemetry.supervise.spawn import telemetry_command

        command = [*(self._commands.before if side == "before" else self._commands.after)]
        if not run_id:
            return command
        alone = ["--quiet", "--no-gates", "--no-notify", "--no-backends"]
        where = ["--run-id", run_id, "--dir", str(self._directory)]
        return [*telemetry_command(), "run", *alone, *where, "--", *command]

    def _read(self, child: EndedChild, run_id: str) -> AbRun:
        if not run_id:
            return AbRun(values={name_of(_WALL): child.wall_s, name_of(_CPU): child.cpu_s}, failure=child.failure)
        report = result_of(run_id, self._directory)
        if report is None:
            return AbRun(failure=child.failure or "no result", run_id=run_id)
        failure = wording.failure(report.snapshot) or child.failure
        if not failure and report.completeness != "complete":
            failure = f"the result is {report.completeness}"
        requests = request_counts(report.snapshot)
        figures = {figure: reading for figure, reading in readings(report).items() if reading.value is not None}
        self._units |= {figure: reading.unit for figure, reading in figures.items()}
        return AbRun(
            values={
                name_of(figure, reading.unit): reading.value
                for figure, reading in figures.items()
                if reading.value is not None and math.isfinite(reading.value) and self._is_chosen(figure)
            },
            failure=failure,
            requests=int(sum(counts.issued for counts in requests)),
            ended=int(sum(counts.ended for counts in requests)),
            failed=int(sum(counts.failures + counts.expired for counts in requests)),
            run_id=run_id,
        )

    def _void(self, runs: Mapping[Side, AbRun]) -> str:
        """Return the reason why a pair can't be used; empty if it can."""
        for side, label in zip(SIDES, self._settings.labels, strict=True):
            if runs[side].failure:
                return f"{label}: {runs[side].failure}"
        before, after = (runs[side].requests for side in SIDES)
        return "" if before == after else f"different numbers of requests: {before:,} and {after:,}"

    def _is_chosen(self, figure: FigureKey) -> bool:
        return any(matches(figure, pattern) for pattern in self._settings.metrics)

    def _choose_figures(self) -> None:
        """Choose the figures to judge, now that those of the runs are known. Raises UsageError."""
        check(self._settings.metrics, sorted(self._units))
        chosen = [figure for figure in sorted(self._units) if self._is_chosen(figure) or not self._settings.metrics]
        check(self._settings.decide, chosen)
        directions = Directions()
        figures = [
            AbFigure(
                name=name_of(figure, self._units[figure]),
                unit=self._units[figure],
                better=directions.of(figure, self._units[figure]),
                decides=any(matches(figure, pattern) for pattern in self._settings.decide)
                or not self._settings.decide,
            )
            for figure in chosen
        ]
        self.result = replace(self.result, figures=figures)
        self._judge = AbJudge(self._settings, figures)

    @contextmanager
    def _folders(self) -> Iterator[Sequence[str]]:
        """Yield the working directory of each side. Raises UsageError if it is gone, and TelemetryError."""
        if not os.path.isdir(self._cwd):
            raise UsageError(f"there is no folder {self._cwd}, where the earlier pairs were run")
        if self._settings.refs:
            with checkouts(self._settings.refs, self._cwd, self._set_up) as folders:
                yield folders
        else:
            yield [self._cwd, self._cwd]

    def _set_up(self, folder: str) -> None:
        """Run the set-up in a checkout. Raises TelemetryError if it fails."""
        self._run_shell(self._commands.setup, folder, "set-up")

    def _prepare(self, side: Side, folder: str) -> None:
        """Prepare the next run of a side. Raises TelemetryError if that fails."""
        if self._commands.prepare is not None:
            self._run_shell(self._commands.prepare[SIDES.index(side)], folder, "preparation")

    def _run_shell(self, command: str, folder: str, name: str) -> None:
        """Run a shell command that is not measured. Raises TelemetryError if it fails."""
        if command:
            ended = self._run([ChildCommand(argv=["/bin/sh", "-c", command], cwd=folder)])
            if not self.ended_by and ended[0].failure:
                reason = ended[0].failure
                raise TelemetryError(f"the {name} failed: {reason}", hint=f"see {self._directory / FAILED}")


def name_of(figure: FigureKey, unit: str = "s") -> str:
    """Return the name of a figure, as results show it."""
    if figure.of == "command":
        return COMMAND_WORDS[figure.statistic]
    return f"{wording.instrument(figure.name, dict(figure.labels), unit)} {figure.statistic}"


def halves(random: Random) -> tuple[frozenset[int], frozenset[int]]:
    """Return two random halves of the cores of this process. Raises UsageError if there are none.

    The threads of a physical core share its units, so they stay in one half, unless there is only one such core.
    """
    if not hasattr(os, "sched_getaffinity"):
        raise UsageError("--duet needs Linux: this system can't keep a process on some cores")
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        raise UsageError("--duet needs two cores, and this process may use only one", hint="leave --duet out")
    by_siblings: dict[str, list[int]] = {}
    for core in cores:
        by_siblings.setdefault(_siblings(core), []).append(core)
    groups = list(by_siblings.values())
    if len(groups) < 2:
        groups = [[core] for core in cores]
    random.shuffle(groups)
    groups.sort(key=len)  # so that both halves have the same number of threads, or nearly
    even = groups[len(groups) % 2 :]
    return frozenset().union(*even[::2]), frozenset().union(*even[1::2])


def _siblings(core: int) -> str:
    """Return the cores that are threads of the same physical core, as text; its own number if that is unknown."""
    try:
        return (_TOPOLOGY / f"cpu{core}" / "topology" / "thread_siblings_list").read_text()
    except OSError:
        return str(core)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other calls from a folder inside the block. Raises UsageError if one has it."""
    lock: FileLock | None = FileLock()
    with suppress(OSError):  # there is no such folder, or the file system has no locks
        lock = lock_path(directory, os.O_DIRECTORY, _PATIENCE_S)
    if lock is None:
        raise UsageError(
            f"another `telemetry ab` works in {directory}", hint="wait for its end, or name another folder"
        )
    try:
        yield
    finally:
        lock.release()


def read_result(directory: Path) -> AbResult:
    """Read the result in a directory. Raises RunDirectoryError or RunNotFoundError."""
    result = read_json(directory / FILE, AbResult)
    if result is None:
        raise RunNotFoundError(
            f"{directory} has no {FILE}", hint="--resume takes a folder that `telemetry ab` made"
        )
    return result


def directories(root: Path) -> list[Path]:
    """Return the folders of all results below the parent folder of the run directories, newest result first."""
    written_ns: dict[Path, int] = {}
    for file in (root / FOLDER).glob(f"[!.]*/{FILE}"):  # a folder that is being removed begins with a dot
        with suppress(OSError):  # it has just been removed
            written_ns[file.parent] = file.stat().st_mtime_ns
    return sorted(written_ns, key=lambda directory: written_ns[directory], reverse=True)


def newest_directory(root: Path) -> Path:
    """Return the folder of the newest result with pairs below the parent folder of the run directories.

    Raises RunDirectoryError or RunNotFoundError.
    """
    directory = next((directory for directory in directories(root) if read_result(directory).pairs), None)
    if directory is None:
        raise RunNotFoundError(f"no result of `telemetry ab` with a pair in {root / FOLDER}")
    return directory
