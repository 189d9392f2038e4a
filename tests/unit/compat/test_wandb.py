"""W&B's interface: the same program with W&B, with our interface in its place, and with W&B captured."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.backends.reading_wandb import records

import telemetry
import telemetry.compat.wandb as face
from telemetry.backends.wandb.log import whole_row
from telemetry.compat.stand_ins import STAND_INS
from telemetry.compat.wandb import configs
from telemetry.compat.wandb.media import png_of
from telemetry.integrations.wandb.values import flat
from telemetry.store.records import RecordLog
from telemetry.wire.events import Artifact, Bins, ClosedStep, Mark, Note, Params, Table

PROGRAM = Path(__file__).parent / "wandb_program.py"
TELEMETRY = Path(sys.executable).parent / "telemetry"
DEADLINE_S = 100.0
_CHANGING = ("_timestamp", "_runtime", "artifact_path", "_latest_artifact_path")
"""Columns of W&B's rows that differ each time."""


@dataclass(frozen=True)
class Ended:
    """The results of a program: its own findings, our records, and W&B's rows by run."""

    seen: dict[str, Any]
    records: list[Any]
    rows: dict[str, list[dict[str, Any]]]

    def of(self, kind: type) -> list[Any]:
        return [each.record for each in self.records if isinstance(each.record, kind)]

    @property
    def params(self) -> dict[str, Any]:
        return {name: value for record in self.of(Params) for name, value in record.values.items()}

    @property
    def values(self) -> dict[tuple[str, int], dict[str, Any]]:
        """Values by axis and step."""
        found: dict[tuple[str, int], dict[str, Any]] = {}
        for step in self.of(ClosedStep):  # a correction has only what changed
            found.setdefault((step.axis, step.step), {}).update(step.values)
        return found


def environment(folder: Path) -> dict[str, str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB", "TELEMETRY"))}
    return environ | {
        "HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder),
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "WANDB_CONSOLE": "off",
        "WANDB_X_DISABLE_STATS": "true",
        "WANDB_DISABLE_GIT": "true",
    }


@pytest.fixture(scope="module")
def ended() -> Iterator[dict[str, Ended]]:
    """The three programs, at the same time."""
    run = (str(TELEMETRY), "run", "--quiet")
    commands = {
        "real": (),
        "stand-in": (*run, "--stand-in", "wandb", "--"),
        "captured": (*run, "--capture", "wandb", "--"),
    }
    folders = {name: Path(tempfile.mkdtemp(prefix="tm", dir="/tmp")) for name in commands}
    children = {
        name: subprocess.Popen(
            [*command, sys.executable, str(PROGRAM)],
            cwd=folders[name],
            env=environment(folders[name]),
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, command in commands.items()
    }
    try:
        found = {}
        for name, child in children.items():
            _, err = child.communicate(timeout=DEADLINE_S)
            assert child.returncode == 0, err
            assert "was not recorded" not in err
            found[name] = read(folders[name])
        yield found
    finally:
        for child in children.values():
            child.kill()
            child.wait()
        for folder in folders.values():
            shutil.rmtree(folder, ignore_errors=True)


def read(folder: Path) -> Ended:
    seen = json.loads((folder / "seen.json").read_text())
    log = folder / "runs" / "latest" / "records"
    kept = RecordLog(log).read(0, 10_000) if log.exists() else []
    rows = {
        path.stem.removeprefix("run-"): list(rows_of(path)) for path in folder.glob("wandb/offline-run-*/*.wandb")
    }
    return Ended(seen, kept, rows)


def rows_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a run, once its file is complete: a process of W&B writes it."""
    deadline = time.monotonic() + DEADLINE_S
    while not any(record.WhichOneof("record_type") == "exit" for record in records(path)):
        assert time.monotonic() < deadline, f"W&B did not complete {path}"
        time.sleep(0.05)
    for record in records(path):
        if record.WhichOneof("record_type") == "history":
            row = dict(flat(whole_row(record.history.item)))
            yield {name: value for name, value in row.items() if not name.endswith(_CHANGING)}


# --- the same program three times ----------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stand-in", "captured"])
def test_the_program_sees_the_same(ended: dict[str, Ended], how: str) -> None:
    """Types of errors, config, summary, tables, distributions, steps."""
    assert ended[how].seen == ended["real"].seen
    assert ended["real"].seen["error changed"] == ["ConfigError", "Error"]
    assert ended["real"].seen["run after"] is None


@pytest.mark.slow
def test_the_file_of_wandb_is_the_same_when_captured(ended: dict[str, Ended]) -> None:
    """The stand-in writes none."""
    assert ended["captured"].rows == ended["real"].rows
    assert {name: len(rows) for name, rows in ended["real"].rows.items()} == {"one": 6, "second": 1}
    assert ended["stand-in"].rows == {}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stand-in", "captured"])
def test_our_steps_are_the_rows_of_wandb(ended: dict[str, Ended], how: str) -> None:
    """Numbers by W&B's own step, or by the step metric."""
    found = ended[how].values
    [rows, again] = ended["real"].rows["one"], ended["real"].rows["second"]
    for row in rows:
        mine = found.get(("step", row["_step"]), {}) | found.get(("train/step", row.get("train/step", -1)), {})
        numbers = {name: value for name, value in row.items() if type(value) in (int, float, bool)}
        theirs = {
            name: None if math.isnan(value) else value
            for name, value in numbers.items()
            if name != "_step" and not name.startswith(("table.", "picture."))
        }
        assert mine == theirs
    assert found["step 2", 0] == {"again": again[0]["again"]}
    assert {axis for axis, _ in found} == {"step", "train/step", "step 2"}
    assert [step for axis, step in found if axis == "train/step"] == [0, 10, 20]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stand-in", "captured"])
def test_objects_of_a_step(ended: dict[str, Ended], how: str) -> None:
    """Texts, tables, distributions, pictures, artifacts and alerts."""
    run = ended[how]
    [text], [table] = run.of(Note), run.of(Table)
    assert (text.name, text.text, text.axis, text.step) == ("text", "hello", "step", 10)
    assert (table.name, table.columns, table.rows, table.step) == (
        "table",
        ["a", "b"],
        [[1, "x"], [2, "y"], [3, "z"]],
        12,
    )
    [given, counted] = run.of(Bins)
    assert (given.name, given.edges, given.counts) == ("histogram", [1.0, 1.5, 2.0, 2.5, 3.0], [1, 0, 1, 2])
    assert (counted.name, sum(counted.counts), counted.edges[0], counted.edges[-1]) == ("numbers", 100, 0, 99)
    [picture, *files] = run.of(Artifact)
    assert (picture.name, picture.kind, picture.axis, picture.step) == ("picture", "image", "step", 12)
    assert picture.uri.endswith(".png")
    assert [(file.name, file.kind, Path(file.uri).name) for file in files] == [
        ("weights/weights.bin", "model", "weights.bin"),
        ("whole", "data", "weights.bin"),
    ]
    assert [mark.text for mark in run.of(Mark)] == ["watch out: the loss is high"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["stand-in", "captured"])
def test_config_and_summary_are_params(ended: dict[str, Ended], how: str) -> None:
    """The config and the summary have their newest values as params, and secrets are masked."""
    expected = {
        "wandb.name": "first",
        "wandb.id": "one",
        "wandb.project": "proj",
        "wandb.group": "g",
        "lr": 0.3,
        "api_key": "***",
        "model.depth": 2,
        "z": 1,
        "tuple": "[1, 2]",
        "kind": 2.5,
        "y": 3,
        "summary.accuracy": 0.9,
        "summary.notes": "good",
        "wandb 2.id": "second",
        "summary.best.min": 0.0,
        "summary.best.max": 2.0,
        "summary.best.mean": 1.0,
    }
    found = ended[how].params
    assert {name: found.get(name) for name in expected} == expected


_JOB = """
import multiprocessing, os
import telemetry.compat.wandb as wandb

def work(run, rank):  # the run of the parent, as Lightning hands it to a process that it spawns
    run.log({f"rank {rank}": rank}, step=7)

def join(rank):  # as slime joins a run by its id
    settings = wandb.Settings(mode="shared", x_primary=False, x_label=f"rank {rank}")
    run = wandb.init(id="job", resume="allow", reinit=True, settings=settings)
    run.define_metric("rollout/*", step_metric="rollout/step")
    run.log({"rollout/reward": 0.5, "rollout/step": 3})
    run.finish()

if __name__ == "__main__":
    run = wandb.init(project="job/one", id="job", config={"lr": 1})
    assert os.environ["TELEMETRY_ENDPOINT"]
    run.log({"loss": 1})
    spawn = multiprocessing.get_context("spawn")
    children = [spawn.Process(target=work, args=(run, 1)), spawn.Process(target=join, args=(2,))]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0]
    run.finish()
    assert "TELEMETRY_ENDPOINT" not in os.environ
    wandb.init(name="next", dir="elsewhere")
    wandb.log({"loss": 2}, commit=False)
"""


@pytest.mark.slow
def test_init_starts_a_run_that_other_processes_join(short_dir: Path) -> None:
    """The last open run of W&B ends it. A run that is not finished ends with the process."""
    (short_dir / "job.py").write_text(_JOB)
    child = subprocess.run(
        [sys.executable, "job.py"],
        cwd=short_dir,
        env=environment(short_dir) | {"PYTHONPATH": "", "TELEMETRY_EMIT__QUIET": "true"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (child.returncode, child.stderr) == (0, "")
    first, second = (report_of(short_dir, name) for name in ("job-one", "next"))
    assert (first.name, first.state, len(first.producers)) == ("job/one", "COMPLETE", 3)
    assert {(axis.name, axis.newest) for axis in first.axes} >= {("step", 7), ("rollout/step", 3)}
    assert first.params["wandb.id"] == "job"
    assert [(axis.name, axis.newest) for axis in second.axes] == [("step", 0)]
    assert not (short_dir / "elsewhere").exists()


def test_a_program_goes_on_without_an_aggregator(short_dir: Path) -> None:
    """A training job must not die because its recorder did."""
    program = """
import telemetry.compat.wandb as wandb
with wandb.init(project="p") as run:
    wandb.log({"loss": 1})
print("trained", run.summary["loss"])
"""
    child = subprocess.run(
        [sys.executable, "-c", program],
        cwd=short_dir,
        env=environment(short_dir)
        | {"TELEMETRY_ENDPOINT": f"ipc://{short_dir}/gone", "TELEMETRY_EMIT__START_TIMEOUT_S": "0.5"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert (child.returncode, child.stdout) == (0, "trained 1\n")
    assert "nothing is recorded" in child.stderr


def report_of(folder: Path, name: str) -> Any:
    [directory] = folder.glob(f"runs/{name}-*")
    return telemetry.load_report(directory).snapshot


# --- the stand-in --------------------------------------------------------------------------------


def test_names_of_the_stand_in() -> None:
    """Every module of W&B that libraries import, and each class once."""
    program = """
import importlib, importlib.metadata, json, wandb, telemetry.compat.wandb as face
names = ["env", "util", "errors", "errors.term", "data_types", "wandb_run", "sdk", "sdk.lib", "sdk.lib.config_util",
         "sdk.wandb_run", "sdk.wandb_config", "sdk.wandb_settings", "sdk.data_types"]
modules = [importlib.import_module("wandb." + name) for name in names]
from wandb.sdk.lib.config_util import ConfigError
from wandb.sdk.lib import RunDisabled
from wandb.errors import CommError
from wandb.data_types import Image
assert wandb is face and ConfigError is face.sdk.lib.config_util.ConfigError and CommError is face.CommError
assert wandb.sdk.wandb_run.Run is wandb.wandb_run.Run is wandb.Run is face.Run and Image is face.Image
assert importlib.util.find_spec("wandb") is not None and importlib.util.find_spec("wandb.sdk") is not None
assert importlib.metadata.version("wandb") == wandb.__version__ == "0.31.0"
try:
    import wandb.proto
except ModuleNotFoundError:
    print("done")
"""
    environ = os.environ | {"PYTHONPATH": STAND_INS["wandb"]}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.stdout, ended.stderr) == ("done\n", "")


def test_the_version_is_that_of_the_metadata() -> None:
    """Libraries read the version from the metadata, programs from the module."""
    [metadata] = Path(STAND_INS["wandb"]).glob("wandb-*.egg-info")
    assert metadata.name == f"wandb-{face.__version__}.egg-info"
    assert f"\nVersion: {face.__version__}\n" in metadata.read_text()


# --- the interface -------------------------------------------------------------------------------


@pytest.fixture
def wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The interface, with runs that record nothing."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("WANDB", "TELEMETRY"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("WANDB_MODE", "disabled")
    yield face
    face.finish()


def test_a_disabled_run(wandb: Any) -> None:
    """Config and summary work, and nothing is recorded."""
    run = wandb.init(project="p", config={"a": 1})
    assert run.disabled
    run.log({"x": 1}, step=3)
    wandb.define_metric("x", step_metric="y", goal="minimize")
    assert (wandb.config.a, wandb.summary.x, wandb.run) == (1, 1, run)
    run.finish()
    assert wandb.run is None
    with pytest.raises(wandb.UsageError, match=r"is finished: call wandb.init\(\) again"):
        run.log({"x": 1})


def test_several_runs(wandb: Any) -> None:
    """`reinit` decides what becomes of the open run."""
    first = wandb.init(id="first")
    assert wandb.init(id="other") is first
    beside = wandb.init(id="beside", reinit="create_new")
    assert (beside.id, wandb.run) == ("beside", first)
    last = wandb.init(id="last", reinit=True)
    assert (last.id, wandb.run) == ("last", last)
    with pytest.raises(wandb.UsageError):
        first.log({})
    beside.finish()
    assert wandb.run is last


def test_settings_come_from_arguments_then_settings_then_the_environment(
    wandb: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments win over settings, and settings win over the environment."""
    wandb.env.set_project("of the environment")
    wandb.env.set_entity("me")
    monkeypatch.setenv("WANDB_TAGS", "a, b")
    monkeypatch.setenv("WANDB_RUN_GROUP", "group")
    run = wandb.init(project="of the argument", settings=wandb.Settings(project="of settings", run_group="other"))
    assert (run.project, run.group, run.entity, run.tags) == ("of the argument", "other", "me", ("a", "b"))
    assert run.settings.x_stats_gpu_count is None
    assert wandb.env.get_project() == "of the environment"
    for name in ("WANDB_PROJECT", "WANDB_ENTITY"):
        monkeypatch.delenv(name)


def test_before_init(wandb: Any) -> None:
    """All calls name the call that is missing."""
    for use in (
        lambda: wandb.log({"a": 1}),
        lambda: wandb.config.lr,
        lambda: wandb.config.update({}),
        lambda: wandb.summary["a"],
        lambda: setattr(wandb.config, "lr", 1),
        lambda: wandb.define_metric("a"),
        lambda: wandb.log_artifact("a"),
        lambda: wandb.watch(None),
    ):
        with pytest.raises(wandb.Error, match=r"call wandb.init\(\) before wandb"):
            use()
    wandb.finish()


def test_what_needs_a_server_is_refused(wandb: Any) -> None:
    """Each message says what to do instead."""
    run = wandb.init()
    for use in (
        wandb.Api,
        lambda: wandb.sweep({}),
        lambda: wandb.agent("id"),
        lambda: wandb.use_artifact("a:latest"),
        lambda: wandb.restore("file"),
        lambda: run.use_model("m"),
        lambda: run.link_model("m", "t"),
        lambda: run.link_artifact("m", "t"),
    ):
        with pytest.raises(wandb.UsageError, match="needs W&B's server, which this interface does not use: "):
            use()
    with pytest.raises(AttributeError, match="has no 'plot': run the program with W&B itself and `telemetry run"):
        _ = wandb.plot
    assert not hasattr(wandb, "keras")


def test_what_has_no_effect(wandb: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs may call it, and `watch` says so once."""
    run = wandb.init()
    assert wandb.login(key="secret")
    wandb.setup()
    wandb.require("service")
    for _ in range(2):
        wandb.watch(object())
    run._label(code="x")
    run.log_code()
    wandb.unwatch()
    assert (run.url, run.sweep_id, run.to_html(), run.display()) == (None, None, "", False)
    assert capsys.readouterr().err.count("wandb.watch records nothing here") <= 1


def test_messages(wandb: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Messages go to stderr, and those with `repeat=False` only once."""
    for repeat in (True, True, False):
        wandb.termwarn("careful", repeat=repeat)
    wandb.termlog("note", prefix=False)
    wandb.termerror("bad")
    assert capsys.readouterr().err == ("telemetry: WARNING careful\n" * 2 + "note\ntelemetry: ERROR bad\n")


def test_ids(wandb: Any) -> None:
    """Random and of the length that was asked for."""
    found = {wandb.util.generate_id() for _ in range(100)}
    assert len(found) == 100
    assert {len(each) for each in found} == {8}
    assert len(wandb.util.generate_id(12)) == 12


def test_a_config_of_anything(wandb: Any) -> None:
    """A namespace, an enum, a function, nested values; but neither a file nor a number."""
    from argparse import Namespace
    from enum import Enum

    class Kind(Enum):
        SMALL = 1

    run = wandb.init(
        config=Namespace(lr=0.1, kind=Kind.SMALL, function=sorted, path=Path("a")), config_exclude_keys=["lr"]
    )
    assert dict(run.config) == {"kind": "SMALL", "function": "builtins.sorted", "path": "a"}
    run.config.update({"--lr": {"deep": (1, 2)}})
    assert run.config.lr == {"deep": [1, 2]}
    with pytest.raises(AttributeError, match="has no setting 'nothing'"):
        _ = run.config.nothing
    with pytest.raises(
        wandb.UsageError, match=r"config='a.yaml': files are not read; load it and pass a dictionary"
    ):
        configs.settings_of("a.yaml")
    with pytest.raises(TypeError, match="must be a dictionary or a namespace, not int"):
        configs.settings_of(1)


@pytest.mark.sdk
def test_tables(wandb: Any) -> None:
    """Tables are made from rows, an array or a data frame, and are extended by columns."""
    import numpy as np
    import pandas as pd

    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    rows = [[1, "x"], [2, "y"]]
    for table in (wandb.Table(dataframe=frame), wandb.Table(data=frame), wandb.Table(["a", "b"], rows)):
        assert (table.columns, table.data) == (["a", "b"], rows)
        assert table.get_dataframe().equals(frame)
    assert wandb.Table().columns == ["Input", "Output", "Expected"]
    table = wandb.Table(columns=["n"], data=np.array([[1.5], [2.5]]))
    table.add_column("twice", [3, 5])
    assert list(table.iterrows()) == [(0, [1.5, 3]), (1, [2.5, 5])]
    assert table.get_column("n", convert_to="numpy").sum() == 4
    with pytest.raises(ValueError, match="the table has 2 rows, but the column has 1 cells"):
        table.add_column("short", [1])
    with pytest.raises(ValueError, match="the table has 2 columns, but the row has 1 cells"):
        table.add_data(1)


@pytest.mark.sdk
def test_pictures_become_files(wandb: Any, tmp_path: Path) -> None:
    """Below the folder of the run, with the same pixels."""
    import numpy as np
    from PIL import Image as Pillow

    run = wandb.init(dir=str(tmp_path))
    pixels = np.zeros((4, 6, 3), dtype=np.uint8)
    pixels[1, 2] = (10, 20, 30)
    for data in (pixels, Pillow.fromarray(pixels), wandb.Image(pixels)):
        path = Path(wandb.Image(data)._path)
        assert path.is_relative_to(run.dir)
        assert np.array_equal(np.asarray(Pillow.open(path)), pixels)
    assert wandb.Image("plots/a.png")._path == "plots/a.png"
    with pytest.raises(wandb.UsageError, match="Audio takes the path of a file here, not ndarray: save it"):
        wandb.Audio(np.zeros(3))
    with pytest.raises(ValueError, match=r"an array of the shape \(3,\) is not a picture"):
        wandb.Image(np.zeros(3))
    page = wandb.Html("<b>hi</b>")
    assert (page.html, Path(page._path).read_text()) == ("<b>hi</b>", "<b>hi</b>")


@pytest.mark.sdk
@pytest.mark.parametrize(
    ("values", "expected"),
    [([[0.0, 0.5, 1.0]], [0, 127, 255]), ([[-1.0, 0.0, 1.0]], [0, 127, 255]), ([[0, 100, 300]], [0, 100, 255])],
)
def test_ranges_of_pictures(values: list[list[float]], expected: list[int], tmp_path: Path) -> None:
    """Floats from 0 or from -1, and whole numbers."""
    import numpy as np
    from PIL import Image as Pillow

    path = tmp_path / "a.png"
    path.write_bytes(png_of(np.array(values)))
    assert np.asarray(Pillow.open(path)).ravel().tolist() == expected


def test_artifacts(wandb: Any, tmp_path: Path) -> None:
    """Files, folders, URIs and new files, by reference."""
    wandb.init(dir=str(tmp_path))
    (tmp_path / "file").write_text("x")
    artifact = wandb.Artifact("name", "model")
    artifact.add_file("file", name="renamed")
    artifact.add_dir(".")
    artifact.add_reference("s3://bucket/key")
    with artifact.new_file("sub/new.txt") as file:
        file.write("text")
    new = artifact.files_by_name.pop("sub/new.txt")
    assert Path(new).read_text() == "text"
    assert artifact.files_by_name == {
        "renamed": str(tmp_path / "file"),
        "": str(tmp_path),
        "key": "s3://bucket/key",
    }
    assert wandb.log_artifact(artifact, aliases=["best"]).wait().aliases == ["best"]
    with pytest.raises(ValueError, match="'nothing' is not a file"):
        artifact.add_file("nothing")
    with pytest.raises(wandb.UsageError, match="a table can't be part of an artifact here"):
        artifact.add(wandb.Table(), "t")


def test_a_process_that_joins_a_run_needs_the_endpoint(wandb: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A process without the endpoint prints a message and starts no run of its own."""
    settings = wandb.Settings(mode="shared", x_primary=False, x_update_finish_state=False)
    run = wandb.init(id="job", resume="allow", reinit=True, settings=settings)
    run.log({"a": 1})
    assert run.id == "job"
    assert "this process joins the W&B run job, but TELEMETRY_ENDPOINT is not set" in capsys.readouterr().err
