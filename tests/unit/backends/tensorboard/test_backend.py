"""Tests of the content of TensorBoard's files, and of full disks and damage by others."""

from __future__ import annotations

import errno
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.backends.backend import NotConfigured, RunFacts, Unavailable
from telemetry.backends.items import Artifact, Histogram, Params, Reading, SeriesReading, Step, Text
from telemetry.backends.tensorboard import TensorBoardBackend
from telemetry.backends.tensorboard.backend import TensorBoardOptions, folder_name
from telemetry.store.append_file import AppendFile
from telemetry.wire.events import Spread

pytestmark = pytest.mark.sdk

STARTED_NS = 1_000_000_000_000
RUN = RunFacts("id-1", "bench", STARTED_NS, None)


def events(path: Path) -> list[Any]:
    """All events of a file but its head; TensorBoard's own reader checks the sums elsewhere."""
    from tensorboard.compat.proto.event_pb2 import Event

    data = path.read_bytes()
    found, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 8], "little")
        found.append(Event.FromString(data[at + 12 : at + 12 + size]))
        at += size + 16
    assert at == len(data)
    assert found[0].file_version == "brain.Event:2"
    return found[1:]


def values(event: Any) -> dict[str, float]:
    return {value.tag: value.simple_value for value in event.summary.value}


def step(number: int, axis: str = "train", **more: Any) -> Step:
    return Step(key=f"r{number}", time_ns=STARTED_NS + number, axis=axis, step=number, values={"x": number}, **more)


def opened(folder: Path, state: dict[str, Any] | None = None, **options: Any) -> TensorBoardBackend:
    backend = TensorBoardBackend(TensorBoardOptions(**options), folder)
    backend.open(RUN, state or {})
    return backend


def file_of(folder: Path, axis: str = "") -> Path:
    return folder / "bench-id-1" / axis / "events.out.tfevents.0000001000.telemetry.values"


def test_each_axis_is_a_run_of_its_own(tmp_path: Path) -> None:
    """One name on two axes is in two files, each with its own steps."""
    backend = opened(tmp_path)
    backend.write([step(3), step(40, "eval"), step(4)])
    backend.flush()
    assert [event.step for event in events(file_of(tmp_path, "train"))] == [3, 4]
    assert [(event.step, values(event)) for event in events(file_of(tmp_path, "eval"))] == [(40, {"x": 40.0})]


def test_readings_go_by_whole_seconds(tmp_path: Path) -> None:
    """A reading has the whole seconds since the run's start as its step, and the flat names."""
    series = [SeriesReading(name="latency", count=2, rate=0.2, mean=3.0, percentiles={"99.9": 4.0})]
    backend = opened(tmp_path)
    backend.write([Reading(key="t1", time_ns=STARTED_NS, elapsed_s=20.9, seconds=10.0, series=series)])
    (event,) = events(file_of(tmp_path))
    assert event.step == 20
    assert values(event) == {
        "latency/p99.9": 4.0,
        "latency/mean": 3.0,
        "latency/count": 2.0,
        "latency/rate": pytest.approx(0.2),
    }


def test_what_belongs_to_no_step_goes_by_whole_seconds(tmp_path: Path) -> None:
    """Text without an axis stands beside the readings."""
    backend = opened(tmp_path)
    backend.write([Text(key="r1", time_ns=STARTED_NS + 7_900_000_000, name="note", text="hello")])
    (event,) = events(file_of(tmp_path))
    assert (event.step, event.summary.value[0].tag) == (7, "note/text")


def test_the_spread_over_producers(tmp_path: Path) -> None:
    """The spread over producers is written if it is asked for."""
    spread = {"x": Spread(count=2, min=1.0, max=5.0, mean=3.0, lowest="a", highest="b")}
    for name, asked, wanted in (("no", False, {"x": 3.0}), ("yes", True, {"x": 3.0, "x/min": 1.0, "x/max": 5.0})):
        backend = opened(tmp_path / name, spread=asked)
        backend.write([step(3, spread=spread)])
        assert values(events(file_of(tmp_path / name, "train"))[0]) == wanted


def test_numbers_keep_what_32_bits_do_not_hold(tmp_path: Path) -> None:
    """One beyond them is 64 bits wide, others are if it is asked for; NaN and infinities are themselves."""
    many = {"big": 1e300, "nan": math.nan, "inf": math.inf, "plain": 0.1}
    item = Step(key="r1", time_ns=STARTED_NS, axis="train", step=1, values=many)
    for name, doubles in (("single", False), ("double", True)):
        backend = opened(tmp_path / name, doubles=doubles)
        backend.write([item])
        (event,) = events(file_of(tmp_path / name, "train"))
        wide = {value.tag: value.tensor.double_val[0] for value in event.summary.value if value.HasField("tensor")}
        assert wide == pytest.approx(many if doubles else {"big": 1e300}, rel=0, abs=0, nan_ok=True)


def test_a_full_disk_leaves_whole_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk leaves no half record in any file. Once there is room, each record is there once."""
    backend = opened(tmp_path)
    backend.write([step(1)])
    backend.flush()
    real = AppendFile.append

    def full(file: AppendFile, buffers: Any) -> int:
        if "eval" in str(file.path):
            os.write(file.fd, b"half")
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, buffers)

    monkeypatch.setattr(AppendFile, "append", full)
    with pytest.raises(Unavailable, match="No space left"):
        backend.write([step(2), step(2, "eval"), step(3)])
    monkeypatch.setattr(AppendFile, "append", real)
    backend.write([step(2), step(2, "eval"), step(3)])
    backend.flush()
    assert [event.step for event in events(file_of(tmp_path, "train"))] == [1, 2, 3]
    assert [event.step for event in events(file_of(tmp_path, "eval"))] == [2]


def test_a_flush_that_fails_takes_back_what_it_was_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same items come again, and are there once."""
    backend = opened(tmp_path)

    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    real = os.fdatasync
    backend.write([step(1)])
    monkeypatch.setattr(os, "fdatasync", broken)
    with pytest.raises(Unavailable, match="Input/output error"):
        backend.flush()
    monkeypatch.setattr(os, "fdatasync", real)
    backend.write([step(1)])
    backend.flush()
    assert [event.step for event in events(file_of(tmp_path, "train"))] == [1]


def test_the_next_process_goes_on_from_the_state(tmp_path: Path) -> None:
    """The next process cuts off what was written after its state, also a whole file that is new."""
    backend = opened(tmp_path)
    backend.write([step(1)])
    backend.flush()
    state = backend.state()
    backend.write([step(2), step(2, "eval")])
    backend.flush()
    backend.close(final=False)
    again = opened(tmp_path, state)
    again.write([step(2)])
    again.flush()
    assert [event.step for event in events(file_of(tmp_path, "train"))] == [1, 2]
    assert not file_of(tmp_path, "eval").exists()


def test_a_new_beginning_replaces_what_was_there(tmp_path: Path) -> None:
    """A backend without a state writes the run anew."""
    for _ in range(2):
        backend = opened(tmp_path)
        backend.write([step(1)])
        backend.flush()
        backend.close(final=True)
    assert [event.step for event in events(file_of(tmp_path, "train"))] == [1]


def test_a_file_that_was_cut_is_no_ground_to_go_on_from(tmp_path: Path) -> None:
    """A file that was cut is an error for the next process, instead of a hole in the file."""
    backend = opened(tmp_path)
    backend.write([step(1)])
    backend.flush()
    state = backend.state()
    backend.close(final=False)
    os.truncate(file_of(tmp_path, "train"), 60)
    with pytest.raises(NotConfigured, match="it was truncated or removed"):
        opened(tmp_path, state)


def test_two_writers_of_one_folder(tmp_path: Path) -> None:
    """The second is refused: they would cut each other's records. Once the first has gone it may."""
    first = opened(tmp_path)
    with pytest.raises(NotConfigured, match="another writer"):
        opened(tmp_path)
    first.close(final=False)
    opened(tmp_path)


def test_a_folder_that_can_not_be(tmp_path: Path) -> None:
    """A file in its place is not waited for."""
    (tmp_path / "taken").write_text("")
    with pytest.raises(NotConfigured, match="can't write"):
        opened(tmp_path, logdir=str(tmp_path / "taken"))


def test_settings_grow_and_end_with_the_run(tmp_path: Path) -> None:
    """Each file of settings is whole; the last says when the run ended."""
    backend = opened(tmp_path)
    backend.write([Params(key="r1", time_ns=STARTED_NS, values={"lr": 0.5}), step(9)])
    backend.flush()
    path = file_of(tmp_path).with_suffix(".params")
    assert [event.summary.value[0].tag for event in events(path)] == ["_hparams_/session_start_info"]
    assert b"lr" in path.read_bytes()
    state = backend.state()
    backend.close(final=False)
    again = opened(tmp_path, state)
    again.write([Params(key="r2", time_ns=STARTED_NS, values={"opt": "adam"})])
    again.flush()
    again.close(final=True)
    assert [event.summary.value[0].tag for event in events(path)][1:] == ["_hparams_/session_end_info"]
    assert b"lr" in path.read_bytes()
    assert b"adam" in path.read_bytes()


def test_pictures_are_copied_and_other_files_named(tmp_path: Path) -> None:
    """A PNG that can be read here is in the file; what else there is, by its address."""
    png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (3).to_bytes(4) + (2).to_bytes(4) + b"\x08\x06\0\0\0"
    (tmp_path / "a b.png").write_bytes(png)
    (tmp_path / "not.png").write_text("no picture")
    uris = [(tmp_path / "a b.png").as_uri(), str(tmp_path / "not.png"), str(tmp_path / "gone.png"), "s3://b/c.png"]
    backend = opened(tmp_path / "out")
    at: dict[str, Any] = {"time_ns": STARTED_NS, "axis": "train", "step": 1}
    backend.write([Artifact(key=f"r{n}", name="p", uri=uri, kind="image", **at) for n, uri in enumerate(uris)])
    backend.write([Artifact(key="r9", name="p", uri=str(tmp_path / "a b.png"), **at)])
    picture, *named = [event.summary.value[0] for event in events(file_of(tmp_path / "out", "train"))]
    assert (picture.tag, picture.image.width, picture.image.height, picture.image.colorspace) == (
        "p/image",
        3,
        2,
        4,
    )
    assert picture.image.encoded_image_string == png
    assert [value.tag for value in named] == ["p/artifact"] * 4
    assert named[2].tensor.string_val[0] == b"image: `s3://b/c.png`"


def test_a_picture_that_is_too_large_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is one of the limits."""
    monkeypatch.setattr("telemetry.limits.BACKEND_PICTURE_BYTES", 10)
    path = tmp_path / "large.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20))
    backend = opened(tmp_path / "out")
    item = Artifact(key="r1", time_ns=STARTED_NS, name="p", uri=str(path), kind="image", axis="train", step=1)
    backend.write([item])
    assert events(file_of(tmp_path / "out", "train"))[0].summary.value[0].tag == "p/artifact"


def test_bins_of_a_producer(tmp_path: Path) -> None:
    """Edges become limits; the lowest edge is the minimum."""
    backend = opened(tmp_path)
    item = Histogram(
        key="r1", time_ns=STARTED_NS, name="w", axis="train", step=1, edges=[-1.0, 0.0, 2.0], counts=[4, 1]
    )
    backend.write([item])
    (event,) = events(file_of(tmp_path, "train"))
    found = event.summary.value[0].histo
    assert (found.min, found.max, found.num, found.sum) == (-1.0, 2.0, 5.0, -1.0)
    assert (list(found.bucket_limit), list(found.bucket)) == ([0.0, 2.0], [4.0, 1.0])


@given(st.lists(st.text(max_size=300), min_size=2, max_size=2, unique=True))
def test_folders_of_axes_are_different_and_one_level_deep(names: list[str]) -> None:
    """Folders of axes differ and are one level deep, whatever an axis is called."""
    made = [folder_name(name) for name in names]
    assert made[0] != made[1]
    for name, folder in zip(names, made, strict=True):
        assert "/" not in folder
        assert folder not in (".", "..")
        assert len(folder.encode("utf-8", "replace")) <= 200
        assert folder or not name
