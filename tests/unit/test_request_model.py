"""Requests gathered from the counters and series of a snapshot."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from telemetry.history.request_model import (
    issued_kind,
    joined,
    rates_of,
    request_counts,
    request_instruments,
    together,
)
from telemetry.wire.cells import cell
from telemetry.wire.report import Rates
from telemetry.wire.requests import (
    COMPLETED,
    EXPIRED,
    FAILED,
    FAILED_LATENCY,
    GOOD,
    INPUT_TOKENS,
    INSTRUMENTS,
    ISSUED,
    ITL,
    LATENCY,
    MET,
    OUTPUT_TOKENS,
    TTFT,
    name_of,
)
from telemetry.wire.snapshot import CounterStat, Extent, MetricsSnapshot, SeriesStat, WindowStat

SECOND = 10**9
KEYS = ("50", "90", "99")


def counter(word: str, value: int, kind: str = "llm", **labels: str) -> CounterStat:
    return CounterStat(name=name_of(kind, word), labels=labels, unit=INSTRUMENTS[word][1], value=value)


def series(
    word: str, values: list[int], kind: str = "llm", extent: Extent | None = None, **labels: str
) -> SeriesStat:
    """Return a series as an aggregator makes it: percentiles by rank, cells of one tick a unit."""
    ordered = sorted(values)
    cells: dict[int, int] = {}
    for value in ordered:
        cells[cell(value)] = cells.get(cell(value), 0) + 1
    mean = sum(values) / len(values) if values else None
    return SeriesStat(
        name=name_of(kind, word),
        labels=labels,
        unit=INSTRUMENTS[word][1],
        count=len(values),
        total=sum(values),
        min=ordered[0] if values else None,
        max=ordered[-1] if values else None,
        mean=mean,
        stddev=None if mean is None else math.sqrt(sum((value - mean) ** 2 for value in values) / len(values)),
        percentiles={key: ordered[math.ceil(int(key) * len(values) / 100) - 1] for key in KEYS} if values else {},
        exact=True,
        error_bound=0.0,
        histogram=sorted(cells.items()),
        cell_unit=1.0,
        extent=extent,
    )


def snapshot(*stats: CounterStat | SeriesStat) -> MetricsSnapshot:
    return MetricsSnapshot(
        run_id="r",
        name="n",
        counters=[stat for stat in stats if isinstance(stat, CounterStat)],
        series=[stat for stat in stats if isinstance(stat, SeriesStat)],
    )


def test_a_kind_is_there_if_something_counts_what_was_issued() -> None:
    """Names alone don't make requests: the counter has their unit, and one that issues nothing has no funnel."""
    assert request_counts(snapshot(series(LATENCY, [1]), counter(COMPLETED, 1))) == []
    assert request_counts(snapshot(CounterStat(name="stock.issued", unit="shares", value=3))) == []
    (one,) = request_counts(
        snapshot(counter(ISSUED, 3), counter(ISSUED, 1, "other", a="b"), counter(COMPLETED, 2))
    )[:1]
    assert (one.kind, dict(one.labels), one.window) == ("llm", {}, None)
    assert (one.issued, one.completed, one.in_flight, one.failed, one.windows) == (3, 2, 1, {}, [])


def test_labels_of_requests_are_taken_apart_and_all_others_tell_kinds() -> None:
    """Reasons and finishes are sums of their own; turns are in their order."""
    found = request_counts(
        snapshot(
            counter(ISSUED, 10, model="a"),
            counter(ISSUED, 1, model="b"),
            counter(COMPLETED, 4, model="a", finish="stop"),
            counter(COMPLETED, 2, model="a"),
            counter(FAILED, 0, model="a"),
            counter(FAILED, 1, model="a", reason="timeout"),
            counter(FAILED, 1, model="a", reason="refused"),
            counter("expired", 1, model="a"),
            counter("after_end", 7, model="a"),
            series("turn.latency", [1], model="a", turn="10"),
            series("turn.latency", [2], model="a", turn="2"),
            series("turn.ttft", [3], model="a", turn="32+"),
            series("conversation.duration", [5], model="a"),
        )
    )
    assert [(one.kind, one.labels) for one in found] == [("llm", {"model": "a"}), ("llm", {"model": "b"})]
    one = found[0]
    assert (one.completed, one.expired, one.in_flight, one.after_end) == (6, 1, 1, 7)
    assert (one.failed, one.failures, one.finishes) == ({"timeout": 1, "refused": 1}, 2, {"stop": 4})
    assert list(one.turns) == ["2", "10", "32+"]
    assert one.turns["2"]["turn.latency"].max == 2
    assert list(one.series) == ["conversation.duration"]


def test_a_kind_may_be_called_like_a_word() -> None:
    """`x.turn.latency` is the latency of the kind `x.turn`, unless it says of which turn of `x` it is."""
    found = request_counts(
        snapshot(
            counter(ISSUED, 1, "x"),
            counter(ISSUED, 1, "x.turn"),
            series(LATENCY, [7], "x.turn"),
            series("turn.latency", [9], "x", turn="1"),
        )
    )
    assert found[0].turns["1"]["turn.latency"].max == 9
    assert found[1].series[LATENCY].max == 7


def test_rates_by_each_definition() -> None:
    """Ten requests in ten seconds, a straggler of a minute among them."""
    extent = Extent(
        first_ns=SECOND,
        last_ns=10 * SECOND,
        last_done_ns=11 * SECOND,
        end_ns=61 * SECOND,
        inside=9,
        inside_total=900,
    )
    (one,) = request_counts(
        snapshot(
            counter(ISSUED, 10),
            counter(COMPLETED, 10),
            series(LATENCY, [SECOND] * 10, extent=extent),
            series(OUTPUT_TOKENS, [100] * 10, extent=extent),
        )
    )
    rates = one.rates
    assert (rates.while_issuing.requests_per_s, rates.while_issuing.tokens_per_s) == (1.0, 100.0)
    assert (rates.loadgen.requests_per_s, rates.loadgen.tokens_per_s) == (0.9, 100.0)
    assert rates.overall.requests_per_s == pytest.approx(10 / 60)


def test_no_rate_where_nobody_knows() -> None:
    """A rate is unknown without an extent, over no time, or without tokens."""
    alone = Extent(first_ns=5, last_ns=5, last_done_ns=9, end_ns=9, inside=0)
    (one,) = request_counts(snapshot(counter(ISSUED, 1), counter(COMPLETED, 1), series(LATENCY, [4], extent=alone)))
    assert one.rates.while_issuing.requests_per_s is None
    assert (one.rates.loadgen.requests_per_s, one.rates.loadgen.tokens_per_s) == (0.0, None)
    (one,) = request_counts(snapshot(counter(ISSUED, 1), series(LATENCY, [4])))
    assert one.rates.overall.requests_per_s is None


def test_rates_of_some_are_as_their_funnel_has_them() -> None:
    """The rates of a series are those of its labels, kind and window, and of no other."""
    extent = Extent(first_ns=SECOND, last_ns=5 * SECOND, last_done_ns=6 * SECOND, end_ns=8 * SECOND, inside=4)
    several = snapshot(
        *(counter(ISSUED, 9, kind, model="m", window="w") for kind in ("llm", "llm.other")),
        counter(ISSUED, 3, model="m"),
        counter(COMPLETED, 6, model="m", window="w"),
        counter(COMPLETED, 3, model="m", window="w", finish="stop"),
        counter(COMPLETED, 2, model="m"),
        counter(COMPLETED, 5, "llm.other", model="m", window="w"),
        series(LATENCY, [10] * 9, extent=extent, model="m", window="w"),
        series(OUTPUT_TOKENS, [10] * 9, extent=extent, model="m", window="w"),
        series(LATENCY, [10] * 5, "llm.other", extent=extent, model="m", window="w"),
    )
    (mine,) = [one for one in request_counts(several) if one.kind == "llm"]
    outside, window = mine.windows
    assert window.rates.overall.requests_per_s == pytest.approx(9 / 7)
    assert rates_of(several, "llm", {"model": "m", "window": "w"}) == window.rates
    assert rates_of(several, "llm", {"model": "m"}) == outside.rates == Rates()
    assert rates_of(several, "llm", {"model": "other", "window": "w"}) == Rates()
    assert rates_of(several, "stock", {"model": "m", "window": "w"}) == Rates()


def test_what_a_counter_of_issues_is_of() -> None:
    """The kind follows from the name and unit of the counter. A counter without a kind has none."""
    assert issued_kind("llm.chat.issued", "requests") == "llm.chat"
    assert [issued_kind(*one) for one in (("stock.issued", "shares"), ("llm.failed", "requests"))] == ["", ""]
    assert issued_kind("issued", "requests") == ""


def test_windows_are_apart_and_together() -> None:
    """Requests outside the windows come first, counts add up, and extents keep only what is known."""
    warm = Extent(first_ns=SECOND, last_ns=2 * SECOND, last_done_ns=3 * SECOND, end_ns=4 * SECOND, inside=1)
    real = Extent(first_ns=5 * SECOND, last_ns=8 * SECOND, last_done_ns=9 * SECOND, end_ns=11 * SECOND, inside=6)
    (one,) = request_counts(
        snapshot(
            counter(ISSUED, 8, window="measured"),
            counter(ISSUED, 3),
            counter(COMPLETED, 8, window="measured"),
            counter(COMPLETED, 2),
            series(LATENCY, [10] * 8, extent=real, window="measured"),
            series(LATENCY, [1000, 20], extent=warm),
            series("conversation.turns", [3]),
        )
    )
    assert [(part.window, part.issued, part.in_flight) for part in one.windows] == [("", 3, 1), ("measured", 8, 0)]
    assert (one.issued, one.completed, one.in_flight) == (11, 10, 1)
    assert one.rates.while_issuing.requests_per_s is None
    assert one.rates.loadgen.requests_per_s == pytest.approx(9 / 8)
    assert one.rates.overall.requests_per_s == pytest.approx(1.0)
    assert one.windows[1].rates.while_issuing.requests_per_s == pytest.approx(2.0)
    assert (one.series[LATENCY].count, one.series[LATENCY].max, one.series[LATENCY].labels) == (10, 1000, {})


def test_what_is_only_outside_is_no_window() -> None:
    """Requests outside have no window of their own if the run has no tracking window.

    Calls for unknown requests open none.
    """
    (one,) = request_counts(snapshot(counter(ISSUED, 3), counter(COMPLETED, 3)))
    assert one.windows == []
    (one,) = request_counts(snapshot(counter(ISSUED, 3, window="measured"), counter("after_end", 2)))
    assert [part.window for part in one.windows] == ["measured"]
    assert one.after_end == 2


values = st.lists(st.integers(1, 10**6), min_size=1, max_size=40)


@given(st.lists(values, min_size=2, max_size=4))
def test_windows_together_are_as_if_there_had_been_none(parts: list[list[int]]) -> None:
    """Moments to rounding; a percentile is not below what it would be, and above by no more than it says."""
    stat = together([series(LATENCY, part, window=str(number)) for number, part in enumerate(parts)])
    whole = series(LATENCY, [value for part in parts for value in part])
    assert (stat.count, stat.total, stat.min, stat.max) == (whole.count, whole.total, whole.min, whole.max)
    assert stat.stddev == pytest.approx(whole.stddev, rel=1e-6, abs=1e-3)
    assert stat.histogram == whole.histogram
    assert stat.error_bound is not None
    for key in KEYS:
        assert whole.percentiles[key] <= stat.percentiles[key]
        assert stat.percentiles[key] <= whole.percentiles[key] * (1.0 + stat.error_bound) * (1.0 + 1e-9)


def test_one_window_with_values_stands_for_itself() -> None:
    """A single window with values is used as it is, without an estimate."""
    own = series(LATENCY, [1, 2, 3], window="a")
    assert together([series(LATENCY, [], window="b"), own]) is own
    assert together([series(LATENCY, [], window="b")]).labels == {"window": "b"}


def test_the_last_seconds_of_windows() -> None:
    """The rates of windows add up. Their percentiles are known while only one window is busy."""
    quiet, busy = WindowStat(seconds=10.0), WindowStat(seconds=10.0, count=5, rate=0.5, percentiles={"50": 3})
    stats = [series(LATENCY, [1], window="a"), series(LATENCY, [2], window="b")]
    alone = together([_last(stats[0], quiet), _last(stats[1], busy)])
    assert alone.window == busy
    both = together([_last(stats[0], busy), _last(stats[1], busy)])
    assert (both.window.count, both.window.rate, both.window.percentiles) == (10, 1.0, {})


def _last(stat: SeriesStat, window: WindowStat) -> SeriesStat:
    return replace(stat, window=window)


def test_extents_join_only_if_all_are_known() -> None:
    """One that is missing may have begun before all others."""
    known = Extent(first_ns=1, last_ns=2, last_done_ns=3, end_ns=4, inside=5)
    assert joined([]) is None
    assert joined([known, None]) is None
    assert joined([known]) == known
    twice = joined([known, Extent(first_ns=0, last_ns=9, last_done_ns=12, end_ns=10, inside=5)])
    assert twice == Extent(first_ns=0, last_ns=0, last_done_ns=12, end_ns=10)
    assert joined([twice, known]) == Extent(first_ns=0, end_ns=10)


def test_numbers_of_hostile_files_raise_nothing() -> None:
    """Counts below 0, integers beyond all floats, cells that don't exist, percentiles that are no numbers."""
    huge = 10**400
    bad = SeriesStat(
        name="llm.latency",
        unit="ns",
        count=3,
        total=huge,
        min=-huge,
        max=huge,
        mean=math.inf,
        stddev=-1.0,
        percentiles={"50": huge, "1e999999999": 1, "x": 2, "99": -1},
        error_bound=0.1,
        histogram=[(-5, 3), (10**9, 2)],
        cell_unit=math.nan,
        extent=Extent(first_ns=-huge, last_ns=huge, last_done_ns=-1, end_ns=0, inside=huge, inside_total=huge),
    )
    other = SeriesStat(name="llm.latency", labels={"window": "w"}, count=-3, percentiles={"50": 1})
    third = SeriesStat(name="llm.latency", labels={"window": "v"}, count=2, percentiles=bad.percentiles)
    (one,) = request_counts(
        snapshot(counter(ISSUED, -huge), counter(COMPLETED, huge, window="w"), bad, other, third)
    )
    assert one.series[LATENCY].count == 5
    assert set(one.series[LATENCY].percentiles) == {"50", "99"}
    mixed = [counter(ISSUED, huge), counter(COMPLETED, 1), replace(counter(COMPLETED, 1, finish="f"), value=1.5)]
    (one,) = request_counts(snapshot(*mixed, replace(bad, total=1.5), replace(third, total=huge)))
    assert (one.in_flight, one.series[LATENCY].total) == (math.inf, math.inf)


def test_the_instruments_of_requests_one_by_one() -> None:
    """Each has its kind, the labels of the kind and its word; other instruments are not among them."""
    stats = [counter(ISSUED, 2, window="w"), counter(FAILED, 1, reason="r", gpu="1"), CounterStat(name="other")]
    found = [(one.kind, one.labels, one.word, one.stat) for one in request_instruments(snapshot(*stats))]
    kind = stats[0].name.partition(".")[0]
    assert found == [(kind, (), ISSUED, stats[0]), (kind, (("gpu", "1"),), FAILED, stats[1])]
    assert list(request_instruments(snapshot(*stats[1:]))) == []


def judged(**met: int) -> list[CounterStat | SeriesStat]:
    """Ten requests in two seconds: seven completed, of which five are good, two failed, one expired."""
    extent = Extent(first_ns=SECOND, last_ns=2 * SECOND, last_done_ns=3 * SECOND, end_ns=3 * SECOND, inside=5)
    return [
        counter(ISSUED, 10),
        counter(COMPLETED, 7),
        counter(FAILED, 2, reason="r"),
        counter(EXPIRED, 1),
        counter(GOOD, 5),
        *(counter(MET, number, slo=key) for key, number in met.items()),
        series(LATENCY, [SECOND // 2] * 7, extent=extent),
        series(FAILED_LATENCY, [SECOND // 4] * 2),
        series(TTFT, [1] * 7),
        series(ITL, [1] * 14),
        series(INPUT_TOKENS, [10] * 7),
        series(OUTPUT_TOKENS, [6] * 7, extent=extent),
    ]


def test_goodput_counts_all_requests_that_ended() -> None:
    """Failed and expired ones are never good; each limit has a share of its own."""
    params = {"slo.llm": "ttft:200ms tpot:50ms"}
    (one,) = request_counts(replace(snapshot(*judged(ttft=6, tpot=5)), params=params))
    assert (one.good, one.ended, one.attainment, dict(one.met)) == (5, 10, 0.5, {"ttft": 6, "tpot": 5})
    assert (one.attainment_of("ttft"), one.attainment_of("gap")) == (0.6, None)
    assert (one.slo, one.goodput_per_s) == ("ttft:200ms tpot:50ms", 2.5)
    assert set(one.series) == {LATENCY, FAILED_LATENCY, TTFT, ITL, INPUT_TOKENS, OUTPUT_TOKENS}


def test_rates_cover_the_time_from_the_first_issue_to_the_last_end() -> None:
    """Tokens a chunk count the first one."""
    (one,) = request_counts(snapshot(*judged()))
    assert (one.input_tokens_per_s, one.output_tokens_per_s, one.total_tokens_per_s) == (35.0, 21.0, 56.0)
    assert one.tokens_per_chunk == 2.0
    assert one.attainment_of("ttft") is None


@pytest.mark.parametrize("later", [[], [series(ITL, [])]])
def test_without_later_chunks_the_tokens_of_a_chunk_are_unknown(later: list[SeriesStat]) -> None:
    """A benchmark may report the first chunk of an answer only, and then the others are just not known."""
    others = [stat for stat in judged() if stat.name != f"llm.{ITL}"]
    (one,) = request_counts(snapshot(*others, *later))
    assert one.tokens_per_chunk is None


def test_requests_that_did_not_complete_may_lie_outside_the_known_time() -> None:
    """The offered rate and the mean in flight are unknown if many requests did not complete.

    A server that died is no load.
    """
    extent = Extent(first_ns=0, last_ns=10 * SECOND, last_done_ns=11 * SECOND, end_ns=11 * SECOND, inside=5)
    done = [counter(COMPLETED, 1_000), series(LATENCY, [SECOND // 10] * 1_000, extent=extent)]

    def figures(*stats: CounterStat | SeriesStat) -> tuple[float | None, float | None]:
        (one,) = request_counts(snapshot(*stats))
        return one.offered_per_s, one.concurrency_mean and round(one.concurrency_mean, 3)

    few = counter(FAILED, 4, reason="r"), series(FAILED_LATENCY, [SECOND // 10] * 4)
    assert figures(counter(ISSUED, 1_000), *done) == (99.9, 9.091)
    assert figures(counter(ISSUED, 1_010), *done, *few, counter(EXPIRED, 6)) == (100.9, 9.127)
    assert figures(counter(ISSUED, 1_011), *done, *few) == (None, 9.127)
    assert figures(counter(ISSUED, 1_002), *done, series(FAILED_LATENCY, [SECOND] * 2)) == (100.1, None)
    assert figures(counter(ISSUED, 1_011), *done, counter(EXPIRED, 11)) == (None, None)


def test_without_limits_or_times_nothing_is_said_of_them() -> None:
    """Figures without limits or times are unknown and not 0, which would be a figure."""
    (one,) = request_counts(snapshot(counter(ISSUED, 1)))
    figures = (one.good, one.attainment, one.goodput_per_s, one.offered_per_s, one.concurrency_mean)
    assert (*figures, one.tokens_per_chunk, one.total_tokens_per_s, one.slo) == (*[None] * 7, "")
    (one,) = request_counts(snapshot(counter(ISSUED, 1), counter(GOOD, 0)))
    assert (one.good, one.attainment) == (0, None)


def test_good_requests_of_windows_add_up() -> None:
    """Each set of labels has its own limits: those of the kind without labels are not shown for others."""
    stats = [counter(ISSUED, 2, window=name, model="m") for name in ("a", "b")]
    stats += [counter(GOOD, 1, window=name, model="m") for name in ("a", "b")]
    stats += [counter(MET, 2, window="b", model="m", slo="gap")]
    params = {"slo.llm": "gap:1s", "slo.llm{model=m}": "gap:2s"}
    (one,) = request_counts(replace(snapshot(*stats), params=params))
    assert (one.good, dict(one.met), one.slo) == (2, {"gap": 2}, "gap:2s")
    assert [(part.good, dict(part.met)) for part in one.windows] == [(1, {}), (1, {"gap": 2})]
    (one,) = request_counts(replace(snapshot(*stats), params={"slo.llm": "gap:1s"}))
    assert one.slo == ""


def test_chunk_gaps_of_earlier_versions_are_itl() -> None:
    """Chunk gaps of earlier versions count as ITL, also beside the ITL of a present program."""
    old = replace(series(ITL, [5, 7]), name="llm.chunk_gap")
    (one,) = request_counts(snapshot(counter(ISSUED, 1), old))
    assert one.series[ITL] == old
    (one,) = request_counts(snapshot(counter(ISSUED, 1), old, series(ITL, [9])))
    assert (one.series[ITL].count, one.series[ITL].max) == (3, 9)
