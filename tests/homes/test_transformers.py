"""`telemetry run --capture transformers`: Trainer, SFT and GRPO, beside what transformers itself remembers."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.homes.trained import PROGRAMS, Trained, trained

TRL = {"step_4": (2.0, 2.0), "step_5": (2.0, 2.0)}
AXES = {"trainer": "step", "again": "step_2", "sft": "step_3", "grpo": "step_4", "talk": "step_5"}

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def run() -> Iterator[Trained]:
    """All trainings of one process."""
    folder = Path(tempfile.mkdtemp(prefix="tm"))
    yield trained(folder, "transformers", sys.executable, str(PROGRAMS / "train_transformers.py"))
    shutil.rmtree(folder, ignore_errors=True)


def history(run: Trained, name: str) -> dict[int, dict[str, float]]:
    """Return what transformers remembers, by step: of values that are logged again, the newest."""
    steps: dict[int, dict[str, float]] = {}
    for entry in run.result["histories"][name]:
        values = {key: value for key, value in entry.items() if key != "step" and value is not None}
        steps.setdefault(entry["step"], {}).update(values)
    return steps


def tables(run: Trained, axis: str) -> dict[int, list[dict[str, Any]]]:
    """Return the rows of the completions tables by step."""
    found = [record for record in run.records("table") if record["axis"] == axis]
    assert all(record["name"] == "completions" for record in found)
    made = {each["step"]: [dict(zip(each["columns"], row, strict=True)) for row in each["rows"]] for each in found}
    assert len(made) == len(found), "one table a step"
    return made


@pytest.mark.parametrize("name", AXES)
def test_values_and_steps_are_those_of_the_log_history(run: Trained, name: str) -> None:
    """Each training has its own axis, with all that transformers remembers of it."""
    expected = history(run, name)
    assert len(expected) >= 2
    assert run.steps(AXES[name]) == expected


def test_max_steps_are_the_progress_of_each_training(run: Trained) -> None:
    """The progress of each training has its maximum number of steps, also for the trainers of TRL."""
    progress = {item.name: (item.done, item.total) for item in run.report.snapshot.progress}
    assert progress == {"step": (6.0, 6.0), "step_2": (6.0, 6.0), "step_3": (3.0, 3.0), **TRL}


def test_evaluations_and_the_summary_are_values_of_their_step(run: Trained) -> None:
    """Evaluations and the summary share the axis of the training."""
    steps = run.steps("step")
    assert sorted(steps) == [2, 3, 4, 6]
    assert {"eval_loss", "eval_runtime", "epoch"} <= set(steps[3])
    assert {"loss", "eval_loss", "train_runtime", "train_loss", "total_flos"} <= set(steps[6])


def test_a_value_that_is_none_is_left_out(run: Trained) -> None:
    """TRL logs None for a reward that no completion got."""
    entry = run.result["histories"]["grpo"][0]
    assert entry["rewards/never/mean"] is None
    assert "rewards/never/mean" not in run.steps("step_4")[1]
    assert run.steps("step_4")[1]["rewards/short/mean"] == entry["rewards/short/mean"]


def test_nothing_is_lost_or_refused(run: Trained) -> None:
    """The run is complete: no value comes late, and no axis is used twice."""
    assert run.report.completeness == "complete"
    assert all(record["revision"] == 0 for record in run.records("step"))
    assert "not recorded" not in run.err
    assert "ignored" not in run.err
    assert run.axes == set(AXES.values())


def test_arguments_and_model_are_params_without_secrets(run: Trained) -> None:
    """A token of the arguments is masked everywhere."""
    first = run.params
    assert (first["learning_rate"], first["max_steps"], first["model.class"]) == (5e-05, 6, "LlamaForCausalLM")
    assert first["model.parameters"] == first["model.trainable_parameters"] > 1_000
    assert first["hub_token"] == "***"
    assert "hf_abcdefghij" not in (run.folder / "runs" / "latest" / "records" / "records.jsonl").read_text()


def test_later_trainers_record_the_arguments_that_differ(run: Trained) -> None:
    """Arguments of a later Trainer that differ are recorded below its number."""
    assert run.params["trainer_3.output_dir"] == "sft"
    assert run.params["trainer_4.num_generations"] == 2
    assert "trainer_3.seed" not in run.params


def test_checkpoints_are_recorded_by_reference(run: Trained) -> None:
    """The folder that transformers wrote is named at its step."""
    found = [(each["axis"], each["step"], os.path.realpath(each["uri"])) for each in run.records("artifact")]
    folder = os.path.realpath(run.folder / "out" / "checkpoint-6")
    assert found == [("step", 6, folder), ("step_2", 6, folder)]


def test_marks_name_beginning_and_end_of_each_training(run: Trained) -> None:
    """Two marks for each, in their order."""
    marks = [(mark["text"], mark["labels"]["axis"]) for mark in run.records("mark")]
    assert marks == [(text, axis) for axis in AXES.values() for text in ("training began", "training ended")]


def test_only_the_first_process_of_a_job_records(run: Trained) -> None:
    """The program ends with the events of a second process, whose axis would be `step_6`."""
    axes = {record.get("axis", record.get("labels", {}).get("axis")) for record in run.all_records}
    assert axes - {None} == set(AXES.values())


def test_report_to_accepts_our_name_without_recording_twice(run: Trained) -> None:
    """The name adds a callback without effect beside the one that records."""
    assert run.result["histories"]["seen"].count("TelemetryCallback") == 1
    assert run.result["histories"]["seen"].count("TelemetryReportTarget") == 1


# --- completions of TRL --------------------------------------------------------------------------


def test_completions_have_no_texts_by_default(run: Trained) -> None:
    """There are numbers of characters in place of texts, also for columns of the program."""
    rows_by_step = tables(run, "step_4")
    assert sorted(rows_by_step) == [1, 2]
    for rows in rows_by_step.values():
        assert len(rows) == 4
        for row in rows:
            assert set(row) == {"prompt_chars", "completion_chars", "short", "never", "advantage", "source_chars"}
            assert row["prompt_chars"] == len("what is the sum of two")
            assert row["short"] == -row["completion_chars"]
            assert row["never"] is None
            assert row["source_chars"] == len("made up")


def test_completions_are_those_that_trl_wrote(run: Trained) -> None:
    """Rows and rewards are those of the file that TRL wrote for the same step."""
    import pandas

    for step, rows in tables(run, "step_5").items():
        frame = pandas.read_parquet(run.folder / "talk" / "completions" / f"completions_{step:05d}.parquet")
        assert [row["advantage"] for row in rows] == frame["advantage"].tolist()
        assert [row["short"] for row in rows] == frame["short"].tolist()
        said = [messages[0]["content"] for messages in frame["completion"]]
        assert [row["completion"] for row in rows] == [f"assistant: {text}" for text in said]


def test_texts_are_recorded_when_the_user_asks_for_them(run: Trained) -> None:
    """One variable switches them on."""
    for rows in tables(run, "step_5").values():
        for row in rows:
            assert row["prompt"] == "user: what is the sum of two"
            assert row["completion_chars"] == len(row["completion"])
            assert row["source"] == "made up"


# --- removal -------------------------------------------------------------------------------------


def test_uninstall_removes_the_callback_the_name_and_the_wrapper(run: Trained) -> None:
    """Installed twice it is there once, and then transformers is as it was."""
    assert run.result["callbacks"] == [[2, True], [2, True], [1, False]]
    assert run.result["log_is_own"]
