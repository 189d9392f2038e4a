"""The capture of W&B by hand: installed late, twice, removed, and with a fault of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import telemetry
from telemetry.store.records import RecordLog
from telemetry.wire.events import Artifact, ClosedStep

_PROGRAM = """
import json, logging, os, pathlib, sys
import wandb
import telemetry, telemetry.integrations.wandb as capture
from telemetry.integrations.wandb.source import WandbSource
from wandb.sdk import wandb_run, wandb_config, wandb_summary
from wandb.sdk.artifacts import artifact

places = [(wandb_run.Run, name) for name in ("_log", "_define_metric", "_finish", "_log_artifact")]
places += [(wandb_run.Run, name) for name in ("alert", "_on_start", "_save")]
places += [(wandb_config.Config, name) for name in ("update", "setdefaults", "__setitem__", "__setattr__")]
places += [(wandb_summary.SummaryDict, "update")]
places += [(artifact.Artifact, name) for name in ("add_file", "add_dir", "add_reference")]
now = lambda: [vars(owner)[name] for owner, name in places]
found = {}

telemetry.start("late")
before = now()
settings = wandb.Settings(x_disable_stats=True, disable_git=True)
run = wandb.init(project="p", config={"lr": 1, "max_steps": 40}, settings=settings)
wandb.log({"missed": 1})
wandb.log({"missed": 2})
capture.install()
installed = now()
capture.install()
found["replaced"] = [one is not other for one, other in zip(before, installed)]
found["once"] = now() == installed
wandb.log({"seen": 1})  # the bound method of before
wandb.log({"seen": 2}, commit=False)
wandb.log({"more": 3})
wandb.config.late = 5

os.makedirs("data/inner")
for name in ("data/a.txt", "data/inner/b.txt"):
    pathlib.Path(name).write_text(name)
made = wandb.Artifact("made", type="dataset")
made.add_file(local_path="data/a.txt")
made.add_file("data/a.txt", "own name")
made.add_file("data/inner/b.txt", "of W&B itself", True)
made.add_dir(local_path="data/inner/")
made.add_reference(uri="s3://bucket/c.txt", checksum=False)
made.add_reference("s3://bucket/d.txt", name="d", checksum=False)
run.log_artifact(artifact_or_path=made)
found["saved"] = wandb.save("data/*.txt"), wandb.save(os.path.abspath("data/inner/b.txt"), base_path="data")

real = WandbSource.log
def broken(self, *args):
    raise RuntimeError("broken")
WandbSource.log = broken
found["returned"] = [wandb.log({"lost": 1}), wandb.log({"lost": 2})]
WandbSource.log = real
try:
    wandb.log([1])
except TypeError as error:
    found["raised"] = str(error)

off = wandb.init(mode="disabled", config={"off": 1}, name="off", reinit="create_new")
found["disabled"] = off.disabled, wandb.run is off
wandb.log({"off": 1})
wandb.config.off2 = 2
wandb.config.update({"off more": 3})
wandb.summary["off"] = 4
off.summary.update({"off": 5})
off.define_metric("off", step_metric="off")
off.log_artifact("data/a.txt", name="off")
off.save("data/a.txt")
off.alert("off")
off.finish()

capture.uninstall()
capture.uninstall()
found["restored"] = [one is other for one, other in zip(before, now())]
run.log({"unseen": 1})
found["step"] = run.step
json.dump(found, open("found.json", "w"))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Working directory of the program."""
    return tmp_path_factory.mktemp("late").resolve()


@pytest.fixture(scope="module")
def ended(folder: Path) -> tuple[dict[str, Any], Any, list[Any], str]:
    """Return what the program wrote down, its report, its records and its messages."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB", "TELEMETRY"))}
    environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_CONSOLE": "off", "HOME": str(folder)}
    environ["TELEMETRY_EMIT__QUIET"] = "true"
    child = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr
    directory = folder / "runs" / "latest"
    records = RecordLog(Path(directory) / "records").read(0, 1_000)
    return json.loads((folder / "found.json").read_text()), telemetry.load_report(directory), records, child.stderr


@pytest.mark.slow
def test_functions_are_restored_by_identity(ended: Any) -> None:
    """However often the capture was installed."""
    found, *_ = ended
    assert found["replaced"] == [True] * 15
    assert found["once"]
    assert found["restored"] == [True] * 15


@pytest.mark.slow
def test_a_capture_that_comes_late_goes_on_at_the_step_of_wandb(ended: Any) -> None:
    """The bound methods that W&B made at `init` are captured, too."""
    found, report, records, _ = ended
    steps = [each.record for each in records if isinstance(each.record, ClosedStep)]
    assert {step.step: step.values for step in steps} == {2: {"seen": 1}, 3: {"seen": 2, "more": 3}}
    assert {name: report.snapshot.params[name] for name in ("lr", "late", "wandb.project")} == {
        "lr": 1,
        "late": 5,
        "wandb.project": "p",
    }
    assert found["step"] == 7


@pytest.mark.slow
def test_max_steps_of_the_config_are_the_progress(ended: Any) -> None:
    """`max_steps` of the config is the progress total of the axis with the first row. W&B itself knows no total."""
    _, report, *_ = ended
    assert [(item.name, item.done, item.total) for item in report.snapshot.progress] == [("step", 3.0, 40.0)]


@pytest.mark.slow
def test_files_of_an_artifact_are_recorded_however_they_are_passed(ended: Any, folder: Path) -> None:
    """Files of an artifact are recorded whether passed by position or by keyword.

    Copies that W&B makes for itself are left out.
    """
    _, _, records, _ = ended
    files = {one.name: one.uri for each in records if isinstance(one := each.record, Artifact)}
    assert {name: uri for name, uri in files.items() if name.startswith("made/")} == {
        "made/a.txt": f"{folder}/data/a.txt",
        "made/own name": f"{folder}/data/a.txt",
        "made/inner": f"{folder}/data/inner",
        "made/c.txt": "s3://bucket/c.txt",
        "made/d": "s3://bucket/d.txt",
    }


@pytest.mark.slow
def test_saved_files_are_recorded_where_they_are(ended: Any, folder: Path) -> None:
    """Saved files are recorded where they are, not where W&B keeps its links to them."""
    found, _, records, _ = ended
    assert [len(paths) for paths in found["saved"]] == [1, 1]
    files = {
        one.name: one.uri for each in records if isinstance(one := each.record, Artifact) and one.kind == "file"
    }
    assert files == {"data/a.txt": f"{folder}/data/a.txt", "inner/b.txt": f"{folder}/data/inner/b.txt"}


@pytest.mark.slow
def test_a_run_that_is_switched_off_is_not_recorded(ended: Any) -> None:
    """Neither settings nor values of a disabled run are recorded."""
    found, report, records, err = ended
    assert found["disabled"] == [True, True]
    assert not [name for name in report.snapshot.params if "off" in name or "wandb 2" in name]
    assert "'off" not in str([each.record for each in records])
    assert "off" not in err


@pytest.mark.slow
def test_a_fault_of_the_capture_is_printed_once_and_never_raised(ended: Any) -> None:
    """Errors of W&B itself are raised as before."""
    found, _, _, err = ended
    assert found["returned"] == [None, None]
    assert found["raised"] == "wandb.log must be passed a dictionary"
    assert err.count("telemetry: ") == 1
    assert "a call of wandb.Run.log was not recorded: RuntimeError: broken. The program goes on" in err
