"""Names, values and bins of a SummaryWriter's calls, and how arguments are found whatever the signature."""

from __future__ import annotations

import functools
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.client.bins import count
from telemetry.integrations.tensorboard import TensorBoardRecorder
from telemetry.integrations.tensorboard.values import (
    LogFolders,
    WriterNames,
    argument_names,
    plain_number,
    plain_settings,
    raw_bins,
    step_of,
)


class Writer:
    def add_scalar(self, tag: str, scalar_value: float, global_step: int | None = None, **more: Any) -> None: ...

    def add_other(self, image: object, /, tag: str = "x", *, global_step: int | None = None) -> None: ...

    def add_hidden(self, *args: Any, **kwargs: Any) -> None: ...


# --- arguments -----------------------------------------------------------------------------------


def test_arguments_are_found_by_the_methods_own_signature() -> None:
    """torch and tensorboardX order and name them differently."""
    assert argument_names(Writer.add_scalar, "add_scalar") == ("tag", "scalar_value", "global_step")
    assert argument_names(Writer.add_other, "add_other") == ("image", "tag")


def test_a_wrapper_that_names_its_original_hides_nothing() -> None:
    """A wrapper made with `functools.wraps` shows the argument names of its original."""
    wrapper = functools.wraps(Writer.add_other)(lambda *args, **kwargs: None)
    assert argument_names(wrapper, "add_other") == ("image", "tag")


@pytest.mark.parametrize("function", [Writer.add_hidden, lambda *args, **kwargs: None, dict.update])
def test_where_the_signature_does_not_show_the_usual_one_is_taken(function: Any) -> None:
    """Another tool's wrapper may take anything."""
    assert argument_names(function, "add_text") == ("tag", "text_string", "global_step", "walltime")
    assert argument_names(function, "add_something") == ("tag",)


@pytest.mark.parametrize(
    ("given", "step"),
    [({}, None), ({"global_step": None}, None), ({"global_step": 0}, 0), ({"global_step": "5"}, 5)]
    + [({"global_step": value}, 7) for value in (7, 7.9, np.int64(7), np.array(7), np.array([[7]])[0, 0])],
)
def test_a_step_is_any_number_or_text_and_none_stays_none(given: dict[str, Any], step: int | None) -> None:
    """The writers convert steps with int(), so this does."""
    found = step_of(given)
    assert found == step
    assert type(found) is type(step)


@pytest.mark.parametrize("value", ["3.5", b"3.5", [3.5], (3.5,), [["3.5"]], 3.5, np.str_("3.5")])
def test_texts_and_lists_of_one_number_are_numbers(value: Any) -> None:
    """The writers convert values by numpy, which takes them."""
    assert plain_number(value) == 3.5


def test_a_tensor_is_detached_from_its_gradient() -> None:
    """A tensor is detached before it becomes a number.

    Otherwise torch gives the program a warning that the program did not cause.
    """

    class Tensor:
        def detach(self) -> float:
            return 2.0

    assert plain_number(Tensor()) == 2.0


def test_settings_of_one_element_become_plain() -> None:
    """Params hold numbers; an array of many becomes a text later."""
    array = np.array([1, 2])
    found = plain_settings({"lr": np.float32(0.5), "one": np.array([3]), "many": array, "name": "adam", 4: None})
    assert found == {"lr": 0.5, "one": 3, "many": array, "name": "adam", "4": None}
    assert type(found["lr"]) is float


# --- bins ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "limits", "counts", "edges", "kept"),
    [
        (0, [1, 2, 3], [1, 2, 3], [0, 1, 2, 3], [1, 2, 3]),
        (0.5, [0, 1, 2, 3, 1e20], [0, 1, 0, 5, 0], [0, 1, 2, 3], [1, 0, 5]),
        (-1, [0, 1], [2, 0], [-1, 0], [2]),
        (1, [1, 1, 2], [1, 2, 3], [np.nextafter(1, -1), 1, 2], [1, 5]),
        (0, [1, float("inf")], [1, 0], [0, 1], [1]),
    ],
)
def test_bins_keep_their_counts(
    low: float, limits: list[float], counts: list[float], edges: list[float], kept: list[int]
) -> None:
    """Each case has another kind of first bin. The client accepts the result."""
    assert raw_bins(low, limits, counts) == (edges, kept)
    assert count(raw_bins(low, limits, counts)).counts == kept


@pytest.mark.parametrize("counts", [[0, 0], [0.5, 1], []])
def test_bins_without_whole_counts_are_refused(counts: list[float]) -> None:
    """A histogram counts values; it has no halves."""
    with pytest.raises(ValueError, match="whole counts"):
        raw_bins(0, [1, 2][: len(counts)], counts)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=200), st.integers(1, 40))
def test_bins_of_numpy_lose_no_value(values: list[float], bins: int) -> None:
    """Bins of numpy keep all values, also where bins are so narrow that limits coincide."""
    counts, limits = np.histogram(values, bins=bins)
    edges, kept = raw_bins(min(values), limits[1:], counts)
    assert sum(kept) == len(values)
    assert sum(count((edges, kept)).counts) == len(values)


# --- names ---------------------------------------------------------------------------------------


def test_the_first_folder_keeps_its_tags_and_others_get_a_prefix() -> None:
    """However the path of the folder is written."""
    names = WriterNames()
    assert names.name("runs/main", "loss") == "loss"
    assert names.name("runs/val", "loss") == "val/loss"
    assert names.name(Path("runs/val"), "lr") == "val/lr"
    assert names.name("./runs/main", "lr") == "lr"


def test_a_writer_is_the_first_from_its_beginning_on() -> None:
    """The order of creation counts, not that of the first values."""
    names = WriterNames()
    names.meet("runs/main")
    assert names.name("runs/val", "loss") == "val/loss"
    assert names.name("runs/main", "loss") == "loss"


def test_folders_of_the_same_name_get_more_of_their_path() -> None:
    """`a/val` and `b/val` are two writers."""
    names = WriterNames()
    folders = ["/a/first", "/a/x", "/b/x", "/c/b/x", "/b/x/"]
    assert [names.name(folder, "loss") for folder in folders] == [
        *("loss", "x/loss", "b/x/loss", "c/b/x/loss", "b/x/loss")
    ]


def test_a_prefix_that_makes_a_known_name_gets_a_number() -> None:
    """Values of two writers never share a name."""
    names = WriterNames()
    assert names.name("/a", "val/loss") == "val/loss"
    assert names.name("/val", "loss") == "val/loss 2"
    assert names.name("/val", "loss") == "val/loss 2"
    assert names.name("/a", "val/loss") == "val/loss"


class SummaryWriter:
    """A writer with the attributes that are read, in the forms of torch and of tensorboardX."""

    def __init__(self, **folder: Any) -> None:
        vars(self).update(folder)


def test_a_relative_folder_is_that_of_the_beginning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Launchers such as Hydra give each job a working directory of its own."""
    recorder, writers = TensorBoardRecorder(), []
    for job in ("0", "1"):
        (tmp_path / job).mkdir()
        monkeypatch.chdir(tmp_path / job)
        writers.append(SummaryWriter(log_dir="tb"))
        recorder.begin(writers[-1], {})
    names = [recorder.names.name(recorder.folders.of(writer), "loss") for writer in (*writers, *writers)]
    assert names == ["loss", "tb/loss"] * 2
    assert recorder.folders.of(writers[0]) == str(tmp_path / "0" / "tb")


def test_folders_are_kept_as_long_as_their_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program may make thousands of writers."""
    monkeypatch.chdir(tmp_path)
    folders = LogFolders()
    writer = SummaryWriter(log_dir=None, logdir=Path("x"))
    assert folders.get(writer) is None
    assert folders.of(writer) == folders.get(writer) == str(tmp_path / "x")
    del writer
    assert len(folders._folders) == 0


def test_threads_agree_on_the_first_folder() -> None:
    """Writers that begin at the same time get one plain name in all."""
    for _ in range(20):
        names, barrier = WriterNames(), threading.Barrier(4)
        found: list[str] = []

        def work(number: int, names: WriterNames = names, barrier: Any = barrier, found: list[str] = found) -> None:
            barrier.wait()
            found.append(names.name(f"/{number}", "loss"))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(found)) == 4
        assert found.count("loss") == 1
