"""The figures shown first: for an LLM load, a load, a training run, and other metrics."""

from __future__ import annotations

import math
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.common.headline_choice import PARAM, encoded
from telemetry.history.headlines import Figure, Headline, compact, headline
from telemetry.wire.pictures import StepCurve
from telemetry.wire.snapshot import (
    AxisStat,
    CounterStat,
    Extent,
    GaugeStat,
    MetricsSnapshot,
    Progress,
    SeriesStat,
    WindowStat,
)

SECOND = 10**9
MS = 10**6


def counter(name: str, value: float, rate: float = 0.0, unit: str = "requests", **labels: str) -> CounterStat:
    return CounterStat(name=name, value=value, rate=rate, unit=unit, labels=labels, events=1)


def series(name: str, unit: str = "ns", **more: Any) -> SeriesStat:
    facts: dict[str, Any] = {
        "count": 1_000,
        "mean": 200.0,
        "max": 900 * MS,
        "percentiles": {"50": 40 * MS, "99": 400 * MS},
        "window": WindowStat(seconds=10, count=50, rate=5.0, percentiles={"50": 30 * MS, "99": 300 * MS}),
    }
    return SeriesStat(name=name, unit=unit, **{**facts, **more})


def extent(seconds: float) -> Extent:
    return Extent(first_ns=SECOND, last_ns=2 * SECOND, end_ns=SECOND + int(seconds * SECOND))


def snapshot(*stats: CounterStat | SeriesStat | GaugeStat | AxisStat, **more: Any) -> MetricsSnapshot:
    return MetricsSnapshot(
        run_id="r",
        name="n",
        **{"elapsed_s": 100.0, **more},
        counters=[stat for stat in stats if isinstance(stat, CounterStat)],
        series=[stat for stat in stats if isinstance(stat, SeriesStat)],
        gauges=[stat for stat in stats if isinstance(stat, GaugeStat)],
        axes=[stat for stat in stats if isinstance(stat, AxisStat)],
    )


def load(kind: str = "chat", **labels: str) -> list[CounterStat | SeriesStat]:
    return [
        counter(f"{kind}.issued", 1_050, 26.0, **labels),
        counter(f"{kind}.completed", 1_000, 24.0, **labels),
        counter(f"{kind}.failed", 30, 1.0, reason="timeout", **labels),
        counter(f"{kind}.failed", 8, 0.0, reason="http_503", **labels),
        counter(f"{kind}.expired", 0, 0.0, **labels),
        series(f"{kind}.latency", extent=extent(40.0), labels=labels),
    ]


def texts(found: Headline) -> dict[str, str]:
    return {figure.title: figure.text for figure in found.figures}


def only(found: list[Headline]) -> Headline:
    assert len(found) == 1
    return found[0]


def named(found: Headline, title: str) -> Figure:
    return next(figure for figure in found.figures if figure.title == title)


def test_a_load_of_the_whole_run() -> None:
    """The overall rate comes first, failures have reasons and warn."""
    found = only(headline(snapshot(*load("http")), recent=False))
    assert (found.flavour, found.subject) == ("load", "http")
    assert texts(found) == {
        "requests/s": "25",
        "latency p50": "40.0 ms",
        "latency p99": "400 ms",
        "latency max": "900 ms",
        "failed": "38 (3.66 %)",
    }
    assert named(found, "requests/s").note == "1,000 of 1,050 completed in 40.0 s"
    assert named(found, "requests/s").seconds == 40.0
    failed = named(found, "failed")
    assert (failed.note, failed.health, failed.value) == ("30 timeout, 8 http_503", "warn", 38.0)
    p99 = named(found, "latency p99")
    assert (p99.value, p99.unit) == (400 * MS, "ns")


def test_a_load_now() -> None:
    """Rates and percentiles are those of the last seconds, and requests in flight are counted."""
    found = only(headline(snapshot(*load("http")), recent=True))
    assert texts(found) == {
        "requests/s": "24",
        "latency p50": "30.0 ms",
        "latency p99": "300 ms",
        "failed": "38 (3.66 %)",
        "in flight": "12",
    }


def test_a_load_that_has_completed_nothing() -> None:
    """The rate is zero, not unknown; the rest is a dash."""
    found = only(headline(snapshot(counter("http.issued", 3)), recent=False))
    assert texts(found)["requests/s"] == "0"
    assert texts(found)["latency p99"] == "–"
    assert named(found, "failed").health == "plain"


def test_an_llm_load_has_tokens_and_first_tokens() -> None:
    """A series of first tokens or output tokens makes it one."""
    stats = [
        *load(),
        series("chat.ttft"),
        series("chat.tpot"),
        series("chat.output_tokens", "tokens", mean=200.0, count=1_000, total=200_000, extent=extent(40.0)),
    ]
    found = only(headline(snapshot(*stats), recent=False))
    assert found.flavour == "llm"
    assert texts(found) == {
        "requests/s": "25",
        "output tokens/s": "5,000",
        "TTFT p99": "400 ms",
        "TPOT p99": "400 ms",
        "latency p99": "400 ms",
        "failed": "38 (3.66 %)",
    }
    assert named(found, "TTFT p99").note == "p50 40.0 ms"
    now = only(headline(snapshot(*stats), recent=True))
    assert texts(now)["output tokens/s"] == "1,000"
    assert len(now.figures) <= 7


@pytest.mark.parametrize(
    ("good", "text", "health"), [(900, "86.7 %", "warn"), (1_038, "100.0 %", "good"), (500, "48.2 %", "bad")]
)
def test_limits_give_a_share_of_good_requests(good: int, text: str, health: str) -> None:
    """Failed requests are not good."""
    params = {"slo.chat": "ttft:200ms"}
    stats = [*load(), series("chat.ttft"), counter("chat.good", good, 20.0)]
    found = only(headline(snapshot(*stats, params=params), recent=False))
    share = named(found, "attainment")
    assert (share.text, share.health) == (text, health)
    assert share.note == "within ttft 200 ms"
    assert texts(only(headline(snapshot(*stats, params=params), recent=True)))["attainment"] == "80.0 %"
    assert (
        texts(only(headline(snapshot(*load("http"), counter("http.good", good)), recent=False)))["attainment"]
        == text
    )


def test_several_kinds_the_largest_first() -> None:
    """Kinds with other labels are others. All kinds together come first."""
    found = headline(
        snapshot(counter("a.issued", 1), counter("b.issued", 9), counter("b.issued", 5, m="x")), recent=True
    )
    assert [one.subject for one in found] == ["all 3 kinds", "b", "b{m=x}", "a"]


def test_all_kinds_together_add_up() -> None:
    """Counts and rates are sums, from the first issue of any kind; percentiles name the busiest kind."""
    routes = [
        *load("http", route="/a", zone="x"),
        *load("http", route="/b", zone="x"),
        counter("http.issued", 1, route="/a", zone="x"),
    ]
    total, first, _ = headline(snapshot(*routes), recent=False)
    assert (total.is_total, total.subject, first.is_total) == (True, "all 2 kinds", False)
    assert texts(total) == {
        "requests/s": "50",
        "failed": "76 (3.66 %)",
        "route=/a p50": "40.0 ms",
        "route=/a p99": "400 ms",
    }
    assert named(total, "failed").note == "60 timeout, 16 http_503"
    assert named(total, "requests/s").seconds == 40.0
    recent = headline(snapshot(*routes), recent=True)[0]
    assert texts(recent)["requests/s"] == "48"
    assert list(texts(recent))[-1] == "in flight"


def test_all_kinds_of_a_moment_have_the_time_of_the_run() -> None:
    """A rate without the times of requests is that of the whole run."""
    counts = [counter(f"{kind}.{word}", 300) for kind in ("a", "b") for word in ("issued", "completed")]
    assert named(headline(snapshot(*counts), recent=False)[0], "requests/s").value == 6.0


def test_a_training_run() -> None:
    """Step, loss, score and speed; the history of a value is its note."""
    values = {"lr": 1e-3, "accuracy": 0.81, "train/loss": 0.312, "eval/loss": 0.4}
    axis = AxisStat(name="step", closed=1_200, newest=1_200, values=values)
    found = only(headline(snapshot(axis), recent=False))
    assert found.flavour == "training"
    assert texts(found) == {
        "step": "1,200",
        "train/loss": "0.312",
        "eval/loss": "0.4",
        "accuracy": "0.81",
    }
    curves = [
        StepCurve(
            axis="step",
            name=name,
            count=1_200,
            first=first,
            min=0.308,
            min_step=1_150,
            max=0.9,
            max_step=7,
        )
        for name, first in (("train/loss", 2.31), ("accuracy", 0.1))
    ]
    found = only(headline(snapshot(axis), recent=True, curves=curves, speeds={"step": 4.1}))
    assert named(found, "train/loss").note == "from 2.31, best 0.308 at step 1,150"
    assert named(found, "accuracy").note == "from 0.1, best 0.9 at step 7"
    assert texts(found)["steps/s"] == "4.10"
    assert "steps/s" not in texts(only(headline(snapshot(axis), recent=True)))
    whole = replace(axis, lowest=0, highest=1_199, began_ns=10**9, ended_ns=601 * 10**9)
    assert texts(only(headline(snapshot(whole), recent=False)))["steps/s"] == "2"


def test_the_loss_of_validation_stands_beside_that_of_training() -> None:
    """The losses stand together in any order, before any score. `epoch` is only a note of the step."""
    values = {
        "epoch": 3.0,
        "val_acc": 0.7,
        "val_loss": 0.41,
        "train_acc": 0.8,
        "train_loss": 0.31,
        "train/global_step": 9.0,
    }
    axis = AxisStat(name="step", closed=120, newest=119, values=values)
    found = only(headline(snapshot(axis), recent=True))
    assert list(texts(found)) == ["step", "train_loss", "val_loss", "val_acc"]
    assert named(found, "step").note == "epoch 3"
    alone = AxisStat(name="step", closed=1, newest=1, values={"epoch": 1.0})
    assert list(texts(only(headline(snapshot(alone), recent=True)))) == ["step"]


def test_a_step_is_one_of_those_expected() -> None:
    """A step has its share and the time left at the present speed. A run that is over has no time left."""
    axis = AxisStat(name="step", closed=120, newest=120, values={"loss": 0.31, "epoch": 0.24})
    expected = [Progress(name="requests", done=1.0, total=9.0), Progress(name="step", done=120.0, total=500.0)]
    live = only(headline(snapshot(axis, progress=expected), recent=True, speeds={"step": 20.0}))
    step = named(live, "step")
    assert (step.text, step.note, step.value) == ("120 of 500", "24 % · 19 s left · epoch 0.24", 120.0)
    assert compact(step, live) == "step 120 of 500 · 24 %"
    over = named(only(headline(snapshot(axis, progress=expected), recent=False)), "step")
    assert (over.text, over.note) == ("120 of 500", "24 % · 120 steps recorded · epoch 0.24")
    done = [Progress(name="step", done=500.0, total=500.0)]
    last = replace(axis, newest=499)
    whole = named(only(headline(snapshot(last, progress=done), recent=False)), "step")
    assert (whole.text, whole.note) == ("499", "all of 500 · 120 steps recorded · epoch 0.24")


@pytest.mark.parametrize("value", [None, math.inf, math.nan])
def test_a_loss_that_is_not_finite_is_bad(value: float | None) -> None:
    """A loss that is not finite is bad, because it is the first thing to see."""
    found = only(headline(snapshot(AxisStat(name="step", closed=1, newest=1, values={"loss": value})), recent=True))
    loss = named(found, "loss")
    assert (loss.text, loss.health, loss.value) == ("not finite", "bad", None)


def test_values_without_a_direction_are_shown_if_there_are_no_others() -> None:
    """Private names are not."""
    axis = AxisStat(name="step", closed=1, newest=1, values={"_time": 5.0, "gap": 1.0, "temperature": 2.0})
    assert list(texts(only(headline(snapshot(axis), recent=True)))) == ["step", "gap", "temperature"]


def test_steps_with_values_come_before_requests_and_requests_before_bare_steps() -> None:
    """A training run may send requests, and a load may count its rounds."""
    bare, full = (
        AxisStat(name="round", closed=3, newest=3),
        AxisStat(name="t", closed=3, newest=3, values={"x": 1.0}),
    )
    assert [one.subject for one in headline(snapshot(bare, full, *load()), recent=True)] == ["t", "chat", "round"]


def test_a_series_of_latencies_is_a_load() -> None:
    """The busiest series, with the counter of errors."""
    stats = (series("body", "B"), series("search.latency", "ms", count=3_000), counter("errors", 2))
    found = only(headline(snapshot(*stats), recent=False))
    assert (found.flavour, found.subject) == ("load", "search.latency")
    assert texts(found)["requests/s"] == "30"
    assert named(found, "errors").health == "warn"
    of_steps = only(headline(snapshot(series("step_latency_ms", "ms")), recent=False))
    assert (of_steps.flavour, of_steps.figures[0].title) == ("metrics", "values/s")
    other = only(headline(snapshot(series("body", "B")), recent=True))
    assert (other.flavour, texts(other)["values/s"]) == ("metrics", "5")


def test_counters_and_gauges_alone() -> None:
    """Counters alone show their rates, and gauges alone their newest values."""
    found = only(
        headline(
            snapshot(counter("rows", 500, 5.0, "rows"), GaugeStat(name="heat", value=61.5, unit="°C")), recent=False
        )
    )
    assert texts(found) == {"rows": "5/s", "heat [°C]": "61.5"}


def test_nothing_recorded_has_no_headline() -> None:
    """A run without records has no headline, neither now nor for the whole run."""
    assert headline(snapshot(), recent=True) == headline(snapshot(), recent=False) == []


def test_the_choice_of_the_user_stands_alone() -> None:
    """The chosen figures are in the user's order, and a figure that is not there yet is a dash."""
    names = ["p99(latency)", "loss", "rate(chat)", "failed(chat)", "mean(body)", "rate(rows)", "later"]
    stats = (
        AxisStat(name="step", closed=2, newest=2, values={"train/loss": 0.5}),
        *load(),
        series("body", "B"),
        counter("rows", 500, 5.0, "rows"),
    )
    found = only(headline(snapshot(*stats, params={PARAM: encoded(names)}), recent=False))
    assert (found.flavour, found.subject) == ("training", "")
    assert [figure.text for figure in found.figures] == ["400 ms", "0.5", "25", "38 (3.66 %)", "200 B", "5/s", "–"]
    assert found.figures[-1].title == "later"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p99(chat.latency)", "400 ms"),
        ("p75(chat.latency)", "–"),
        ("max(latency)", "900 ms"),
        ("count(latency)", "1,000"),
        ("rate(latency)", "10"),
        ("chat.latency", "400 ms"),
        ("chat", "25"),
        ("count(chat)", "1,000"),
        ("goodput(chat)", "20"),
        ("attainment(chat)", "77.1 %"),
        ("attainment(mail)", "–"),
        ("best(loss)", "0.1"),
        ("first(loss)", "3"),
        ("last(loss)", "0.5"),
        ("step", "2"),
        ("rate(step)", "4.10"),
        ("heat", "61.5"),
        ("max(heat)", "70"),
        ("total(rows)", "500"),
        ("rows", "500"),
        ("p99(rows)", "–"),
        ("p99(latency{route=/a})", "–"),
    ],
)
def test_every_kind_of_choice(name: str, text: str) -> None:
    """A name may be the last part of a longer one; what a metric does not have is a dash."""
    times = {"began_ns": 10 * SECOND, "ended_ns": 20 * SECOND}
    stats = (
        AxisStat(name="step", closed=41, newest=2, values={"loss": 0.5}, lowest=0, highest=40, **times),
        *load(),
        counter("chat.good", 800),
        counter("rows", 500, 5.0, "rows"),
        GaugeStat(name="heat", value=61.5, min=1.0, max=70.0),
    )
    curve = StepCurve(axis="step", name="loss", count=2, first=3.0, min=0.1, min_step=1)
    shown = snapshot(*stats, params={PARAM: encoded([name])})
    assert only(headline(shown, recent=False, curves=[curve])).figures[0].text == text


def test_limits_that_cannot_be_read_have_no_words() -> None:
    """Any program may have written the parameter; the share is known all the same."""
    found = only(headline(snapshot(*load(), counter("chat.good", 900), params={"slo.chat": "soon"}), recent=False))
    share = named(found, "attainment")
    assert (share.text, share.note) == ("86.7 %", "")


def test_a_time_range_has_the_rates_of_its_length() -> None:
    """A time range has rates of its own length, which is not the run's.

    Its series have no extent, and its counters no number of events.
    """
    stats = [
        CounterStat(name="chat.issued", value=60, unit="requests"),
        CounterStat(name="chat.completed", value=50, unit="requests"),
        CounterStat(name="chat.good", value=40, unit="requests"),
        series("chat.latency"),
        series("chat.output_tokens", "tokens", total=3_000, mean=60.0, count=50),
    ]
    params = {PARAM: encoded(["goodput(chat)"])}
    found = only(headline(snapshot(*stats), recent=False, seconds=5.0))
    assert texts(found)["requests/s"] == "10"
    assert texts(found)["output tokens/s"] == "600"
    chosen = only(headline(snapshot(*stats, params=params), recent=False, seconds=5.0))
    assert texts(chosen) == {"goodput/s": "8"}
    others = [series("latency", count=50), CounterStat(name="errors", value=3)]
    found = only(headline(snapshot(*others), recent=False, seconds=5.0))
    assert texts(found)["requests/s"] == "10"
    assert texts(found)["errors"] == "3 (6 %)"


def test_a_run_of_less_than_two_seconds_has_the_rates_since_its_start() -> None:
    """The rates of its last seconds are still 0. Later on, a rate of 0 is a silence."""
    none = WindowStat(seconds=0, count=0, rate=0.0)
    stats = [counter("chat.issued", 30), counter("chat.completed", 20), series("chat.latency", window=none)]
    young = replace(snapshot(*stats), elapsed_s=0.5)
    assert texts(only(headline(young, recent=True)))["requests/s"] == "40"
    assert texts(only(headline(snapshot(*stats), recent=True)))["requests/s"] == "0"
    plain = replace(snapshot(series("latency", count=20, window=none), counter("errors", 2)), elapsed_s=0.5)
    assert texts(only(headline(plain, recent=True)))["requests/s"] == "40"


def test_a_rate_is_counted_while_there_were_events() -> None:
    """A rate is of all label sets together, from the first beginning to the last end.

    The last seconds begin with the events.
    """
    began_ns = 90 * SECOND
    routes = [
        series("latency", labels={"route": "/a"}, count=300, began_ns=began_ns, ended_ns=began_ns + 3 * SECOND),
        series("latency", labels={"route": "/b"}, count=200, began_ns=began_ns + SECOND, ended_ns=95 * SECOND),
    ]
    found = named(only(headline(snapshot(*routes), recent=False)), "requests/s")
    assert (found.text, found.note, found.seconds) == ("100", "500 in 5.00 s", 5.0)
    alone = counter("tokens", 1_000, unit="tokens")
    for times, text in (((98 * SECOND, 99 * SECOND), "500/s"), ((99 * SECOND, 99 * SECOND), "0/s")):
        young = replace(alone, events=20, began_ns=times[0], ended_ns=times[1])
        assert texts(only(headline(snapshot(young, elapsed_s=100.0 - 1e-9), recent=True))) == {"tokens": text}


def test_a_load_over_several_routes_is_counted_as_a_whole() -> None:
    """The rate is that of all label sets; the percentiles say whose they are."""
    routes = [
        series("latency", labels={"route": "/a", "host": "h"}, count=1_500),
        series("latency", labels={"route": "/b", "host": "h"}, count=500, max=950 * MS),
    ]
    found = only(
        headline(snapshot(*routes, counter("errors", 40), counter("errors", 19, route="/b")), recent=False)
    )
    assert found.subject == "latency"
    assert texts(found) == {
        "requests/s": "20",
        "errors": "59 (2.95 %)",
        "latency route=/a p50": "40.0 ms",
        "latency route=/a p99": "400 ms",
        "latency route=/a max": "900 ms",
    }
    assert named(found, "requests/s").note == "2,000 in 100 s of the run"
    now = only(headline(snapshot(*routes), recent=True))
    assert texts(now)["requests/s"] == "10"


def test_a_counter_of_requests_is_their_number() -> None:
    """Failed requests may have no latency. A counter of another name counts something else."""
    stats = [
        series("http.latency", count=1_500),
        counter("http.requests", 1_600, 16.0, route="/a"),
        counter("http.requests", 400, 4.0, route="/b"),
        counter("cache.requests", 9_000, 90.0),
    ]
    found = only(headline(snapshot(*stats), recent=False))
    assert texts(found)["requests/s"] == "20"
    assert named(found, "requests/s").note == "2,000 in 100 s of the run"
    assert texts(only(headline(snapshot(*stats), recent=True)))["requests/s"] == "20"


def test_failures_come_right_after_the_rate() -> None:
    """A narrow line would not have them at the end; without failures they are the least of the figures."""
    stats = [*load(), series("chat.ttft"), series("chat.tpot"), counter("chat.good", 900, 20.0)]
    for recent in (False, True):
        found = only(headline(snapshot(*stats), recent=recent))
        assert [figure.title for figure in found.figures][:2] == ["requests/s", "failed"]
    fine = [counter("http.issued", 5), counter("http.completed", 5), series("http.latency")]
    titles = [figure.title for figure in only(headline(snapshot(*fine), recent=False)).figures]
    assert titles[-1] == "failed"


def test_answers_of_one_piece_are_no_tokens() -> None:
    """A load that tells its first byte is a load: its answers count as one token each."""
    pieces = [series("http.ttft"), series("http.output_tokens", "tokens", mean=1.0, max=1.0, total=1_000.0)]
    found = only(headline(snapshot(*load("http"), *pieces), recent=False))
    assert found.flavour == "load"
    assert "output tokens/s" not in [figure.title for figure in found.figures]


@pytest.mark.parametrize("delay", [{"50": 2 * SECOND, "99": 3 * SECOND}, {"50": 2 * SECOND, "99": 1}])
def test_late_requests_have_their_latency_from_the_planned_time(delay: dict[str, int]) -> None:
    """Late requests show their corrected latency beside the one that looks better.

    Most requests or only the slowest may be late.
    """
    late = [
        series("http.queue_delay", percentiles=delay),
        series("http.latency_corrected", percentiles={"50": 2 * SECOND, "99": 3 * SECOND}),
    ]
    found = only(headline(snapshot(*load("http"), *late), recent=False))
    assert named(found, "latency p50").note == "from planned 2.00 s"
    assert named(found, "latency p99").note == "from planned 3.00 s"
    llm = only(headline(snapshot(*load("http"), *late, series("http.ttft"), series("http.tpot")), recent=False))
    p99 = named(llm, "latency p99")
    assert p99.note == "p50 40.0 ms, from planned 3.00 s"
    assert compact(p99, llm) == "latency p50 40.0 ms p99 400 ms"
    on_time = [series("http.queue_delay", percentiles={"50": 1, "99": 1}), *late[1:]]
    assert named(only(headline(snapshot(*load("http"), *on_time), recent=False)), "latency p99").note == ""


def test_figures_of_the_machine_are_no_headline() -> None:
    """A run that records nothing else has none. A user may still choose one."""
    machine = MetricsSnapshot(
        run_id="r",
        name="job",
        elapsed_s=5.0,
        gauges=[GaugeStat(name="host.cpu", unit="%", value=50.0), GaugeStat(name="process.memory", value=1.0)],
        counters=[CounterStat(name="host.net_errors", value=3, events=3)],
    )
    assert headline(machine, recent=False) == []
    depth = replace(machine, gauges=[*machine.gauges, GaugeStat(name="depth", value=2.0)])
    assert [figure.title for figure in headline(depth, recent=False)[0].figures] == ["depth"]
