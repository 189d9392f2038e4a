"""Tests of accelerate, transformers, TRL, Lightning and verl.

Each runs with our stand-in, and with W&B captured.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import telemetry
from telemetry.backends.wandb.log import LogReader, whole_row
from telemetry.compat.stand_ins import STAND_INS
from telemetry.integrations.wandb.values import flat
from telemetry.store.records import RecordLog
from telemetry.wire.events import Artifact, ClosedStep, Table

PROGRAMS = Path(__file__).parent / "programs"
BIN = Path(sys.executable).parent
SOURCE = Path(telemetry.__file__).parents[1]
DEADLINE_S = 240.0
HOWS = ("stand-in", "captured")
_ALONE = """
import importlib.metadata, json, wandb
from accelerate.utils import is_wandb_available
from lightning_utilities.core.imports import RequirementCache
from transformers.integrations import is_wandb_available as is_available
print(json.dumps([is_wandb_available(), is_available(), bool(RequirementCache("wandb>=0.12.10")), wandb.__name__]))
"""

pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Ended:
    """The results of a program: its libraries' memory, our report and records, and W&B's rows by run."""

    found: dict[str, Any]
    report: telemetry.Report
    records: list[Any]
    rows: dict[str, list[dict[str, Any]]]
    err: str

    def steps(self, axis: str) -> dict[int, dict[str, Any]]:
        """Return the values of an axis by step. A correction has only what changed."""
        found: dict[int, dict[str, Any]] = {}
        for step in self.of(ClosedStep):
            if step.axis == axis:
                found.setdefault(step.step, {}).update(step.values)
        return found

    def of(self, kind: type) -> list[Any]:
        return [each.record for each in self.records if isinstance(each.record, kind)]


def environment(folder: Path) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("TELEMETRY_", "WANDB_"))}
    return environ | {
        "TELEMETRY_COLLECT__NAMES": "none",
        "HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": "",
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "WANDB_CONSOLE": "off",
        "WANDB_X_DISABLE_STATS": "true",
        "WANDB_DISABLE_GIT": "true",
    }


def without_wandb(folder: Path) -> str:
    """Return a PYTHONPATH with the stand-in and all installed packages but W&B."""
    links = folder / "packages"
    links.mkdir()
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not entry.name.startswith("wandb"):
            (links / entry.name).symlink_to(entry)
    return os.pathsep.join([STAND_INS["wandb"], str(links), str(SOURCE)])


def start(folder: Path, environ: dict[str, str], *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


@pytest.fixture(scope="module")
def children() -> Iterator[dict[str, Any]]:
    """Three programs at the same time: imports take most of the time of each."""
    folders = {name: Path(tempfile.mkdtemp(prefix="tm", dir="/tmp")) for name in (*HOWS, "alone")}
    environs = {name: environment(folder) for name, folder in folders.items()}
    environs["alone"]["PYTHONPATH"] = without_wandb(folders["alone"])
    run, program = (str(BIN / "telemetry"), "run", "--quiet"), str(PROGRAMS / "log_wandb.py")
    commands = {
        "stand-in": (*run, "--stand-in", "wandb", "--", sys.executable, program),
        "captured": (*run, "--capture", "wandb", "--", sys.executable, program),
        "alone": (sys.executable, "-S", "-c", _ALONE),
    }
    started = {name: start(folders[name], environs[name], *command) for name, command in commands.items()}
    try:
        said = {name: child.communicate(timeout=DEADLINE_S) for name, child in started.items()}
        for name, child in started.items():
            assert child.returncode == 0, said[name][1][-4_000:]
        yield {name: read(folders[name], said[name][1]) for name in HOWS} | {"alone": said["alone"][0]}
    finally:
        for child in started.values():
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait(10)
        for folder in folders.values():
            shutil.rmtree(folder, ignore_errors=True)


def read(folder: Path, err: str) -> Ended:
    directory = folder / "runs" / "latest"
    logs = sorted(folder.rglob("offline-run-*/*.wandb"))
    return Ended(
        found=json.loads((folder / "found.json").read_text()),
        report=telemetry.load_report(directory),
        records=RecordLog(directory / "records").read(0, 10_000),
        rows={path.stem.removeprefix("run-"): list(rows_of(path)) for path in logs},
        err=err,
    )


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a run of W&B, once its file is complete: a process of W&B writes it."""
    deadline = time.monotonic() + DEADLINE_S
    while not any(record.WhichOneof("record_type") == "exit" for record in LogReader(path).records()):
        assert time.monotonic() < deadline, f"W&B did not complete {path}"
        time.sleep(0.05)
    for record in LogReader(path).records():
        if record.WhichOneof("record_type") == "history":
            yield dict(flat(whole_row(record.history.item)))


@pytest.fixture(params=HOWS)
def ended(request: pytest.FixtureRequest, children: dict[str, Any]) -> Ended:
    found: Ended = children[request.param]
    return found


@pytest.fixture
def captured(children: dict[str, Any]) -> Ended:
    found: Ended = children["captured"]
    return found


# --- libraries find W&B --------------------------------------------------------------------------


def test_libraries_find_the_stand_in_before_wandb(children: dict[str, Any]) -> None:
    """W&B is installed beside it."""
    assert importlib.metadata.version("wandb")
    found = children["stand-in"].found
    assert [found[name] for name in ("accelerate", "transformers", "lightning")] == [True, True, True]
    assert (found["version"], found["module"]) == ("0.31.0", "telemetry.compat.wandb")
    assert children["stand-in"].rows == {}


def test_libraries_find_the_stand_in_without_wandb(children: dict[str, Any]) -> None:
    """Libraries find the stand-in if only the stand-in is in the path."""
    assert json.loads(children["alone"].splitlines()[-1]) == [True, True, True, "telemetry.compat.wandb"]


def test_the_captured_one_is_wandb(captured: Ended) -> None:
    """The captured module is W&B itself, and it wrote a file for each run."""
    assert captured.found["module"] == "wandb"
    assert set(captured.rows) == set(captured.found["runs"].values())


# --- what was recorded ---------------------------------------------------------------------------


def test_nothing_is_lost_or_refused(ended: Ended) -> None:
    """One producer, no drops, no messages."""
    snapshot = ended.report.snapshot
    assert (snapshot.completeness, len(snapshot.producers)) == ("complete", 1)
    assert snapshot.accounting.lost == 0
    assert "telemetry: " not in ended.err.replace("telemetry: wandb.watch", "")


def test_accelerate(ended: Ended) -> None:
    """The values of accelerate are recorded at the steps that its caller names."""
    assert ended.steps("step") == {1: {"loss": 1.0}, 4: {"tensor": 2.0}}
    [table] = [table for table in ended.of(Table) if table.name == "table"]
    assert (table.axis, table.step, table.columns, table.rows) == ("step", 4, ["a"], [[1]])
    [image] = ended.of(Artifact)
    assert (image.name, image.kind, image.axis, image.step) == ("images", "image", "step", 5)
    assert ended.report.snapshot.params["lr"] is not None


def test_transformers(ended: Ended) -> None:
    """Each value of the trainer's own history, by `train/global_step`."""
    found = ended.steps("train/global_step 2")
    assert sorted(found) == [2, 3, 4, 6]
    for entry in ended.found["history"]:
        step = entry["step"]
        prefix = "eval/" if "eval_loss" in entry else "train/"
        if "train_runtime" in entry:  # transformers puts these into the summary
            for name in ("train_runtime", "train_loss", "total_flos"):
                assert ended.report.snapshot.params[f"summary 2.{name}"] == entry[name]
            continue
        for name in ("loss", "learning_rate", "grad_norm"):
            value = entry.get(f"eval_{name}", entry.get(name))
            if value is not None:
                assert found[step][prefix + name] == pytest.approx(value)
        assert found[step]["train/global_step"] == step
        assert found[step]["train/epoch"] == entry["epoch"]
    assert ended.report.snapshot.params["wandb 2.name"] == "trainer"
    assert ended.report.snapshot.params["hidden_size"] == 16


def test_trl_with_its_completions(ended: Ended) -> None:
    """Rewards, and the table of completions at the step of the trainer."""
    found = ended.steps("train/global_step 3")
    for entry in ended.found["grpo history"][:2]:
        assert found[entry["step"]]["train/reward"] == pytest.approx(entry["reward"])
        assert found[entry["step"]]["train/completions/mean_length"] == entry["completions/mean_length"]
    tables = [table for table in ended.of(Table) if table.name == "completions"]
    assert {(table.axis, table.step) for table in tables} == {
        ("train/global_step 3", 1),
        ("train/global_step 3", 2),
    }
    assert {"prompt", "completion", "short", "advantage"} <= set(tables[0].columns)
    assert tables[0].rows[0][tables[0].columns.index("prompt")] == "what is the sum of two"


def test_lightning(ended: Ended) -> None:
    """Values of Lightning are recorded by `trainer/global_step`.

    Values of validation batches, which count again, are on an axis of their own.
    """
    assert (ended.found["experiment"], ended.found["logger"]) == (True, ["lit", True])
    found = ended.steps("trainer/global_step 4")
    assert {step: values["count"] for step, values in found.items() if "count" in values} == {
        step: step for step in (3, 7, 11, 15)
    }
    assert [step for step, values in found.items() if "val/loss" in values] == [7, 15]
    assert {step: values["by hand"] for step, values in found.items() if "by hand" in values} == {1000: 7, 1001: 8}
    each = {step: values["val/each_step"] for step, values in ended.steps("val").items()}
    assert each == {step: step % 8 for step in range(16)}
    [words] = [table for table in ended.of(Table) if table.name == "words"]
    assert (words.step, words.rows) == (3, [["hello"]])
    assert ended.report.snapshot.params["api_key"] == "***"
    assert ended.report.snapshot.params["rate"] == 0.01


def test_verl(ended: Ended) -> None:
    """`Tracking` and the table of generations."""
    assert ended.steps("step 5") == {
        1: {"actor/loss": 1.0, "training/global_step": 1},
        2: {"actor/loss": 0.5, "training/global_step": 2},
    }
    [table] = [table for table in ended.of(Table) if table.name == "val/generations"]
    assert (table.axis, table.step, table.rows) == ("step 5", 2, [[2, "in", "out", 0.5]])


# --- beside W&B ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("library", "step_metric", "turn"),
    [
        ("accelerate", "", ""),
        ("transformers", "train/global_step", " 2"),
        ("trl", "train/global_step", " 3"),
        ("lightning", "trainer/global_step", " 4"),
        ("verl", "", " 5"),
    ],
)
def test_captured_values_are_those_in_the_file_of_wandb(
    captured: Ended, library: str, step_metric: str, turn: str
) -> None:
    """Each number of each row, at the value of its step metric."""
    axis = (step_metric or "step") + turn
    ours = {
        (step.step, name, value)
        for step in captured.of(ClosedStep)
        if step.axis == axis or (library == "lightning" and step.axis in ("val", "words"))
        for name, value in step.values.items()
        if name != step_metric
    }
    theirs = set()
    media = ("images.", "table.", "completions.", "words.", "val/generations.")
    for row in captured.rows[captured.found["runs"][library]]:
        step = int(row[step_metric or "_step"])
        theirs |= {
            (step, name, float(value))
            for name, value in row.items()
            if not name.startswith(("_", *media)) and name != step_metric and not isinstance(value, str)
        }
    assert {value for value in theirs if value[1] != "_step"} >= ours
    newest = {(step, name): value for step, name, value in theirs}
    assert newest.keys() == {(step, name) for step, name, _ in ours}
