"""Ranked names: a closed step keeps their values one by one."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.aggregator.stepping import Bench

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.aggregator.checkpoint import encode, load, save
from telemetry.aggregator.steps.merger import StepMerger
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.control import Hello
from telemetry.wire.events import Axis, ClosedStep, Scalars, StepEnd

RANKS: dict[str, int | None] = {"a": 10, "b": 9, "c": None, "d": 9}


def bench(*ranked: str) -> Bench:
    """Return steps with an axis that has these ranked names."""
    made = Bench(young=True)
    made.steps = StepMerger(30.0, made.warnings.append, RANKS.get)
    made.steps.declare(Axis("train", ranked=list(ranked)))
    made.seconds(2)
    return made


def test_values_are_kept_in_order_of_ranks() -> None:
    """Numbers before ids, and two producers of one rank as two entries. Other names have none."""
    made = bench("wait")
    for producer, value in (("c", 4.0), ("a", 1.0), ("d", 3.0), ("b", 2.0)):
        made.log(producer, 1, wait=value, loss=value)
    made.steps.close()
    made.take()
    (closed,) = made.said
    assert closed.step.ranks == {"wait": [(9, 2.0), (9, 3.0), (10, 1.0), ("c", 4.0)]}
    assert closed.step.spread.keys() == {"wait", "loss"}


def test_one_producer_is_a_rank_too() -> None:
    """The value of a lone producer is both the step's and that of its rank.

    A value that is not finite belongs to no rank.
    """
    made = bench("wait", "work")
    made.log("a", 1, wait=1.0, work=float("nan"))
    made.end("a", 1)
    made.take()
    assert [closed.step.ranks for closed in made.said] == [{"wait": [(10, 1.0)]}]


def test_a_correction_repeats_all_ranks_of_its_names() -> None:
    """A correction repeats all ranks of its names, even if the mean stays the same.

    Names that were not reported again are not repeated.
    """
    made = bench("wait", "work")
    made.log("a", 1, wait=1.0, work=5.0)
    made.log("b", 1, wait=3.0, work=5.0)
    made.log("a", 2)
    made.log("b", 2)
    assert made.take() == [(1, {"wait": 2.0, "work": 5.0}, "ended")]
    made.log("c", 1, wait=2.0)
    assert made.take() == [(1, {"wait": 2.0}, "late")]
    assert made.said[-1].step.ranks == {"wait": [(9, 3.0), (10, 1.0), ("c", 2.0)]}


def test_ranks_of_a_name_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lowest ranks are kept."""
    monkeypatch.setattr(limits, "STEP_RANKS", 2)
    made = bench("wait")
    for producer in "cab":
        made.log(producer, 1, wait=1.0)
    made.steps.close()
    made.take()
    assert made.said[0].step.ranks == {"wait": [(9, 1.0), (10, 1.0)]}


def test_each_record_has_the_ranks_of_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of many names is several records."""
    monkeypatch.setattr(limits, "PARAMS_PER_RECORD", 1)
    made = bench("wait", "work")
    made.log("a", 1, wait=1.0, other=2.0, work=3.0)
    made.steps.close()
    made.take()
    assert [closed.step.ranks for closed in made.said] == [{"wait": [(10, 1.0)]}, {}, {"work": [(10, 3.0)]}]


def test_a_rank_is_that_of_the_time_of_its_report() -> None:
    """A producer that gave up its row since then keeps it, also over a checkpoint."""
    made = bench("wait")
    made.log("a", 1, wait=1.0)
    again = StepMerger(30.0, made.warnings.append)
    load(again, msgspec.msgpack.decode(encode(save(made.steps))))
    again.close()
    assert [closed.step.ranks for closed in again.take()] == [{"wait": [(10, 1.0)]}]


def test_ranked_names_of_several_declarations_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several parts of a program may need them. All else of the first declaration stays."""
    monkeypatch.setattr(limits, "RANKED_NAMES", 3)
    made = bench("wait")
    made.steps.declare(Axis("train", ranked=["work", "wait"]))
    made.steps.declare(Axis("train", ranked=["more", "too many"]))
    made.steps.declare(Axis("train", "sum", ranked=["work"]))
    made.steps.declare(Axis("train", "sum"))
    assert made.warnings == []
    made.log("a", 1, wait=1.0, work=2.0, more=3.0)
    made.log("b", 1, wait=1.0)
    made.steps.close()
    made.take()
    assert made.said[0].step.values["wait"] == 2.0
    assert [*made.said[0].step.ranks] == ["wait", "work", "more"]
    made.steps.declare(Axis("train", "max"))
    assert made.warnings == ["axis 'train' was declared again with other values; the first declaration is used"]


def test_ranks_come_from_hellos() -> None:
    """A producer without one is named by its id."""
    aggregator = Aggregator(AggregatorConfig())
    aggregator.hello(Hello(producer="p", rank=3), MONO_NS, WALL_NS)
    records = [Axis("train", ranked=["wait"]), Scalars("train", 1, {"wait": 0.5}), StepEnd("train", 1)]
    batches = [batch("p", 0, 0, records=records), batch("q", 0, 0, records=records)]
    assert all(aggregator.admit(each, MONO_NS) for each in batches)
    aggregator.apply(batches, MONO_NS, WALL_NS)
    (closed,) = aggregator.close()
    assert isinstance(closed.record, ClosedStep)
    assert closed.record.ranks == {"wait": [(3, 0.5), ("q", 0.5)]}
    assert closed.part is None


def test_groups_set_no_rules() -> None:
    """Groups of a process are for readers of the record stream: they change no rule and disagree with none."""
    made = bench("wait")
    made.steps.declare(Axis("train", groups={"pp": 3}, rank=1))
    made.steps.declare(Axis("train", "sum", groups={"pp": 4}, rank=2))
    made.steps.declare(Axis("train", groups={"pp": 5}, rank=3))
    made.log("a", 1, wait=1.0)
    made.log("b", 1, wait=2.0)
    made.steps.close()
    made.take()
    assert (made.said[0].step.values["wait"], made.warnings) == (3.0, [])
