"""Numbers change only by what a journal can hold."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.daemon.numbers import Numbers
from telemetry.errors import RunDirectoryError
from telemetry.testing import frame
from telemetry.wire.codec import encode_checkpoint
from telemetry.wire.control import CannotResend, End, Hello
from telemetry.wire.events import ClosedStep, Count, Define, Mark, Scalars
from telemetry.wire.journal import BadFrames, Checkpoint, Closed, Ending, Rolled, RunState, Sliced

MONO_NS = 1_000_000_000_000
WALL_NS = 1_700_000_000_000_000_000
RUN = RunState(
    run_id="r", name="job", started_ns=WALL_NS, started_mono_ns=MONO_NS, rolled_wall_ns=WALL_NS,
    rolled_mono_ns=MONO_NS,
)  # fmt: skip


@pytest.fixture
def numbers() -> Numbers:
    return Numbers(Aggregator(AggregatorConfig()), RUN)


def take(numbers: Numbers, seq: int, *records: Any) -> list[Any]:
    batch = numbers.admit(frame("p", seq, seq * len(records), records=records), MONO_NS)
    assert batch is not None
    numbers.apply([batch], MONO_NS)
    return numbers.take_streamed()


def test_the_wall_clock_is_set_at_the_end_of_an_interval_only(numbers: Numbers) -> None:
    """The wall clock runs with the monotonic one in between, so a reader of the journal knows it."""
    assert numbers.wall_ns(MONO_NS + 5) == WALL_NS + 5
    rolled = Rolled(start_wall_ns=WALL_NS, end_wall_ns=WALL_NS + 700, elapsed_ns=1_000, snapshot_seq=3)
    interval = numbers.roll(rolled, MONO_NS + 1_000)
    assert (interval.start_ns, interval.end_ns) == (WALL_NS, WALL_NS + 700)
    assert numbers.wall_ns(MONO_NS + 1_001) == WALL_NS + 701
    assert (numbers.run.rolls, numbers.run.snapshot_seq) == (1, 3)


def test_what_is_not_new_is_counted(numbers: Numbers) -> None:
    """Noise and duplicates are no batches to apply."""
    first = frame("p", 0, 0, records=[Count("n")])
    assert numbers.admit(first, MONO_NS) is not None
    assert numbers.admit(first, MONO_NS) is None
    assert numbers.admit(b"noise", MONO_NS) is None
    assert numbers.aggregator.take_bad_frames() == {"wrong_topic": 1}


def test_records_of_the_stream_are_numbered(numbers: Numbers) -> None:
    """The run knows how many there were."""
    assert len(take(numbers, 0, Mark("a"), Mark("b"))) == 2
    assert take(numbers, 1, Count("n")) == []
    assert numbers.run.records == 2


def test_whatever_closes_a_step_its_record_is_numbered(numbers: Numbers) -> None:
    """Intervals, ends and the closing of the books as much as batches; who takes them gets them in order."""
    take(numbers, 0, Scalars("train", 1, {"x": 1.0}), Scalars("train", 2, {"x": 2.0}))
    rolled = Rolled(start_wall_ns=WALL_NS, end_wall_ns=WALL_NS + 700, elapsed_ns=1_000)
    numbers.roll(rolled, MONO_NS)
    numbers.roll(rolled, MONO_NS)
    numbers.take_note(End(producer="p", batches=1, emitted=2), MONO_NS)
    assert numbers.run.records == 2
    assert [item.record.step for item in numbers.take_streamed()] == [1, 2]  # type: ignore[union-attr]
    assert numbers.take_streamed() == []
    batch = numbers.admit(frame("q", 0, 0, records=[Scalars("train", 3, {"x": 3.0})]), MONO_NS)
    assert batch is not None
    numbers.apply([batch], MONO_NS)
    numbers.take_note(Closed(), MONO_NS)
    assert numbers.take_streamed()[0].record == ClosedStep("train", 3, {"x": 3.0}, closed="run_end")
    assert numbers.run.records == 3
    numbers.close()
    assert numbers.take_streamed() == [], "once is enough"


def test_each_note_changes_what_it_speaks_of(numbers: Numbers) -> None:
    """The same as if the peer had said it."""
    aggregator = numbers.aggregator
    numbers.take_note(Hello(producer="p", name="worker"), MONO_NS)
    assert aggregator.book["p"].name == "worker"
    take(numbers, 3, Count("n"))
    numbers.take_note(End(producer="p", batches=4, emitted=4), MONO_NS)
    assert aggregator.book.waiting_for() == ["p"]
    numbers.take_note(CannotResend(producer="p", first=0, last=2), MONO_NS)
    assert aggregator.book.waiting_for() == []
    numbers.take_note(BadFrames(counts={"wrong_topic": 2}), MONO_NS)
    assert aggregator.take_bad_frames() == {}
    ending = Ending(reason="enough")
    numbers.take_note(ending, MONO_NS)
    assert numbers.run.ending == ending


def test_a_checkpoint_holds_all_of_it(numbers: Numbers) -> None:
    """The run's state and the aggregator's; another one can be taken in its place."""
    take(numbers, 0, Count("n", 0.1), Mark("a"))
    again = Numbers.restore(numbers.checkpoint())
    assert again.run == numbers.run
    assert (again.frames, again.frame_bytes) == (numbers.frames, numbers.frame_bytes)
    assert (numbers.frames, numbers.frame_bytes > 50) == (1, True)
    assert again.checkpoint() == numbers.checkpoint()
    take(again, 1, Count("n", 0.2))
    numbers.start_over(again.checkpoint())
    assert numbers.aggregator.book.counted_events == 3


def test_a_checkpoint_is_as_documented(numbers: Numbers) -> None:
    """The run's state and then the aggregator's, in one document."""
    take(numbers, 0, Count("n", 0.1), Mark("a"))
    checkpoint = numbers.checkpoint()
    own = msgspec.Raw(bytes(numbers.aggregator.checkpoint()))
    assert checkpoint == encode_checkpoint(Checkpoint(run=numbers.run, numbers=own))


@pytest.mark.parametrize("data", [b"", b"noise", b"\x80"])
def test_a_checkpoint_that_cannot_be_read(data: bytes) -> None:
    """One error, with a hint."""
    with pytest.raises(RunDirectoryError, match="can't read a checkpoint of the journal") as caught:
        Numbers.restore(data)
    assert caught.value.hint


@pytest.mark.parametrize("keys", [["50"] * 33, ["99." + "9" * 400]])
def test_a_checkpoint_asks_for_no_more_percentiles_than_a_configuration(numbers: Numbers, keys: list[str]) -> None:
    """Bytes from anywhere make no work that a run could not have been told to do."""
    saved = msgspec.msgpack.decode(numbers.checkpoint())
    saved["numbers"]["config"]["percentiles"] = keys
    with pytest.raises(RunDirectoryError, match="can't read"):
        Numbers.restore(msgspec.msgpack.encode(saved))


def test_the_first_producer_with_a_name_names_a_run_without_one() -> None:
    """A producer's default name, a collector's name and a later name do not name the run.

    A checkpoint keeps the name.
    """
    numbers = Numbers(Aggregator(AggregatorConfig()), replace(RUN, takes_name=True))
    numbers.take_note(Hello(producer="a", name="first.py"), MONO_NS)
    numbers.take_note(Hello(producer="telemetry.collectors.b", name="collectors", names_run=True), MONO_NS)
    assert (numbers.run.name, numbers.run.takes_name) == ("job", True)
    numbers.take_note(Hello(producer="a", name="nightly", names_run=True), MONO_NS)
    numbers.take_note(Hello(producer="c", name="later", names_run=True), MONO_NS)
    assert (numbers.run.name, numbers.run.takes_name) == ("nightly", False)
    assert Numbers.restore(numbers.checkpoint()).run.name == "nightly"


def test_a_name_that_was_given_stays(numbers: Numbers) -> None:
    """`--name` is stronger than what a program says."""
    numbers.take_note(Hello(producer="a", name="nightly", names_run=True), MONO_NS)
    assert numbers.run.name == "job"


@pytest.mark.parametrize("late_ms", [60, 160])
def test_slices_of_a_steady_load_are_level(numbers: Numbers, late_ms: int) -> None:
    """Events that are on their way at a cut belong to the slice after it, also behind the end of a second."""
    sent = rolled = 0

    def arrive(now_ms: int, until_ms: int) -> None:
        nonlocal sent
        now_ns = MONO_NS + now_ms * 1_000_000
        times = range(10 * (sent + 1), until_ms + 1, 10)
        rows = [(1, MONO_NS + at_ms * 1_000_000, 1.0) for at_ms in times]
        records = [] if numbers.frames else [Define(1, "n", "counter")]
        made = frame("p", numbers.frames, sent, records=records, rows=rows, anchor=(MONO_NS, WALL_NS))
        batch = numbers.admit(made, now_ns)
        assert batch is not None
        numbers.apply([batch], now_ns)
        sent += len(rows)

    def roll(at_ms: int) -> None:
        nonlocal rolled
        ends_ns = [WALL_NS + ms * 1_000_000 for ms in (rolled, at_ms)]
        numbers.roll(
            Rolled(start_wall_ns=ends_ns[0], end_wall_ns=ends_ns[1], elapsed_ns=ends_ns[1] - ends_ns[0]),
            MONO_NS + at_ms * 1_000_000,
        )
        rolled = at_ms

    for at_ms in range(300, 1_000, 100):
        arrive(at_ms, at_ms - late_ms)
        numbers.take_note(Sliced(), MONO_NS + at_ms * 1_000_000)
    arrive(1_000, 1_000 - late_ms)
    roll(1_000)
    arrive(1_060, 1_060)
    roll(1_060)
    slices = [one.interval for one in numbers.take_slices()]
    rates = [sum(memoryview(one.counters.value).cast("d")) / (one.end_ns - one.start_ns) * 1e9 for one in slices]
    assert rates == pytest.approx([100.0] * 9)
