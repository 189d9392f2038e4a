"""The contract of a backend as a base class of tests, for built-in and third-party backends.

  class TestMine(BackendContract):
      def to(self, tmp_path): return "mine"
      def read_back(self, folder, where): return Written(…)

Each test runs real writers that deliver a small run to the backend, with its library, and reads the result back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from telemetry.backends.backend import Backend
from telemetry.backends.choice import load, parse
from telemetry.backends.items import Item, Live, Params, Reading, Step
from telemetry.backends.naming import FINAL, flat
from telemetry.backends.sources.disk import DiskSource
from telemetry.backends.sources.source import Position
from telemetry.store.run_directory import RunDirectory
from telemetry.testing.faulty import AWAY, Fault
from telemetry.testing.sample import EVERY_S, NOT_FINITE, PARAMS, Sample, record_run
from telemetry.testing.trial import Ended, Trial
from telemetry.testing.written import Written
from telemetry.wire.snapshot import BackendStat

__all__ = ["BackendContract", "BackendEssentials", "Trial", "Written"]

NAMES: Final = 10_000
_DELIVERED: Final = 0
_CANT_BEGIN: Final = 2
_UNDELIVERED: Final = 6
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
            known = environment.get(name)
            environment[name] = f"{text}:{known}" if known and name == "PYTHONPATH" else text
        to = self.to(tmp_path)
        self._cls = load(parse(to).kind)
        return Trial(folder, record_run(folder, **sample), to, environment, self.meanwhile)

    def check_delivered(self, trial: Trial, end: Ended) -> BackendStat:
        """Check that the writer ended well and the tracker has the whole run. Returns the writer's last status."""
        stat = trial.status()
        dropped = sum(stat.dropped.values())
        assert end.code == (_UNDELIVERED if dropped else _DELIVERED), (end, trial.log())
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

    def _check(self, sample: Sample, found: Written, stat: BackendStat) -> None:
        takes = self._cls.takes
        if Step in takes and self.keeps_steps:
            self._check_steps(sample, found, stat)
        if Params in takes:
            for name, value in PARAMS.items():
                assert name in found.params, f"there is no {name} in {found.params}"
                assert _alike(found.params[name], value), f"{name} is {found.params[name]}, not {value}"
        if Reading in takes:
            readings = found.counts.get("reading", 0)
            assert readings == sample.items["reading"] - 1, f"{readings} readings"
        if Reading in takes or Live in takes:
            for name, number in _result(sample).items():
                if name.endswith("/rate") and not self.keeps_rates:
                    continue
                assert name in found.finals, f"there is no {name} in {found.finals}"
                assert math.isclose(found.finals[name], number, rel_tol=_CLOSE), f"{name}: {found.finals[name]}"

    def _check_steps(self, sample: Sample, found: Written, stat: BackendStat) -> None:
        axis, step, name = NOT_FINITE
        odd = found.steps.get((axis, step), {}).pop(name, None)
        if odd is None:
            assert sum(stat.dropped.values()) == 1, f"{name} is not there, and not counted"
        else:
            assert not math.isfinite(odd), f"{name} is {odd}"
            assert stat.dropped == {}
        for key, values in sample.steps.items():
            assert found.steps.get(key) == values, f"step {key}"
        assert found.steps.keys() == sample.steps.keys()
        number = found.counts["step"] - (odd is not None)
        assert number >= sample.values
        if self._cls.idempotent:
            assert number <= sample.values + sample.corrected, f"{number - sample.values} values are there twice"

    def _check_failed(self, trial: Trial, end: Ended) -> None:
        stat = trial.status()
        assert end.code == _CANT_BEGIN, (end, trial.log())
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
        assert (end.code, stat.state) == (_UNDELIVERED, "undelivered"), end
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
        assert (end.code, trial.status().state) == (_UNDELIVERED, "undelivered"), end
        self.mend_it(trial)
        trial.faults.plan(Fault(what="dies"), Fault(what="dies", call="flush"), Fault(what="hangs"))
        assert trial.wait(trial.start()).code == _KILLED
        assert trial.wait(trial.start()).code == _KILLED
        stat = self.check_delivered(trial, trial.resume())
        assert stat.restarts == 3
        assert trial.faults.left() == []


def _alike(found: str, value: object) -> bool:
    """Compare a param with its text. Trackers format numbers and booleans in their own way."""
    if isinstance(value, bool):
        return found.lower() == str(value).lower()
    if isinstance(value, int | float):
        return math.isclose(float(found), value, rel_tol=_CLOSE)
    return found == str(value)


def _result(sample: Sample) -> dict[str, float]:
    """Return the numbers of the result by flat name."""
    source = DiskSource(RunDirectory.open(sample.path), Position(), every_s=EVERY_S)
    items: list[Item] = []
    while not source.over:
        items += [read.item for read in source.read(1_000, 1.0)]
    source.close()
    final = items[-1]
    assert isinstance(final, Reading)
    return {name.removeprefix(FINAL): number for name, number in flat(final).items()}
