"""The contract of a collector as a base class of tests, for built-in and third-party collectors.

  class TestMine(CollectorContract):
      collect = "mine"

The tests make the collector by its name, as `--collect` does, take samples, and end with a real run.
"""

from __future__ import annotations

import gc
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, Final, cast

import pytest

from telemetry import limits
from telemetry.client import user_warnings
from telemetry.client.process import Process
from telemetry.client.run import Run
from telemetry.client.sending.flusher import Flusher
from telemetry.collectors import registry
from telemetry.collectors.collector import Collector, NotAvailable, NotConfigured, Target
from telemetry.config import Config
from telemetry.config.plugins import entry_points
from telemetry.errors import UsageError
from telemetry.store.final_snapshot import read_final
from telemetry.store.run_directory import RunDirectory
from telemetry.supervise.writers import Writers
from telemetry.wire.codec import decode_record
from telemetry.wire.events import Define, Mark, Params, Scalar
from telemetry.wire.nodes import BatchRecord

_ROW: Final = 3
Key = tuple[str, tuple[tuple[str, str], ...]]
"""Name and sorted labels of an instrument."""
SAMPLES: Final = 5
SAMPLE_S: Final = 30.0
"""Longest time for one sample. A collector with a longer wait needs a timeout of its own."""
RUN_S: Final = 120.0
GONE_S: Final = 10.0
"""Longest time until what `close` ends has ended."""
_LOOK_S: Final = 0.02
_SLEEPS: Final = (sys.executable, "-c", "import time; time.sleep(600)")
_HEAVY: Final = ("numpy", "torch", "pandas", "pyarrow", "requests", "tensorflow", "matplotlib")
_IMPORT: Final = """
import json, sys, threading
sys.path[:0] = json.loads(sys.argv[2])
before = set(sys.modules)
__import__(sys.argv[1])
print(json.dumps({"modules": sorted(set(sys.modules) - before), "threads": threading.active_count()}))
"""


class CollectorContract:
    """Tests that a collector must pass.

    A subclass names the collector. It may override the methods that set up what the collector observes.
    """

    collect: ClassVar[str] = ""
    """Value of `--collect`."""
    may_be_absent: ClassVar[bool] = False
    """True if machines that run the tests may lack what the collector observes, such as a GPU."""
    fills_in: ClassVar[float] = 0.0
    """Seconds after which a second sample has something to record, for rates."""

    # --- parts that a subclass may define -------------------------------------------------------------

    def text(self, tmp_path: Path) -> str:
        """Return the value of `--collect`, if it depends on the test."""
        return self.collect

    def working_directory(self, tmp_path: Path) -> Path:
        """Return the working directory of the command."""
        return tmp_path

    @contextmanager
    def surroundings(self, tmp_path: Path) -> Iterator[None]:
        """Provide what the collector observes, such as a server, for the time of the block."""
        yield

    def take_away(self) -> None:
        """Remove what the collector observes, such as a server. The command's process has ended already."""

    # --- tests ---------------------------------------------------------------------------------------

    def test_an_option_that_it_lacks_is_refused(self, tmp_path: Path) -> None:
        """Check that a wrong option raises an error that names it."""
        text = self.text(tmp_path)
        wrong = f"{text}{',' if ':' in text else ':'}no_such_option=1"
        with pytest.raises((NotConfigured, UsageError), match="no_such_option"):
            registry.make(registry.parse(wrong), Target())

    def test_it_is_made_with_defaults_or_says_why_not(self, tmp_path: Path) -> None:
        """Check that the bare name gives a collector, or one of the two errors with a reason."""
        kind = registry.parse(self.text(tmp_path)).kind
        try:
            collector = registry.make(registry.parse(kind), Target(working_directory=tmp_path))
        except (NotAvailable, NotConfigured) as error:
            reason = str(error)
        else:
            reason = "made"
            collector.close()
        assert reason.strip(), "the error has no reason"

    def test_samples_are_recorded(self, tmp_path: Path) -> None:
        """Check that samples record something, all of it valid, under a bounded number of names."""
        with self._made(tmp_path) as (collector, run):
            for at in range(SAMPLES):
                self._sample(collector, run)
                assert run.refused == 0, f"sample {at + 1} has a value that can't be recorded"
                lost = [name for (name, _), values in run.values.items() if not all(map(math.isfinite, values))]
                assert not lost, f"sample {at + 1} has a value that is not finite: {', '.join(lost)}"
                if at == 0 and self.fills_in:
                    time.sleep(self.fills_in)
                names = len(run.definitions)
                assert names <= limits.SERIES, f"{names} instruments; a run has room for {limits.SERIES}"
            assert run.values or run.records, "nothing was recorded"
            interval_s = getattr(collector, "interval_s", 0.0)
            assert math.isfinite(interval_s), f"interval_s is {interval_s}"
            assert 0 <= interval_s <= threading.TIMEOUT_MAX, f"interval_s is {interval_s}"

    def test_figures_have_the_labels_of_the_target(self, tmp_path: Path) -> None:
        """Check that figures of two nodes stay apart: each has all of `target.labels`."""
        with self._command_running(tmp_path) as target, self.surroundings(tmp_path):
            collector = self._make(tmp_path, replace(target, labels={"node": "contract"}))
            run = MemoryRun()
            try:
                self._sample(collector, run)
                time.sleep(self.fills_in)
                self._sample(collector, run)
            finally:
                collector.close()
            without = sorted({name for name, labels in run.values if ("node", "contract") not in tuple(labels)})
            assert not without, f"pass labels=target.labels to {', '.join(without)}"

    def test_it_survives_the_end_of_what_it_observes(self, tmp_path: Path) -> None:
        """Check that `sample` ends in time after the command and what the collector observes have gone.

        The test kills the command and calls `take_away`, which may stop a server, for example. Further samples may
        return or raise any exception, but must not record an invalid value.
        """
        with self._made(tmp_path) as (collector, run):
            self._sample(collector, run)
            self._command.kill()
            self._command.wait()
            self.take_away()
            for _ in range(2):
                with suppress(Exception):
                    self._sample(collector, run)
            assert run.refused == 0

    def test_close_leaves_nothing_behind(self, tmp_path: Path) -> None:
        """Check that files, sockets, threads and child processes are gone after `close`."""
        with self._made(tmp_path) as (collector, run):  # what stays open once, such as a log, is open from here on
            self._sample(collector, run)
        del collector, run
        gc.collect()
        with self._command_running(tmp_path) as target, self.surroundings(tmp_path):
            before = _held()
            collector = self._make(tmp_path, target)
            self._sample(collector, MemoryRun())
            collector.close()
            deadline_s = time.monotonic() + GONE_S
            while (after := _held()) != before and time.monotonic() < deadline_s:
                time.sleep(_LOOK_S)
            assert after == before, f"before: {before}, after: {after}"

    def test_importing_it_does_nothing(self, tmp_path: Path) -> None:
        """Check that an import prints nothing, starts no thread, and loads no large library."""
        module = self._plugin(tmp_path).value.partition(":")[0]
        ended = subprocess.run(
            [sys.executable, "-c", _IMPORT, module, json.dumps(sys.path)],
            capture_output=True,
            text=True,
            timeout=RUN_S,
            check=False,
            cwd=tmp_path,
        )
        assert ended.returncode == 0, ended.stderr
        *printed, line = ended.stdout.splitlines()
        assert (printed, ended.stderr) == ([], ""), "the import prints something"
        report = json.loads(line)
        assert report["threads"] == 1
        heavy = [name for name in _HEAVY if name in report["modules"]]
        assert not heavy, f"the import loads {', '.join(heavy)}; import it in __init__ or sample"
        assert not list(tmp_path.iterdir()), "the import creates files"

    def test_a_real_run_has_its_figures(self, tmp_path: Path) -> None:
        """Check that `telemetry run --collect` ends well, and that the result has what a sample records."""
        with self._made(tmp_path) as (collector, run):
            self._sample(collector, run)
            at_once = {name for name, _ in run.values}
            time.sleep(self.fills_in)
            self._sample(collector, run)
        names, params = {name for name, _ in run.values}, set(run.all_params)
        work, root = self.working_directory(tmp_path), tmp_path / "contract-runs"
        seconds = max(2.0, self.fills_in + 1.5)
        arguments = ["run", "--dir", str(root), "--no-collect", "--collect", self.text(tmp_path), "--quiet", "--"]
        own = {name: text for name, text in os.environ.items() if not name.startswith("TELEMETRY_")}
        with self.surroundings(tmp_path):
            ended = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "telemetry",
                    *arguments,
                    sys.executable,
                    "-c",
                    f"import time; time.sleep({seconds})",
                ],
                capture_output=True,
                text=True,
                timeout=RUN_S,
                check=False,
                cwd=work,
                env=own | {"PYTHONPATH": os.pathsep.join(sys.path), "XDG_CONFIG_HOME": str(tmp_path)},
            )
        assert ended.returncode == 0, ended.stderr
        snapshot = read_final(RunDirectory.open(root / "latest").final)
        result_names = {stat.name for stat in snapshot.gauges} | {stat.name for stat in snapshot.counters}
        result_names |= {stat.name for stat in snapshot.series}
        assert at_once <= result_names, (
            f"{', '.join(sorted(at_once - result_names))} are not in the result: {ended.stderr}"
        )
        assert not names or names & result_names, (
            f"none of {', '.join(sorted(names))} is in the result: {ended.stderr}"
        )
        assert params <= set(snapshot.params), f"{', '.join(sorted(params - set(snapshot.params)))} are not there"

    # --- helpers -------------------------------------------------------------------------------------

    _command: subprocess.Popen[bytes]

    @contextmanager
    def _made(self, tmp_path: Path) -> Iterator[tuple[Collector, MemoryRun]]:
        with self._command_running(tmp_path) as target, self.surroundings(tmp_path):
            collector = self._make(tmp_path, target)
            try:
                yield collector, MemoryRun()
            finally:
                collector.close()

    @contextmanager
    def _command_running(self, tmp_path: Path) -> Iterator[Target]:
        folder = self.working_directory(tmp_path)
        directory = tmp_path / "contract-run"
        directory.mkdir(exist_ok=True)
        self._command = subprocess.Popen(_SLEEPS, cwd=folder)
        try:
            yield Target(pid=self._command.pid, directory=directory, name="contract", working_directory=folder)
        finally:
            self._command.kill()
            self._command.wait()

    def _make(self, tmp_path: Path, target: Target) -> Collector:
        choice = registry.parse(self.text(tmp_path))
        try:
            return registry.make(choice, replace(target, collector=choice.name))
        except NotAvailable as error:
            if not self.may_be_absent:
                raise
            pytest.skip(error.reason)

    def _plugin(self, tmp_path: Path) -> entry_points.Plugin:
        return entry_points.plugins(registry.GROUP, registry.BUILT_IN)[registry.parse(self.text(tmp_path)).kind]

    def _sample(self, collector: Collector, run: MemoryRun) -> None:
        begun = time.monotonic()
        try:
            collector.sample(run)
        finally:
            taken_s = time.monotonic() - begun
            assert taken_s < SAMPLE_S, f"a sample took {taken_s:.0f} s; give what it waits for a timeout"


def _held() -> dict[str, int]:
    """Return the numbers of open files, threads and children of this process."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    return {
        "files": len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0,
        "threads": threading.active_count(),
        "children": len(children.read_text().split()) if children.exists() else 0,
    }


class MemoryRun(Run):
    """A run without an aggregator, sockets or threads. Its recording calls are those of any run."""

    def __init__(self, name: str = "memory") -> None:
        process = Process()
        self._records: deque[bytes] = deque()
        process._flusher = cast(Flusher, SimpleNamespace(outbox=SimpleNamespace(records=self._records)))
        process.state = "live"
        process.recorders.install(process.recorders.buffer.extend)
        super().__init__(process, name, Config(), Writers([], user_warnings.warn))

    @property
    def definitions(self) -> list[Define]:
        """Definitions of all instruments, in the order of their making."""
        records = (decode_record(raw) for raw in self._process.catalog.definitions)
        return [record for record in records if isinstance(record, Define)]

    @property
    def records(self) -> list[BatchRecord]:
        """All records, such as marks and parameters."""
        return [decode_record(raw) for raw in self._records]

    @property
    def values(self) -> dict[Key, list[float]]:
        """All values of each instrument, and increments of counters."""
        definitions = self.definitions
        values: dict[Key, list[float]] = {}
        rows = list(self._process.recorders.buffer)
        for row_id, _, value in zip(rows[::_ROW], rows[1::_ROW], rows[2::_ROW], strict=True):
            definition = definitions[int(row_id)]
            values.setdefault((definition.name, tuple(sorted(definition.labels.items()))), []).append(float(value))
        return values

    @property
    def all_params(self) -> dict[str, Scalar]:
        """All parameters; the newest value of each."""
        params: dict[str, Scalar] = {}
        for record in self.records:
            if isinstance(record, Params):
                params.update(record.values)
        return params

    @property
    def marks(self) -> list[str]:
        """Texts of all marks."""
        return [record.text for record in self.records if isinstance(record, Mark)]

    @property
    def refused(self) -> int:
        """Number of values and records that could not be recorded, such as NaN as the value of a gauge."""
        return self._process.recorders.refused.total + self._process.unencodable.total
