"""The exact pass of a root over the journals of its nodes, and what it says when one can't give its values."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.daemon.nodes_of_a_root import NOW_NS, SECOND_NS, Place, order_statistics

from telemetry import limits
from telemetry.aggregator.exact import node_search
from telemetry.daemon import exact_percentiles
from telemetry.daemon import node_search as daemon_search
from telemetry.daemon.exact_percentiles import Refinement, Refiner, another_may_succeed
from telemetry.daemon.node_search import first_reasons
from telemetry.daemon.upstream import search as leaf_side
from telemetry.wire.control import End
from telemetry.wire.nodes import Found, FoundValues, NodeAccount, Search
from telemetry.wire.snapshot import Accounting

WaitUntil = Callable[..., Any]


def some(seed: int, size: int = 400) -> list[float]:
    """Values with fractions. Half of them are close together, so that some slots hold very many."""
    rng = random.Random(seed)
    return [1.0 + rng.random() * 1e-5 if rng.random() < 0.5 else rng.lognormvariate(0.0, 1.0) for _ in range(size)]


class Run:
    """A root and three leaves. `latency` is on all of them, `rare` on the last one only."""

    def __init__(self, folder: Path, *, closed: bool = True, definition: dict[str, int] | None = None) -> None:
        self.root = Place(folder, "root", leaf=False)
        self.leaves = [
            Place(folder, f"n{number}", definition=definition if number == 1 else None) for number in range(3)
        ]
        for number, leaf in enumerate(self.leaves):
            leaf.record({"latency": some(number)})
        self.leaves[0].record({"common": some(10), "latency": some(11)}, "q")
        self.leaves[1].record({"common": some(12)}, "q")
        self.leaves[2].record({"rare": some(13)}, "q")
        for leaf in self.leaves:
            leaf.join(self.root)
            if closed:
                leaf.close_books()

    def refiner(self, budget_s: float = 60.0, **options: Any) -> Refiner:
        options = {"channel": self.root.channel} | options
        return Refiner(self.root.aggregator, self.root.folder, budget_s, lambda: None, **options)

    def outcome(self, wait_until: WaitUntil, budget_s: float = 60.0, **options: Any) -> Refinement:
        refiner = self.refiner(budget_s, **options)
        found = wait_until(lambda: refiner.outcome)
        assert isinstance(found, Refinement)
        return found

    def named(self, found: Refinement) -> dict[str, dict[str, float]]:
        return {self.root.aggregator.series.key(index).name: values for index, values in found.values.items()}


@pytest.fixture
def make_run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    made: list[Run] = []

    def make(**options: Any) -> Run:
        made.append(Run(tmp_path / str(len(made)), **options))
        return made[-1]

    yield make
    for run in made:
        for place in (run.root, *run.leaves):
            place.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short times, for tests in which messages are lost."""
    monkeypatch.setattr(daemon_search, "_ASK_AGAIN_S", 0.05)
    for name, seconds in (("_AGAIN_S", 0.05), ("_BUSY_S", 0.01), ("_ALIVE_S", 0.02), ("_BOOKS_S", 0.2)):
        monkeypatch.setattr(leaf_side, name, seconds)


@pytest.fixture
def impatient(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Short times, for tests in which a node never answers."""
    monkeypatch.setattr(limits, "SEARCH_SILENT_S", 0.5)


def test_percentiles_are_those_of_all_values(make_run: Callable[..., Run], wait_until: WaitUntil) -> None:
    """The percentiles are exact to the last bit, although no value is at the root."""
    run = make_run()
    found = run.outcome(wait_until)
    assert (found.exact, found.reason, found.warnings) == (True, "", [])
    assert run.named(found) == order_statistics(*run.leaves)


@pytest.mark.parametrize("memory_bytes", [500, 3_000])
def test_little_memory_takes_several_searches(
    make_run: Callable[..., Run], wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch, memory_bytes: int
) -> None:
    """Each search narrows the ranges of the one before, on all nodes together."""
    run = make_run()
    whole_pass = exact_percentiles.ExactPass

    def with_little(targets: Any, **options: Any) -> Any:
        return whole_pass(targets, memory_bytes, **options)

    monkeypatch.setattr(exact_percentiles, "ExactPass", with_little)
    found = run.outcome(wait_until)
    numbers = {message.number for message in run.root.sent if isinstance(message, Search)}
    assert len(numbers) > 1
    assert run.named(found) == order_statistics(*run.leaves)
    assert found.exact


def test_the_root_may_have_producers_of_its_own(make_run: Callable[..., Run], wait_until: WaitUntil) -> None:
    """The values of the root's own producers come from its own journal, at the same time."""
    run = make_run()
    run.root.record({"latency": some(20), "own": some(21)})
    run.root.journal.close()
    found = run.outcome(wait_until)
    assert found.exact
    assert run.named(found) == order_statistics(run.root, *run.leaves)


def test_a_root_without_values_of_its_own_needs_no_journal(
    make_run: Callable[..., Run], wait_until: WaitUntil
) -> None:
    """An obstacle to the root's journal does not matter if the root has no values of its own."""
    run = make_run()
    found = run.outcome(wait_until, hindrance="the journal is off")
    assert found.exact
    assert run.named(found) == order_statistics(*run.leaves)


def test_a_journal_of_the_root_that_is_lost_costs_its_own_series(
    make_run: Callable[..., Run], wait_until: WaitUntil
) -> None:
    """Series of the nodes alone are exact."""
    run = make_run()
    run.root.record({"latency": some(20)})
    found = run.outcome(wait_until, hindrance="the journal is off")
    assert (found.exact, found.reason) == (False, "the journal is off")
    assert found.warnings == ["latency: the journal is off"]
    expected = order_statistics(*run.leaves)
    assert run.named(found) == {name: expected[name] for name in ("common", "rare")}


@pytest.mark.usefixtures("impatient")
def test_a_node_that_is_gone_is_named(make_run: Callable[..., Run], wait_until: WaitUntil) -> None:
    """The series that it has values of keep their bound; the others are exact."""
    run = make_run()
    del run.root.places["n2"]
    found = run.outcome(wait_until)
    assert (found.exact, found.reason) == (False, "node gpu-n2 ended before the run")
    assert found.warnings == [
        "latency: node gpu-n2 ended before the run",
        "rare: node gpu-n2 ended before the run",
    ]
    assert run.named(found) == {"common": order_statistics(*run.leaves)["common"]}
    assert not another_may_succeed(found.reason)


@pytest.mark.usefixtures("impatient")
def test_values_that_the_root_lacks_do_not_replace_those_of_a_node_that_is_gone(
    make_run: Callable[..., Run], wait_until: WaitUntil
) -> None:
    """Both are in one slot, so the counts agree; but the percentile is that of the node that is gone."""
    run = make_run(closed=False)
    first, _, last = run.leaves
    first.record({"tail": [1.5]}, "t")
    last.record({"tail": [5.5]}, "t")
    for leaf in run.leaves:
        leaf.report()
    node = run.root.aggregator.book["n0"].node
    assert node is not None
    first.record({"tail": [5.5001]}, "u")
    run.root.take("n0", [NodeAccount(9, node.values + 1, Accounting())])
    for leaf in run.leaves:
        leaf.close_books()
    del run.root.places["n2"]
    found = run.outcome(wait_until)
    assert "tail" not in run.named(found)
    assert "tail: node gpu-n2 ended before the run" in found.warnings


@pytest.mark.usefixtures("impatient")
def test_a_node_that_falls_silent_is_named(make_run: Callable[..., Run], wait_until: WaitUntil) -> None:
    """The reason names a node that took the search and then sent nothing."""
    run = make_run()
    run.leaves[1].lose = lambda message: isinstance(message, Found) and message.part > 0
    found = run.outcome(wait_until)
    assert found.reason == "node gpu-n1 stopped answering"
    assert run.named(found) == {"rare": order_statistics(*run.leaves)["rare"]}


def test_a_node_without_a_journal_says_why(make_run: Callable[..., Run], wait_until: WaitUntil) -> None:
    """The result of the root has the node's reason, with its name."""
    run = make_run()
    for segment in run.leaves[1].folder.iterdir():
        segment.unlink()
    found = run.outcome(wait_until)
    assert found.reason.startswith("node gpu-n1: there is no journal")
    assert run.named(found) == {"rare": order_statistics(*run.leaves)["rare"]}


def test_a_damaged_journal_of_a_node_says_why(make_run: Callable[..., Run], wait_until: WaitUntil) -> None:
    """A node's damaged journal gives the same reason as that of a run without nodes."""
    run = make_run()
    (segment,) = run.leaves[0].folder.iterdir()
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 0xFF
    segment.write_bytes(data)
    found = run.outcome(wait_until)
    assert found.reason.startswith("node gpu-n0: ")
    assert found.reason.endswith("bytes of the journal are damaged")
    assert run.named(found) == {"rare": order_statistics(*run.leaves)["rare"]}


@pytest.mark.usefixtures("quick")
def test_books_that_stay_open_are_no_answer(make_run: Callable[..., Run], wait_until: WaitUntil) -> None:
    """A leaf waits for its own end for a while, then it says so."""
    run = make_run(closed=False)
    run.leaves[0].close_books()
    run.leaves[2].close_books()
    found = run.outcome(wait_until)
    assert found.reason == "node gpu-n1: its books are not closed"


def test_a_root_that_is_ahead_waits_for_the_books(make_run: Callable[..., Run], wait_until: WaitUntil) -> None:
    """A search that comes a moment before the end of a leaf is answered after it."""
    run = make_run(closed=False)
    refiner = run.refiner()
    wait_until(lambda: all(leaf.sent for leaf in run.leaves), what="the leaves to have the search")
    assert refiner.outcome is None
    for leaf in run.leaves:
        leaf.close_books()
    found = wait_until(lambda: refiner.outcome)
    assert found.exact
    assert run.named(found) == order_statistics(*run.leaves)


@pytest.mark.usefixtures("quick")
def test_lost_messages_are_sent_again(make_run: Callable[..., Run], wait_until: WaitUntil) -> None:
    """Any message may be lost once on its way in either direction; values count once."""
    run = make_run()
    lost: set[tuple[str, int, type]] = set()

    def once(place: str) -> Callable[[Search | Found], bool]:
        def lose(message: Search | Found) -> bool:
            key = (place, message.part, type(message))
            return key not in lost and not lost.add(key)  # type: ignore[func-returns-value]

        return lose

    for place in (run.root, *run.leaves):
        place.lose = once(place.name)
    found = run.outcome(wait_until)
    assert found.exact
    assert run.named(found) == order_statistics(*run.leaves)
    assert len(lost) > 6


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_lost_confirmations_count_no_value_twice(
    make_run: Callable[..., Run], wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The root has the part, and the leaf sends it again."""
    monkeypatch.setattr(node_search, "_VALUES_A_PART", 30)
    run = make_run()
    leaf = run.leaves[0]
    take, seen = leaf.search.take, set()

    def forget_first(response: Any) -> None:
        if response.id and response.id not in seen:
            seen.add(response.id)
        else:
            take(response)

    leaf.search.take = forget_first  # type: ignore[method-assign]
    found = run.outcome(wait_until)
    assert run.named(found) == order_statistics(*run.leaves)
    parts = [message.part for message in leaf.sent if isinstance(message, Found)]
    assert parts.count(1) > 1
    assert max(parts) > 1


@pytest.mark.usefixtures("quick")
def test_a_root_with_a_full_queue_gets_the_part_again(make_run: Callable[..., Run], wait_until: WaitUntil) -> None:
    """The leaf sends it again after a pause."""
    run = make_run()
    run.root.busy = 7
    found = run.outcome(wait_until)
    assert (run.root.busy, found.exact) == (0, True)
    assert run.named(found) == order_statistics(*run.leaves)


def test_the_queue_of_answers_is_bounded(make_run: Callable[..., Run]) -> None:
    """An answer beyond SEARCH_QUEUE_BYTES is refused until the search has taken the others."""
    channel = make_run().root.channel
    with channel.searching():
        number = channel.new_number()
        large = Found(
            producer="n0", number=number, values=FoundValues(values=bytes(limits.SEARCH_QUEUE_BYTES // 2))
        )
        assert channel.deliver(large)
        assert channel.deliver(large)
        assert not channel.deliver(large)
        assert channel.deliver(replace(large, number=number - 1)), "answers to earlier searches are dropped"
        assert channel.receive(0.0) == [large, large]
        assert channel.deliver(large)


def test_a_root_that_was_restarted_searches_anew(make_run: Callable[..., Run], wait_until: WaitUntil) -> None:
    """A leaf answers any number of searches, one after the other."""
    run = make_run()
    first = run.outcome(wait_until)
    second = run.outcome(wait_until)
    assert first.exact
    assert first == second


def test_a_new_search_replaces_one_in_progress(
    make_run: Callable[..., Run], wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A root that was killed in the middle does not make the leaf finish the old search first."""
    run = make_run()
    go, begun = threading.Event(), threading.Event()
    obstacle = exact_percentiles.JournalValues.obstacle

    def hold(self: Any) -> str:
        if "n0" in str(self._journal) and not begun.is_set():
            begun.set()
            go.wait(20.0)
        return obstacle(self)

    monkeypatch.setattr(exact_percentiles.JournalValues, "obstacle", hold)
    killed = run.refiner()
    wait_until(begun.is_set)
    killed.stop("killed")
    wait_until(lambda: killed.outcome)
    again = run.refiner()
    go.set()
    found = wait_until(lambda: again.outcome)
    assert found.exact
    assert run.named(found) == order_statistics(*run.leaves)


def test_a_leaf_that_connects_again_gets_the_search_at_once(
    make_run: Callable[..., Run], wait_until: WaitUntil
) -> None:
    """A leaf that connects again gets the search before the root asks again."""
    run = make_run()
    leaf = run.root.places.pop("n1")
    refiner = run.refiner()
    wait_until(lambda: any(isinstance(message, Search) for message in run.root.sent))
    run.root.places["n1"] = leaf
    run.root.channel.returned("n1")
    found = wait_until(lambda: refiner.outcome)
    assert found.exact
    assert run.named(found) == order_statistics(*run.leaves)


HOSTILE: dict[str, Callable[[Found], Found]] = {
    "values of no range": lambda found: replace(found, values=FoundValues(b"\xff" * 4, b"\1\0\0\0", bytes(8))),
    "columns that are cut": lambda found: replace(found, values=replace(found.values, values=b"123")),
    "a part that is left out": lambda found: replace(found, part=found.part + 1) if found.part else found,
    "another reason": lambda found: replace(found, reason="because"),
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_leaf_costs_its_own_series_alone(
    make_run: Callable[..., Run], wait_until: WaitUntil, change: Callable[[Found], Found]
) -> None:
    """The result names the node of a hostile leaf. The root does not crash, and no percentile is wrong."""
    run = make_run()
    run.leaves[2].change = change
    found = run.outcome(wait_until)
    assert not found.exact
    assert found.reason.startswith("node gpu-n2: ")
    assert run.named(found) == {"common": order_statistics(*run.leaves)["common"]}


@pytest.mark.usefixtures("quick")
def test_a_node_that_works_too_long_is_left_out(
    make_run: Callable[..., Run], wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that still works at the end of the budget is left out. The values of the others are used."""
    run = make_run()
    go = threading.Event()
    read = exact_percentiles.JournalValues.read

    def slow(self: Any, stops: Callable[[], bool]) -> Any:
        while "n2" in str(self._journal) and not go.wait(0.01):
            stops()
        return read(self, stops)

    monkeypatch.setattr(exact_percentiles.JournalValues, "read", slow)
    refiner = run.refiner()
    leaves = refiner._nodes._leaves
    wait_until(lambda: leaves["n2"].answers, what="the node to begin")
    wait_until(lambda: leaves["n0"].spans is None and leaves["n1"].spans is None, what="two answers")
    refiner._deadline = 0.0
    found = wait_until(lambda: refiner.outcome)
    go.set()
    assert found.reason == "node gpu-n2 did not answer within 60 s"
    assert run.named(found) == {"common": order_statistics(*run.leaves)["common"]}


def test_an_interruption_ends_the_search(make_run: Callable[..., Run], wait_until: WaitUntil) -> None:
    """A second signal ends the wait for nodes."""
    run = make_run(closed=False)
    refiner = run.refiner()
    wait_until(lambda: all(leaf.sent for leaf in run.leaves))
    refiner.stop("interrupted during the exact pass")
    found = wait_until(lambda: refiner.outcome)
    assert found == Refinement(exact=False, reason="interrupted during the exact pass")


def test_a_series_with_another_layout_keeps_its_bound(make_run: Callable[..., Run], wait_until: WaitUntil) -> None:
    """The root converted values of another layout, so their ranks are not known exactly."""
    run = make_run(definition={"digits": 2})
    found = run.outcome(wait_until)
    assert not found.exact
    assert found.reason.startswith("node gpu-n1: ")
    assert "another precision or range" in found.reason
    assert run.named(found) == {"rare": order_statistics(*run.leaves)["rare"]}


def test_a_result_that_is_made_later_can_only_use_the_own_journal(
    make_run: Callable[..., Run], wait_until: WaitUntil
) -> None:
    """The nodes are gone after the death of a root, but its own series may still be exact."""
    run = make_run()
    run.root.record({"own": some(21)})
    run.root.journal.close()
    found = run.outcome(wait_until, channel=None)
    assert run.named(found) == {"own": order_statistics(run.root)["own"]}
    assert found.reason.startswith("node gpu-n0: its journal is on another machine")
    assert not another_may_succeed(found.reason)


def test_a_middle_level_passes_the_search_on(tmp_path: Path, wait_until: WaitUntil) -> None:
    """A leaf that is a root itself asks its own leaves, and merges what they find."""
    root, middle = Place(tmp_path, "root", leaf=False), Place(tmp_path, "middle")
    leaves = [Place(tmp_path, f"n{number}") for number in range(2)]
    for number, leaf in enumerate(leaves):
        leaf.record({"latency": some(number), f"own{number}": some(5 + number)})
        leaf.join(middle)
        leaf.close_books()
    middle.record({"latency": some(7)})
    middle.join(root)
    middle.close_books()
    refiner = Refiner(root.aggregator, root.folder, 60.0, lambda: None, channel=root.channel)
    found = wait_until(lambda: refiner.outcome)
    named = {root.aggregator.series.key(index).name: values for index, values in found.values.items()}
    assert (found.exact, found.warnings) == (True, [])
    assert named == order_statistics(middle, *leaves)
    for place in (root, middle, *leaves):
        place.close()


def test_reasons_are_few() -> None:
    """The same reason counts once; of many different ones the first three are shown."""
    assert first_reasons([]) == ""
    assert first_reasons(["a", "b", "a"]) == "a; b"
    assert first_reasons(list("abcde")) == "a; b; c; and 2 more"


@pytest.mark.usefixtures("quick")
def test_a_leaf_that_has_not_ended_is_not_waited_for(
    make_run: Callable[..., Run], wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leaf that has not ended is left out: its journal has values that the root lacks.

    The other leaves give theirs.
    """
    monkeypatch.setattr(limits, "SEARCH_SILENT_S", 1_000.0)
    run = make_run()
    away = run.leaves[2]
    del run.root.places[away.name]
    for leaf in run.leaves[:2]:
        run.root.aggregator.end(End(producer=leaf.name, batches=1, emitted=1), NOW_NS)
    found = run.outcome(wait_until, now_ns=NOW_NS)
    assert not any(message.producer == away.name for message in run.root.sent if isinstance(message, Found))
    assert found.reason == f"node gpu-{away.name} has not ended"
    assert set(run.named(found)) == {"common"}


@pytest.mark.usefixtures("quick")
def test_a_leaf_that_was_silent_before_the_search_gets_little_time(
    make_run: Callable[..., Run], wait_until: WaitUntil, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ended leaf gives a sign of life four times a second. One that answers after all has all the time."""
    monkeypatch.setattr(limits, "SEARCH_SILENT_S", 1_000.0)
    monkeypatch.setattr(daemon_search, "_QUIET_S", 0.3)
    run = make_run()
    for leaf in run.leaves:
        run.root.aggregator.end(End(producer=leaf.name, batches=1, emitted=1), NOW_NS)
    later_ns = NOW_NS + 60 * SECOND_NS
    assert run.outcome(wait_until, now_ns=later_ns).exact
    del run.root.places["n2"]
    found = run.outcome(wait_until, now_ns=later_ns)
    assert found.reason == "node gpu-n2 ended before the run"
