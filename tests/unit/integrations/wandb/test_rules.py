"""The rows of W&B: for each list of calls, the same rows as the library itself writes to its offline file."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.backends.reading_wandb import records

from telemetry.backends.wandb.log import whole_row
from telemetry.integrations.wandb.rules import LoggedPart, LoggedRows
from telemetry.integrations.wandb.values import flat

Call = tuple[str, Any, dict[str, Any]]
"""`log` with values, or `define` with a name, and the other arguments."""
Value = tuple[str, int, str]
"""Axis, step, name."""

_DEADLINE_S = 60.0
_ORACLE = """
import json, sys, wandb
settings = wandb.Settings(x_disable_stats=True, disable_git=True, x_disable_meta=True)
for name, calls in json.load(open("calls.json")).items():
    run = wandb.init(project="p", id=name, settings=settings)
    for kind, first, more in calls:
        if kind == "log":
            run.log(first, **more)
        else:
            run.define_metric(first, **more)
    run.finish()
"""


def log(values: Mapping[str, Any], **more: Any) -> Call:
    return ("log", values, more)


def define(name: str, step_metric: str | None = None, **more: Any) -> Call:
    return ("define", name, more | ({"step_metric": step_metric} if step_metric else {}))


def _random_calls(seed: int) -> list[Call]:
    """Make calls of every form. Steps never fall behind, and a row has each step metric at most once."""
    chance = random.Random(seed)
    calls = [define("t/*", "t/step"), define("e", "epoch"), define("x", "t/step", step_sync=False)]
    step = 0
    seen: set[str] = set()
    for number in range(60):
        names = chance.sample(["a", "b", "t/a", "t/b", "t/step", "e", "epoch", "x"], chance.randint(1, 5))
        values = {name: number if name in ("t/step", "epoch") else number / 8 for name in names}
        ahead = chance.choice([None, None, 0, 1, 3])
        if ahead:
            seen = set()
        values = {name: value for name, value in values.items() if name not in seen}
        seen |= values.keys() & {"t/step", "epoch"}
        if ahead is not None:
            step += ahead
            calls.append(log(values, step=step, commit=chance.choice([None, False])))
        else:
            commit = chance.choice([None, True, False])
            calls.append(log(values, commit=commit))
            if commit is not False:
                step += 1
                seen = set()
    return calls


SEQUENCES: dict[str, list[Call]] = {
    "each-call-is-a-row": [log({"a": number}) for number in range(4)],
    "commit-false-merges": [log({"a": 1}, commit=False), log({"b": 2}, commit=False), log({"a": 3}), log({"a": 4})],
    "a-step-stays-open": [
        log({"a": 1}, step=10),
        log({"a": 2, "c": 1}, step=10),
        log({"e": 1}),
        log({"f": 1}),
        log({"g": 1}, step=20, commit=True),
        log({"i": 1}, step=30, commit=False),
        log({"j": 1}, commit=True),
        log({"k": 1}, commit=False),
    ],
    "a-later-step-closes": [log({"a": 1}, commit=False), log({"b": 1}, step=5), log({"c": 1}, step=9), log({})],
    "nested-names": [log({"n": {"x": 1, "y": {"z": 2}}, "plain": 3}), log({"n": {"x": 4}})],
    "step-metric": [
        define("train/step"),
        define("train/*", "train/step"),
        log({"train/loss": 1, "train/step": 100, "other": 1}),
        log({"train/loss": 2, "train/step": 200}),
        log({"train/loss": 3}),
        log({"other": 2}),
    ],
    "as-transformers": [
        define("train/global_step"),
        define("*", "train/global_step", step_sync=True),
        log({"train/loss": 1, "train/epoch": 0.5, "train/global_step": 5}),
        log({"eval/loss": 2, "train/global_step": 5}),
        log({"train/loss": 3, "train/global_step": 10}),
        log({"test/x": 4}),
    ],
    "as-slime": [
        *(define(f"{group}/*", f"{group}/step") for group in ("train", "rollout", "eval")),
        log({"rollout/reward": 1, "rollout/step": 0}),
        log({"train/loss": 2, "train/step": 0}),
        log({"train/loss": 3, "train/step": 1}),
        log({"eval/score": 4, "eval/step": 0}),
        log({"rollout/reward": 5, "rollout/step": 1}),
    ],
    "a-row-in-pieces": [
        define("loss", "s"),
        log({"loss": 1}, commit=False),
        log({"s": 7}, commit=False),
        log({"acc": 1}),
        log({"loss": 2}, commit=False),
        log({"loss": 3}, commit=False),
        log({"s": 8}),
        log({"s": 9}, step=20),
        log({"loss": 4}, step=20),
        log({"loss": 5}, step=21),
        log({"s": 10}, step=22),
    ],
    "a-step-metric-that-never-came": [define("l", "st"), log({"l": 1}), log({"l": 2, "st": 3}), log({"l": 3})],
    "without-sync": [define("e", "s", step_sync=False), log({"s": 2}), log({"e": 3}), log({"e": 4, "s": 5})],
    "definitions-merge": [
        define("e", "s"),
        define("e", summary="max"),
        log({"s": 2}),
        log({"e": 3}),
        define("e", summary="min", overwrite=True),
        log({"e": 4}),
    ],
    "own-definition-wins": [define("*", "s"), define("e"), log({"s": 2}), log({"e": 3, "f": 4})],
    "not-a-whole-number": [define("e", "s"), log({"e": 3, "s": 1.5}), log({"e": 7, "s": "x"})],
    "floats-that-are-whole": [define("e", "s"), log({"e": 1, "s": 4.0}), log({"e": 2, "s": -3.0})],
    "nested-step-metric": [define("e.f", "s"), log({"e": {"f": 3}, "s": 5}), log({"e": {"f": 4}})],
    "underscore": [define("*", "s"), log({"s": 2, "_a": 1, "b": 2})],
    **{f"random-{seed}": _random_calls(seed) for seed in range(6)},
}


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The rows that W&B wrote for each sequence, with their steps under `_step`."""
    folder = tmp_path_factory.mktemp("wandb")
    (folder / "calls.json").write_text(json.dumps(SEQUENCES))
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("WANDB", "TELEMETRY"))}
    environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_CONSOLE": "off", "HOME": str(folder)}
    subprocess.run([sys.executable, "-c", _ORACLE], cwd=folder, env=environ, check=True, timeout=100)
    return {name: list(_rows(folder, name)) for name in SEQUENCES}


def _rows(folder: Path, run_id: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a run, once its file is complete: a process of W&B writes it."""
    deadline = time.monotonic() + _DEADLINE_S
    while True:
        [path] = folder.glob(f"wandb/offline-run-*/run-{run_id}.wandb")
        found = list(records(path))
        if any(record.WhichOneof("record_type") == "exit" for record in found):
            break
        assert time.monotonic() < deadline, f"W&B did not complete {path}"
        time.sleep(0.05)
    for record in found:
        if record.WhichOneof("record_type") == "history":
            row = dict(flat(whole_row(record.history.item)))
            yield {name: value for name, value in row.items() if name not in ("_timestamp", "_runtime")}


def parts_of(calls: list[Call], rows: LoggedRows) -> list[LoggedPart]:
    """Return all parts of the calls and of the end."""
    parts: list[LoggedPart] = []
    for kind, first, more in calls:
        if kind == "define":
            rows.define(first, **more)
        else:
            parts += rows.log(flat(first), **more)
    return parts + rows.close()


def values_of(parts: list[LoggedPart]) -> dict[Value, Any]:
    """Return each value. A newer one replaces an older one, as the aggregator does it."""
    return {(axis, step, name): value for axis, step, values in parts for name, value in values.items()}


STEP_METRICS: dict[str, dict[str, str]] = {
    "step-metric": {"train/loss": "train/step", "train/step": "train/step"},
    "as-transformers": dict.fromkeys(
        ("train/loss", "train/epoch", "eval/loss", "test/x", "train/global_step"), "train/global_step"
    ),
    "as-slime": {
        f"{group}/{name}": f"{group}/step"
        for group, names in {
            "train": ("loss", "step"),
            "rollout": ("reward", "step"),
            "eval": ("score", "step"),
        }.items()
        for name in names
    },
    "a-row-in-pieces": {"loss": "s", "s": "s"},
    "definitions-merge": {"e": "s", "s": "s"},
    "a-step-metric-that-never-came": {"l": "st", "st": "st"},
    "without-sync": {"e": "s", "s": "s"},
    "own-definition-wins": {"f": "s", "s": "s"},
    "floats-that-are-whole": {"e": "s", "s": "s"},
    "nested-step-metric": {"e.f": "s", "s": "s"},
    "underscore": {"b": "s", "s": "s"},
}
"""Step metric of each name, by sequence. Names that are not here count by W&B's own step."""
for _name in SEQUENCES:
    if _name.startswith("random"):
        _steps = ("t/a", "t/b", "t/step", "x")
        STEP_METRICS[_name] = dict.fromkeys(_steps, "t/step") | {"e": "epoch", "epoch": "epoch"}


def expected(rows: list[dict[str, Any]], step_metrics: dict[str, str], logged: set[str]) -> dict[Value, Any]:
    """Return the values of W&B's rows, at the steps where W&B draws them.

    A row without the step metric of a name has it at W&B's own step. Step metrics that W&B inserted are left out.
    """
    found: dict[Value, Any] = {}
    for row in rows:
        for name, value in row.items():
            if name in logged:
                metric = step_metrics.get(name, "")
                axis = metric if metric in row else "step"
                found[axis, int(row[metric] if metric in row else row["_step"]), name] = value
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SEQUENCES))
def test_rows_are_those_of_wandb(name: str, oracle: dict[str, list[dict[str, Any]]]) -> None:
    """Each value is at the step where W&B draws it. Only steps that W&B inserted are not recorded."""
    calls = SEQUENCES[name]
    ours = values_of(parts_of(calls, LoggedRows()))
    rows = oracle[name]
    metrics = STEP_METRICS.get(name, {})
    theirs = expected(rows, metrics, {name for _, _, name in ours})
    inserted = {key for key in theirs.keys() - ours.keys() if key[0] == key[2]}  # steps that a row lacked
    assert {key: value for key, value in theirs.items() if key not in inserted} == ours
    assert len(ours) > len(inserted)


# --- where W&B has nothing to compare ------------------------------------------------------------


def test_values_behind_the_open_row_are_kept() -> None:
    """W&B drops them. The open row stays open."""
    rows = LoggedRows()
    rows.define("t/*", step_metric="t/step")
    late = [
        log({"a": 1}, step=10),
        log({"a": 2, "t/x": 3}, step=4, commit=True),
        log({"t/x": 4, "t/step": 7}, step=5),
    ]
    assert values_of(parts_of(late, rows)) == {
        ("step", 10, "a"): 1,
        ("step", 4, "a"): 2,
        ("step", 4, "t/x"): 3,
        ("t/step", 7, "t/x"): 4,
        ("t/step", 7, "t/step"): 7,
    }
    assert rows.step == 10  # the open row stays open


def test_the_longest_beginning_wins() -> None:
    """The definition with the longest beginning applies, in whatever order the definitions come."""
    for globs in ([("*", "s"), ("a/*", "t"), ("a/b/*", "u")], [("a/b/*", "u"), ("a/*", "t"), ("*", "s")]):
        rows = LoggedRows()
        for name, metric in globs:
            rows.define(name, step_metric=metric)
        parts = rows.log({"s": 1, "t": 2, "u": 3, "x": 0, "a/x": 0, "a/b/x": 0})
        found = {name: axis for axis, _, values in parts for name in values}
        assert found == {"s": "s", "t": "t", "u": "u", "x": "s", "a/x": "t", "a/b/x": "u"}


def test_a_step_metric_that_is_not_whole_is_reported_once() -> None:
    """A step metric that is not whole is reported once. W&B's own step counts from its first such value on."""
    said: list[str] = []
    rows = LoggedRows(say=said.append)
    rows.define("*", step_metric="epoch")
    calls = [log({"loss": number, "epoch": number / 2}) for number in range(5)]
    places = {(axis, step) for axis, step, name in values_of(parts_of(calls, rows)) if name == "loss"}
    assert places == {("epoch", 0), ("step", 1), ("step", 2), ("step", 3), ("step", 4)}
    assert len(said) == 1
    assert "'epoch' has the value 0.5" in said[0]


def test_steps_that_run_backwards_get_an_axis_of_their_own() -> None:
    """Validation counts its own batches with the step metric of training, as Lightning does it."""
    rows = LoggedRows()
    rows.define("*", step_metric="g")
    for step in range(1000):
        rows.log({"train/loss": 1, "g": step})
    [own, *_] = rows.log({"val/loss": 1, "g": 0})
    assert (own.axis, own.step, own.values["val/loss"]) == ("val", 0, 1)
    [again] = rows.log({"train/loss": 2, "g": 1000})
    assert again.axis == "g"


def test_a_second_run_has_axes_of_its_own() -> None:
    """A second run has axes of its own with a suffix, and its steps begin at 0 again."""
    rows = LoggedRows(suffix=" 2")
    rows.define("t", step_metric="s")
    assert values_of(rows.log({"t": 1, "s": 3, "a": 2})) == {
        ("s 2", 3, "t"): 1,
        ("s 2", 3, "s"): 3,
        ("step 2", 0, "a"): 2,
    }


@pytest.mark.parametrize("name", ["", "a*b", "*a", "a**"])
def test_impossible_names(name: str) -> None:
    """A metric name is refused if it is empty or has a star anywhere but at the end."""
    with pytest.raises(ValueError, match="is not a metric"):
        LoggedRows().define(name)


def test_impossible_summaries_and_steps() -> None:
    """The message lists the summaries that exist."""
    with pytest.raises(ValueError, match="'median' is not a summary: use min, max"):
        LoggedRows().define("a", summary="min,median")
    with pytest.raises(TypeError):
        LoggedRows().log({"a": 1}, step=1.5)


def test_summaries() -> None:
    """Last values, and what definitions ask for, also in the words of older versions."""
    rows = LoggedRows(keeps_summary=True)
    rows.define("loss", summary="min,max,mean,first,last")
    rows.define("acc", summary="best", goal="maximize")
    rows.define("hidden/*", summary="none")
    rows.define("old", summary="copy")
    for value in (3, 1, 2):
        rows.log(
            {"loss": value, "acc": value, "hidden/x": value, "old": value, "text": "x" * value, "plain": value}
        )
    rows.log({"loss": float("nan"), "acc": "no number"})
    defined = {
        "loss": {"min": 1.0, "max": 3.0, "mean": 2.0, "first": 3.0, "last": 2.0},
        "acc": {"max": 3.0},
        "old": {"last": 2.0},
    }
    assert rows.defined_summary() == defined
    assert rows.summary == {**defined, "text": "xx", "plain": 2}
