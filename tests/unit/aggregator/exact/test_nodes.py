"""The exact pass over several nodes: the same percentiles as one place with all values."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace
from tests.unit.aggregator.exact.nodes import PERCENTILES, Leaf, Values, root_table, search_nodes

from telemetry import limits
from telemetry.aggregator.exact import node_search
from telemetry.aggregator.exact.node_search import add_part, leaf_pass, search_messages, spans_of_leaf
from telemetry.aggregator.exact.one_pass import KEPT_SPANS, OnePass, PassPlan, ValueRange, ordinal
from telemetry.aggregator.exact.percentiles import ExactPass
from telemetry.aggregator.series.table import SeriesTable
from telemetry.statistics.hdr.percentiles import parse_percentile, rank
from telemetry.wire.codec import encode_control
from telemetry.wire.nodes import (
    DISAGREES,
    OTHER_LAYOUT,
    Found,
    FoundBins,
    FoundValues,
    Search,
    SearchedRanges,
    SearchedSeries,
    UnfitRanges,
)

LITTLE = 2_000
"""Memory of a pass in bytes that holds fewer values than a slot."""


def order_statistics(values: Values) -> dict[str, float]:
    ordered = np.sort(values)
    return {key: float(ordered[rank(parse_percentile(key), values.size) - 1]) for key in PERCENTILES}


def draw(seed: int, size: int) -> Values:
    """Values of a wide and a narrow distribution, so that some slots have very many."""
    generator = np.random.default_rng(seed)
    narrow = 1.0 + generator.random(size) * 1e-5
    return np.where(generator.random(size) < 0.5, narrow, generator.lognormal(-3.0, 1.0, size))


def three_leaves(size: int = 3_000) -> list[Leaf]:
    """Leaves with the series in another order each, one of them without the last."""
    return [
        Leaf(0, {0: draw(1, size), 1: draw(2, size), 2: draw(3, size)}),
        Leaf(1, {2: draw(4, size), 0: draw(5, size), 1: draw(6, size)}),
        Leaf(2, {1: draw(7, size), 0: draw(8, size)}),
    ]


def of_all(leaves: list[Leaf], series: int) -> Values:
    return np.concatenate([leaf.values[leaf.series.index(series)] for leaf in leaves if series in leaf.series])


@pytest.mark.parametrize("memory_bytes", [limits.EXACT_MEMORY_BYTES, 60_000, LITTLE])
def test_nodes_together_give_the_order_statistics_of_all_values(memory_bytes: int) -> None:
    """One pass is enough with memory for everything. Each pass is over all nodes with little memory."""
    leaves = three_leaves()
    table = root_table(3, leaves)
    search = ExactPass(table.targets(), memory_bytes)
    passes = search_nodes(search, table, leaves)
    assert (passes > 1) == (memory_bytes < limits.EXACT_MEMORY_BYTES)
    assert search.problems == {}
    assert search.values() == {series: order_statistics(of_all(leaves, series)) for series in range(3)}


def test_values_of_the_root_itself_belong_to_the_pass() -> None:
    """A root with producers of its own feeds their values beside those of the leaves."""
    leaves = three_leaves()
    own = draw(9, 5_000)
    table = root_table(3, leaves)
    index = np.ones(own.size, dtype=np.intp)
    table.record(index, own)
    search = ExactPass(table.targets())
    search.feed(index, own)
    assert search_nodes(search, table, leaves) == 1
    assert search.values()[1] == order_statistics(np.concatenate([own, of_all(leaves, 1)]))


def test_an_absent_node_costs_only_the_series_that_it_has_values_of() -> None:
    """The counts tell: the other series have all their values without that node."""
    leaves = three_leaves()
    table = root_table(3, leaves)
    search = ExactPass(table.targets())
    search_nodes(search, table, leaves[:2])
    assert set(search.problems) == {0, 1}
    assert search.values() == {2: order_statistics(of_all(leaves, 2))}


def test_several_series_of_a_leaf_may_be_one_of_the_root() -> None:
    """Above the cap of instruments, the root counts them as one; the leaf answers for each."""
    leaves = three_leaves()
    together = {1: 0, 2: 0}
    table = root_table(1, leaves, together)
    for memory_bytes in (limits.EXACT_MEMORY_BYTES, LITTLE):
        search = ExactPass(table.targets(), memory_bytes)
        search_nodes(search, table, leaves, together)
        everything = np.concatenate([of_all(leaves, series) for series in range(3)])
        assert search.values() == {0: order_statistics(everything)}


@pytest.mark.slow
def test_a_leaf_keeps_more_ranges_than_the_root() -> None:
    """A leaf keeps more ranges than the root, because several of its series are one of the root.

    No range gets the values of another one.
    """
    spans_asked = KEPT_SPANS + 1_000
    table = SeriesTable(PERCENTILES, 10)
    table.add("s", {}, "ns", digits=5)
    values = np.arange(1.0, spans_asked + 1.0)
    table.record(np.zeros(values.size, np.intp), values)
    spans = [
        ValueRange(0, 0, 0, slot, ordinal(slot), ordinal(slot), 1, (), True) for slot in range(1, spans_asked + 1)
    ]
    one_pass = OnePass(PassPlan(spans, [], 1, []), table.slot_columns())
    one_pass.feed(np.zeros(values.size, np.intp), values)
    one_pass.work_off()
    assert (one_pass.seen == 1).all()
    assert [one_pass.kept.region(number).tolist() for number in range(spans_asked)] == values[:, None].tolist()


def test_both_ways_take_several_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans, values and bins are divided over parts wherever a part is full."""
    monkeypatch.setattr(node_search, "_RANGES_A_PART", 4)
    monkeypatch.setattr(node_search, "_VALUES_A_PART", 7)
    monkeypatch.setattr(node_search, "_BINS_A_PART", 3)
    leaves = three_leaves()
    table = root_table(3, leaves)
    for memory_bytes in (limits.EXACT_MEMORY_BYTES, LITTLE):
        parts: list[Found] = []
        search = ExactPass(table.targets(), memory_bytes)
        search_nodes(search, table, leaves, change=lambda found, parts=parts: parts.append(found) or found)
        assert len(parts) > 20
        assert search.values() == {series: order_statistics(of_all(leaves, series)) for series in range(3)}


@pytest.mark.slow
def test_frames_stay_below_their_bound() -> None:
    """A search for 5,000 series and a leaf whose values are all wanted: no message is above SEARCH_PART_BYTES."""
    table = SeriesTable(PERCENTILES, 10)
    for number in range(5_000):
        table.add(f"s{number}", {}, "s")
    values = 1.0 + np.random.default_rng(3).random(200_000) * 1e-4
    leaf = Leaf(0, {number: np.ascontiguousarray(values[number::5_000]) for number in range(5_000)})
    table = root_table(5_000, [leaf])
    search = ExactPass(table.targets())
    spans = spans_of_leaf(search.current, leaf.defined())
    messages = list(search_messages(7, search.current, table, spans))
    answers = leaf.answer(messages)
    sizes = [len(encode_control(message)) for message in (*messages, *answers)]
    assert len(answers) > 1
    assert max(sizes) <= limits.SEARCH_PART_BYTES + 1_000


def test_a_journal_that_disagrees_with_the_histogram_is_named_by_its_leaf() -> None:
    """A value that is in the histogram of a leaf and not in its journal: the leaf says so itself."""
    leaves = three_leaves()
    table = root_table(3, leaves)
    leaves[0].values[0] = leaves[0].values[0][1:]
    search = ExactPass(table.targets(), LITTLE)
    search_nodes(search, table, leaves)
    assert set(search.values()) >= {1, 2}
    assert search.problems in ({}, {0: f"node-0: {DISAGREES}"})
    leaves[0].values[0] = np.zeros(0)
    search = ExactPass(table.targets())
    search_nodes(search, table, leaves)
    assert search.problems == {0: f"node-0: {DISAGREES}"}
    assert set(search.values()) == {1, 2}


@pytest.mark.parametrize("definition", [{"digits": 2}, {"high": 2.0}, {"low": 1e-3}])
def test_another_layout_is_no_answer(definition: dict[str, object]) -> None:
    """Slots of another layout are others: the leaf leaves that series out and says why."""
    leaves = [Leaf(0, {0: draw(1, 500), 1: draw(2, 500)}), Leaf(1, {0: draw(3, 500)}, **definition)]
    table = root_table(2, leaves)
    search = ExactPass(table.targets())
    search_nodes(search, table, leaves)
    assert search.problems == {0: f"node-1: {OTHER_LAYOUT}"}
    assert search.values() == {1: order_statistics(of_all(leaves, 1))}


def test_series_that_are_left_out_get_no_values() -> None:
    """The reason stays; the search does not look for them."""
    leaves = three_leaves()
    table = root_table(3, leaves)
    search = ExactPass(table.targets(), left_out={1: "node-2 has another layout"})
    assert search.open_series() == {0, 2}
    search_nodes(search, table, leaves)
    assert search.problems == {1: "node-2 has another layout"}
    assert set(search.values()) == {0, 2}


def column(values: object, kind: str) -> bytes:
    return np.array(values).astype(kind).tobytes()


HOSTILE_ANSWERS = {
    "a number beyond the ranges": Found(
        producer="p", number=7, values=FoundValues(column([9_999], "<u4"), column([1], "<u4"), column([1.0], "<f8"))
    ),
    "fewer values than counted": Found(
        producer="p", number=7, values=FoundValues(column([0], "<u4"), column([2], "<u4"), column([1.0], "<f8"))
    ),
    "a column that is cut": Found(
        producer="p", number=7, values=FoundValues(b"\0\0\0", column([1], "<u4"), column([1.0], "<f8"))
    ),
    "columns of other sizes": Found(
        producer="p", number=7, values=FoundValues(column([0, 1], "<u4"), column([1], "<u4"), column([1.0], "<f8"))
    ),
    "not a number": Found(
        producer="p", number=7, values=FoundValues(column([0], "<u4"), column([1], "<u4"), column([np.nan], "<f8"))
    ),
    "infinity": Found(
        producer="p", number=7, values=FoundValues(column([0], "<u4"), column([1], "<u4"), column([np.inf], "<f8"))
    ),
    "a negative value": Found(
        producer="p", number=7, values=FoundValues(column([0], "<u4"), column([1], "<u4"), column([-1.0], "<f8"))
    ),
    "counts of a range that is kept": Found(
        producer="p",
        number=7,
        bins=FoundBins(
            *(column([0], "<u4"), column([0], "<u4"), column([1], "<u8")),
            *(column([0], "<i8"), column([0], "<i8")),
        ),
    ),
    "an unfit range beyond the ranges": Found(
        producer="p", number=7, unfit=UnfitRanges(column([9_999], "<u4"), column([1], "<u1"))
    ),
    "an unfit range without a reason": Found(producer="p", number=7, unfit=UnfitRanges(column([0], "<u4"), b"")),
}


@pytest.mark.parametrize("found", HOSTILE_ANSWERS.values(), ids=HOSTILE_ANSWERS.keys())
def test_a_hostile_answer_changes_nothing(found: Found) -> None:
    """A hostile answer raises `ValueError`, and the pass goes on without it."""
    leaves = three_leaves()
    table = root_table(3, leaves)
    search = ExactPass(table.targets())
    spans = spans_of_leaf(search.current, leaves[0].defined())
    with pytest.raises(ValueError, match=r"."):
        add_part(search.current, spans, found)
    search_nodes(search, table, leaves)
    assert search.values() == {series: order_statistics(of_all(leaves, series)) for series in range(3)}


@pytest.mark.parametrize("field", ["bin", "count", "low", "high", "range"])
@pytest.mark.parametrize("number", [0, 1, 1 << 31, (1 << 63) - 1])
def test_hostile_bins_never_give_a_wrong_percentile(field: str, number: int) -> None:
    """Bins with any number in place of a right one are refused, or the counts of that series don't match."""
    leaves = [Leaf(0, {0: draw(1, 2_000)}), Leaf(1, {0: draw(2, 2_000)})]
    table = root_table(1, leaves)
    refused = 0

    def spoil(found: Found) -> Found:
        nonlocal refused
        raw = getattr(found.bins, field)
        if not raw:
            return found
        kind = "<u4" if field in ("bin", "range") else "<i8"
        spoilt = np.frombuffer(raw, kind).copy()
        if number > np.iinfo(spoilt.dtype).max or spoilt[0] == number:
            return found
        spoilt[0] = number
        bad = replace(found, bins=FoundBins(**{**_fields(found.bins), field: spoilt.tobytes()}))
        try:
            add_part(other.current, spans_of_leaf(other.current, leaves[0].defined()), bad)
        except ValueError:
            refused += 1
            return replace(found, bins=FoundBins())
        return bad

    other = ExactPass(table.targets(), LITTLE)
    search = ExactPass(table.targets(), LITTLE)
    search_nodes(search, table, leaves, change=spoil)
    assert search.values() in ({}, {0: order_statistics(of_all(leaves, 0))})


def _fields(bins: FoundBins) -> dict[str, bytes]:
    return {name: getattr(bins, name) for name in bins.__struct_fields__}


def test_repeated_values_are_too_many_and_spoil_no_other_series() -> None:
    """A leaf that sends a part twice with another number is not believed for the series in it."""
    leaves = three_leaves()
    table = root_table(3, leaves)
    search = ExactPass(table.targets())
    spans = spans_of_leaf(search.current, leaves[2].defined())
    for found in leaves[2].answer(search_messages(7, search.current, table, spans)):
        add_part(search.current, spans, found)
    search_nodes(search, table, leaves)
    assert search.values() == {2: order_statistics(of_all(leaves, 2))}
    assert "values, but the histogram has" in search.problems[0]


def hostile_search(**changes: object) -> Search:
    ranges = {
        "series": column([0], "<u4"),
        "slot": column([5], "<u4"),
        "first": column([0], "<i8"),
        "last": column([1 << 40], "<i8"),
        "count": column([10], "<u8"),
        "whole": column([1], "<u1"),
        "kept": column([1], "<u1"),
    }
    series = {"id": 0, "digits": 3, "ticks": 1e9, "highest": float(1 << 52)} | {
        key: value for key, value in changes.items() if key in SearchedSeries.__struct_fields__
    }
    own = {key: value for key, value in changes.items() if key in ranges}
    kinds = {"id": "<u4", "digits": "<u1", "ticks": "<f8", "highest": "<f8"}
    return Search(
        number=7,
        bins=limits.SEARCH_BINS,
        series=SearchedSeries(**{key: column([value], kinds[key]) for key, value in series.items()}),
        ranges=SearchedRanges(**(ranges | own)),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"id": 1},
        {"id": 3 * 50},
        {"series": column([1], "<u4")},
        {"series": b"\0"},
        {"slot": column([1 << 30], "<u4")},
        {"slot": b""},
        {"first": column([-1], "<i8")},
        {"first": column([1 << 41], "<i8")},
        {"last": column([-1], "<i8")},
        {"count": column([1 << 63], "<u8")},
    ],
)
def test_a_search_that_is_not_possible_is_refused(changes: dict[str, object]) -> None:
    """The leaf raises ValueError, whose text is its reason."""
    leaf = Leaf(0, {0: draw(1, 100)})
    layout = leaf.table.layout_of(0)
    good = {"ticks": layout.ticks, "highest": layout.highest}
    assert leaf_pass([hostile_search(**good)], leaf.table).one_pass.spans
    with pytest.raises(ValueError, match=r"."):
        leaf_pass([hostile_search(**good | changes)], leaf.table)


def test_a_search_that_needs_too_much_memory_is_refused() -> None:
    """A leaf allocates no more than its own bound, whatever it is asked for."""
    leaf = Leaf(0, {0: draw(1, 100)})
    layout = leaf.table.layout_of(0)
    many = 100
    search = hostile_search(
        ticks=layout.ticks,
        highest=layout.highest,
        **{
            name: np.repeat(np.frombuffer(raw, kind), many).tobytes()
            for name, raw, kind in (
                ("series", column([0], "<u4"), "<u4"),
                ("slot", column([5], "<u4"), "<u4"),
                ("first", column([0], "<i8"), "<i8"),
                ("last", column([1 << 40], "<i8"), "<i8"),
                ("count", column([1 << 40], "<u8"), "<u8"),
                ("whole", column([0], "<u1"), "<u1"),
                ("kept", column([0], "<u1"), "<u1"),
            )
        },
    )
    with pytest.raises(ValueError, match="too much memory"):
        leaf_pass([search], leaf.table)
