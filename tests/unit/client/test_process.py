"""The life of a process's one producer, against an aggregator in a thread."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry.client import native_recorders, records
from telemetry.client import process as process_module
from telemetry.client.exit_hooks import ExitHooks
from telemetry.client.identity import program_name
from telemetry.client.instruments import Counter, Series
from telemetry.client.process import ENDPOINT_VARIABLE, Process
from telemetry.client.recorders import python_recorders
from telemetry.config import EmitConfig
from telemetry.errors import EndpointError, NoRoomError, ProtocolError
from telemetry.testing.aggregator import FakeAggregator
from telemetry.wire.events import Mark, Uncounted

WaitUntil = Callable[..., Any]
QUICK = EmitConfig(flush_ms=2, start_timeout_s=5, finish_timeout_s=5)


@pytest.fixture
def aggregator(short_dir: Path) -> Iterator[FakeAggregator]:
    with FakeAggregator(short_dir) as made:
        yield made


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    """A process that is not the test's own; its exit hooks don't run."""
    monkeypatch.delenv(ENDPOINT_VARIABLE, raising=False)
    monkeypatch.setattr(ExitHooks, "register", lambda self: None)
    made = Process()
    yield made
    made.finish(0.2)


def counter(process: Process, name: str = "n") -> Counter:
    made = process.instrument("counter", name, "", {})
    assert isinstance(made, Counter)
    return made


def test_an_exception_is_recorded_only_while_the_process_is_live(
    process: Process, aggregator: FakeAggregator
) -> None:
    """An exception before a run has no reader, and one after its end would count as late.

    One whose text raises does no harm, and one that the run has in other words is left out.
    """

    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    process.note_exception(ValueError("early"))
    process.attach(aggregator.endpoint, "p", QUICK)
    process.is_told = lambda error: isinstance(error, OSError)
    for error in (Odd(), ValueError("now"), OSError("a worker failed"), KeyboardInterrupt()):
        process.note_exception(error)
    process.finish(5)
    process.note_exception(ValueError("late"))
    [heard] = aggregator.heard.values()
    marks = [record.text for record in heard.records if isinstance(record, Mark)]
    assert marks == ["ValueError: now", "KeyboardInterrupt"]
    assert process._late.take() == 0


def test_before_an_attach_instruments_are_null_objects(process: Process) -> None:
    """Events before an attach are neither kept nor counted."""
    counter(process).add()
    process.put_records(lambda: [records.mark("m", {}, 0)])
    assert process.recorders.buffer == []
    assert process.state == "idle"


def test_instruments_made_before_bind_when_the_run_comes(process: Process, aggregator: FakeAggregator) -> None:
    """An instrument that was bound before the run records from its start on."""
    add = counter(process).add
    add(1)
    process.attach(aggregator.endpoint, "job", QUICK).wait_for_welcome(5.0)
    add(2)
    counter(process, "later").add(3)
    process.put_records(lambda: [records.mark("m", {}, 7)])
    ending = process.finish(5.0)
    assert ending.account is not None
    assert (ending.account.emitted, ending.account.missing) == (3, 0)
    assert (aggregator.values("n"), aggregator.values("later")) == ([2.0], [3.0])
    [heard] = aggregator.heard.values()
    assert heard.records == [records_mark("m", 7)]
    assert heard.hello is not None
    assert (heard.hello.name, heard.hello.pid) == ("job", os.getpid())


def records_mark(text: str, time_ns: int) -> Any:
    return Mark(text=text, time_ns=time_ns)


def test_after_a_finish_events_are_counted_and_said_once(
    process: Process, aggregator: FakeAggregator, said: Callable[[], list[str]]
) -> None:
    """Events after a finish are counted, and one line at exit reports them."""
    made = counter(process)
    process.attach(aggregator.endpoint, "job", QUICK)
    process.finish(5.0)
    made.add()
    process.put_records(lambda: [records.mark("m", {}, 0)])
    process._end_of_process()
    process._end_of_process()
    assert said() == ["telemetry: 2 events were recorded after finish() and are not in the result"]
    assert process.recorders.buffer == []


def test_what_is_held_back_is_recorded_before_the_end(process: Process, aggregator: FakeAggregator) -> None:
    """Values that were held back are recorded once for each producer, and not without a producer."""
    process.before_finish.append(lambda: counter(process).add(1))
    process.finish(5.0)
    process.attach(aggregator.endpoint, "job", QUICK).wait_for_welcome(5.0)
    ending = process.finish(5.0)
    assert ending.account is not None
    assert ending.account.emitted == 1
    assert aggregator.values("n") == [1.0]
    process.finish(5.0)
    assert process._late.take() == 0


def test_a_new_run_after_a_finish_is_a_new_producer(process: Process, aggregator: FakeAggregator) -> None:
    """A new run after a finish is a new producer, which announces the same instruments again."""
    made = counter(process)
    for value in (1, 2):
        process.reopen()
        process.attach(aggregator.endpoint, "job", QUICK)
        made.add(value)
        process.finish(5.0)
    assert sorted(heard.received for heard in aggregator.heard.values()) == [1, 1]
    assert sorted(aggregator.values("n")) == [1.0, 2.0]


def test_many_threads_share_an_instrument(process: Process, aggregator: FakeAggregator) -> None:
    """Threads that share an instrument lose no event and double none."""
    process.attach(aggregator.endpoint, "job", QUICK)

    def work() -> None:
        made = counter(process)
        for _ in range(20_000):
            made.add()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ending = process.finish(20.0)
    assert ending.account is not None
    assert (ending.account.received, ending.account.missing) == (80_000, 0)
    assert sum(aggregator.values("n")) == 80_000


def test_policy_block_loses_nothing_while_the_aggregator_is_behind(
    process: Process, aggregator: FakeAggregator
) -> None:
    """The callers wait for room."""
    config = EmitConfig(policy="block", buffer_events=1_000, flush_ms=1, block_timeout_s=30)
    process.attach(aggregator.endpoint, "job", config).wait_for_welcome(5.0)
    aggregator.reading = False
    made = counter(process)
    threads = [threading.Thread(target=lambda: [made.add() for _ in range(5_000)]) for _ in range(2)]
    for thread in threads:
        thread.start()
    aggregator.reading = True
    for thread in threads:
        thread.join()
    ending = process.finish(20.0)
    assert ending.account is not None
    assert (ending.account.emitted, ending.account.received) == (10_000, 10_000)


def test_bad_values_are_counted_with_the_run(process: Process, aggregator: FakeAggregator) -> None:
    """Bad values are counted with the run, and so is a record whose text can't be made."""

    class Mute:
        def __str__(self) -> str:
            raise RuntimeError("no words")

    made = process.instrument("series", "s", "ms", {})
    assert isinstance(made, Series)
    process.attach(aggregator.endpoint, "job", QUICK)
    for value in (1, "2", None, 3.0):
        made.record(value)  # type: ignore[arg-type]
    process.put_records(lambda: [records.mark(Mute(), {}, 0)])
    process.finish(5.0)
    [heard] = aggregator.heard.values()
    assert heard.end is not None
    assert heard.end.emitted == 5
    assert heard.end.dropped == {"not_a_number": 2, "unencodable": 1}
    assert aggregator.values("s") == [1.0, 3.0]


def test_with_an_endpoint_in_the_environment_an_instrument_attaches(
    process: Process, aggregator: FakeAggregator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instrument attaches without a call of `start` if the environment has an endpoint. It never waits."""
    monkeypatch.setenv(ENDPOINT_VARIABLE, aggregator.endpoint)
    counter(process).add(5)
    assert process.state == "live"
    ending = process.finish(10.0)
    assert ending.account is not None
    assert aggregator.values("n") == [5.0]
    [heard] = aggregator.heard.values()
    assert heard.hello is not None
    assert heard.hello.name == program_name()


def test_threads_wait_while_another_one_attaches(
    process: Process, aggregator: FakeAggregator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first event of each thread counts, also if another thread is in the middle of attaching."""
    monkeypatch.setenv(ENDPOINT_VARIABLE, aggregator.endpoint)
    is_attaching, others_began = threading.Event(), threading.Barrier(4)
    attach = process.attach

    def slow_attach(*args: Any, **kwargs: Any) -> Any:
        is_attaching.set()
        others_began.wait(10.0)
        return attach(*args, **kwargs)

    monkeypatch.setattr(process, "attach", slow_attach)

    def work() -> None:
        is_attaching.wait(10.0)
        others_began.wait(10.0)
        counter(process).add()

    threads = [
        threading.Thread(target=lambda: counter(process).add()),
        *(threading.Thread(target=work) for _ in range(3)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert process.finish(20.0).account is not None
    assert sum(aggregator.values("n")) == 4


def test_an_endpoint_nobody_listens_at_is_one_line(
    process: Process, short_dir: Path, monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]
) -> None:
    """The variable is left over from another run: instruments stay null objects."""
    for endpoint in (f"ipc://{short_dir}/none", "nonsense"):
        monkeypatch.setenv(ENDPOINT_VARIABLE, endpoint)
        for _ in range(3):
            counter(process).add()
    assert process.recorders.buffer == [] or process.state == "live"
    assert f"no aggregator listens at ipc://{short_dir}/none" in said()[0]


def test_an_address_that_never_answers_is_given_up(
    process: Process, short_dir: Path, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    """A silent address is given up after the start timeout, so that events don't pile up for ever."""
    import socket

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(short_dir / "mute"))
        listener.listen(16)
        monkeypatch.setenv(ENDPOINT_VARIABLE, f"ipc://{short_dir}/mute")
        monkeypatch.setenv("TELEMETRY_EMIT__START_TIMEOUT_S", "0.1")
        counter(process).add()
        assert process.state == "live"
        wait_until(lambda: process.state == "idle", what="giving up")
    assert process.recorders.buffer == []


def test_an_aggregator_that_is_awaited_may_come_later(
    process: Process, short_dir: Path, monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]
) -> None:
    """A worker may start before the leaf of its node. Until then its events wait, under the name of its own."""
    monkeypatch.setenv(ENDPOINT_VARIABLE, f"ipc://{short_dir}/c")
    monkeypatch.setenv("TELEMETRY_EMIT__START_TIMEOUT_S", "0.1")
    process.awaits_aggregator = True
    process.own_name = lambda: "Trainer"
    made = counter(process)
    made.add(2)
    assert process.state == "live"
    with FakeAggregator(short_dir) as aggregator:
        made.add(3)
        assert process.finish(10.0).account is not None
        assert aggregator.values("n") == [2.0, 3.0]
        [heard] = aggregator.heard.values()
        assert heard.hello is not None
        assert heard.hello.name == "Trainer"
    assert said() == []


@pytest.mark.slow
@pytest.mark.parametrize("records_on", [False, True])
def test_a_process_that_outlives_its_work_is_complete_unless_it_records_on(
    process: Process, aggregator: FakeAggregator, wait_until: WaitUntil, records_on: bool
) -> None:
    """A worker that waits for its next task has said everything when the run ends. A busy one has not."""
    process.ends_with_run = True
    flusher = process.attach(aggregator.endpoint, "job", QUICK)
    flusher.wait_for_welcome(5.0)
    made = counter(process)
    made.add()
    aggregator.state = "DRAINING"
    wait_until(lambda: process.state == "finished", what="noticing the end")
    if records_on:
        made.add()
    wait_until(lambda: flusher.await_end(0.01), what="the end")
    assert aggregator.values("n") == [1.0]
    [heard] = aggregator.heard.values()
    assert heard.end is not None
    assert heard.end.unfinished is records_on


def test_a_start_takes_over_what_attached_by_itself(process: Process, aggregator: FakeAggregator) -> None:
    """`start` takes over an earlier automatic attach. Its policy and bounds hold from then on."""
    process.attach(aggregator.endpoint, "job", QUICK)
    attached = process.flusher
    config = EmitConfig(policy="block", buffer_events=1_000, block_timeout_s=0)
    assert process.join(aggregator.endpoint, "job", config) is attached
    aggregator.reading = False
    made = counter(process)
    for _ in range(50_000):
        made.add()
    aggregator.reading = True
    process.finish(10.0)
    [heard] = aggregator.heard.values()
    assert heard.end is not None
    assert set(heard.end.dropped) <= {"block_timeout"}
    assert heard.received + heard.end.dropped.get("block_timeout", 0) == 50_000


def test_a_run_that_is_over_is_not_joined_again(
    process: Process, aggregator: FakeAggregator, wait_until: WaitUntil
) -> None:
    """The flusher of a run that is over has ended.

    The next start gets its own, and no event is kept for the old one.
    """
    first = process.attach(aggregator.endpoint, "job", QUICK)
    first.wait_for_welcome(5.0)
    aggregator.state = "DRAINING"
    wait_until(lambda: process.state == "finished", what="noticing the end")
    aggregator.state = "LIVE"
    process.reopen()
    second = process.join(aggregator.endpoint, "job", QUICK)
    assert second is not first
    counter(process).add(3)
    ending = process.finish(10.0)
    assert ending.account is not None
    assert aggregator.values("n") == [3.0]


def test_who_joins_another_run_leaves_the_first_one(process: Process, aggregator: FakeAggregator) -> None:
    """Each run gets what was recorded for it, and the end of its producer."""
    folder = Path(tempfile.mkdtemp(prefix="tm"))
    try:
        with FakeAggregator(folder) as other:
            process.attach(aggregator.endpoint, "job", QUICK)
            counter(process).add(1)
            process.join(other.endpoint, "job", QUICK)
            counter(process).add(2)
            assert process.finish(10.0).account is not None
            assert (aggregator.values("n"), other.values("n")) == ([1.0], [2.0])
            assert all(heard.end is not None for heard in (*aggregator.heard.values(), *other.heard.values()))
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("awaited", [False, True])
def test_a_refusal_in_mid_run_makes_null_objects(
    process: Process,
    aggregator: FakeAggregator,
    wait_until: WaitUntil,
    said: Callable[[], list[str]],
    awaited: bool,
) -> None:
    """One line reports the refusal. Events don't pile up for an aggregator that will never accept them."""
    flusher = process.attach(aggregator.endpoint, "job", QUICK, awaited=awaited)
    flusher.wait_for_welcome(5.0)
    assert flusher._conversation is not None
    flusher._conversation.refused = ProtocolError("more than 4,096 producers")
    wait_until(lambda: process.state == "idle", what="giving up")
    counter(process).add()
    assert (process.recorders.buffer, process.flusher) == ([], None)
    wait_until(said, what="a line")
    assert said() == ["telemetry: nothing is recorded: more than 4,096 producers"]


def test_without_room_for_a_thread_instruments_are_null_objects(
    process: Process, aggregator: FakeAggregator, monkeypatch: pytest.MonkeyPatch, said: Callable[[], list[str]]
) -> None:
    """Recording calls don't raise if there is no room for a thread, also in a forked child.

    The exit doesn't wait for that thread.
    """

    def fail(_self: object) -> None:
        raise RuntimeError("can't start new thread")

    process.attach(aggregator.endpoint, "job", QUICK).wait_for_welcome(5.0)
    parents = process.flusher
    assert parents is not None
    made = counter(process)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", fail)
        for record in (made.add, lambda: process.put_records(lambda: [records.mark("m", {}, 0)])):
            process.after_fork_in_child()
            process.state = "inherited"
            process.recorders.install(process._first_rows)
            record()
            assert (process.state, process.flusher, process.recorders.buffer) == ("idle", None, [])
        patched.setenv(ENDPOINT_VARIABLE, aggregator.endpoint)
        counter(process, "another").add()
    process._end_of_process()
    parents.finish(5.0)
    assert len(said()) == 3
    assert all("can't start new thread" in line for line in said())


@pytest.mark.usefixtures("native")
def test_an_attach_that_fails_leaves_no_files(
    process: Process, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system out of threads is not one that is out of memory, too."""
    monkeypatch.setattr(native_recorders, "ring_directory", lambda: tmp_path)

    def out_of_threads(thread: threading.Thread) -> None:
        assert list(tmp_path.iterdir())
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", out_of_threads)
    with pytest.raises(EndpointError):
        process.attach("ipc:///nowhere", "job", QUICK)
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("is_there", [True, False])
def test_a_process_that_ends_leaves_no_files(
    process: Process, aggregator: FakeAggregator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """A process that ends leaves no files, whether its aggregator has the events or was never there.

    The files would have no reader.
    """
    monkeypatch.setattr(native_recorders, "ring_directory", lambda: tmp_path)
    made = counter(process)
    endpoint = aggregator.endpoint if is_there else f"{aggregator.endpoint}.none"
    flusher = process.attach(endpoint, "job", QUICK, awaited=True)
    if is_there:
        flusher.wait_for_welcome(10.0)
    made.add()
    assert len(list(tmp_path.iterdir())) == 2
    assert (process.finish(10.0).account is not None) is is_there
    assert not list(tmp_path.iterdir())


@pytest.fixture
def rings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the rings of all producers."""
    monkeypatch.setattr(native_recorders, "ring_directory", lambda: tmp_path)
    return tmp_path


@pytest.mark.usefixtures("native")
def test_a_producer_that_finds_no_room_leaves_no_files(
    process: Process,
    aggregator: FakeAggregator,
    rings: Path,
    wait_until: WaitUntil,
    said: Callable[[], list[str]],
) -> None:
    """A producer without room reports the number of lost events.

    Its files are removed, so that no one recovers the events later.
    """
    made = counter(process)
    made.add()
    flusher = process.attach(aggregator.endpoint, "job", QUICK, awaited=True)
    flusher.wait_for_welcome(5.0)
    assert len(list(rings.iterdir())) == 2
    assert flusher._conversation is not None
    flusher._conversation.refused = NoRoomError("more than 4,096 producers")
    wait_until(lambda: process.flusher is None, what="giving up")
    assert not list(rings.iterdir())
    made.add(2)
    process._end_of_process()
    assert said() == [
        "telemetry: nothing is recorded: more than 4,096 producers",
        "telemetry: 1 event was lost: more than 4,096 producers",
    ]


@pytest.mark.parametrize("built", ["compiled", "Python"])
def test_events_that_no_aggregator_took_are_reported_once(
    built: str, aggregator: FakeAggregator, said: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events that no aggregator took are reported once, by the ending. They do not count as late as well."""
    if built == "Python":
        monkeypatch.setattr(process_module, "build_recorders", python_recorders)
    process = Process()
    made = counter(process)
    config = EmitConfig(flush_ms=2, start_timeout_s=5, finish_timeout_s=0.3)
    process.attach(f"{aggregator.endpoint}.none", "job", config, awaited=True)
    for _ in range(10):
        made.add()
    process._end_of_process()
    (line,) = said()
    assert "10 events were not acknowledged and may be lost" in line


@pytest.mark.parametrize("name", ["caf\udce9.py", "job"])
def test_names_that_are_not_unicode_can_be_told(
    process: Process, aggregator: FakeAggregator, name: str, wait_until: WaitUntil
) -> None:
    """File names may have any bytes. The message has a replacement for each that is not UTF-8."""
    process.attach(aggregator.endpoint, name, QUICK).wait_for_welcome(5.0)
    counter(process).add()
    wait_until(lambda: aggregator.received == 1, what="the event")
    (heard,) = aggregator.heard.values()
    assert heard.hello is not None
    assert heard.hello.name == name.replace("\udce9", "\ufffd")


@pytest.mark.usefixtures("native")
def test_an_address_that_is_not_unicode_costs_no_more_than_its_events(process: Process) -> None:
    """An address that is not Unicode loses only its events.

    No message can name it, so the file of definitions does not.
    """
    process.attach("ipc:///nowhere/caf\udce9", "job", QUICK, awaited=True)
    counter(process).add()
    process.finish(0.1)


@pytest.mark.usefixtures("native")
def test_a_join_brings_its_bound(process: Process, aggregator: FakeAggregator) -> None:
    """A join brings its bound.

    A caller that waits for room waits from that number of events on, and drops none before.
    """
    made = counter(process)
    process.attach(f"{aggregator.endpoint}.none", "job", EmitConfig(buffer_events=1_000), awaited=True)
    patient = EmitConfig(buffer_events=50_000, policy="block", block_timeout_s=0.01, finish_timeout_s=0.1)
    process.join(f"{aggregator.endpoint}.none", "job", patient)
    for _ in range(50_001):
        made.add()
    recorders = process.recorders
    assert (recorders.buffer.waiting, recorders.timed_out.total, recorders.buffer_full.total) == (50_000, 1, 0)
    process.detach()


def test_an_event_on_its_way_when_the_flusher_ends_is_counted(
    process: Process, aggregator: FakeAggregator, said: Callable[[], list[str]]
) -> None:
    """A value may take its time to become a number; the event is in no result, and that is said."""

    class Slow:
        def __float__(self) -> float:
            process.finish(5.0)
            return 1.0

    made = process.instrument("series", "s", "", {})
    assert isinstance(made, Series)
    process.attach(aggregator.endpoint, "job", QUICK).wait_for_welcome(5.0)
    made.record(Slow())
    process._end_of_process()
    assert said() == ["telemetry: 1 event was recorded after finish() and is not in the result"]
    assert process.recorders.buffer == []


def test_an_attach_can_be_taken_back(process: Process, short_dir: Path) -> None:
    """`start` does so if nobody answers."""
    flusher = process.attach(f"ipc://{short_dir}/none", "job", QUICK)
    with pytest.raises(EndpointError):
        flusher.wait_for_welcome(0.05)
    process.detach()
    counter(process).add()
    assert (process.state, process.recorders.buffer, process.flusher) == ("idle", [], None)


def test_a_run_that_ends_elsewhere_makes_later_events_late(
    process: Process, aggregator: FakeAggregator, wait_until: WaitUntil
) -> None:
    """Earlier ones are in it."""
    process.attach(aggregator.endpoint, "job", QUICK).wait_for_welcome(5.0)
    made = counter(process)
    made.add()
    aggregator.state = "DRAINING"
    wait_until(lambda: process.state == "finished", what="noticing the end")
    made.add()
    ending = process.finish(5.0)
    assert ending.account is not None
    assert aggregator.values("n") == [1.0]
    [heard] = aggregator.heard.values()
    assert heard.end is not None
    assert heard.end.unfinished


def test_a_program_that_finishes_before_the_run_says_so(process: Process, aggregator: FakeAggregator) -> None:
    """A program that finishes before the run reports that no more events will come from it."""
    process.attach(aggregator.endpoint, "job", QUICK).wait_for_welcome(5.0)
    process.finish(5.0)
    [heard] = aggregator.heard.values()
    assert heard.end is not None
    assert not heard.end.unfinished


def test_requests_live_and_end_with_the_run(process: Process, aggregator: FakeAggregator) -> None:
    """Requests before a run are null objects, and its end records what is left of conversations.

    Another run does not know its requests.
    """
    llm = process.requests("llm", {})
    llm.issue(conversation="c").complete()
    process.attach(aggregator.endpoint, "job", QUICK)
    made = llm.issue(conversation="c")
    made.first()
    kept = llm.issue(key="k", conversation="c")
    made.complete()
    process.finish(5.0)
    assert aggregator.values("llm.issued") == [1.0, 1.0]
    assert aggregator.values("llm.conversation.turns") == [2.0]
    assert process._late.total == 0
    llm.issue().complete()
    assert process._late.total == 3
    process.attach(aggregator.endpoint, "job", QUICK)
    assert llm.in_flight == 0
    kept.complete()
    process.finish(5.0)
    assert (aggregator.values("llm.completed"), aggregator.values("llm.after_end")) == ([1.0], [1.0])


def test_requests_expire_on_the_flushers_thread(
    process: Process, aggregator: FakeAggregator, wait_until: WaitUntil
) -> None:
    """Requests also expire with policy block, where the flusher's thread is the one that makes room."""
    config = EmitConfig(policy="block", buffer_events=1_000, flush_ms=1, block_timeout_s=30)
    process.attach(aggregator.endpoint, "job", config)
    llm = process.requests("llm", {}, expire_s=0.001)
    for _ in range(2_000):
        llm.issue()
    wait_until(lambda: llm.in_flight == 0, what="their expiry")
    process.finish(5.0)
    assert (len(aggregator.values("llm.issued")), len(aggregator.values("llm.expired"))) == (2_000, 2_000)


def test_a_forked_child_knows_none_of_the_parents_requests(process: Process, aggregator: FakeAggregator) -> None:
    """The first own request of a forked child starts its recording, and has all its figures."""
    process.attach(aggregator.endpoint, "job", QUICK).wait_for_welcome(5.0)
    parents = process.flusher
    assert parents is not None
    llm = process.requests("llm", {})
    llm.issue(key="k", conversation="c")
    parents.finish(5.0)  # a thread is not forked: in a real child it does not take what the child records
    process.after_fork_in_child()
    assert (llm.in_flight, process.state) == (0, "inherited")
    with llm.issue(key="k") as made:
        assert llm.find("k") is made
    process.finish(5.0)
    child = list(aggregator.heard.values())[-1]
    assert [name for name, *_ in child.rows()] == ["llm.issued", "llm.completed", "llm.latency"]


def test_texts_are_records(process: Process, aggregator: FakeAggregator) -> None:
    """One that can't be encoded is counted with the run, and costs the others nothing."""
    process.attach(aggregator.endpoint, "job", QUICK)
    llm = process.requests("llm", {})
    llm.issue(input_text="ask").complete(output_text="\udc00")
    process.finish(5.0)
    [heard] = aggregator.heard.values()
    assert [record.text for record in heard.records if isinstance(record, Uncounted)] == ["ask"]
    assert heard.end is not None
    assert heard.end.dropped == {"unencodable": 1}
