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
from telemetry.wire.events import ClosedStep

_PROGRAM = """
import json, logging, sys
import wandb
import telemetry, telemetry.integrations.wandb as capture
from telemetry.integrations.wandb.source import Source
from wandb.sdk import wandb_run, wandb_config, wandb_summary
from wandb.sdk.artifacts import artifact

places = [(wandb_run.Run, name) for name in ("_log", "_define_metric", "_finish", "_log_artifact")]
places += [(wandb_run.Run, name) for name in ("alert", "_on_start")]
places += [(wandb_config.Config, name) for name in ("update", "setdefaults", "__setitem__", "__setattr__")]
places += [(wandb_summary.SummaryDict, "update")]
places += [(artifact.Artifact, name) for name in ("add_file", "add_dir", "add_reference")]
now = lambda: [vars(owner)[name] for owner, name in places]
found = {}

telemetry.start("late")
before = now()
run = wandb.init(project="p", config={"lr": 1}, settings=wandb.Settings(x_disable_stats=True, disable_git=True))
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

real = Source.log
def broken(self, *args):
    raise RuntimeError("broken")
Source.log = broken
found["returned"] = [wandb.log({"lost": 1}), wandb.log({"lost": 2})]
Source.log = real
try:
    wandb.log([1])
except TypeError as error:
    found["raised"] = str(error)

capture.uninstall()
capture.uninstall()
found["restored"] = [one is other for one, other in zip(before, now())]
wandb.log({"unseen": 1})
found["step"] = run.step
json.dump(found, open("found.json", "w"))
"""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Any, list[Any], str]:
    """What the program found, its report and records, and its messages."""
    folder = tmp_path_factory.mktemp("late")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB", "TELEMETRY"))}
    environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_CONSOLE": "off", "HOME": str(folder)}
    child = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert child.returncode == 0, child.stderr
    directory = folder / "runs" / "latest"
    records = RecordLog(Path(directory) / "records").read(0, 1_000)
    return json.loads((folder / "found.json").read_text()), telemetry.load_report(directory), records, child.stderr


def test_functions_are_restored_by_identity(ended: Any) -> None:
    """However often the capture was installed."""
    found, *_ = ended
    assert found["replaced"] == [True] * 14
    assert found["once"]
    assert found["restored"] == [True] * 14


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


def test_a_fault_of_the_capture_is_printed_once_and_never_raised(ended: Any) -> None:
    """Errors of W&B itself are raised as before."""
    found, _, _, err = ended
    assert found["returned"] == [None, None]
    assert found["raised"] == "wandb.log must be passed a dictionary"
    assert err.count("telemetry: ") == 1
    assert "a call of wandb.Run.log was not recorded: RuntimeError: broken. The program goes on" in err
