"""Programs of Tracelet with only their import changed, read back from the run and from the trackers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.backends.reading_wandb import records
from tests.homes.trained import PROGRAMS, Trained

pytestmark = pytest.mark.timeout(300)

BATCHES = {step: 1 / (step + 1) for step in range(600)}
ACCURACY = {epoch: epoch / 8 for epoch in range(5)}
COUNTS = {epoch: float(epoch) for epoch in range(5)}


def child(folder: Path, *command: str) -> Trained:
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("TELEMETRY", "TRACELET"))}
    environ |= {"XDG_RUNTIME_DIR": str(folder), "XDG_CONFIG_HOME": str(folder), "HOME": str(folder)}
    environ |= {"TELEMETRY_BACKENDS__FINISH_TIMEOUT_S": "120", "TELEMETRY_EMIT__FINISH_TIMEOUT_S": "120"}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return Trained(folder, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def trackers(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("t")
    return child(folder, str(PROGRAMS / "tracelet_trackers.py"), f"sqlite:///{folder}/mlflow.db")


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("j")
    program = str(PROGRAMS / "tracelet_joined.py")
    return child(folder, "-m", "telemetry", "run", "--quiet", "--strict", "--", sys.executable, program)


def by_name(steps: dict[int, dict[str, Any]], name: str) -> dict[int, Any]:
    return {step: values[name] for step, values in steps.items() if name in values}


def test_the_run_has_every_value_at_its_step(trackers: Trained) -> None:
    """The run has every value at its step.

    Values that a SummaryWriter counts by batch and those that the experiment counts by epoch are on axes of their
    own.
    """
    assert trackers.report.completeness == "complete"
    assert trackers.report.snapshot.name == "digits"
    assert by_name(trackers.steps("step"), "batch/loss") == BATCHES
    assert by_name(trackers.steps("iteration"), "val/accuracy") == ACCURACY
    assert by_name(trackers.steps("iteration"), "val/count") == COUNTS
    params = trackers.params
    assert (params["project"], params["learning_rate"], params["batch.size"]) == ("vision", 0.1, 32)
    assert "hunter2" not in json.dumps(params)
    assert [one["name"] for one in trackers.records("artifact")] == ["checkpoint"]


def test_a_backend_of_the_user_gets_what_the_writer_gets(trackers: Trained) -> None:
    """The capture is gone when the experiment has ended."""
    values = trackers.result["own"]
    assert {step: value for name, value, step in values if name == "batch/loss"} == BATCHES
    assert {step: value for name, value, step in values if name == "val/accuracy"} == ACCURACY
    assert [one for one in values if one[0].startswith("pair/")] == [["pair/a", 1.0, 3], ["pair/b", 2.0, 3]]
    assert trackers.result["restored"] is True


def test_tensorboard_has_it(trackers: Trained) -> None:
    """Each axis has a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    [folder] = Path(trackers.result["directory"], "backends", "tensorboard").rglob("iteration")
    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0}).Reload()
    assert {event.step: event.value for event in reader.Scalars("val/accuracy")} == ACCURACY
    reader = EventAccumulator(str(folder.parent / "step"), size_guidance={"scalars": 0}).Reload()
    assert {event.step: event.value for event in reader.Scalars("batch/loss")} == pytest.approx(BATCHES)


def test_wandb_has_it(trackers: Trained) -> None:
    """The W&B run has the name, project and tags of the call, and all values."""
    [log] = Path(trackers.result["directory"], "backends", "wandb").rglob("*.wandb")
    rows = [
        {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        for record in records(log)
        if record.WhichOneof("record_type") == "history"
    ]
    accuracy = {row["axis/iteration"]: row["val/accuracy"] for row in rows if "val/accuracy" in row}
    losses = {row["axis/step"]: row["batch/loss"] for row in rows if "batch/loss" in row}
    assert (accuracy, losses) == (ACCURACY, BATCHES)
    [run] = [record.run for record in records(log) if record.WhichOneof("record_type") == "run"]
    assert (run.display_name, run.project, list(run.tags)) == ("digits", "vision", ["a", "b"])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of SQLAlchemy, about MLflow
def test_mlflow_has_it(trackers: Trained) -> None:
    """The MLflow run is in the experiment of the project and in the database of `config`."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{trackers.folder}/mlflow.db")
    experiment = client.get_experiment_by_name("vision")
    [run] = client.search_runs([experiment.experiment_id])
    assert run.info.run_name == "digits"
    for name, expected in (("val/accuracy", ACCURACY), ("batch/loss", BATCHES)):
        rows = client.get_metric_history(run.info.run_id, name)
        assert {row.step: row.value for row in rows} == expected
    assert (run.data.params["learning_rate"], run.data.params["batch.size"]) == ("0.1", "32")


def test_experiments_of_one_run_keep_apart(joined: Trained) -> None:
    """Names of the second one begin with its name."""
    losses = {step: step / 4 for step in range(3)}
    assert by_name(joined.steps("iteration"), "loss") == losses
    assert by_name(joined.steps("second/iteration"), "second/loss") == losses
    assert by_name(joined.steps("iteration"), "lr_group_0") == {0: 0.5, 1: 0.5, 2: 0.5}
    texts = {record["name"] for record in joined.records("text")}
    assert texts == {"model/architecture", "second/model/architecture"}


def test_what_is_refused_is_said_and_not_recorded(joined: Trained) -> None:
    """A SummaryWriter after the end is not captured."""
    assert "automagic never reads variables" in joined.err
    assert "its backends are chosen where it is started" in joined.err
    assert "hunter2" not in json.dumps(joined.all_records)
    assert (joined.params["model.parameter_count"], joined.params["second/model.type"]) == (3, "Linear")
    assert "after" not in {name for step in joined.steps("step").values() for name in step}
