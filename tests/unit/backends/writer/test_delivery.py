"""Tests of the delivery of a run to a tracker that fails in every way there is."""

from __future__ import annotations

from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.unit.backends.doubles import Bench, ListBackend, ListInflow, mark, reads, step

from telemetry import limits
from telemetry.backends.backend import NotConfigured, Refused, Unavailable
from telemetry.backends.items import Item, Live, Mark, Reading, Step, Table
from telemetry.backends.sources.source import Position, Read
from telemetry.backends.writer.reader import weight
from telemetry.errors import RunDirectoryError
from telemetry.store.backends import Counts, WriterCheckpoint
from telemetry.wire.snapshot import MetricsSnapshot


def a_run(count: int = 10, *, final: bool = True) -> ListInflow:
    return ListInflow(reads([step(number) for number in range(count)]), final=final)


def keys(*numbers: int) -> list[str]:
    return [f"r{number}" for number in numbers]


def test_all_of_a_run_is_delivered_in_order(tmp_path: Path) -> None:
    """A run is delivered in order, in batches with a checkpoint after each. The last checkpoint says done."""
    backend, count = ListBackend(), 2 * limits.BACKEND_BATCH_ITEMS + 5
    bench = Bench(backend, a_run(count), tmp_path)
    assert bench.run() == "done"
    assert backend.keys == keys(*range(count))
    assert [len(call) for call in backend.calls] == [limits.BACKEND_BATCH_ITEMS] * 2 + [5]
    last = bench.kept[-1]
    assert (last.done, last.position["next_record"], last.counts.written) == (True, count, count)
    assert (backend.closed, bench.tally.place, last.state) == (True, "memory", {"flushed": count})
    assert [one.serial for one in bench.kept] == list(range(len(bench.kept)))


def test_a_backend_may_need_long_for_its_end(tmp_path: Path) -> None:
    """The final `close` has the timeout that the class asks for, and all other calls the usual one."""
    backend = ListBackend()
    bench = Bench(backend, a_run(), tmp_path)
    assert bench.run() == "done"
    assert bench.timeouts == []
    backend = ListBackend()
    backend.close_s = 500.0  # type: ignore[attr-defined]
    bench = Bench(backend, a_run(), tmp_path / "other")
    assert bench.run() == "done"
    assert bench.timeouts == [500.0]


def test_a_batch_of_large_items_has_few(tmp_path: Path) -> None:
    """A batch of large items has few of them, since its memory has a bound as well as its number."""
    rows = [[0] * 10] * limits.TABLE_ROWS
    tables = [Table(key=f"r{at}", time_ns=0, name="t", columns=["c"] * 10, rows=rows) for at in range(20)]
    backend = ListBackend()
    run_reader = ListInflow(reads(tables))
    run_reader.most, run_reader.finishing = 2, False
    backend.on_flush = lambda: setattr(run_reader, "finishing", not run_reader.waiting)
    assert Bench(backend, run_reader, tmp_path).run() == "done"
    assert backend.keys == keys(*range(20))
    assert max(map(len, backend.calls)) * weight(tables[0]) <= limits.BACKEND_QUEUE_BYTES + 2 * weight(tables[0])


def test_an_outage_is_waited_for(tmp_path: Path) -> None:
    """Longer and longer, with the breaker open after a few failures; nothing is lost or out of order."""
    backend = ListBackend()
    bench = Bench(backend, a_run(), tmp_path)
    states = set()

    def down(items: list[Item]) -> None:
        states.add(bench.tally.breaker.state)
        if bench.now_s < 60.0:
            raise Unavailable("500 from the server")

    backend.fail = down
    bench.delivery._run_reader.finishing = False  # type: ignore[misc]
    backend.on_flush = lambda: setattr(bench.delivery._run_reader, "finishing", True)
    assert bench.run() == "done"
    assert backend.keys == keys(*range(10))
    assert states == {"closed", "half-open"}
    assert 60.0 <= bench.now_s < 60.0 + 1.1 * limits.BACKEND_RETRY_MOST_S
    assert len(backend.calls) < 12
    assert bench.tally.retried == len(backend.calls) - 1
    assert (bench.tally.breaker.state, bench.tally.breaker.failures) == ("closed", 0)
    assert bench.said[0].endswith("500 from the server; retrying")


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left"), ConnectionError("gone"), TimeoutError(), EOFError()]
)
def test_what_may_pass_by_its_kind_refuses_nothing(tmp_path: Path, error: Exception) -> None:
    """Networks and disks come back, however often they fail."""
    backend = ListBackend()
    bench = Bench(backend, a_run(), tmp_path)

    def down(items: list[Item]) -> None:
        if len(backend.calls) < 20:
            raise error

    backend.fail = down
    assert bench.run() == "done"
    assert (backend.keys, bench.tally.dropped) == (keys(*range(10)), {})


def test_the_item_that_cant_be_written_is_found(tmp_path: Path) -> None:
    """An item that can't be written is dropped by reason, and all others are delivered in order."""
    bad = {"r3", "r700"}

    def picky(items: list[Item]) -> None:
        if bad & {item.key for item in items}:
            raise ValueError("what is this?")

    backend = ListBackend(picky)
    bench = Bench(backend, a_run(1_000), tmp_path)
    assert bench.run() == "done"
    assert backend.keys == [key for key in keys(*range(1_000)) if key not in bad]
    assert bench.tally.dropped == {"refused": 2}
    assert (bench.tally.written, bench.kept[-1].counts.dropped) == (998, {"refused": 2})
    assert bench.tally.last_error == "ValueError: what is this?"


def test_where_nothing_works_nothing_is_refused(tmp_path: Path) -> None:
    """A tracker that is down in an exception of its own costs no item."""
    backend = ListBackend()
    bench = Bench(backend, a_run(40), tmp_path)

    def down(items: list[Item]) -> None:
        if bench.now_s < 100.0:
            raise RuntimeError("server says no")

    backend.fail = down
    assert bench.run() == "done"
    assert (backend.keys, bench.tally.dropped) == (keys(*range(40)), {})


def test_more_bad_items_than_it_believes_at_first(tmp_path: Path) -> None:
    """A long row of them at the head is not taken for an outage for ever."""

    def picky(items: list[Item]) -> None:
        if any(item.time_ns < 50 for item in items):
            raise RuntimeError("not these")

    backend = ListBackend(picky)
    bench = Bench(backend, a_run(60), tmp_path)
    assert bench.run() == "done"
    assert (backend.keys, bench.tally.dropped) == (keys(*range(50, 60)), {"refused": 50})


def test_one_item_alone_is_dropped_only_if_it_is_to_blame(tmp_path: Path) -> None:
    """A bad value is; an error nobody knows may be the server's, and the item stays."""

    def fail(error: Exception) -> ListBackend:
        def down(items: list[Item]) -> None:
            raise error

        return ListBackend(down)

    bench = Bench(fail(ValueError("nan")), a_run(1), tmp_path)
    assert (bench.run(), bench.tally.dropped) == ("done", {"refused": 1})
    bench = Bench(fail(RuntimeError("no")), a_run(1), tmp_path)
    bench.stop_at_s = 200.0
    assert (bench.run(), bench.tally.dropped) == ("undelivered", {})
    assert bench.kept[-1].position["next_record"] == 0


def test_what_a_backend_refuses_is_dropped_by_its_reason(tmp_path: Path) -> None:
    """The others of the call count as written."""

    def refuse(items: list[Item]) -> None:
        raise Refused("too_large", [items[1].key, "r99"])

    backend = ListBackend(refuse)
    bench = Bench(backend, a_run(5), tmp_path)
    assert bench.run() == "done"
    assert (bench.tally.written, bench.tally.dropped) == (4, {"too_large": 1})
    assert (bench.tally.stat().refused, bench.kept[-1].counts.refused) == ([1], [1])


def test_a_reading_that_is_refused_has_no_record_number(tmp_path: Path) -> None:
    """A refused reading counts as dropped, although it has no record number."""

    def refuse(items: list[Item]) -> None:
        raise Refused("too_large", ["t5", "r1"])

    items = [step(0), step(1), Reading(key="t5", time_ns=5, elapsed_s=5.0, seconds=5.0)]
    bench = Bench(ListBackend(refuse), ListInflow(reads(items)), tmp_path)
    assert bench.run() == "done"
    assert (bench.tally.dropped, bench.tally.refused) == ({"too_large": 2}, [1])


class ComesLater(ListInflow):
    """Items that come at certain times of a bench."""

    def __init__(self, times_s: list[float], rest_s: float = 0.0) -> None:
        super().__init__([])
        self.finishing = False
        self.times_s = times_s
        self.over_s = times_s[-1] + rest_s
        self.bench: Bench | None = None

    @property
    def over(self) -> bool:
        return self.finishing and not self.waiting and not self.times_s

    def take(self, most: int, timeout_s: float) -> tuple[list[Read], Position]:
        assert self.bench is not None
        due = [at for at in self.times_s if at <= self.bench.now_s]
        if not due and timeout_s > 0.0:
            until_s = self.bench.now_s + timeout_s
            self.bench.now_s = min([until_s, *self.times_s])
            due = [at for at in self.times_s if at <= self.bench.now_s]
        count = self.tail.next_record
        found = reads([step(count + at) for at in range(len(due))], count)
        self.times_s = self.times_s[len(due) :]
        self.tail = Position(next_record=count + len(found), final_done=True)
        self.finishing = not self.times_s
        return found, self.tail


def test_an_item_after_a_quiet_time_goes_out_at_once(tmp_path: Path) -> None:
    """An item after a quiet time goes out at once.

    Items soon after it wait for the rest after that call, and go out together.
    """
    times_s = [10.0, 10.1, 10.2, 20.0, 20.3, 20.4, 20.9, 21.2, 40.0]
    backend, inflow, called = ListBackend(), ComesLater(times_s), []
    inflow.bench = bench = Bench(backend, inflow, tmp_path)

    def slow(items: list[Item]) -> None:
        called.append((round(bench.now_s, 6), len(items)))
        bench.now_s += limits.BACKEND_BATCH_S / limits.BACKEND_REST

    backend.fail = slow
    assert bench.run() == "done"
    assert called == [(10.0, 1), (10.5, 2), (20.0, 1), (20.5, 2), (21.0, 1), (21.5, 1), (40.0, 1)]


@pytest.mark.parametrize(("call_s", "apart_s"), [(0.3, 0.5), (0.1, 0.5), (0.02, 0.1), (0.004, 0.02)])
def test_a_busy_run_leaves_the_writer_most_of_its_time(tmp_path: Path, call_s: float, apart_s: float) -> None:
    """A slow tracker is called twice a second, and a quick one more often, however many items come."""
    backend, inflow, called = ListBackend(), ComesLater([at / 1_000 for at in range(2_000)]), []
    inflow.bench = bench = Bench(backend, inflow, tmp_path)

    def busy(items: list[Item]) -> None:
        called.append(bench.now_s)
        bench.now_s += call_s

    backend.fail = busy
    assert bench.run() == "done"
    assert len(backend.kept) == 2_000
    gaps = [after - before for before, after in pairwise(called[:-1])]
    assert apart_s - 1e-9 <= min(gaps)
    assert max(gaps) <= apart_s + 0.002


def test_a_refusal_of_nothing_that_was_given_is_a_failure(tmp_path: Path) -> None:
    """A refusal of items that were not given is a failure, as what was written is then unknown."""
    backend = ListBackend()

    def confused(items: list[Item]) -> None:
        if len(backend.calls) == 1:
            raise Refused("odd", ["r99"])

    backend.fail = confused
    bench = Bench(backend, a_run(3), tmp_path)
    assert bench.run() == "done"
    assert (backend.keys, bench.tally.retried) == (keys(0, 1, 2), 1)


def test_after_a_flush_that_failed_all_since_the_last_comes_again(tmp_path: Path) -> None:
    """A failed flush makes all items since the last flush come again, as the seam promises."""
    backend = ListBackend()
    flushes = iter([Unavailable("later", after_s=70.0)])

    def flush() -> None:
        for error in flushes:
            raise error

    backend.on_flush = flush
    bench = Bench(backend, a_run(3), tmp_path)
    assert bench.run() == "done"
    assert backend.calls == [keys(0, 1, 2)] * 2
    assert (backend.keys, bench.now_s >= 70.0) == (keys(0, 1, 2), True)


def test_kinds_without_a_place_are_counted_for_the_report(tmp_path: Path) -> None:
    """The position passes over them, also where nothing else comes. No line says so: the user asked for none."""
    backend = ListBackend()
    backend.takes = (Step,)
    bench = Bench(backend, ListInflow(reads([mark(0), step(1), mark(2)])), tmp_path)
    assert bench.run() == "done"
    assert (backend.keys, bench.tally.no_place) == (["r1"], {"mark": 2})
    assert bench.said == []
    assert bench.kept[-1].position["next_record"] == 3
    again = Bench(
        backend, ListInflow(reads([mark(3)])), tmp_path, WriterCheckpoint(counts=Counts(no_place={"mark": 2}))
    )
    assert (again.run(), again.tally.no_place, again.said) == ("done", {"mark": 3}, [])


def test_only_the_newest_snapshot_goes_out(tmp_path: Path) -> None:
    """Only the newest snapshot goes out. Snapshots that were overtaken while a batch waited are passed over."""
    shot = MetricsSnapshot(run_id="r1", name="job")
    items: list[Item] = [Live(key=f"l{at}", time_ns=at, snapshot=shot) for at in range(3)]
    backend = ListBackend()
    bench = Bench(backend, ListInflow(reads([items[0], step(1), *items[1:]])), tmp_path)
    assert bench.run() == "done"
    assert backend.keys == ["r1", "l2"]


def test_values_that_a_backend_left_out_are_counted(tmp_path: Path) -> None:
    """Values that a backend left out are counted by its own reasons, and each only once."""
    backend = ListBackend()
    backend.left_out = {}  # type: ignore[attr-defined]

    def leave(items: list[Item]) -> None:
        backend.left_out["not_finite"] = backend.left_out.get("not_finite", 0) + 2  # type: ignore[attr-defined]

    backend.fail = leave
    run_reader = a_run(limits.BACKEND_BATCH_ITEMS + 1)
    run_reader.tail_left_out = {"missed": 3}
    bench = Bench(backend, run_reader, tmp_path)
    assert bench.run() == "done"
    assert bench.kept[-1].counts.dropped == {"not_finite": 4, "missed": 3}


def test_a_stop_leaves_the_rest_for_another(tmp_path: Path) -> None:
    """The checkpoint is where it stands, and the backend is told that it goes on."""

    def down(items: list[Item]) -> None:
        raise Unavailable("away")

    backend = ListBackend(down)
    bench = Bench(backend, a_run(), tmp_path)
    bench.stop_at_s = 30.0
    assert bench.run() == "undelivered"
    assert (backend.closed, bench.kept[-1].done, bench.kept[-1].position["next_record"]) == (False, False, 0)
    assert bench.tally.last_error == "away"


def test_another_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    """The next writer goes on from the checkpoint with the backend's state.

    A tracker that can't tell may have items twice, and these are counted.
    """
    first = ListBackend()
    first.idempotent = False
    first.on_flush = lambda: (_ for _ in ()).throw(KeyboardInterrupt)  # killed between write and flush
    bench = Bench(first, a_run(8), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    second = ListBackend()
    second.idempotent = False
    again = Bench(second, a_run(10), tmp_path, bench.kept[-1])
    assert again.run() == "done"
    assert second.opened_with == {"flushed": 0}
    assert (again.tally.written, again.tally.repeated) == (10, 8)
    assert again.kept[-1].serial > 3
    third = Bench(second, a_run(10), tmp_path, again.kept[-1])
    assert (third.run(), third.tally.repeated) == ("done", 8)


def test_two_deaths_in_a_row_count_what_the_first_left(tmp_path: Path) -> None:
    """The second process died before it wrote anything, or in the middle of taking a batch apart."""

    def dies(items: list[Item]) -> None:
        raise KeyboardInterrupt

    def first_is_bad(items: list[Item]) -> None:
        if len(backend.calls) > 6:
            raise KeyboardInterrupt
        if items[0].key == "r0":
            raise RuntimeError("odd")

    backend = ListBackend(first_is_bad)
    backend.idempotent = False
    bench = Bench(backend, a_run(8), tmp_path)
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    for _ in range(2):
        bench = Bench(backend, a_run(8), tmp_path, bench.kept[-1])
        backend.on_open = lambda: (_ for _ in ()).throw(KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt):
            bench.run()
    backend.on_open, backend.fail = lambda: None, dies
    bench = Bench(backend, a_run(8), tmp_path, bench.kept[-1])
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    backend.fail = lambda items: None
    bench = Bench(backend, a_run(8), tmp_path, bench.kept[-1])
    assert (bench.run(), bench.tally.repeated) == ("done", 8)


def test_a_death_right_after_a_checkpoint_counts_what_may_be_there(tmp_path: Path) -> None:
    """A batch is taken apart, its first item is settled, and the process dies before it writes anything else."""

    def first_alone(items: list[Item]) -> None:
        if len(items) > 1:
            raise RuntimeError("odd")

    backend = ListBackend(first_alone)
    backend.idempotent = False
    bench = Bench(backend, a_run(8), tmp_path)
    keep = bench._keep

    def keep_and_die(checkpoint: WriterCheckpoint) -> None:
        keep(checkpoint)
        if checkpoint.position["next_record"]:
            raise KeyboardInterrupt

    bench.delivery._keep = keep_and_die
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    assert bench.kept[-1].position["next_record"] == 1
    backend.fail = lambda items: None
    again = Bench(backend, a_run(8), tmp_path, bench.kept[-1])
    assert (again.run(), again.tally.repeated) == ("done", 7)


def test_a_backend_that_cant_begin_is_not_tried_again(tmp_path: Path) -> None:
    """A backend that can't begin or lacks its library is tried once, and other errors a few times."""
    backend = ListBackend()
    for error, times in ((NotConfigured("no key"), 1), (ImportError("no lib"), 1), (RuntimeError("odd"), 4)):
        tries = []

        def fail(error: Exception = error, tries: list[int] = tries) -> None:
            tries.append(1)
            raise error

        backend.on_open = fail
        with pytest.raises(NotConfigured, match=str(error)):
            Bench(backend, a_run(), tmp_path).run()
        assert len(tries) == times


def test_a_server_that_is_not_up_yet_is_waited_for(tmp_path: Path) -> None:
    """Opening is tried as long as there is time."""
    backend = ListBackend()
    bench = Bench(backend, a_run(3), tmp_path)

    def fail() -> None:
        if bench.now_s < 50.0:
            raise ConnectionRefusedError

    backend.on_open = fail
    assert bench.run() == "done"
    assert backend.keys == keys(0, 1, 2)


def test_a_backend_that_says_later_that_it_cant_ends_the_writer(tmp_path: Path) -> None:
    """A backend that fails later, as with a key that is revoked, ends the writer."""

    def fail(items: list[Item]) -> None:
        raise NotConfigured("the key is refused")

    with pytest.raises(NotConfigured, match="refused"):
        Bench(ListBackend(fail), a_run(), tmp_path).run()


def test_a_checkpoint_that_cant_be_kept_loses_nothing(tmp_path: Path) -> None:
    """The run goes on to the tracker, but nobody calls it done."""
    backend = ListBackend()
    bench = Bench(backend, a_run(), tmp_path)
    bench.keep_error = RunDirectoryError("disk full")
    assert bench.run() == "undelivered"
    assert (backend.keys, bench.tally.dropped, bench.tally.last_error) == (keys(*range(10)), {}, "disk full")
    bench = Bench(backend, a_run(), tmp_path)
    bench.keep_error = TypeError("objects of type set are no JSON")
    assert (bench.run(), bench.tally.last_error[:9]) == ("undelivered", "TypeError")


def test_a_run_without_a_result_is_not_done(tmp_path: Path) -> None:
    """All of it is delivered; a result may still come."""
    backend = ListBackend()
    bench = Bench(backend, a_run(final=False), tmp_path)
    assert bench.run() == "undelivered"
    assert (backend.closed, backend.keys) == (False, keys(*range(10)))
    assert "no result" in bench.tally.last_error


def test_a_source_that_fails_is_said(tmp_path: Path) -> None:
    """A source that fails is reported, and what was read before is delivered."""
    backend, run_reader = ListBackend(), a_run()
    run_reader.failure = "a line is damaged"
    bench = Bench(backend, run_reader, tmp_path)
    assert (bench.run(), bench.tally.last_error) == ("undelivered", "a line is damaged")
    assert backend.keys == keys(*range(10))


def test_an_end_that_fails_is_tried_again_and_not_called_done(tmp_path: Path) -> None:
    """A failed end is tried until it works if it may pass, else a few times, and is not called done."""
    backend = ListBackend()
    bench = Bench(backend, a_run(), tmp_path)
    failures = iter([Unavailable("busy")] * 9)

    def close() -> None:
        for error in failures:
            raise error

    backend.on_close = close
    assert (bench.run(), bench.kept[-1].done) == ("done", True)
    assert bench.tally.state == "closing"  # also after failures: nothing is missing then

    def never() -> None:
        raise RuntimeError("broken")

    backend.on_close = never
    bench = Bench(backend, a_run(), tmp_path)
    assert (bench.run(), bench.kept[-1].done) == ("undelivered", False)


def test_positions_follow_items_and_not_what_waits(tmp_path: Path) -> None:
    """A checkpoint in the middle of what was read points behind what was written."""
    found = [Read(step(at), Position(next_record=at + 1)) for at in range(limits.BACKEND_BATCH_ITEMS + 2)]
    bench = Bench(ListBackend(), ListInflow(found), tmp_path)
    assert bench.run() == "done"
    assert limits.BACKEND_BATCH_ITEMS in [one.position.get("next_record") for one in bench.kept]


def test_items_of_a_kind_are_named_by_their_kind(tmp_path: Path) -> None:
    """Lower case, as in the list of backends."""
    backend = ListBackend()
    backend.takes = (Mark,)
    bench = Bench(backend, a_run(2), tmp_path)
    assert (bench.run(), bench.tally.no_place) == ("done", {"step": 2})


def test_every_call_of_a_backend_is_guarded(tmp_path: Path) -> None:
    """Every call of a backend is guarded, as a library may hang even in those that only ask."""
    calls: dict[str, set[bool]] = {}

    class Watched(ListBackend):
        def __getattribute__(self, name: str) -> Any:
            if name in ("open", "write", "flush", "state", "close", "where"):
                calls.setdefault(name, set()).add(bench.guarded)
            return super().__getattribute__(name)

    bench = Bench(Watched(), a_run(), tmp_path)
    assert bench.run() == "done"
    assert set(calls) == {"open", "write", "flush", "state", "close", "where"}
    assert all(guarded == {True} for guarded in calls.values())


def test_what_did_not_go_out_is_counted_with_what_did(tmp_path: Path) -> None:
    """Items that did not go out are counted once, whoever dies when.

    A checkpoint has what its position passed over, and nothing that waits.
    """
    size, odd = limits.BACKEND_BATCH_ITEMS, {"not_there": 3}
    items: list[Item] = [step(at) for at in range(size)]
    items += [mark(size), step(size + 1), mark(size + 2)]
    found = [read if at < size + 1 else read._replace(left_out=odd) for at, read in enumerate(reads(items))]
    backend = ListBackend()
    backend.takes, backend.idempotent = (Step,), False

    def second_dies(items: list[Item]) -> None:
        if len(backend.calls) == 2:
            raise KeyboardInterrupt

    backend.fail = second_dies
    run_reader = ListInflow(found)
    run_reader.tail_left_out = odd
    bench = Bench(backend, run_reader, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        bench.run()
    first = bench.kept[-1]
    assert (first.position["next_record"], first.counts.no_place, first.counts.dropped) == (size, {}, {})
    rest = ListInflow(found[size:])
    rest.tail, rest.tail_left_out = run_reader.tail, odd
    again = Bench(backend, rest, tmp_path, first)
    assert again.run() == "done"
    assert (again.tally.no_place, again.tally.dropped) == ({"mark": 2}, odd)


@pytest.mark.parametrize(
    "source", ["raise RuntimeError('made for another numpy')", "1 +", "raise OSError('libssl: no such file')"]
)
def test_a_library_that_breaks_at_its_import_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """An import that fails is not tried again, whatever it raises, as its error will not pass."""
    (tmp_path / "broken_library.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    opened = []
    backend = ListBackend()

    def load() -> None:
        opened.append(1)
        import_module("broken_library")

    backend.on_open = load
    with pytest.raises(NotConfigured):
        Bench(backend, a_run(), tmp_path).run()
    assert opened == [1]


def test_a_checkpoint_that_cant_be_kept_is_tried_again_after_a_rest(tmp_path: Path) -> None:
    """A full disk must not keep the writer busy, although the attempt itself takes no time."""
    inflow = ComesLater([0.0, 20.0])
    inflow.bench = bench = Bench(ListBackend(), inflow, tmp_path)
    tried: list[float] = []

    def full(checkpoint: WriterCheckpoint) -> None:
        bench.now_s += 0.001
        if checkpoint.serial > 1 and bench.now_s < 20.0:
            tried.append(bench.now_s)
            raise RunDirectoryError("no space left")
        bench.kept.append(checkpoint)

    bench.delivery._keep = full
    assert bench.run() == "done"
    assert bench.kept[-1].counts.written == 2
    assert len(tried) > 10
    assert min(after - before for before, after in pairwise(tried)) >= limits.BACKEND_BATCH_S - 1e-9
