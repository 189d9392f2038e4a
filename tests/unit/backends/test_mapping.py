"""Tests of the mapping: a backend gets what the settings let through, under the names they give."""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.backends.items import (
    CounterReading,
    GaugeReading,
    Item,
    Live,
    Mark,
    Params,
    Reading,
    SeriesReading,
    Step,
    Text,
)
from telemetry.backends.mapping import ALIKE, ItemMapping, values_of
from telemetry.common.headline_choice import PARAM
from telemetry.config import BackendsConfig, BackendValues
from telemetry.errors import ConfigError
from telemetry.wire.events import Spread
from telemetry.wire.snapshot import AxisStat, GaugeStat, MetricsSnapshot


def step(**values: float) -> Step:
    named = {name.replace("__", "/"): value for name, value in values.items()}
    return Step(key="r1", time_ns=1, axis="train", step=1, values=named)


def reading(**parts: object) -> Reading:
    return Reading(key="t1", time_ns=1, elapsed_s=1.0, seconds=1.0, **parts)  # type: ignore[arg-type]


def values_after(mapping: ItemMapping, item: Item) -> dict[str, float]:
    found = mapping.apply(item)
    return found.values if isinstance(found, Step) else {}


def test_without_settings_everything_goes_as_it_is() -> None:
    """A mapping without settings passes an item on and does not even copy it."""
    item = step(loss=1.0)
    assert ItemMapping(BackendValues()).apply(item) is item


def test_included_and_not_excluded() -> None:
    """`exclude` counts whatever `include` says; a step of which nothing is left does not go."""
    mapping = ItemMapping(BackendValues(include=("train/*", "lr"), exclude=("*/debug",)))
    item = step(train__loss=1.0, train__debug=2.0, lr=3.0, other=4.0)
    assert values_after(mapping, item) == {"train/loss": 1.0, "lr": 3.0}
    assert mapping.apply(step(other=1.0)) is None


def test_names_become_others() -> None:
    """The first pattern that fits counts, and what its `*` stand for is in the new name; spreads follow."""
    mapping = ItemMapping(BackendValues(rename={"train/*/x": "x/*", "train/*": "t/*", "a*b*": "*-*"}))
    item = Step(
        key="r1",
        time_ns=1,
        axis="train",
        step=1,
        values={"train/q/x": 1.0, "train/q": 2.0, "a1b2": 3.0, "other": 4.0},
        spread={"train/q": Spread(2, 0.0, 1.0, 0.5, "a", "b")},
    )
    found = mapping.apply(item)
    assert isinstance(found, Step)
    assert found.values == {"x/q": 1.0, "t/q": 2.0, "1-2": 3.0, "other": 4.0}
    assert list(found.spread) == ["t/q"]


def test_a_name_is_never_nothing() -> None:
    """A name that a rename would make empty keeps its own text."""
    mapping = ItemMapping(BackendValues(rename={"train/*": "*"}))
    assert values_after(mapping, step(train__=1.0)) == {"train/": 1.0}


@pytest.mark.parametrize("rename", [{"train/*": "loss"}, {"loss": "*"}, {"a*b*": "*"}, {"a": "x", "b": "x"}])
def test_renames_that_make_two_names_one_are_refused(rename: dict[str, str]) -> None:
    """Renames that make two names one are refused, as far as that is clear before there are names."""
    with pytest.raises(ConfigError, match="can't"):
        ItemMapping(BackendValues(rename=rename))


def test_names_that_become_one_are_counted_and_said() -> None:
    """The name that came first keeps what it is called, in every item; of the other it is said once."""
    mapping = ItemMapping(BackendValues(rename={"a/*": "x/*", "b/*": "x/*"}))
    assert values_after(mapping, step(a__l=1.0, b__l=2.0)) == {"x/l": 1.0}
    assert values_after(mapping, step(b__l=3.0)) == {}
    assert values_after(mapping, step(a__l=4.0)) == {"x/l": 4.0}
    assert mapping.left_out == {ALIKE: 2}
    (note,) = mapping.notes()
    assert "'b/l' is left out" in note
    assert "'x/l'" in note
    assert mapping.notes() == []


def test_kinds_of_things_don_t_take_names_from_each_other() -> None:
    """A text may be called as a value is."""
    mapping = ItemMapping(BackendValues(rename={"a": "x"}))
    assert values_after(mapping, step(a=1.0)) == {"x": 1.0}
    found = mapping.apply(Text(key="r2", time_ns=1, name="x", text="hi"))
    assert isinstance(found, Text)


def test_instruments_are_chosen_with_or_without_their_labels() -> None:
    """Patterns may fit the name alone or the name with its labels; renaming keeps the labels."""
    mapping = ItemMapping(BackendValues(exclude=("latency{route=/health}", "gc*"), rename={"latency": "lat"}))
    found = mapping.apply(
        reading(
            series=[SeriesReading(name="latency", labels={"route": route}) for route in ("/a", "/health")],
            counters=[CounterReading(name="gc.runs")],
            gauges=[GaugeReading(name="load")],
        )
    )
    assert isinstance(found, Reading)
    assert [(one.name, one.labels) for one in found.series] == [("lat", {"route": "/a"})]
    assert (found.counters, [one.name for one in found.gauges]) == ([], ["load"])


def test_a_reading_of_nothing_does_not_go_unless_it_is_the_result() -> None:
    """The result says that the run is over."""
    mapping = ItemMapping(BackendValues(include=("nothing",)))
    assert mapping.apply(reading(gauges=[GaugeReading(name="a")])) is None
    found = mapping.apply(reading(gauges=[GaugeReading(name="a")], final=True))
    assert isinstance(found, Reading)
    assert found.gauges == []


def test_snapshots_have_what_readings_have() -> None:
    """Instruments and newest values under the names there."""
    snapshot = MetricsSnapshot(
        run_id="r",
        name="n",
        gauges=[GaugeStat(name="a"), GaugeStat(name="b")],
        axes=[AxisStat(name="train", values={"a": 1.0, "b": 2.0})],
        params={"b": "secret", "c": 1},
    )
    found = ItemMapping(BackendValues(exclude=("b",), rename={"a": "z"})).apply(
        Live(key="s1", time_ns=1, snapshot=snapshot)
    )
    assert isinstance(found, Live)
    assert [stat.name for stat in found.snapshot.gauges] == ["z"]
    assert found.snapshot.axes[0].values == {"z": 1.0}
    assert found.snapshot.params == {"c": 1}


@pytest.mark.parametrize("values", [BackendValues(), BackendValues(include=("*",))])
def test_the_choice_of_figures_is_no_parameter_of_a_tracker(values: BackendValues) -> None:
    """The choice of figures is no parameter of a tracker, neither alone nor among others."""
    mapping = ItemMapping(values)
    params = mapping.apply(Params(key="r1", time_ns=1, values={"lr": 1, PARAM: '["loss"]'}))
    assert isinstance(params, Params)
    assert params.values == {"lr": 1}
    assert mapping.apply(Params(key="r1", time_ns=1, values={PARAM: '["loss"]'})) is None


def test_params_are_left_out_by_exclude_alone() -> None:
    """Params are left out by `exclude` alone, as a choice of values does not exclude the settings.

    Marks have no name and all go.
    """
    mapping = ItemMapping(BackendValues(include=("train/*",), exclude=("*token*",)))
    params = mapping.apply(Params(key="r1", time_ns=1, values={"lr": 1, "api_token": "x"}))
    assert isinstance(params, Params)
    assert params.values == {"lr": 1}
    assert mapping.apply(Params(key="r1", time_ns=1, values={"token": "x"})) is None
    mark = Mark(key="r1", time_ns=1, text="here")
    assert mapping.apply(mark) is mark


def test_whose_values_are_meant() -> None:
    """A table of its own, else that of `*`, else none."""
    own, others = BackendValues(every_steps=2), BackendValues(every_steps=3)
    config = BackendsConfig(values={"wandb": own, "*": others})
    assert values_of(config, "wandb") is own
    assert values_of(config, "jsonl") is others
    assert values_of(BackendsConfig(), "jsonl") == BackendValues()


@given(st.text("ab*", min_size=1, max_size=7), st.text("ab\n", max_size=8))
def test_patterns_are_those_of_the_shell(pattern: str, name: str) -> None:
    """`*` is anything, also nothing, slashes and line ends."""
    fits = ItemMapping(BackendValues(include=(pattern,))).name(name, "step") is not None
    assert fits == fnmatch.fnmatchcase(name, pattern)


def test_no_pattern_takes_long() -> None:
    """However many `*` it has: what each stands for is found once."""
    mapping = ItemMapping(BackendValues(include=("*a" * 60 + "*b",)))
    assert mapping.name("a" * 200, "step") is None
