"""Work and wait of a process: what is logged at the end of a step, and what is declared."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import pytest

from telemetry.client import steps as steps_module
from telemetry.client import stragglers
from telemetry.client.process import Process
from telemetry.client.recording import Recording
from telemetry.client.sending.outbox import Outbox
from telemetry.client.stragglers import StepWaits, declare_all, declared
from telemetry.config.schema import EmitConfig
from telemetry.errors import InstrumentError
from telemetry.wire.codec import decode_record
from telemetry.wire.events import Axis, Params, Scalars, Span, StepEnd
from telemetry.wire.nodes import NodeRecord
from telemetry.wire.stragglers import WAIT, WORK, pair

S = 1_000_000_000


class Bench:
    """A process that is live, without a thread that sends, and a clock that moves when told to."""

    def __init__(self) -> None:
        self.now_ns = 100 * S
        self.process = Process()
        self.outbox = Outbox("p", self.process.recorders.buffer, [], tallies={}, row_bound=None)
        self.process._flusher = SimpleNamespace(outbox=self.outbox)  # type: ignore[assignment]
        self.process.state = "live"
        self.run = Recording(self.process)

    def take(self) -> list[object]:
        """Records so far, without spans."""
        found: list[object | NodeRecord] = [decode_record(raw) for raw in self.outbox.records]
        self.outbox.records.clear()
        return [record for record in found if not isinstance(record, Span)]

    def wait(self, name: str, seconds: float) -> None:
        """A span of this length that ends now."""
        begin = self.now_ns
        self.now_ns += round(seconds * S)
        self.run.span_at(name, begin, self.now_ns)

    def work(self, seconds: float) -> None:
        self.now_ns += round(seconds * S)

    def end(self, step: int) -> dict[str, float | None] | None:
        """Work and wait that are logged when this step ends."""
        self.run.end_step(step)
        *values, end = self.take()
        assert isinstance(end, StepEnd)
        if not values:
            return None
        [record] = values
        assert isinstance(record, Scalars)
        assert (record.axis, record.step) == ("step", step)
        return record.values


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench()
    monkeypatch.setattr(stragglers, "_now", lambda: made.now_ns)
    monkeypatch.setattr(steps_module, "_now", lambda: made.now_ns)
    return made


def test_a_step_is_divided_into_work_and_wait(bench: Bench) -> None:
    """The first one only starts the clock: its begin is not known."""
    bench.run.stragglers(wait="all_reduce")
    [axis] = bench.take()
    assert isinstance(axis, Axis)
    assert (axis.name, axis.ranked, axis.reduce, axis.closing) == ("step", [WORK, WAIT], "mean", "ended")
    bench.wait("all_reduce", 1.0)
    assert bench.end(0) is None
    bench.work(0.75)
    bench.wait("all_reduce", 0.25)
    bench.wait("compute", 0.5)
    assert bench.end(1) == {WORK: 1.25, WAIT: 0.25}
    bench.wait("all_reduce", 0.5)
    assert bench.end(2) == {WORK: 0.0, WAIT: 0.5}


def test_waits_inside_and_beside_each_other_count_once(bench: Bench) -> None:
    """Overlapping waits of one thread or of several count once.

    A wait that began before the step counts from its begin.
    """
    bench.run.stragglers(wait=["sync", "nccl.*"])
    bench.take()
    bench.end(0)
    begin = bench.now_ns
    bench.work(2.0)
    bench.run.span_at("nccl.ring", begin - S, begin + S // 4)
    bench.run.span_at("sync", begin + S, begin + 2 * S)
    bench.run.span_at("nccl.tree", begin + S + S // 4, begin + S + S // 2)
    bench.run.span_at("ncclx", begin, begin + 2 * S)
    assert bench.end(1) == {WORK: 0.75, WAIT: 1.25}


def test_many_waits_are_put_together(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many waits are merged, so that a step with very many keeps few."""
    monkeypatch.setattr(stragglers, "_SPANS", 10)
    waits = StepWaits("step", ["w"])
    waits.end(0)
    for _ in range(100):
        waits.span("w", bench.now_ns, bench.now_ns + S)
        bench.work(1.0)
    assert len(waits._spans) < 10
    record = waits.end(1)
    assert record is not None
    found = decode_record(record)
    assert isinstance(found, Scalars)
    assert found.values == {WORK: 0.0, WAIT: 100.0}


def test_a_step_without_a_wait_is_not_known(bench: Bench) -> None:
    """A process that takes no part in the collective call is no straggler."""
    bench.run.stragglers(wait="all_reduce")
    bench.take()
    bench.end(0)
    bench.work(1.0)
    assert bench.end(1) is None


def test_a_later_step_ends_the_one_before(bench: Bench) -> None:
    """A later step ends the one before, for loops that never call `end_step`.

    Values that are logged for a step do not end it.
    """
    bench.run.stragglers(wait="all_reduce")
    bench.run.log({"loss": 1.0}, step=0)
    bench.run.log({"loss": 1.0}, step=1)
    bench.take()
    bench.work(0.5)
    bench.wait("all_reduce", 0.5)
    bench.run.log({"lr": 1.0}, step=1)
    assert [record.step for record in bench.take() if isinstance(record, Scalars)] == [1]
    bench.run.log({"loss": 1.0}, step=2)
    own, logged = bench.take()
    assert isinstance(own, Scalars)
    assert isinstance(logged, Scalars)
    assert (own.step, own.values, logged.step) == (1, {WORK: 0.5, WAIT: 0.5}, 2)


def test_a_step_ends_once(bench: Bench) -> None:
    """A step ends once. Neither an older step nor the same one again has a second work."""
    bench.run.stragglers(wait="w")
    bench.take()
    bench.end(0)
    bench.wait("w", 1.0)
    assert bench.end(5) == {WORK: 0.0, WAIT: 1.0}
    bench.wait("w", 1.0)
    assert bench.end(5) is None
    assert bench.end(4) is None
    bench.run.log({"x": 1.0}, step=6)
    assert [type(record) for record in bench.take()] == [Scalars]


def test_other_axes_have_steps_of_their_own(bench: Bench) -> None:
    """Each declaration is for one axis."""
    bench.run.stragglers(wait="w", axis="train")
    bench.take()
    for step in (0, 1):
        bench.wait("w", 1.0)
        bench.run.end_step(step, axis="eval")
    assert all(isinstance(record, StepEnd) for record in bench.take())


def test_a_program_may_log_both_itself(bench: Bench) -> None:
    """If a program logs work and wait itself, the run says which names they are.

    The client measures neither of them.
    """
    bench.run.stragglers(work="time/compute_ms", wait="time/all_reduce_ms", axis="train")
    axis, params = bench.take()
    assert isinstance(axis, Axis)
    assert isinstance(params, Params)
    assert axis.ranked == ["time/compute_ms", "time/all_reduce_ms"]
    assert pair("train", params.values) == ("time/compute_ms", "time/all_reduce_ms")
    assert pair("step", params.values) == (WORK, WAIT)
    assert bench.process.step_waits == ()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"wait": []}, "need the name of a wait"),
        ({"wait": ""}, "a wait"),
        ({"wait": "w", "axis": ""}, "an axis"),
        ({"wait": ["a", "b"], "work": "c"}, "one name for the wait, not 2"),
        ({"wait": "a", "work": 3}, "the work"),
    ],
)
def test_wrong_declarations_raise(arguments: dict[str, object], words: str) -> None:
    """A wrong declaration raises at the call, and the error says what to write."""
    with pytest.raises(InstrumentError, match=words):
        declared(arguments.get("axis", "step"), arguments.get("work"), arguments["wait"])  # type: ignore[arg-type]


def test_a_setting_declares_it(bench: Bench) -> None:
    """A setting declares stragglers for programs that are not changed.

    A declaration of the program itself comes first.
    """
    config = EmitConfig(stragglers=("all_reduce", "nccl.*"))
    declare_all(bench.process, bench.outbox, config)  # type: ignore[arg-type]
    [axis] = bench.take()
    assert isinstance(axis, Axis)
    bench.end(0)
    bench.wait("nccl.ring", 1.0)
    assert bench.end(1) == {WORK: 0.0, WAIT: 1.0}
    bench.run.stragglers(wait="other")
    bench.take()
    declare_all(bench.process, bench.outbox, config)  # type: ignore[arg-type]
    assert len(bench.take()) == 1
    bench.end(2)
    bench.wait("all_reduce", 1.0)
    assert bench.end(3) is None


def test_a_process_says_its_groups(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its node is its host. The environment adds groups, and `run.axis` those that the program knows."""
    monkeypatch.setenv("RANK", "29")
    bench.run.stragglers(wait="all_reduce")
    [axis] = bench.take()
    assert isinstance(axis, Axis)
    assert (axis.groups, axis.rank) == ({"node": os.uname().nodename}, 29)
    monkeypatch.setenv("TELEMETRY_GROUPS", "pp=3, dp=5,node=n3,")
    bench.run.stragglers(wait="all_reduce")
    [axis] = bench.take()
    assert isinstance(axis, Axis)
    assert axis.groups == {"pp": 3, "dp": 5, "node": "n3"}
    bench.run.axis("step", groups={"pp": np.int64(4), "tp": True})
    [axis] = bench.take()
    assert isinstance(axis, Axis)
    assert (axis.groups, axis.rank, axis.ranked) == ({"pp": 4, "tp": 1}, 29, [])


def test_wrong_groups_are_reported(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Those of the environment are left out with a warning, because it may be somebody else's. A call raises."""
    monkeypatch.setenv("TELEMETRY_GROUPS", "pp,dp=5")
    bench.run.stragglers(wait="all_reduce")
    [axis] = bench.take()
    assert isinstance(axis, Axis)
    assert axis.groups == {"node": os.uname().nodename, "dp": 5}
    assert "TELEMETRY_GROUPS: 'pp' is ignored" in caplog.text
    for groups, words in (
        ({"pp": 0.5}, "must be a number or a name"),
        ({"pp": 1 << 63}, "must be a number or a name"),
        ({"": 1}, "a dimension"),
        ({str(at): at for at in range(17)}, "17 groups"),
    ):
        with pytest.raises(InstrumentError, match=words):
            bench.run.axis("step", groups=groups)
