"""The contract of a backend as a base class of tests, for built-in and third-party backends.

  class TestMine(BackendContract):
      def to(self, tmp_path): return "mine"
      def read_back(self, folder, where): return Written(…)

Each test runs real writers that deliver a small run to the backend, with its library, and reads the result back.
"""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from telemetry.backends.backend import Backend
from telemetry.backends.choice import load, parse
from telemetry.backends.items import Item, Live, Params, Reading, Step
from telemetry.backends.naming import FINAL, flat
from telemetry.backends.sources.disk import DiskSource
from telemetry.backends.sources.source import Position
from telemetry.store.backends import WriterFolder, writer_folder
from telemetry.store.run_directory import RunDirectory
from telemetry.testing.faulty import AWAY, Fault, Faults, around, plug_in
from telemetry.testing.sample import EVERY_S, NOT_FINITE, PARAMS, SampleRun, record_run
from telemetry.wire.exit_codes import Exit
from telemetry.wire.snapshot import BACKEND_ENDED, BackendStat

WAIT_S: Final = 60.0
"""Timeout for a process or a condition, in seconds."""
_LOOK_S: Final = 0.02
_AGAIN: Final = (-signal.SIGKILL, 1)  # exit codes after which a writer is restarted
_MOST_STARTS: Final = 10
__all__ = ["BackendContract", "BackendEssentials", "Trial", "Written"]
NAMES: Final = 10_000
_KILLED: Final = -9
_CLOSE: Final = 1e-6  # relative tolerance of numbers in the result


class _Contract:
    """The parts that a subclass defines, and the common tests."""

    reads_back: ClassVar[bool] = True
    """True if the tracker's data can be read at the end. If False, only the writer's own count is checked."""
    package: ClassVar[str] = ""
    """Package that the backend imports in its process, if any."""
    writes_files: ClassVar[bool] = True
    """True if the backend writes files in its folder, so that a full disk stops it."""
    keeps_steps: ClassVar[bool] = True
    """True if the tracker has all values of all steps. If False, steps are not read back."""
    keeps_rates: ClassVar[bool] = True
    """True if the tracker gets rates. If False, it works them out itself, and they are not read back."""

    _cls: type[Backend]

    # --- parts that a subclass defines ---------------------------------------------------------------

    def to(self, tmp_path: Path) -> str:
        """Return the value of `--to`."""
        raise NotImplementedError

    def read_back(self, folder: Path, where: str) -> Written:
        """Return the content of the tracker's only run.

        `folder`: the writer's folder. `where`: from the backend.
        """
        raise NotImplementedError

    def unfit(self, tmp_path: Path) -> str:
        """Return a value of `--to` that can't start: with a wrong key or an invalid place."""
        to = self.to(tmp_path)
        return f"{to}{',' if ':' in to else ':'}no_such_option=1"

    def environment(self, tmp_path: Path) -> Mapping[str, str]:
        """Return additional environment variables of its processes."""
        return {}

    def meanwhile(self, folder: Path, where: str) -> None:
        """Do something while a writer runs. Called repeatedly; `where` is empty until the writer knows it."""

    def break_it(self, trial: Trial) -> None:
        """Make the tracker unavailable. Subclasses with their own server stop it."""
        trial.faults.plan(Fault(what="away", skip=self._skip, times=0))

    def mend_it(self, trial: Trial) -> None:
        """Make the tracker available again."""
        trial.faults.mend()

    # --- tests ---------------------------------------------------------------------------------------

    def test_all_of_a_run_is_there(self, tmp_path: Path) -> None:
        """Check that every value arrives once at the right step, that names of any script work, and the result.

        Items of unsupported kinds are counted.
        """
        trial = self.trial(tmp_path)
        end = trial.write()
        stat = self.check_delivered(trial, end)
        no_place = {kind: count for kind, count in trial.sample.items.items() if kind not in self._taken}
        assert stat.no_place == no_place
        assert stat.written == sum(count for kind, count in trial.sample.items.items() if kind in self._taken) + (
            Live in self._cls.takes
        )
        assert (stat.retried, stat.repeated, stat.restarts, stat.failures) == (0, 0, 0, 0)

    def test_what_cant_begin_says_so(self, tmp_path: Path) -> None:
        """Check for exit code 2 and a message, without a retry."""
        trial = self.trial(tmp_path)
        self._check_failed(trial, trial.write_bare(self.unfit(tmp_path)))

    def test_a_library_that_cant_be_imported_is_named(self, tmp_path: Path) -> None:
        """Check for exit code 2 and the error of the import."""
        if not self.package:
            pytest.skip("it has no library")
        broken = tmp_path / "broken" / self.package
        broken.mkdir(parents=True)
        broken.joinpath("__init__.py").write_text("raise ImportError('broken on purpose')\n")
        trial = self.trial(tmp_path, {"PYTHONPATH": str(broken.parent)})
        end = trial.write_bare()
        self._check_failed(trial, end)
        assert "broken on purpose" in end.said + trial.log(), end.said

    # --- helpers -------------------------------------------------------------------------------------

    def trial(self, tmp_path: Path, more: Mapping[str, str] | None = None, **sample: Any) -> Trial:
        """Create a trial. `sample`: as in `record_run`. `more`: variables in addition to those of `environment`."""
        folder = tmp_path / "trial"
        folder.mkdir(exist_ok=True)
        environment = dict(self.environment(tmp_path))
        for name, text in (more or {}).items():
            existing = environment.get(name)
            environment[name] = f"{text}:{existing}" if existing and name == "PYTHONPATH" else text
        to = self.to(tmp_path)
        self._cls = load(parse(to).kind)
        return Trial(folder, record_run(folder, **sample), to, environment, self.meanwhile)

    def check_delivered(self, trial: Trial, end: ProcessEnd) -> BackendStat:
        """Check that the writer ended well and the tracker has the whole run. Returns the writer's last status."""
        stat = trial.status()
        dropped = sum(stat.dropped.values())
        assert end.code == (Exit.BACKEND_FAILED if dropped else Exit.OK), (end, trial.log())
        assert (stat.state, stat.queued) == ("done", 0), stat
        assert dropped <= 1, stat.dropped
        if self.reads_back:
            self._check(trial.sample, self.read_back(trial.writer.path, stat.place), stat)
        return stat

    @property
    def _taken(self) -> set[str]:
        return {kind.__name__.lower() for kind in self._cls.takes}

    @property
    def _skip(self) -> int:
        """Number of batches before the fault: one, or none if the run has a single batch."""
        return int(self._cls.takes != (Live,))

    def _check(self, sample: SampleRun, content: Written, stat: BackendStat) -> None:
        takes = self._cls.takes
        if Step in takes and self.keeps_steps:
            self._check_steps(sample, content, stat)
        if Params in takes:
            for name, value in PARAMS.items():
                assert name in content.params, f"there is no {name} in {content.params}"
                assert _alike(content.params[name], value), f"{name} is {content.params[name]}, not {value}"
        if Reading in takes:
            readings = content.counts.get("reading", 0)
            assert readings == sample.items["reading"] - 1, f"{readings} readings"
        if Reading in takes or Live in takes:
            for name, number in _result(sample).items():
                if name.endswith("/rate") and not self.keeps_rates:
                    continue
                assert name in content.finals, f"there is no {name} in {content.finals}"
                assert math.isclose(content.finals[name], number, rel_tol=_CLOSE), f"{name}: {content.finals[name]}"

    def _check_steps(self, sample: SampleRun, content: Written, stat: BackendStat) -> None:
        axis, step, name = NOT_FINITE
        odd = content.steps.get((axis, step), {}).pop(name, None)
        if odd is None:
            assert sum(stat.dropped.values()) == 1, f"{name} is not there, and not counted"
        else:
            assert not math.isfinite(odd), f"{name} is {odd}"
            assert stat.dropped == {}
        for key, values in sample.steps.items():
            assert content.steps.get(key) == values, f"step {key}"
        assert content.steps.keys() == sample.steps.keys()
        number = content.counts["step"] - (odd is not None)
        assert number >= sample.values
        if self._cls.idempotent:
            assert number <= sample.values + sample.corrected, f"{number - sample.values} values are there twice"

    def _check_failed(self, trial: Trial, end: ProcessEnd) -> None:
        stat = trial.status()
        assert end.code == Exit.USAGE, (end, trial.log())
        assert end.said.startswith("telemetry: "), end.said
        assert (stat.written, stat.retried) == (0, 0), stat


class BackendContract(_Contract):
    """The full contract."""

    def test_killed_writers_leave_nothing_out(self, tmp_path: Path) -> None:
        """Check recovery from SIGKILL in the middle of a write, and between a flush and the checkpoint.

        The next writers continue, and an idempotent backend has everything exactly once.
        """
        trial = self.trial(tmp_path)
        trial.faults.plan(Fault(what="dies", skip=self._skip), Fault(what="dies", call="flush"))
        ends = trial.write_until_it_ends()
        assert [end.code for end in ends[:2]] == [_KILLED, _KILLED], ends
        stat = self.check_delivered(trial, ends[-1])
        assert stat.restarts == len(ends) - 1 == 2
        assert self._cls.idempotent or stat.repeated > 0

    def test_what_is_left_is_delivered_later(self, tmp_path: Path) -> None:
        """Check that a tracker that stays down yields exit code 6 and keeps the backlog.

        Later `telemetry export --resume` delivers it, although a call into the library hangs once.
        """
        trial = self.trial(tmp_path)
        self.break_it(trial)
        end = trial.wait(trial.start(), until=lambda stat: stat.state == "retrying" and stat.retried)
        stat = trial.status()
        assert (end.code, stat.state) == (Exit.BACKEND_FAILED, "undelivered"), end
        assert stat.last_error
        assert stat.queued or not self._skip
        assert not trial.writer.read_checkpoint().done
        self.mend_it(trial)
        trial.faults.plan(Fault(what="hangs"))
        end = trial.resume()
        stat = self.check_delivered(trial, end)
        assert stat.restarts == 1
        assert "exited with code 1; it is started again" in end.said
        assert "most recent call first" in trial.log()

    def test_a_full_disk_is_waited_for(self, tmp_path: Path) -> None:
        """Check that the writer waits while the disk is full, and then continues."""
        trial = self.trial(tmp_path)
        trial.faults.plan(Fault(what="full", times=0))
        process = trial.start()
        stat = trial.until(process, lambda stat: stat.retried > 1)
        trial.faults.mend()
        self.check_delivered(trial, trial.wait(process))
        assert (stat is not None) == self.writes_files

    def test_ten_thousand_names(self, tmp_path: Path) -> None:
        """Check a step with ten thousand names."""
        trial = self.trial(tmp_path, steps=2, names=NAMES)
        self.check_delivered(trial, trial.write())

    def test_a_tracker_that_is_slow_and_away_for_a_while(self, tmp_path: Path) -> None:
        """Check that a tracker that was slow and down has everything in the end, with the state in the status."""
        trial = self.trial(tmp_path)
        trial.faults.plan(Fault(what="breaks", skip=self._skip, times=2), Fault(what="away", times=0))
        process = trial.start()
        stat = trial.until(process, lambda stat: stat.breaker != "closed" and stat.last_error == AWAY)
        assert stat is not None, trial.wait(process)
        trial.faults.plan(Fault(what="slow", times=2))
        assert stat.state == "retrying"
        assert stat.failures >= 5
        assert stat.queued or not self._skip
        end = trial.wait(process)
        after = self.check_delivered(trial, end)
        assert after.retried > stat.retried > 3
        assert (after.failures, after.breaker) == (0, "closed")
        assert f"{trial.writer.path.name}: delivery failed" in end.said


class BackendEssentials(_Contract):
    """The contract with fewer processes, for a library that takes seconds to load."""

    def test_bad_luck_costs_nothing(self, tmp_path: Path) -> None:
        """Check all faults in one run: a full disk, a tracker that stays down, kills, and a hanging call.

        Writers are killed in the middle of a write and between a flush and its checkpoint. An idempotent backend
        has everything exactly once.
        """
        trial = self.trial(tmp_path)
        trial.faults.plan(*[Fault(what="full", times=0)] * self.writes_files)
        process = trial.start()
        full = trial.until(process, lambda stat: not self.writes_files or stat.retried > 1)
        assert full is not None, trial.wait(process)
        trial.faults.mend()
        self.break_it(trial)
        end = trial.wait(process, until=lambda stat: stat.last_error not in ("", full.last_error))
        assert (end.code, trial.status().state) == (Exit.BACKEND_FAILED, "undelivered"), end
        self.mend_it(trial)
        trial.faults.plan(Fault(what="dies"), Fault(what="dies", call="flush"), Fault(what="hangs"))
        assert trial.wait(trial.start()).code == _KILLED
        assert trial.wait(trial.start()).code == _KILLED
        stat = self.check_delivered(trial, trial.resume())
        assert stat.restarts == 3
        assert trial.faults.left() == []


def _alike(text: str, value: object) -> bool:
    """Compare a param with its text. Trackers format numbers and booleans in their own way."""
    if isinstance(value, bool):
        return text.lower() == str(value).lower()
    if isinstance(value, int | float):
        return math.isclose(float(text), value, rel_tol=_CLOSE)
    return text == str(value)


def _result(sample: SampleRun) -> dict[str, float]:
    """Return the numbers of the result by flat name."""
    source = DiskSource(RunDirectory.open(sample.path), Position(), every_s=EVERY_S)
    items: list[Item] = []
    while not source.over:
        items += [read.item for read in source.read(1_000, 1.0)]
    source.close()
    final = items[-1]
    assert isinstance(final, Reading)
    return {name.removeprefix(FINAL): number for name, number in flat(final).items()}


@dataclass
class Written:
    """The content of one run, as read by the tracker's own reader."""

    steps: dict[tuple[str, int], dict[str, float]] = field(default_factory=dict)
    """(axis, step) → name → value; the newest of duplicates."""
    params: dict[str, str] = field(default_factory=dict)
    finals: dict[str, float] = field(default_factory=dict)
    """Numbers of the result, by flat names without `final/`."""
    counts: dict[str, int] = field(default_factory=dict)
    """Counts: `step` counts values of steps including duplicates, `reading` counts readings."""

    def value(self, axis: str, step: int, name: str, value: float) -> None:
        """Add a value of a step. Call it in the order of the tracker."""
        self.steps.setdefault((axis, step), {})[name] = value
        self.counts["step"] = self.counts.get("step", 0) + 1


@dataclass(frozen=True)
class ProcessEnd:
    """The end of a process."""

    code: int
    said: str
    """Output on stderr."""
    out: str = ""


class Trial:
    """A trial. Its processes see no settings except those in `environment`."""

    def __init__(
        self,
        folder: Path,
        sample: SampleRun,
        to: str,
        environment: Mapping[str, str],
        meanwhile: Callable[[Path, str], object] = lambda folder, where: None,
    ) -> None:
        """Prepare the trial in `folder`.

        `meanwhile` is called repeatedly while a writer runs, with the writer's folder and the place that it writes
        to.
        """
        self.sample = sample
        self.to = to
        self.faults = Faults(folder)
        self.writer: WriterFolder = writer_folder(sample.path, parse(to).name)
        self._folder = folder
        self._meanwhile = meanwhile
        self._words = [str(sample.path), "--every", str(EVERY_S)]
        self._to = around(to, folder)
        plug = plug_in(folder)
        own = {name: text for name, text in os.environ.items() if not name.startswith("TELEMETRY_")}
        own |= {"XDG_CONFIG_HOME": str(folder), "XDG_STATE_HOME": str(folder), **environment}
        paths = [str(plug), *filter(None, [environment.get("PYTHONPATH"), os.environ.get("PYTHONPATH")])]
        self.environment = own | {"PYTHONPATH": os.pathsep.join(paths)}

    def start(self) -> subprocess.Popen[str]:
        """Start the writer's process, with the faults."""
        return self._start("export", *self._words, "--writer", "--to", self._to)

    def write(self, *faults: Fault) -> ProcessEnd:
        """Run the writer once, to its end."""
        self.faults.plan(*faults)
        return self.wait(self.start())

    def write_bare(self, to: str = "") -> ProcessEnd:
        """Run the writer without the fault injection. `to`: another backend than the one on trial."""
        return self.wait(self._start("export", *self._words, "--writer", "--to", to or self.to))

    def write_until_it_ends(self) -> list[ProcessEnd]:
        """Run the writer, and restart it after a kill or a hang, as a supervisor does."""
        ends: list[ProcessEnd] = []
        while not ends or (ends[-1].code in _AGAIN and len(ends) < _MOST_STARTS):
            ends.append(self.wait(self.start()))
        return ends

    def resume(self) -> ProcessEnd:
        """Run `telemetry export --resume`, which supervises writers."""
        return self.wait(self._start("export", str(self.sample.path), "--resume"))

    def wait(
        self, process: subprocess.Popen[str], until: Callable[[BackendStat], object] | None = None
    ) -> ProcessEnd:
        """Wait for the end of a process. Kills it after a timeout.

        `until`: once it is true of the status, the process is asked to stop.
        """
        deadline_s = time.monotonic() + WAIT_S
        try:
            while process.poll() is None:
                stat = self.status()
                if until is not None and until(stat):
                    process.terminate()
                    until = None
                self._look(stat)
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"the writer takes more than {WAIT_S:.0f} s: {stat}; {self.log()}")
                time.sleep(_LOOK_S)
        finally:
            process.kill()
            out, err = process.communicate()
        return ProcessEnd(process.returncode, err, out)

    def until(
        self, process: subprocess.Popen[str], condition: Callable[[BackendStat], object]
    ) -> BackendStat | None:
        """Wait until a condition is true and return the status, or None if the process ended before.

        Kills the process after a timeout.
        """
        deadline_s = time.monotonic() + WAIT_S
        while not condition(stat := self.status()):
            if process.poll() is not None:
                return None
            self._look(stat)
            if time.monotonic() > deadline_s:
                process.kill()
                process.communicate()
                raise TimeoutError(f"nothing like that is seen within {WAIT_S:.0f} s: {stat}; {self.log()}")
            time.sleep(_LOOK_S)
        return stat

    def status(self) -> BackendStat:
        """Return the writer's latest status."""
        return self.writer.read_status() or BackendStat(name=self.writer.path.name)

    def log(self) -> str:
        """Return the output of the library."""
        return self.writer.log.read_text(errors="replace") if self.writer.log.exists() else ""

    def _look(self, stat: BackendStat) -> None:
        self._meanwhile(self.writer.path, stat.place if stat.state not in BACKEND_ENDED else "")

    def _start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "telemetry", *arguments],
            cwd=self._folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
