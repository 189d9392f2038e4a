"""Captures of several libraries in one program: the aggregator's steps refuse no value of any of them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from telemetry.aggregator.steps.merger import StepMerger
from telemetry.client import module_level as telemetry
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.integrations import loop_axes
from telemetry.integrations.loop_axes import LoopAxes, record_own
from telemetry.integrations.tensorboard import TensorBoardRecorder
from telemetry.integrations.wandb.source import WandbSource
from telemetry.testing.aggregator import FakeAggregator
from telemetry.wire.events import Scalars

Read = Callable[[], dict[str, set[str]]]


@pytest.fixture
def read(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Read]:
    """Function that ends the producer, and returns the axes of each name. Fails if a value is refused or lost."""
    monkeypatch.setattr(loop_axes, "_NUMBERS", itertools.count(1))
    PROCESS.finish(5.0)  # of an earlier test
    PROCESS.reopen()
    with FakeAggregator(short_dir) as aggregator:
        monkeypatch.setenv(ENDPOINT_VARIABLE, aggregator.endpoint)

        def end() -> dict[str, set[str]]:
            PROCESS.finish(20.0)
            records = [one for heard in aggregator.heard.values() for one in heard.records]
            steps, axes = StepMerger(30.0, lambda _: None), dict[str, set[str]]()
            for number, record in enumerate(record for record in records if isinstance(record, Scalars)):
                refused = steps.report("one", record, number + 1)
                assert refused is None, f"{record}: {refused}"
                if number % 20 == 0:
                    steps.pass_time(1_000_000_000)
                    steps.take()
                for name in record.values:
                    axes.setdefault(name, set()).add(record.axis)
            return axes

        yield end
        PROCESS.finish(5.0)
        PROCESS.reopen()
        PROCESS._late.take()


class Writer:
    """A stand-in for a `SummaryWriter`, with the attribute that is read of one."""

    log_dir = "/logs"


WRITER = Writer()


def write(recorder: TensorBoardRecorder, tag: str, step: int) -> None:
    recorder.scalar(WRITER, {"tag": tag, "scalar_value": 0.5, "global_step": step})


def test_epochs_of_a_writer_beside_rows_of_wandb(read: Read) -> None:
    """Rows stay on their documented axis. The writer's names get another one."""
    source, recorder = WandbSource({}, {}), TensorBoardRecorder()
    for row in range(1_500):
        if row % 300 == 0:
            write(recorder, "val/loss", row // 300)
        source.log({"loss": row / 2})
    assert read() == {"loss": {"step"}, "val/loss": {"step", "val"}}


def test_epochs_of_wandb_beside_batches_of_a_writer(read: Read) -> None:
    """The writer has moved `step` ahead, so the rows are on an axis that says whose they are."""
    source, recorder = WandbSource({}, {}), TensorBoardRecorder()
    source.define("epoch/*", step_metric="val")
    for batch in range(1_500):
        write(recorder, "train/loss", batch)
        if batch % 300 == 299:
            write(recorder, "val/loss", batch // 300)
            source.log({"loss": 0.5, "epoch/loss": 0.25, "val": batch // 300})
    assert read() == {
        "train/loss": {"step"},
        "val/loss": {"val"},
        "loss": {"wandb/step"},
        "epoch/loss": {"wandb/val"},
        "val": {"wandb/val"},
    }


def test_a_training_loop_beside_both(read: Read) -> None:
    """The loop counts batches, the writer counts epochs, and W&B has a row for each ten batches."""
    source, recorder, loop = WandbSource({}, {}), TensorBoardRecorder(), LoopAxes()
    for batch in range(2_000):
        telemetry.log({"loop": 0.5}, step=batch, axis=loop.axis("step", batch))
        record_own({"own": 0.5}, batch, loop)
        if batch % 10 == 0:
            source.log({"row": 0.5})
        if batch % 100 == 0:
            write(recorder, "epoch", batch // 100)
    assert read() == {
        "loop": {"step"},
        "own": {"own_step"},
        "row": {"step", "wandb/step"},
        "epoch": {"step", "epoch"},
    }
