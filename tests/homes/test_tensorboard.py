"""`telemetry run --capture tensorboard`: an unchanged program with writers of torch and tensorboardX.

Its event files are compared with those it writes without a capture, and what is recorded with its event files.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tests.homes.trained import DEADLINE_S, PROGRAMS, Trained, trained

from telemetry.integrations import tensorboard as capture

PROGRAM = str(PROGRAMS / "write_tensorboard.py")
LIBRARIES = ["torch", "x"]
TAGS = {
    *("train/loss", "train/lr", "val/loss", "earlier"),
    *(f"kinds/{kind}" for kind in ("tensor", "tensor of one", "half", "numpy", "array of one", "bool")),
    *("kinds/nan", "kinds/infinite", "kinds/float step", "kinds/text step"),
}

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="tm"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def captured(folder: Path) -> Trained:
    (folder / "captured").mkdir()
    return trained(folder / "captured", "tensorboard", sys.executable, PROGRAM)


@pytest.fixture(scope="module")
def plain(folder: Path) -> dict[str, Any]:
    """Return what the program finds without a capture."""
    (folder / "plain").mkdir()
    options: dict[str, Any] = {
        "cwd": folder / "plain",
        "timeout": DEADLINE_S,
        "capture_output": True,
    }
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TELEMETRY_")}
    subprocess.run([sys.executable, PROGRAM], env=environ, check=True, **options)
    return dict(json.loads((folder / "plain" / "result.json").read_text()))


def prefix(library: str) -> str:
    """The first writer of the program keeps its tags."""
    return "" if library == "torch" else "x/"


def events_of(folder: Path) -> dict[str, list[bytes]]:
    """Events by folder, without their times, in an order of their own."""
    found: dict[str, list[bytes]] = {}
    for file in sorted(folder.rglob("events.out.tfevents.*")):
        events = found.setdefault(str(file.parent.relative_to(folder)), [])
        for raw in RawEventFileLoader(str(file)).Load():
            event = Event.FromString(raw)
            event.wall_time = 0
            if event.graph_def:  # holds maps, whose order is not that of the program
                event.graph_def = GraphDef.FromString(event.graph_def).SerializeToString(deterministic=True)
            for value in event.summary.value:
                plugin = value.metadata.plugin_data
                if plugin.plugin_name == "hparams":  # as above
                    content = HParamsPluginData.FromString(plugin.content)
                    plugin.content = content.SerializeToString(deterministic=True)
            events.append(event.SerializeToString(deterministic=True))
    return {name: sorted(events) for name, events in found.items()}


def scalars_of(folder: Path) -> dict[str, dict[int, float]]:
    """Scalars of event files, by tag and step."""
    reader = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    reader.Reload()
    return {tag: {event.step: event.value for event in reader.Scalars(tag)} for tag in reader.Tags()["scalars"]}


def recorded(captured: Trained) -> dict[str, dict[int, float | None]]:
    """Values of steps by name, whatever their axis."""
    found: dict[str, dict[int, float | None]] = {}
    for axis in captured.axes:
        for step, values in captured.steps(axis).items():
            for name, value in values.items():
                assert step not in found.setdefault(name, {})
                found[name][step] = value
    return found


def one(captured: Trained, kind: str, name: str) -> dict[str, Any]:
    (found,) = (record for record in captured.records(kind) if record["name"] == name)
    return found


# --- the program ---------------------------------------------------------------------------------


def test_event_files_are_the_same_with_and_without(folder: Path, captured: Trained, plain: dict[str, Any]) -> None:
    """The capture writes nothing of its own and changes no event; only wall times differ."""
    with_capture, without = events_of(captured.folder / "logs"), events_of(folder / "plain" / "logs")
    assert with_capture.keys() == without.keys()
    for name, events in without.items():
        assert with_capture[name] == events, name
    assert sum(map(len, without.values())) > 2_000


def test_errors_and_results_are_the_same_with_and_without(captured: Trained, plain: dict[str, Any]) -> None:
    """Calls that the writer refuses raise the same errors, and results are passed on."""
    assert captured.result["errors"] == plain["errors"]
    assert captured.result["returned"] == plain["returned"]
    assert sum(error is not None for error in plain["errors"].values()) >= 20


def test_every_method_of_both_writers_is_observed(captured: Trained, plain: dict[str, Any]) -> None:
    """A new version of a writer may have more methods; none is missed silently."""
    assert captured.result["unobserved"] == {"torch.utils.tensorboard.writer": [], "tensorboardX.writer": []}
    assert {name: len(methods) for name, methods in plain["unobserved"].items()} == {
        "torch.utils.tensorboard.writer": 22,
        "tensorboardX.writer": 22,
    }


def test_nothing_is_lost(captured: Trained) -> None:
    """The account is complete, and no observer failed or caused a warning."""
    assert str(captured.report).startswith("complete: job")
    assert captured.report.snapshot.accounting.dropped == {}
    assert "was not recorded" not in captured.err
    assert "Warning" not in captured.err


# --- scalars -------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_scalars_are_those_of_the_event_files(captured: Trained, library: str) -> None:
    """Names, steps and values equal what TensorBoard itself reads, whatever kind of number was given."""
    ours, theirs = recorded(captured), scalars_of(captured.folder / "logs" / library)
    shown = {tag.replace("_", " ") if library == "x" else tag: values for tag, values in theirs.items()}
    assert shown.keys() >= TAGS
    for tag in TAGS:
        found = ours[prefix(library) + tag]
        assert found.keys() == shown[tag].keys(), tag
        for step, value in found.items():
            if value is None:
                assert not math.isfinite(shown[tag][step])
            else:
                assert value == pytest.approx(shown[tag][step], rel=1e-6), (tag, step)


def test_names_that_count_epochs_have_an_axis_of_their_own(captured: Trained) -> None:
    """Epochs 0 to 2 come after batch 299, and are not refused as too late."""
    for axis, name in (("val", "val/loss"), ("x/val/loss", "x/val/loss")):
        found = {step: values[name] for step, values in captured.steps(axis).items() if name in values}
        assert found == {epoch: epoch + 0.99 for epoch in range(3)}


def test_times_given_to_the_writer_are_kept(captured: Trained) -> None:
    """A walltime of the past is the time of the record."""
    begun = captured.result["begun"]
    found = (record for record in captured.records("step") if "earlier" in record["values"])
    times = {record["step"]: record["wall_ns"] / 1e9 for record in found}
    assert times == {301: pytest.approx(begun - 30, abs=2), 302: pytest.approx(begun - 20, abs=2)}


@pytest.mark.parametrize("library", LIBRARIES)
def test_values_without_a_step_are_gauges_and_not_step_0(captured: Trained, library: str) -> None:
    """TensorBoard stores them at step 0. The newest by its own time is the value of the gauge."""
    report, begin = captured.report, prefix(library)
    gauge = report.gauge(f"{begin}without step")
    assert (gauge.value, gauge.min, gauge.events) == (7.25, 1, 2)
    assert report.gauge(f"{begin}without step, both/a").value == 3
    assert one(captured, "text", f"{begin}without step, nan")["text"] == "nan"
    assert not [name for name in recorded(captured) if "without step" in name]


@pytest.mark.parametrize("library", LIBRARIES)
def test_scalars_of_one_chart_are_below_its_tag(captured: Trained, library: str) -> None:
    """The writer makes a file for each key; here each key is a name."""
    found = recorded(captured)
    assert found[f"{prefix(library)}both/a"] == {303: 1.0}
    assert found[f"{prefix(library)}both/b"] == {303: 2.0}


def test_calls_that_failed_are_not_recorded(captured: Trained) -> None:
    """The original runs first, and what it refuses leaves no trace."""
    assert not [record for record in captured.all_records if "refused" in json.dumps(record)]


def test_further_options_change_nothing(captured: Trained) -> None:
    """Arguments that only one of the writers knows are passed through, also after close()."""
    found = recorded(captured)
    assert found["double"] == {309: 0.1}
    assert found["text"] == {309: 3.5}
    assert found["bfloat16"] == {309: 0.25}
    assert found["x/shown"] == {309: 1.0}
    assert found["after close"] == {310: 1.0}


def test_defaults_of_a_with_block_are_used(captured: Trained) -> None:
    """A `with` block of tensorboardX has a step and a time for all its calls. The arguments of a call win."""
    assert recorded(captured)["x/metadata"] == {311: 1.0, 312: 2.0}
    assert one(captured, "text", "x/metadata text")["step"] == 311
    record = next(each for each in captured.records("step") if each["values"].get("x/metadata") == 1)
    assert record["wall_ns"] / 1e9 == pytest.approx(captured.result["begun"] - 40, abs=2)


def test_two_threads_lose_no_value(captured: Trained) -> None:
    """Both count from 0 to 499 at once, at a pace of their own."""
    found = recorded(captured)
    for name in ("threads/threads/a", "threads/threads/b"):
        assert found[name] == {step: step * 0.5 for step in range(500)}


def test_folders_of_the_same_name_stay_apart(captured: Trained) -> None:
    """Folders of a subclass stay apart.

    The subclass's own methods are captured through the methods that they call.
    """
    assert recorded(captured)["elsewhere/x/own/loss"] == {2: 1.0}
    assert one(captured, "text", "elsewhere/x/note")["text"] == "by a method of its own"
    assert recorded(captured)["unwritten/unwritten"] == {1: 1.0}


def test_a_purge_step_is_a_mark(captured: Trained) -> None:
    """A program that starts again at an earlier step says so by this argument."""
    (mark,) = captured.records("mark")
    assert mark["text"] == "TensorBoard values from step 2 on are written again"
    assert mark["labels"]["log_dir"] == str((captured.folder / "logs/elsewhere/x").resolve())


# --- the rest ------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", LIBRARIES)
def test_histograms_are_those_at_the_call(captured: Trained, library: str) -> None:
    """The program overwrites the array afterwards."""
    found = one(captured, "bins", f"{prefix(library)}histogram")
    assert (found["step"], sum(found["counts"]), found["edges"][0], found["edges"][-1]) == (304, 100, 0, 99)
    assert max(found["counts"]) == 2
    found = one(captured, "bins", f"{prefix(library)}histogram of tensor")
    assert (found["axis"], sum(found["counts"]), found["edges"][-1]) == ("", 8, 7)


@pytest.mark.parametrize("library", LIBRARIES)
def test_counted_bins_stay_as_they_are_without_empty_ends(captured: Trained, library: str) -> None:
    """The last limit is 1e20 in usual calls; a bin that wide would hide all others."""
    found = one(captured, "bins", f"{prefix(library)}raw")
    assert (found["step"], found["edges"], found["counts"]) == (305, [0, 1, 2, 3], [1, 0, 5])


@pytest.mark.parametrize("library", LIBRARIES)
def test_texts_are_recorded(captured: Trained, library: str) -> None:
    """A text with a step is on the axis of its writer's values. A text without a step is on no axis."""
    found = one(captured, "text", f"{prefix(library)}text")
    assert (found["text"], found["step"], found["axis"]) == (
        "some words",
        306,
        "step" if library == "torch" else "x",
    )
    assert one(captured, "text", f"{prefix(library)}text without step")["axis"] == ""


def test_hyperparameters_are_recorded_once_and_sets_stay_apart(captured: Trained) -> None:
    """The values of `add_hparams` are recorded once.

    It makes a writer of its own and calls that writer's `add_scalar`, which must not count again.
    """
    assert captured.params == {
        "lr": 0.1,
        "opt": "adam",
        "deep": True,
        "second set.lr": 0.2,
        "x/set of x.lr": 0.3,
    }
    assert captured.report.gauge("hparam/accuracy").value == 0.5
    found = {name: values for name, values in recorded(captured).items() if "accuracy" in name}
    assert found == {"second set/hparam/accuracy": {3: 0.75}, "x/set of x/hparam/accuracy": {4: 0.9}}


@pytest.mark.parametrize("library", LIBRARIES)
def test_of_other_data_the_folder_is_recorded_once_for_each_tag(captured: Trained, library: str) -> None:
    """A picture that is written at each step needs one reference."""
    begin = prefix(library)
    names = {"picture", "pictures", "boxes", "embedding", "curve", "mesh"}
    names |= {"custom_scalars", "custom_scalars_multilinechart", "custom_scalars_marginchart"}
    if library == "torch":
        names |= {"tensor", "sound", "graph"}
    uri = str((captured.folder / "logs" / library).resolve())
    references = [record for record in captured.records("artifact") if record["uri"] == uri]
    assert sorted(record["name"] for record in references) == sorted(begin + name for name in names)
    assert {record["kind"] for record in references} == {"tensorboard"}
    assert one(captured, "artifact", f"{begin}picture")["step"] == 307


def test_each_method_without_data_is_named_once(captured: Trained) -> None:
    """A user learns that the data is not kept, and where it is."""
    lines = [line for line in captured.err.splitlines() if "is not kept" in line]
    folder = (captured.folder / "logs/torch").resolve()
    assert f"telemetry: data given to add_image is not kept, only a reference to its folder {folder}" in lines
    assert len(lines) == len(set(lines)) == 12


# --- by hand -------------------------------------------------------------------------------------


def test_methods_come_back_as_they_were() -> None:
    """Installed before the import of one writer and after that of the other, again and again."""
    from torch.utils.tensorboard import SummaryWriter as Torch

    before = dict(vars(Torch))
    capture.install()
    from tensorboardX import SummaryWriter as X

    assert hasattr(X.add_scalar, "__wrapped__")
    assert hasattr(Torch.add_scalar, "__wrapped__")
    capture.uninstall()
    before_x = dict(vars(X))
    assert not hasattr(X.add_scalar, "__wrapped__")
    for _ in range(100):
        capture.install()
        capture.install()
        assert vars(Torch)["add_scalar"] is not before["add_scalar"]
        capture.uninstall()
        for made, methods in ((Torch, before), (X, before_x)):
            assert vars(made).keys() == methods.keys()
            assert all(vars(made)[name] is method for name, method in methods.items() if name != "__dict__")
