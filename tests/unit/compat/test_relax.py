"""The timers and the timeline of Relax: seconds, events, and the spans of a run."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from telemetry.client import run as run_module
from telemetry.client import start, user_warnings
from telemetry.client.process import ENDPOINT_VARIABLE, PROCESS
from telemetry.compat import relax
from telemetry.compat.relax import timeline
from telemetry.testing.aggregator import FakeAggregator
from telemetry.wire.events import Mark, Span

LONG_S = 3_600.0

Records = Callable[[], list[Any]]


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin each test as a new process does."""
    relax.Timer()._held.take()
    monkeypatch.setattr(relax.Timer, "_only", None)
    monkeypatch.setattr(timeline, "_TIMELINE", timeline._Timeline())
    monkeypatch.setattr(user_warnings, "_reported", set())
    monkeypatch.setattr(PROCESS, "before_finish", [timeline._record_rest])


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    return lambda: [record.getMessage() for record in caplog.records if record.name == "telemetry.client"]


@pytest.fixture
def records(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Records]:
    """A run, and the function that ends it and returns its records."""
    monkeypatch.setenv("TELEMETRY_EMIT__FLUSH_MS", "2")
    with FakeAggregator(short_dir) as aggregator:
        monkeypatch.setenv(ENDPOINT_VARIABLE, aggregator.endpoint)
        run = start("job")

        def end() -> list[Any]:
            run.finish()
            [producer] = aggregator.heard.values()
            return list(producer.records)

        yield end
        run_module._STARTER.run = None
        PROCESS.finish(5.0)
        PROCESS.reopen()
        PROCESS._late.take()


def spans(found: list[Any]) -> list[Span]:
    return [record for record in found if isinstance(record, Span)]


def marks(found: list[Any]) -> list[Mark]:
    return [record for record in found if isinstance(record, Mark)]


def steps(found: list[Any]) -> list[tuple[str, str | None]]:
    return [(span.name, span.labels.get("step")) for span in spans(found)]


def event(kind: str, ts: float, **more: Any) -> dict[str, Any]:
    """Return an event of this process and thread."""
    return {"name": "rollout", "ph": kind, "ts": ts, "pid": os.getpid(), "tid": threading.get_ident()} | more


def now_us() -> int:
    return time.time_ns() // 1_000


# --- timers ------------------------------------------------------------------------------------------


def test_the_timers_are_one_object() -> None:
    """Seconds that are timed under one name add up until this timer is reset."""
    made = relax.Timer()
    assert relax.Timer() is made
    made.add("a", 2.0)
    relax.Timer().add("a", 3.0)
    made.add("b", 1.0)
    assert made.log_dict() == {"a": 5.0, "b": 1.0}
    made.reset("a")
    assert made.log_dict() == {"b": 1.0}
    made.reset("gone")
    made.reset()
    assert made.log_dict() == {}


def test_end_returns_the_seconds_of_the_block() -> None:
    """`end` returns seconds of the monotonic clock.

    The timer keeps them under the name unless `keep=False` is given.
    """
    made = relax.Timer()
    made.start("a")
    begun = time.monotonic()
    time.sleep(0.02)
    slept_s = time.monotonic() - begun
    elapsed_s = made.end("a")
    assert slept_s <= elapsed_s < LONG_S
    assert made.log_dict() == {"a": elapsed_s}
    made.start("a")
    made.end("a", keep=False)
    assert made.log_dict() == {}
    assert [each.name for each in made.log_record_and_clear(3)] == ["a", "a"]


def test_a_timer_that_was_not_started_takes_no_time(said: Callable[[], list[str]]) -> None:
    """An end without a start is reported once, and the program goes on."""
    assert relax.Timer().end("never") == 0.0
    assert relax.Timer().end("never") == 0.0
    assert relax.Timer().log_dict() == {}
    assert said() == [
        "telemetry: timer 'never' was ended but not started, so it took 0 s. This warning appears once"
    ]


def test_blocks_of_one_name_may_be_nested() -> None:
    """The inner one ends first."""
    with relax.timer("a"), relax.timer("a"):
        pass
    inner, outer = relax.Timer().log_record_and_clear(1)
    assert outer.end_ts - outer.start_ts >= inner.end_ts - inner.start_ts


def test_threads_use_one_name_at_a_time() -> None:
    """Each ends its own block."""
    both = threading.Barrier(4)

    def work() -> None:
        both.wait()
        for _ in range(500):
            with relax.timer("a"):
                pass

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work) for _ in range(4)]:
            done.result()
    found = relax.Timer().log_record_and_clear(1)
    assert len(found) == 2_000
    total_s = sum(each.end_ts - each.start_ts for each in found)
    assert relax.Timer().log_dict()["a"] == pytest.approx(total_s, abs=0.005)


def test_another_thread_may_end_a_timer() -> None:
    """A thread without a block of its own ends the newest one."""
    relax.Timer().start("a")
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(relax.Timer().end, "a").result() > 0.0
    assert relax.Timer().end("a") == 0.0


def test_tasks_of_one_thread_end_their_own_blocks() -> None:
    """The shorter task began later and ended later than the longer one's beginning."""

    async def work(begin: asyncio.Event, end: asyncio.Event, step: int) -> None:
        await begin.wait()
        with relax.timer("a", step=step):
            await end.wait()

    async def all_of_it() -> None:
        gates = [asyncio.Event() for _ in range(4)]
        tasks = [asyncio.create_task(work(gates[0], gates[2], 1)), asyncio.create_task(work(gates[1], gates[3], 2))]
        for gate in gates:
            gate.set()
            await asyncio.sleep(0.005)
        await asyncio.gather(*tasks)

    asyncio.run(all_of_it())
    first, second = relax.Timer().log_record_and_clear(9)
    assert (first.step, second.step) == (1, 2)
    assert first.start_ts < second.start_ts < first.end_ts < second.end_ts


def test_functions_of_all_kinds_are_timed() -> None:
    """A coroutine is timed until it returns; names and values are kept."""

    @relax.timer
    def plain(number: int) -> int:
        return number + 1

    @relax.timer
    async def later() -> str:
        await asyncio.sleep(0.01)
        return "done"

    @relax.timer("named")
    def other() -> None:
        raise ValueError("wrong")

    assert (plain(1), plain.__name__) == (2, "plain")
    assert asyncio.run(later()) == "done"
    with pytest.raises(ValueError, match="wrong"):
        other()
    assert relax.Timer().log_dict().keys() == {"plain", "later", "named"}
    assert relax.Timer().log_dict()["later"] >= 0.01


def test_an_inverse_timer_leaves_a_block_out() -> None:
    """The name has two events, and is running again after the block, also if it raises."""
    relax.Timer().start("wait")

    def work() -> None:
        with relax.inverse_timer("wait"):
            assert relax.Timer().end("wait") == 0.0
            raise KeyError

    with pytest.raises(KeyError):
        work()
    assert relax.Timer().end("wait") > 0.0
    assert len(relax.Timer().log_record_and_clear(1)) == 2


def test_a_deferred_function_is_called_after_the_function() -> None:
    """A deferred function is also called after an error, and after the end of a coroutine."""
    order: list[str] = []
    defer = relax.with_defer(lambda: order.append("deferred"))

    @defer
    def fails() -> None:
        order.append("called")
        raise ValueError("wrong")

    @defer
    async def later() -> str:
        await asyncio.sleep(0)
        order.append("called")
        return "done"

    with pytest.raises(ValueError, match="wrong"):
        fails()
    assert asyncio.run(later()) == "done"
    assert order == ["called", "deferred"] * 2


# --- spans of timers ---------------------------------------------------------------------------------


def test_blocks_are_spans_of_the_step_that_is_logged(records: Records) -> None:
    """Other keywords are labels. A block with a step of its own keeps it."""
    with relax.timer("rollout", engine="a"):
        pass
    relax.Timer().start("save", step=3)
    relax.Timer().end("save", size=7)
    before = relax.Timer().log_record_and_clear(100)
    assert relax.Timer().log_record_and_clear(101) == []
    rollout, save = spans(records())
    assert (rollout.name, rollout.labels) == ("rollout", {"step": "100", "engine": "a"})
    assert (save.name, save.labels) == ("save", {"step": "3", "size": "7"})
    assert [each.step for each in before] == [100, 3]
    assert before[0].end_ts - before[0].start_ts == pytest.approx(
        (rollout.end_ns - rollout.start_ns) / 1e9, abs=1e-6
    )


def test_blocks_that_no_step_took_are_recorded_at_the_end(records: Records) -> None:
    """Blocks that no step took are recorded at the end, and belong to no step."""
    with relax.timer("last"):
        pass
    assert steps(records()) == [("last", None)]


def test_events_that_wait_are_bounded(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest ones are recorded without a step, and each is recorded once."""
    monkeypatch.setattr(timeline, "HELD", 10)
    for number in range(25):
        with relax.timer(f"{number}"):
            pass
    relax.Timer().log_record_and_clear(1)
    found = steps(records())
    assert [name for name, _ in found] == [f"{number}" for number in range(25)]
    assert {step for _, step in found[:10]} == {None}
    assert {step for _, step in found[-5:]} == {"1"}


def test_a_thread_is_a_track(records: Records) -> None:
    """The main thread has the track without a name."""
    with relax.timer("here"):
        pass
    thread = threading.Thread(target=relax.timer("there")(int), name="loader")
    thread.start()
    thread.join()
    relax.Timer().log_record_and_clear(1)
    here, there = spans(records())
    assert here.track == ""
    assert there.track == "loader"


def test_a_forked_child_begins_without_events() -> None:
    """The parent's events are recorded by the parent alone."""
    with relax.timer("parents"):
        pass
    child = os.fork()
    if not child:
        os._exit(len(relax.Timer().log_record_and_clear(1)))
    assert os.waitpid(child, 0)[1] == 0
    assert len(relax.Timer().log_record_and_clear(1)) == 1


# --- events ------------------------------------------------------------------------------------------


def test_an_event_has_the_fields_of_the_trace_format() -> None:
    """An event has a call stack only if one is given."""
    made = relax.TimelineEvent("a", 10.0, 10.5, step=4)
    assert made.to_trace_event() == {
        "name": "a",
        "ph": "X",
        "ts": 10_000_000,
        "dur": 500_000,
        "pid": os.getpid(),
        "tid": threading.get_ident(),
        "args": {"step": 4},
    }
    other = relax.TimelineEvent("a", 10.0, 10.5, 1, 2, call_stack="main").to_trace_event()
    assert (other["pid"], other["tid"], other["args"]) == (1, 2, {"call_stack": "main"})
    assert "args" not in relax.TimelineEvent("a", 10.0, 10.5).to_trace_event()
    with relax.timer("b"):
        pass
    [timed] = relax.Timer().log_record_and_clear(0)
    assert timed.call_stack is None
    assert timed.to_trace_event()["args"] == {"step": 0}


def test_a_begin_and_an_end_are_one_span(records: Records) -> None:
    """A begin and an end may come in two calls. Arguments of both are labels, and call stacks are left out."""
    ts = now_us()
    mono_ns = time.monotonic_ns()
    relax.record_timeline(99, [event("B", ts - 2_000_000, args={"engine": 1, "call_stack": "main"})])
    relax.record_timeline(100, event("E", ts - 1_000_000, args={"tokens": 5}))
    [span] = spans(records())
    assert span.labels == {"step": "100", "engine": "1", "tokens": "5"}
    assert span.end_ns - span.start_ns == pytest.approx(1e9, abs=2_000)
    assert span.start_ns == pytest.approx(mono_ns - 2e9, abs=1e8)
    assert span.track == ""


def test_events_pair_by_process_thread_and_name(records: Records) -> None:
    """Nested begins of one name end from the inside."""
    ts = now_us() - 1_000
    relax.record_timeline(
        1,
        [
            event("B", ts, tid=1),
            event("B", ts + 1, tid=2),
            event("B", ts + 2, tid=2, name="other"),
            event("B", ts + 3, tid=1),
            event("E", ts + 10, tid=1),
            event("E", ts + 20, tid=2),
            event("E", ts + 30, tid=2, name="other"),
            event("E", ts + 40, tid=1),
            event("X", ts + 50, tid=7, pid=1, dur=5),
            event("i", ts + 60),
        ],
    )
    found = records()
    times = [(span.name, span.track, round((span.end_ns - span.start_ns) / 1e3)) for span in spans(found)]
    assert times == [
        ("rollout", "1", 7),
        ("rollout", "2", 19),
        ("other", "2", 28),
        ("rollout", "1", 40),
        ("rollout", "1/7", 5),
    ]
    assert [mark.text for mark in marks(found)] == ["rollout"]


def test_begins_and_ends_without_each_other_are_marks(records: Records, said: Callable[[], list[str]]) -> None:
    """The first one of each kind is reported. A begin is known to have no end when the run ends."""
    ts = now_us()
    relax.record_timeline(5, [event("E", ts, name=f"end {n}") for n in range(3)])
    relax.record_timeline(5, [event("B", ts, name=f"begin {n}") for n in range(3)])
    found = records()
    assert spans(found) == []
    assert [mark.text for mark in marks(found)] == [
        *(f"an end without a begin: end {n}" for n in range(3)),
        *(f"a begin without an end: begin {n}" for n in range(3)),
    ]
    assert marks(found)[0].labels == {
        "step": "5",
        "pid": str(os.getpid()),
        "tid": str(threading.get_ident()),
    }
    assert [line.partition(" of thread")[0] for line in said()] == [
        "telemetry: an end without a begin: 'end 0'",
        "telemetry: a begin without an end: 'begin 0'",
    ]


def test_marks_and_open_begins_are_bounded(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last mark says that there are more."""
    monkeypatch.setattr(timeline, "MARKS", 3)
    monkeypatch.setattr(timeline, "HELD", 2)
    relax.record_timeline(1, [event("B", now_us(), name=f"{n}") for n in range(9)])
    texts = [mark.text for mark in marks(records())]
    assert texts == [
        "a begin without an end: 2",
        "a begin without an end: 3",
        "more begins and ends without each other are not marked",
    ]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": "a", "ts": 1}, "it has no 'ph'"),
        ({"name": "a", "ph": "X", "ts": "soon"}, "could not convert"),
        ({"name": "a", "ph": "B", "ts": float("nan")}, "the time nan is not finite"),
        ({"name": "a", "ph": "Z", "ts": 1}, "phase 'Z'"),
        ({"name": "a", "ph": "B", "ts": 1, "tid": []}, "unhashable"),
        (None, "NoneType"),
    ],
)
def test_a_wrong_event_does_not_lose_its_neighbours(
    records: Records, said: Callable[[], list[str]], wrong: Any, message: str
) -> None:
    """A wrong event is reported once, and its neighbours are recorded."""
    good = event("X", now_us() - 10, dur=5)
    relax.record_timeline(1, [good, wrong, wrong, good])
    assert len(spans(records())) == 2
    [line] = said()
    assert message in line


def test_what_is_no_list_is_reported(records: Records, said: Callable[[], list[str]]) -> None:
    """The program goes on."""
    relax.record_timeline(1, None)  # type: ignore[arg-type]
    assert records() == []
    assert "NoneType is no list of events" in said()[0]


# --- the adapter -------------------------------------------------------------------------------------


def test_the_adapter_records_at_the_dump(records: Records, tmp_path: Path) -> None:
    """Each event once, under its own step or that of the dump, and without a limit of dumps."""
    adapter = relax.TimelineTraceAdapter(str(tmp_path / "none"), max_dump=1)
    assert adapter.is_enabled()
    unix_s = time.time()
    for step in range(3):
        adapter.add_events([relax.TimelineEvent("own", unix_s - 1, unix_s, step=40 + step)])
        adapter.add_event_dicts([event("X", now_us() - 10, dur=5)])
        assert adapter.get_event_count() == 2
        adapter.dump(step) if step else adapter.dump_all(step)
        assert adapter.get_event_count() == 0
    adapter.add_events([relax.TimelineEvent("cleared", unix_s - 1, unix_s)])
    adapter.clear()
    adapter.add_event_dicts([event("X", now_us() - 10, dur=5, name="left")])
    found = steps(records())
    assert found == [
        *((name, step) for n in range(3) for name, step in (("own", f"{40 + n}"), ("rollout", f"{n}"))),
        ("left", None),
    ]
    assert not (tmp_path / "none").exists()


def test_an_event_of_another_process_has_a_track_of_its_own(records: Records) -> None:
    """A worker makes an event and sends it to the driver, which records it."""
    program = (
        "import pickle, sys, time\n"
        "from telemetry.compat.relax import TimelineEvent\n"
        "sys.stdout.buffer.write(pickle.dumps(TimelineEvent('theirs', time.time() - 1, time.time())))\n"
    )
    sent = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True).stdout
    theirs = pickle.loads(sent)
    adapter = relax.TimelineTraceAdapter("traces")
    adapter.add_events([theirs, relax.TimelineEvent("ours", time.time() - 1, time.time())])
    adapter.dump(1)
    tracks = {span.name: span.track for span in spans(records())}
    assert tracks == {"theirs": f"{theirs.pid}/{theirs.tid}", "ours": ""}


def test_events_of_the_timers_do_not_become_two_spans(records: Records) -> None:
    """The adapter and the list form know them."""
    with relax.timer("rollout"):
        pass
    timed = relax.Timer().log_record_and_clear(1)
    adapter = relax.TimelineTraceAdapter("traces")
    adapter.add_events(timed)
    adapter.add_event_dicts([each.to_trace_event() for each in timed])
    adapter.dump(1)
    relax.record_timeline(1, [each.to_trace_event() for each in timed])
    assert steps(records()) == [("rollout", "1")]


def test_an_event_without_times_does_not_lose_its_neighbours(
    records: Records, said: Callable[[], list[str]]
) -> None:
    """An event without times is reported once, also if it waits for the end of the run.

    Events of Relax's own type are accepted.
    """

    class Foreign:
        def to_trace_event(self) -> dict[str, Any]:
            return event("X", now_us() - 10, dur=5, name="foreign")

    adapter = relax.TimelineTraceAdapter("traces")
    wrong: Any = relax.TimelineEvent("wrong", None, None)  # type: ignore[arg-type]
    foreign: Any = Foreign()
    adapter.add_events([wrong, foreign])
    adapter.dump(1)
    adapter.add_events([relax.TimelineEvent("wrong", float("nan"), 1.0), foreign])
    adapter.add_events([relax.TimelineEvent("wrong", float("nan"), 1.0)])
    assert steps(records()) == [("foreign", "1"), ("foreign", None)]
    assert [line.partition(" is not recorded: ")[2].partition(":")[0] for line in said()] == [
        "TypeError",
        "ValueError",
    ]


@pytest.mark.parametrize("folder", [None, "", "  "])
def test_an_adapter_without_a_folder_collects_nothing(folder: str | None) -> None:
    """An adapter without a folder collects no events, as in Relax."""
    adapter = relax.TimelineTraceAdapter(folder)
    assert not adapter.is_enabled()
    adapter.add_events([relax.TimelineEvent("a", 1.0, 2.0)])
    adapter.add_event_dicts([event("X", 1.0)])
    assert adapter.get_event_count() == 0
