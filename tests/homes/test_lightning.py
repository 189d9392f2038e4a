"""`telemetry run --capture lightning`: fits of unchanged programs, beside what Lightning's own CSV logger wrote."""

from __future__ import annotations

import csv
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.homes.trained import PROGRAMS, Trained, trained

VALIDATION_EACH = {step: {"val/each_step": float(step % 8)} for step in range(16)}
GROUPS = ("lightning.pytorch.callbacks_factory", "pytorch_lightning.callbacks_factory")
PLUGIN = "telemetryd_plugins:lightning_callbacks"

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="tm"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def site(folder: Path) -> str:
    """A folder for PYTHONPATH with the entry points that an installed telemetry has."""
    information = folder / "site" / "telemetryd_plugin-0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: telemetryd-plugin\nVersion: 0\n")
    (information / "entry_points.txt").write_text("".join(f"[{group}]\ntelemetry = {PLUGIN}\n" for group in GROUPS))
    return str(folder / "site")


@pytest.fixture(scope="module")
def fits(folder: Path, site: str) -> Trained:
    """All fits of one process, which has the plugin as well."""
    (folder / "fits").mkdir()
    program = [sys.executable, str(PROGRAMS / "fit_lightning.py")]
    return trained(folder / "fits", "lightning", *program, more={"PYTHONPATH": site})


@pytest.fixture(scope="module")
def ranks(folder: Path) -> Trained:
    """A fit of two processes."""
    (folder / "ranks").mkdir()
    return trained(folder / "ranks", "lightning", sys.executable, str(PROGRAMS / "fit_ranks.py"))


def rows_of(path: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """Yield step and values of each row of a CSV logger."""
    with path.open() as file:
        for row in csv.DictReader(file):
            values = {name: float(value) for name, value in row.items() if value}
            yield int(values.pop("step")), values


def steps_of(path: Path) -> dict[str, dict[int, dict[str, float]]]:
    """Return the rows of a CSV logger by axis, with those of the same step joined."""
    axes: dict[str, dict[int, dict[str, float]]] = {"step": {}, "validation": {}, "own_step": {}}
    for step, values in rows_of(path):
        axis = "validation" if "val/each_step" in values else "own_step" if "by hand" in values else "step"
        axes[axis].setdefault(step, {}).update(values)
    return axes


# --- one process ---------------------------------------------------------------------------------


def test_the_steps_of_a_fit_are_its_progress(fits: Trained) -> None:
    """Two epochs of eight batches, for each fit that counts Lightning's steps; a fit that failed is not done."""
    progress = {item.name: (item.done, item.total) for item in fits.report.snapshot.progress}
    assert progress["step"] == (16.0, 16.0)
    assert {total for _, total in progress.values()} == {16.0}
    assert set(progress) <= fits.axes
    assert any(done < total for done, total in progress.values())


@pytest.mark.parametrize("axis", ["step", "validation", "own_step"])
def test_steps_and_values_are_those_of_the_csv_logger(fits: Trained, axis: str) -> None:
    """Each axis has the rows of the CSV file to the last bit, whichever count of steps they have."""
    expected = steps_of(fits.folder / "csv" / "metrics.csv")[axis]
    assert expected
    assert fits.steps(axis) == expected


def test_every_form_of_logging_has_its_name(fits: Trained) -> None:
    """Values by step and by epoch, of dictionaries, tests and a callback are there; `logger=False` is not."""
    names = set().union(*fits.steps("step").values())
    assert names == {
        *("train/loss_step", "train/loss_epoch", "plain", "count", "a", "b", "epoch", "lr-SGD"),
        *("val/loss", "val/each_epoch", "test/loss"),
    }


def test_a_fit_without_a_logger_has_the_same_names(fits: Trained) -> None:
    """`Trainer(logger=False)` is recorded like one with a logger."""
    steps = fits.steps("step_2")
    assert list(steps) == [3, 7, 11, 15]
    assert set(steps[15]) == {
        *("train/loss_step", "train/loss_epoch", "plain", "count", "a", "b", "epoch", "val/loss", "val/each_epoch"),
    }
    assert fits.steps("validation_2") == VALIDATION_EACH


def test_nothing_arrives_late_or_is_refused(fits: Trained) -> None:
    """Steps of each axis ascend, so that no value needs a correction."""
    accounting = fits.report.snapshot.accounting
    assert fits.report.completeness == "complete"
    assert accounting.applied == accounting.received
    assert all(record["closed"] == "ended" and record["revision"] == 0 for record in fits.records("step"))
    assert "not recorded" not in fits.err
    assert "ignored" not in fits.err


def test_hyperparameters_are_recorded_once_for_each_trainer(fits: Trained) -> None:
    """Hyperparameters of a second Trainer are recorded below its number, and secrets are masked."""
    first = [record["values"] for record in fits.records("params") if "width" in record["values"]]
    assert first == [{"width": 4, "rate": 0.01, "api_key": "***"}]
    assert fits.params["trainer_2.rate"] == 0.5


def test_checkpoints_are_recorded_and_stay_where_they_were(fits: Trained) -> None:
    """The folder of checkpoints is the same with and without the capture."""
    assert fits.result["bare"] == fits.result["uncaptured"] == ["checkpoints/epoch=1-step=16.ckpt"]
    found = [(each["uri"], each["step"]) for each in fits.records("artifact") if each["axis"] == "step_2"]
    folder = os.path.realpath(fits.folder / "bare" / "checkpoints")
    assert [(os.path.realpath(uri), step) for uri, step in found] == [
        (f"{folder}/epoch=0-step=8.ckpt", 8),
        (f"{folder}/epoch=1-step=16.ckpt", 16),
    ]


def test_marks_name_beginning_and_end(fits: Trained) -> None:
    """A fit and a test have two marks each."""
    marks = [mark["text"] for mark in fits.records("mark") if mark["labels"]["axis"] == "step"]
    assert marks == ["fit began", "fit ended", "test began", "test ended"]


def test_a_failure_is_a_mark_and_reaches_the_program(fits: Trained) -> None:
    """The exception is named in the run, without its secrets, and is raised as before."""
    marks = [mark["text"] for mark in fits.records("mark") if mark["labels"]["axis"] == "step_3"]
    assert marks == ["fit began", "fit failed: ValueError: no data of postgres://app:***@db"]
    assert fits.result["raised"] == "no data of postgres://app:hunter2pw@db"


def test_a_step_that_the_program_logs_has_an_axis_of_its_own(fits: Trained) -> None:
    """A metric named `step` counts epochs here, not batches."""
    steps = fits.steps("own_step_4")
    assert list(steps) == [0, 1]
    assert [set(values) for values in steps.values()] == [{"epoch loss"}] * 2


def test_the_standalone_package_is_captured(fits: Trained) -> None:
    """`pytorch_lightning` is the same code under another name."""
    values = {step: {"old": 2.5, "epoch": float(step // 8)} for step in (3, 7, 11, 15)}
    assert fits.steps("step_5") == values


def test_each_dataloader_counts_by_itself(fits: Trained) -> None:
    """A second validation set begins at 0 while the first one is ahead."""
    first = {step: {"each/dataloader_idx_0": float(step % 8)} for step in range(16)}
    second = {step: {"each/dataloader_idx_1": float(10 + step % 8)} for step in range(16)}
    assert fits.steps("validation_6") == first
    assert fits.steps("validation_dataloader_1_6") == second


def test_a_count_that_begins_again_has_a_new_axis(fits: Trained) -> None:
    """`validate` after a fit must not replace the validation steps of the fit."""
    assert fits.steps("validation_7") == {step: {"each": float(step)} for step in range(8)}


def test_a_trial_run_is_not_recorded(fits: Trained) -> None:
    """`fast_dev_run` has no marks and takes no number of a Trainer."""
    begun = [mark["labels"]["axis"] for mark in fits.records("mark") if mark["text"] == "fit began"]
    assert begun == ["step", "step_2", "step_3", "step_4", "step_5", "step_6", "step_8"]
    assert fits.result["raised in a trial"] == "no data"
    assert [mark["text"] for mark in fits.records("mark") if "failed" in mark["text"]] == [
        "fit failed: ValueError: no data of postgres://app:***@db"
    ]


def test_the_explicit_logger_records_with_and_without_the_capture(fits: Trained) -> None:
    """`TelemetryLogger` records once, also if the capture is installed."""
    for name, number in (("explicit", 8), ("alone", 9)):
        expected = steps_of(fits.folder / name / "metrics.csv")
        assert fits.steps(f"step_{number}") == expected["step"]
        assert fits.steps(f"val_{number}") == expected["validation"]
        assert fits.params[f"trainer_{number}.width"] == 4
        found = [Path(each["uri"]).name for each in fits.records("artifact") if each["axis"] == f"step_{number}"]
        assert found == ["epoch=0-step=8.ckpt", "epoch=1-step=16.ckpt"]
    assert [each["text"] for each in fits.records("text")] == ["from explicit", "from alone"]
    assert fits.result["unpickled"]


def test_there_are_no_other_axes(fits: Trained) -> None:
    """The run has exactly the expected axes, so no fit writes on an axis of another one."""
    assert fits.axes == {
        *("step", "validation", "own_step", "step_2", "validation_2", "step_3", "own_step_4", "step_5", "step_6"),
        *("validation_6", "validation_dataloader_1_6", "validation_7", "step_8", "val_8", "step_9", "val_9"),
    }


def test_lightning_has_its_own_functions_after_uninstall(fits: Trained) -> None:
    """Installed, removed, and installed twice: the wrappers come and go."""
    assert fits.result["wrapped"] == [[True] * 4, [False] * 4, [True] * 4]


# --- two processes -------------------------------------------------------------------------------


def test_reduced_values_are_recorded_by_both_ranks_without_spread(ranks: Trained) -> None:
    """Both ranks log the same value with `sync_dist=True`, so the recorded values have no spread."""
    steps = [record for record in ranks.records("step") if record["axis"] == "step"]
    assert [record["step"] for record in steps] == [1, 3, 5, 7]
    for record in steps:
        count, lowest, highest, mean, *_ = record["spread"]["reduced"]
        assert (count, lowest, highest, mean, record["values"]["reduced"]) == (2, 0.5, 0.5, 0.5, 0.5)


def test_values_that_are_not_reduced_keep_the_spread_over_ranks(ranks: Trained) -> None:
    """The mean is of both ranks, and the spread tells which rank had which value."""
    for record in (each for each in ranks.records("step") if each["axis"] == "step"):
        count, lowest, highest, mean, at_lowest, at_highest = record["spread"]["of each rank"]
        assert (count, lowest, highest, mean) == (2, 0.0, 1.0, 0.5)
        assert at_lowest != at_highest
        assert record["values"]["first rank only"] == 5.0
        assert "first rank only" not in record["spread"]


def test_validation_steps_of_two_ranks_are_joined(ranks: Trained) -> None:
    """Validation steps and their values by epoch are reduced as well."""
    assert ranks.steps("validation") == {step: {"val/reduced_step": 2.5} for step in range(8)}
    assert ranks.steps("step")[7]["val/reduced_epoch"] == 2.5


def test_values_of_the_first_rank_are_those_of_its_csv_logger(ranks: Trained) -> None:
    """Lightning itself logs the same reduced values at the same steps."""
    rows = list(rows_of(ranks.folder / "ranks" / "metrics.csv"))
    reduced = {step: values["reduced"] for step, values in rows if "reduced" in values}
    assert {step: values["reduced"] for step, values in ranks.steps("step").items()} == reduced


def test_the_first_rank_alone_records_settings_files_and_marks(ranks: Trained) -> None:
    """Two processes record, but params, checkpoints and marks are there once."""
    assert [record["values"] for record in ranks.records("params")] == [{"width": 4}]
    assert [Path(each["uri"]).name for each in ranks.records("artifact")] == [
        "epoch=0-step=4.ckpt",
        "epoch=1-step=8.ckpt",
    ]
    assert [mark["text"] for mark in ranks.records("mark")] == ["fit began", "fit ended"]
    assert len(ranks.report.snapshot.producers) == 2


# --- the seam of Lightning -----------------------------------------------------------------------


def test_the_plugin_captures_where_pythonpath_is_replaced(folder: Path, site: str) -> None:
    """The entry point alone captures a program that did not start with our bootstrap."""
    (folder / "seam").mkdir()
    program = [sys.executable, str(PROGRAMS / "fit_small.py")]
    run = trained(folder / "seam", "lightning", "env", f"PYTHONPATH={site}", *program)
    assert run.steps("step") == {step: {"small": 4.5, "epoch": 0.0} for step in (0, 1)}
    assert "booted False" in run.out, "only the plugin can have captured it"
    assert "callbacks []" in run.out
    assert [mark["text"] for mark in run.records("mark")] == ["fit began", "fit ended"]
