"""Step axes: names that count alike share one, and the aggregator's steps refuse no value."""

from __future__ import annotations

import random
import threading
from collections.abc import Collection, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry import limits
from telemetry.aggregator.steps.merger import StepMerger
from telemetry.client.catalog import check_text
from telemetry.client.process import PROCESS
from telemetry.client.step_axes import SHARED, StepAxes
from telemetry.wire.events import Scalars

SECOND = 1_000_000_000


def recorded(
    said: Iterable[tuple[str, int]], pauses: random.Random | None = None, sources: Collection[str] = ()
) -> dict[tuple[str, int], float]:
    """Log 0, 1, 2, … under these names and steps through an aggregator's steps.

    Returns the number by axis/name and step. Fails if a value is refused. With `pauses`, time passes now and then.
    The names in `sources` are sources that want the axis `step` for themselves.
    """
    axes, steps = StepAxes(), StepMerger(30.0, lambda _: None)
    wanted: dict[tuple[str, int], float] = {}
    found: dict[tuple[str, int], float] = {}

    def take() -> None:
        for closed in steps.take():
            for name, value in closed.step.values.items():
                assert value is not None
                found[f"{closed.step.axis}:{name}", closed.step.step] = value

    for number, (name, step) in enumerate(said):
        axis = axes.place(name, "step", step) if name in sources else axes.axis(name, step)
        refused = steps.report("one", Scalars(axis, step, {name: float(number)}), number + 1)
        assert refused is None, f"value {number}, {name} at step {step} of axis {axis}: {refused}"
        wanted[f"{axis}:{name}", step] = float(number)
        if pauses is not None and pauses.random() < 0.05:
            steps.pass_time(SECOND)
            take()
    steps.close()
    take()
    assert found == wanted
    return found


# --- which axis ----------------------------------------------------------------------------------


def test_another_run_of_the_process_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The aggregator of another run knows no earlier steps, so the first axis is free again."""
    axes = StepAxes()
    for step in range(500):
        axes.axis("train/loss", step)
    assert axes.axis("val/loss", 1) == "val"
    monkeypatch.setattr(PROCESS, "attached", PROCESS.attached + 1)
    assert axes.near("sample", 3) == "step"
    assert [axes.axis(name, 1) for name in ("train/loss", "val/loss")] == ["step", "step"]


def test_sources_that_share_a_map_refuse_no_value_of_each_other() -> None:
    """One source counts batches and another one epochs."""
    assert SHARED.axis("of batches", 10**9) == "step"
    assert SHARED.axis("of epochs", 1) != "step"


def test_names_that_count_alike_share_the_first_axis() -> None:
    """A step of a training loop is one row."""
    axes = StepAxes()
    for step in range(500):
        assert axes.split(["train/loss", "train/lr", "norm"], step) == {"step": ["train/loss", "train/lr", "norm"]}


def test_the_first_axis_may_have_another_name() -> None:
    """Interfaces that know what is counted say so."""
    assert StepAxes("batch").axis("loss", 0) == "batch"


def test_a_name_that_counts_lower_gets_an_axis_named_after_its_first_part() -> None:
    """Epochs of validation after batches of training."""
    axes = StepAxes()
    for batch in range(100):
        axes.axis("train/loss", batch)
    assert axes.axis("val/loss", 0) == "val"
    assert axes.split(["val/accuracy", "val/loss"], 1) == {"val": ["val/accuracy", "val/loss"]}
    assert axes.axis("train/loss", 100) == "step"


def test_a_name_left_far_behind_moves() -> None:
    """A name far behind moves to its own axis before the aggregator refuses it."""
    axes = StepAxes()
    assert axes.axis("slow", 0) == axes.axis("fast", 0) == "step"
    for step in range(1, 1_000):
        axes.axis("fast", step)
    assert axes.axis("slow", 1) == "slow"
    assert axes.axis("slow", 2) == "slow"


def test_a_name_that_lags_a_little_stays() -> None:
    """The aggregator corrects steps that closed lately."""
    axes = StepAxes()
    assert axes.axis("train", 0) == axes.axis("checked later", 0) == "step"
    for step in range(1, 1_000):
        assert axes.axis("train", step) == "step"
        assert axes.axis("checked later", max(0, step - 100)) == "step"


def test_each_new_beginning_gets_an_axis_of_another_name() -> None:
    """Two axes of one name would be one axis, which has passed the step."""
    axes = StepAxes()
    names = []
    for _ in range(5):
        names.append(axes.axis("loss", 0))
        for step in range(1, 300):
            assert axes.axis("loss", step) == names[-1]
    assert names == ["step", "loss", "loss 2", "loss 3", "loss 4"]


@pytest.mark.parametrize("name", ["/x", "", "x" * 5_000, "\ud800/loss", "a/" + "x" * 300])
def test_an_axis_always_has_a_valid_name(name: str) -> None:
    """Other names may join it, and must not be lost because of this one."""
    axes = StepAxes()
    axes.axis("first", 10_000)
    for _ in range(4):
        for step in range(1_000):
            check_text("an axis", axes.axis(name, step), limits.NAME_CHARS)


def test_the_number_of_axes_is_bounded() -> None:
    """Half of those of a run, so that the program's own have room."""
    axes = StepAxes()
    names = {axes.axis(f"name {number}", 10_000 - number) for number in range(1_000)}
    assert len(names) == limits.AXES // 2


def test_a_record_that_is_no_value_goes_to_the_nearest_axis_and_stays_there() -> None:
    """A record that is no value moves no axis, so that later values go to the right one."""
    axes = StepAxes()
    assert axes.near("words", 3) == "step"
    for batch in range(101):
        axes.axis("train/loss", batch)
    axes.axis("val/loss", 2)
    assert (axes.near("pictures", 99), axes.near("weights", 3), axes.near("val/loss", 100)) == (
        "step",
        "val",
        "val",
    )
    assert axes.near("weights", 100) == "val"
    assert axes.axis("train/lr", 100) == "step"
    assert axes.axis("val/f1", 2) == "val"


@pytest.mark.parametrize(
    ("step", "axis"), [(5_000, "step"), (1_000, "step"), (999, "slow"), (10, "slow"), (9, "slower"), (2, "new")]
)
def test_a_new_name_joins_the_nearest_axis_that_has_not_passed_its_step(step: int, axis: str) -> None:
    """An axis far below would be torn ahead."""
    axes = StepAxes()
    for name, highest in (("fast", 1_000), ("slow", 10), ("slower", 3)):
        axes.axis(name, highest)
    assert axes.axis("new/loss", step) == axis


# --- no loss -------------------------------------------------------------------------------------


def test_steps_between_sparse_ones_are_not_lost() -> None:
    """Each of them takes a place among the steps that the aggregator corrects."""
    sparse = [("timesteps", step * 1_000) for step in range(128)]
    recorded([("iteration", 0), *sparse, *(("iteration", step) for step in range(1, 1_000))])


def test_steps_in_descending_order_are_not_lost() -> None:
    """Each is late when it comes."""
    recorded([("loss", step) for step in range(2_000, 0, -1)])


def test_batches_and_epochs_are_not_lost() -> None:
    """Values by batch and values by epoch are kept, and stay on two axes."""
    said = []
    for epoch in range(30):
        said += [("train/loss", epoch * 100 + batch) for batch in range(100)]
        said += [("val/loss", epoch), ("lr", epoch * 100 + 99), ("val/f1", epoch)]
    assert {name.partition(":")[0] for name, _ in recorded(said)} == {"step", "val"}


@pytest.mark.parametrize("tags_first", [True, False])
def test_rows_and_epochs_on_one_axis_are_not_lost(tags_first: bool) -> None:
    """W&B counts rows, and a SummaryWriter counts epochs. Rows stay on `step`, which they move ahead."""
    said = []
    for epoch in range(5):
        rows = [("wandb", epoch * 300 + row) for row in range(300)]
        said += [("val/loss", epoch), *rows] if tags_first else [*rows, ("val/loss", epoch)]
    places = {name for name, _ in recorded(said, random.Random(0), ["wandb"])}
    assert {place for place in places if "wandb" in place} == {"step:wandb"}
    assert "val:val/loss" in places


def test_a_source_that_lags_behind_the_others_moves_to_an_axis_of_its_own() -> None:
    """A SummaryWriter counts batches, and W&B epochs."""
    said = []
    for epoch in range(5):
        said += [("loss", epoch * 300 + batch) for batch in range(300)] + [("wandb", epoch)]
    places = [name for name, _ in recorded(said, random.Random(0), ["wandb"])]
    assert set(places) == {"step:loss", "wandb/step:wandb"}


STREAMS = st.lists(
    st.tuples(
        st.sampled_from(["train/loss", "train/lr", "val/loss", "val/acc", "lr", "rollout/reward"]),
        st.integers(-50, 3_000),  # first step
        st.sampled_from([-1, 1, 1, 1, 2, 7, 1_000]),  # distance of steps
        st.integers(1, 300),  # number of steps
        st.floats(0.01, 1.0),  # pace
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(STREAMS, st.randoms(use_true_random=False), st.booleans())
def test_no_value_of_interleaved_names_is_lost(
    streams: list[tuple[str, int, int, int, float]], order: random.Random, pauses: bool
) -> None:
    """No value is lost, whatever the beginnings, distances, directions and paces of the names.

    Time may pass at any point.
    """
    left = [[name, first, apart, count, pace] for name, first, apart, count, pace in streams]
    said: list[tuple[str, int]] = []
    while left:
        stream = order.choices(left, [float(each[4]) for each in left])[0]
        name, step, apart, count, _pace = stream
        said.append((str(name), int(step)))
        stream[1], stream[3] = int(step) + int(apart), int(count) - 1
        if not stream[3]:
            left.remove(stream)
    recorded(said, order if pauses else None)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(STREAMS, st.randoms(use_true_random=False), st.booleans())
def test_no_value_is_lost_beside_sources_that_name_their_axis(
    streams: list[tuple[str, int, int, int, float]], order: random.Random, pauses: bool
) -> None:
    """No value is lost beside sources that name their axis.

    Such a source counts upwards, at any distance and pace.
    """
    guests = {"wandb": (0, 1), "trainer": (order.randint(-5, 500), order.choice([1, 50]))}
    left = [[name, first, apart, count, pace] for name, first, apart, count, pace in streams]
    left += [[name, first, apart, 600, order.random() + 0.01] for name, (first, apart) in guests.items()]
    said: list[tuple[str, int]] = []
    while left:
        stream = order.choices(left, [float(each[4]) for each in left])[0]
        said.append((str(stream[0]), int(stream[1])))
        stream[1], stream[3] = int(stream[1]) + int(stream[2]), int(stream[3]) - 1
        if not stream[3]:
            left.remove(stream)
    recorded(said, order if pauses else None, sources=guests)


# --- sources that name their axes ----------------------------------------------------------------


def test_a_source_that_goes_back_by_itself_stays() -> None:
    """The aggregator corrects its newest steps, and counts older ones."""
    axes = StepAxes()
    assert {axes.place("wandb", "step", step) for step in (*range(1_000), 3, 999, 1_000)} == {"step"}


def test_sources_share_the_first_axis_alone() -> None:
    """A name of the map never joins another axis of a source, which would pull it ahead."""
    axes = StepAxes()
    assert axes.axis("loss", 500) == axes.place("wandb", "step", 0) == axes.place("trainer", "step", 9) == "step"
    assert [axes.place("wandb", name, 0) for name in ("val", "step 2")] == ["val", "step 2"]
    assert axes.axis("val/loss", 3) == "val/loss"
    assert axes.axis("train/loss", 2) == "train"
    assert [axes.place("trainer", name, 7) for name in ("val", "train", "test")] == [
        *("trainer/val", "trainer/train", "test")
    ]
    assert axes.place("wandb", "val", 1) == "val"


def test_sources_begin_anew_with_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources begin anew with another run, since its aggregator knows no axis yet."""
    axes = StepAxes()
    for step in range(500):
        axes.axis("loss", step)
    assert axes.place("wandb", "step", 1) == "wandb/step"
    assert axes.place("trainer", "wandb/step", 1) == "trainer/wandb/step"
    monkeypatch.setattr(PROCESS, "attached", PROCESS.attached + 1)
    assert axes.place("wandb", "step", 1) == "step"
    assert axes.place("trainer", "wandb/step", 1) == "wandb/step"


# --- threads ---------------------------------------------------------------------------------


def test_two_threads_lose_nothing() -> None:
    """Each of them logs its own names; the aggregator gets the values in the order of the calls."""
    axes, said = StepAxes(), []
    lock = threading.Lock()

    def log(name: str, apart: int) -> None:
        for step in range(0, 500 * apart, apart):
            with lock:
                said.append((name, step, axes.axis(name, step)))

    threads = [threading.Thread(target=log, args=pair) for pair in (("a", 1), ("b", 3), ("c", 100))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    steps = StepMerger(30.0, lambda _: None)
    refusals = [steps.report("one", Scalars(axis, step, {name: 1.0}), 1) for name, step, axis in said]
    assert len(refusals) == 1_500
    assert not any(refusals)
