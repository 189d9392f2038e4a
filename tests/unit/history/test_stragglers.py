"""Slow ranks of a run, from its record log, in figures and in words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry import limits
from telemetry.history.stragglers import (
    StragglerWatch,
    has_work_and_wait,
    heat,
    scale,
    sentence,
    sentences,
    stragglers,
)
from telemetry.store.records import FILE_NAME, RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.testing.slow_ranks import SimulatedRanks
from telemetry.wire.events import Axis, ClosedStep, Mark, Streamed, StreamRecord
from telemetry.wire.report import LagMap, Stragglers
from telemetry.wire.snapshot import AxisStat, MetricsSnapshot, ProducerStat
from telemetry.wire.stragglers import WAIT, WORK
from telemetry.wire.version import PROTOCOL

SNAPSHOT = MetricsSnapshot(
    run_id="r1", name="job", state="COMPLETE", axes=[AxisStat(name="step", values={WORK: 0.3, WAIT: 0.1})]
)


def found(job: SimulatedRanks, steps: int = 120, **of: int) -> Stragglers:
    watch = StragglerWatch()
    for rank, groups in job.groups().items():
        watch.declare(Axis("step", groups=groups, rank=int(rank)), "p")
    for step in job.steps(steps):
        watch.add(step.closed(), {})
    [one] = watch.found(SNAPSHOT, **of)
    return one


def test_the_record_log_has_all_that_is_needed(tmp_path: Path) -> None:
    """Corrections and other records change nothing."""
    run = RunDirectory.create(tmp_path, "job", "r1", 10**18)
    steps = [step.closed() for step in SimulatedRanks(ranks=16, slow={3: 1.3}).steps(60)]
    records: list[Streamed] = [
        Mark("begin"),
        Axis("step", groups={"dp": 7}, rank=3),
        *steps,
        replace(steps[0], revision=1),
        ClosedStep("eval", 1, {"loss": 1.0}),
    ]
    log = RecordLog(run.records)
    log.append([StreamRecord(PROTOCOL, "r1", seq, "p", 10**18, one) for seq, one in enumerate(records)])
    log.close()
    [of_step] = stragglers(run, SNAPSHOT)
    assert (of_step.axis, of_step.ranks, of_step.steps) == ("step", 16, 60)
    [slow] = of_step.slow
    assert (slow.rank, slow.name, slow.always, slow.now) == (3, "rank 3 (dp 7)", True, True)
    assert slow.cost == pytest.approx(slow.cost_s / slow.step_s)
    assert slow.work_s > slow.others_s


def test_a_large_log_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report takes no minutes, and says why it has no verdict; without a log there is nothing."""
    run = RunDirectory.create(tmp_path, "job", "r1", 10**18)
    assert stragglers(run, SNAPSHOT) == []
    log = RecordLog(run.records)
    log.append([StreamRecord(PROTOCOL, "r1", 0, "p", 10**18, Mark("begin"))])
    log.close()
    monkeypatch.setattr(limits, "READ_SPANS_BYTES", (run.records / FILE_NAME).stat().st_size - 1)
    monkeypatch.setattr(RecordLog, "readable", lambda self: pytest.fail("it is read"))
    [of_step] = stragglers(run, SNAPSHOT)
    why = "the record log has 194 B, and the aggregator did not judge the steps"
    assert sentences(of_step) == [f"slow ranks on axis step are not known: {why}"]


def test_a_declared_pair_is_found_by_the_parameters() -> None:
    """Parameters name the work and wait values of an axis. The values are in the unit that their names end in."""
    params = {"stragglers.train.work": "compute_ms", "stragglers.train.wait": "sync_ms"}
    watch = StragglerWatch()
    for step in SimulatedRanks(ranks=16, slow={3: 1.3}).steps(60):
        in_ms = [[(rank, 1e3 * value) for rank, value in pairs] for pairs in (step.work, step.wait)]
        ranks = {"loss": step.work, "compute_ms": in_ms[0], "sync_ms": in_ms[1]}
        watch.add(ClosedStep("train", step.number, {}, ranks=ranks), params)
        assert not watch.add(ClosedStep("eval", step.number, {}, ranks={"loss": step.work}), params)
    [of_train] = watch.found(SNAPSHOT)
    assert 0.25 < of_train.step_s < 0.5
    assert [slow.rank for slow in of_train.slow] == [3]
    assert has_work_and_wait(SNAPSHOT)
    stat = AxisStat(name="train", values={"sync_ms": 1.0})
    assert has_work_and_wait(replace(SNAPSHOT, axes=[stat], params=params))
    assert not has_work_and_wait(replace(SNAPSHOT, axes=[stat]))


def test_a_producer_without_a_rank_has_its_name() -> None:
    """Or its id, if the run does not know it."""
    stats = [ProducerStat(producer="p1", name="loader", host="h", pid=7), ProducerStat(producer="p2", name="x")]
    snapshot = replace(SNAPSHOT, producers=stats)
    for key, name in (("p1", "loader"), ("p9", "p9")):
        watch = StragglerWatch()
        for step in SimulatedRanks(ranks=4, slow={2: 1.4}).steps(120):
            work, wait = (
                [(key if rank == 2 else rank, value) for rank, value in pairs] for pairs in (step.work, step.wait)
            )
            watch.add(ClosedStep("step", step.number, {}, ranks={WORK: work, WAIT: wait}), {})
        [one] = watch.found(snapshot)
        assert [slow.name for slow in one.slow] == [name]
        assert one.map.ranks == ["rank 0", "rank 1", "rank 3", name]


def test_the_sentence_says_who_and_how_much() -> None:
    """The sentence names the slow rank, its cost, since when it is slow and how surely."""
    one = found(SimulatedRanks(ranks=16, slow={3: 1.3}))
    [slow] = one.slow
    slow = replace(slow, cost_s=0.387, cost=0.061, excess=0.098, windows=20, last_in=19)
    said = "rank 3 costs 387 ms a step, 6.1 %: it works 9.8 % longer than the others, "
    assert sentence(slow, one) == f"{said}from the first steps on, last in 19 of 20 windows"
    since = replace(slow, always=False, first_step=1_200, last_step=1_500)
    assert "others, since step 1,200, last" in sentence(since, one)
    past = replace(since, now=False)
    assert sentence(past, one).startswith("rank 3 cost 387 ms a step")
    assert "from step 1,200 to 1,500" in sentence(past, one)
    assert "up to step 1,500" in sentence(replace(past, always=True), one)
    assert len(sentences(one)) == 1


def test_without_a_slow_rank_the_sentence_says_what_was_judged() -> None:
    """Silence could also mean that nothing was measured."""
    one = found(SimulatedRanks(ranks=16))
    judged = "no rank slows the others on axis step: 120 steps of 16 ranks, 99 % confidence"
    [line] = sentences(one)
    assert line.startswith(f"{judged}; it would name a rank that works ")
    assert line.endswith(" but not rarer pauses or what slows all alike")
    few = found(SimulatedRanks(ranks=16), 10)
    assert sentences(few)[0].endswith("99 % confidence; these are too few steps to name one")
    assert sentences(replace(one, least=None)) == [judged]  # as reports of earlier versions have it


def test_many_ranks_and_steps_are_put_together() -> None:
    """A row shows the rank that lags most, so that a single slow one is seen."""
    one = found(SimulatedRanks(ranks=100, slow={37: 1.5}), rows=10, columns=8)
    assert one.map.ranks[0] == "ranks 0 to 9"
    assert (len(one.map.lags), {len(row) for row in one.map.lags}) == (10, {8})
    assert (one.map.steps[0], one.map.last_step) == (0, 119)
    means = [sum(lag or 0.0 for lag in row) / len(row) for row in one.map.lags]
    assert max(range(10), key=means.__getitem__) == 3
    assert means[3] > 0.2


def test_shades_go_from_the_median_to_the_largest_lag() -> None:
    """Noise stays pale: the darkest is 5 % of a step at least."""
    assert scale(LagMap(lags=[[0.01, None], [-0.5, 0.02]])) == 0.05
    assert scale(LagMap(lags=[[0.4, None]])) == 0.4
    assert [heat(lag, 0.4) for lag in (-0.1, 0.0, 0.1, 0.4, 0.9)] == [0.0, 0.0, 0.25, 1.0, 1.0]


EVEN: Any = {"noise": (0.01, 0.01), "uneven": 0.0, "long_steps": 0.0}


def test_each_cause_has_a_sentence() -> None:
    """A node and its ranks, a stage, a rank of a stage, and pauses."""
    node = found(SimulatedRanks(slow=dict.fromkeys(range(24, 32), 1.1), per_node=8, **EVEN))
    [line] = sentences(node)
    assert re.match(
        r"node n3 slows its 8 ranks: together [\d.]+ ms a step, [\d.]+ %; they work [\d.]+ % longer", line
    )
    slow = dict.fromkeys(range(56, 64), 1.15) | {29: 1.1}
    pipelines = found(SimulatedRanks(slow=slow, stages=8, work_s=0.42, **EVEN))
    together, stage, rank = sentences(pipelines)
    assert re.fullmatch(r"2 causes cost [\d.]+ ms a step, [\d.]+ % together", together)
    assert re.match(r"stage pp=7 is 1\d(\.\d)? % slower than the other stages: imbalance, [\d.]+ ms a step", stage)
    assert re.match(r"rank 29 \(pp 3, dp 5\) costs [\d.]+ µs a step, .* longer than the others of its stage", rank)
    assert rank.endswith(" ms once the others are repaired")
    assert (pipelines.slow[0].group, pipelines.slow[0].ranks[0]) == (7, 56)
    assert pipelines.slow[1].groups == {"pp": 3, "dp": 5}
    one = found(SimulatedRanks(slow={29: 1.1}, stages=8, work_s=0.42, **EVEN))
    [line] = sentences(one)
    assert "costs up to " in line
    assert line.endswith("can't tell how much of it the other stages hide")
    pauses = found(SimulatedRanks(pauses={37: (20, 2.0)}, **EVEN), 240)
    [line] = sentences(pauses)
    assert re.fullmatch(r"rank 37 pauses 2\.0\d? s every 20 steps: [\d.]+ ms a step, 2\d(\.\d)? %", line)
    irregular = replace(pauses.slow[0], every=None, pauses=7, steps=230, now=False, last_step=219)
    assert sentence(irregular, pauses).startswith("rank 37 paused 2.00 s in 7 of 230 steps up to step 219: ")


def test_a_stage_that_is_a_node_may_be_either() -> None:
    """Nothing tells imbalance from a slow node if each stage has a node of its own."""
    slow = dict.fromkeys(range(56, 64), 1.15)
    one = found(SimulatedRanks(slow=slow, stages=8, per_node=8, work_s=0.42, **EVEN))
    [line] = sentences(one)
    assert "slower than the other stages: imbalance or its node n7, " in line


def test_the_map_is_folded_by_each_dimension() -> None:
    """A row for each group, in order. Many groups share rows."""
    job = SimulatedRanks(ranks=96, slow={5: 1.5}, stages=12, per_node=4)
    folds = {fold.dimension: fold for fold in found(job, 60, rows=8).map.folds}
    assert folds.keys() == {"pp", "dp", "node"}
    assert folds["dp"].ranks == [f"dp {at}" for at in range(8)]
    assert folds["pp"].ranks[:2] == ["pp 0", "pp 1 to 2"]
    means = [sum(lag or 0.0 for lag in row) / len(row) for row in folds["dp"].lags]
    assert max(range(8), key=means.__getitem__) == 5
    assert found(SimulatedRanks(ranks=4, per_node=4), 60).map.folds == []
