"""W&B's transaction logs, read back from bytes made here as W&B's own process makes them."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from tests.unit.backends.wandb.logs import BLOCK, log, row

from telemetry.backends.wandb.log import FINAL, ITEM, LoggedItems, LogReader, logs_of, look, said_since

pytestmark = pytest.mark.sdk


@pytest.fixture(scope="module")
def messages() -> Any:
    return import_module("wandb.proto.wandb_internal_pb2")


def test_records_of_any_size_come_back(tmp_path: Path, messages: Any) -> None:
    """Records of any size come back. Some lie in several blocks, and one ends just before a block does."""
    sizes = [3, BLOCK - 200, 70_000, 10, 2 * BLOCK]
    written = [row(messages, number, text="x" * size) for number, size in enumerate(sizes)]
    (tmp_path / "a.wandb").write_bytes(log(*written))
    got = [record.SerializeToString() for record in LogReader(tmp_path / "a.wandb").records()]
    assert got == written


def test_what_is_not_whole_is_not_there_yet(tmp_path: Path, messages: Any) -> None:
    """However a file is cut, a reader has the records before the cut, and the rest once that is there."""
    whole = log(*(row(messages, number, a=number) for number in range(5)))
    path = tmp_path / "a.wandb"
    for cut in range(7, len(whole)):
        path.write_bytes(whole[:cut])
        reader = LogReader(path)
        before = [record.history.step.num for record in reader.records()]
        again = LogReader(path, reader.offset)
        path.write_bytes(whole)
        after = [record.history.step.num for record in again.records()]
        assert before + after == list(range(5))


def test_a_damaged_record_ends_the_log(tmp_path: Path, messages: Any) -> None:
    """A damaged record ends the log, as the process that wrote it died there. Later records are not believed."""
    data = bytearray(log(*(row(messages, number, a=number) for number in range(5))))
    data[len(data) // 2] ^= 1
    (tmp_path / "a.wandb").write_bytes(data)
    assert len(list(LogReader(tmp_path / "a.wandb").records())) < 5


def test_what_was_seen_is_known_by_its_items(tmp_path: Path, messages: Any) -> None:
    """Rows by their items, the result by the summary, settings and x-axes by name."""
    config, summary, metric = (messages.Record() for _ in range(3))
    config.config.update.add(key="lr", value_json="0.5")
    summary.summary.update.add(key=FINAL, value_json='"final"')
    metric.metric.name, metric.metric.step_metric = "loss", "axis/train"
    others = [record.SerializeToString() for record in (config, summary, metric)]
    (tmp_path / "a.wandb").write_bytes(log(row(messages, 41, **{ITEM: "r7", "loss": 1.5}), *others))
    seen = LoggedItems()
    look(LogReader(tmp_path / "a.wandb"), seen)
    assert seen == LoggedItems({"r7", "final"}, {"lr"}, 42, {"loss": "axis/train"})


def test_a_row_is_said_again_once(tmp_path: Path, messages: Any) -> None:
    """Rows from a number on, in several logs of which the later repeats some of the earlier; nested ones whole."""
    paths = []
    for name, numbers in (("a", range(4)), ("b", range(2, 6))):
        path = tmp_path / name / "run.wandb"
        path.parent.mkdir()
        path.write_bytes(log(*(row(messages, number, **{"h.bins": [number], "h.n": 1}) for number in numbers)))
        paths.append(path)
    said = list(said_since(paths, 1))
    assert [(one.number, one.folder.parent.name) for one in said] == [
        (1, "a"),
        (2, "a"),
        (3, "a"),
        (4, "b"),
        (5, "b"),
    ]
    assert said[0].values == {"h": {"bins": [1], "n": 1}}


def test_logs_are_in_the_order_they_were_begun(tmp_path: Path) -> None:
    """The tenth of a second too; those of other runs are others'."""
    begun = ["20260101_120000-r-1", "20260101_120000-r-1-2", "20260101_120000-r-1-10", "20260102_000000-r-1"]
    for name in (*reversed(begun), "20260101_120000-r-12"):
        folder = tmp_path / "wandb" / f"offline-run-{name}"
        folder.mkdir(parents=True)
        (folder / ("run-r-12.wandb" if name.endswith("r-12") else "run-r-1.wandb")).touch()
    assert [path.parent.name.removeprefix("offline-run-") for path in logs_of(tmp_path, "r-1")] == begun


def test_files_come_again_where_they_may_be_missing(tmp_path: Path, messages: Any) -> None:
    """Files come again from logs without an end and from the newest log."""
    paths = []
    for name, ended in (("a", True), ("b", False), ("c", True)):
        files, end = messages.Record(), messages.Record()
        files.files.files.add(path=f"media/{name}.png")
        end.exit.exit_code = 0
        path = tmp_path / name / "run.wandb"
        path.parent.mkdir()
        path.write_bytes(log(*(one.SerializeToString() for one in ([files, end] if ended else [files]))))
        paths.append(path)
    said = [(one.folder / name) for one in said_since(paths, 0) for name in one.values]
    assert said == [tmp_path / "b/files/media/b.png", tmp_path / "c/files/media/c.png"]
