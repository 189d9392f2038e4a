"""An Aim repository on a disk, read back by Aim's own readers. Kills and full disks are in test_contract."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.backends import handing
from tests.backends.calling import STARTED_NS, Given, call
from tests.backends.reading_aim import read_back
from tests.backends.written import Written

from telemetry.backends.items import GaugeReading, Histogram, Item, Mark, Params, Reading, Step, Text

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.version_info >= (3, 13), reason="aim is not made for this Python"),
]
ROOT = Path(__file__).parents[2]


def check(found: Written, steps: int) -> None:
    """Every step once, with the right value at the right step."""
    assert found.counts["step"] == steps * handing.SCALARS + 2
    assert len(found.steps) == steps + 1
    for step in range(steps):
        got = found.steps["train", step]
        assert got == {f"train/v{number}": handing.value(step, number) for number in range(handing.SCALARS)}, step
    assert found.steps["eval", 7]["eval/λ"] == 0.5
    assert math.isnan(found.steps["eval", 7]["eval/nan"])
    assert found.counts["reading"] == handing.READINGS
    assert found.finals["latency9{route=/a}/p50"] == 12.0
    assert found.finals["latency0{route=/a}/p99.9"] == 500.0
    assert found.params == {"lr": "0.25", "layers": "4", "opt": "adam", "warm": "True", "none": "None"}
    others = {kind: found.counts[kind] for kind in ("texts", "images", "files", "distributions")}
    series = handing.SERIES * (handing.READINGS + 1)
    assert others == {"texts": 2, "images": 1, "files": 2, "distributions": series + 1}


def step(number: int, values: dict[str, float], axis: str = "train", **more: Any) -> Step:
    key = f"{axis}{number}.{more.get('revision', 0)}"
    return Step(key=key, time_ns=STARTED_NS + number * 10**9, axis=axis, step=number, values=values, **more)


def test_everything_is_read_back(tmp_path: Path) -> None:
    """10,000 steps of 20 scalars, 10 series and one of everything else."""
    words = [sys.executable, "-m", "tests.backends.handing", "aim", str(tmp_path), "10000"]
    subprocess.run(words, cwd=ROOT, check=True, timeout=100, stdout=subprocess.DEVNULL)
    check(read_back(tmp_path, str(tmp_path / "data")), 10_000)


def test_tracked_again_it_replaces_what_was_there(tmp_path: Path) -> None:
    """Corrections, also of the newest step, in the process that wrote it and in the next one, and of texts."""
    text: dict[str, Any] = {"time_ns": STARTED_NS, "name": "said", "axis": "train", "step": 1}
    batches: list[list[Item]] = [
        [step(1, {"a": 1.0}), step(2, {"a": 2.0}), step(3, {"a": 3.0}), Text(key="x", text="first", **text)],
        [
            step(2, {"a": 2.5}, revision=1),
            step(3, {"a": 9.0}, revision=1),
            step(3, {"a": 0.5, "b": 1.0}, revision=2),
        ],
        [Text(key="y", text="of another rank", **text), Text(key="x", text="first", **text)],
        [Mark(key=f"m{number}", time_ns=STARTED_NS + 10**9, text="at once") for number in range(3)],
        [Histogram(key="h", time_ns=STARTED_NS, name="h", edges=[0.0, 1.0], counts=[4], axis="train", step=-1)],
    ]
    refused = "Refused: 1 item: negative_step"
    first = Given("aim", tmp_path, batches, final=False)
    again = Given("aim", tmp_path, [*batches, [step(2, {"a": 2.75}, revision=2)]])
    assert [done.raised for done in call(first, again)] == [[*[""] * 5, refused, ""], [*[""] * 5, refused, "", ""]]
    found = read_back(tmp_path, str(tmp_path / "data"))
    assert found.steps == {
        ("train", 1): {"a": 1.0},
        ("train", 2): {"a": 2.75},
        ("train", 3): {"a": 0.5, "b": 1.0},
    }
    assert found.counts["step"] == 4
    assert found.told["train", "a"] == {
        "first": 1.0,
        "last": 0.5,
        "first_step": 1,
        "last_step": 3,
        "min": 0.5,
        "max": 3.0,
    }
    assert found.texts == {"said": {1: ["first", "of another rank"]}, "marks": {1000: ["at once"] * 3}}


def test_names_times_and_settings(tmp_path: Path) -> None:
    """Any name as it is, the same on two axes and among readings; the times of the run, not of the writing."""
    names = [
        "p99%",
        "a=b@c{d}",
        "ü/π 火",
        "x//y",
        "/x",
        ".",
        "..",
        "a\nb",
        "\\",
        "🔥" * 200,
        "__log_records",
        "\xfe",
    ]
    values = {name: float(number) for number, name in enumerate(names)}
    others = {name: value + 0.5 for name, value in values.items()}
    gauges = [GaugeReading(name=name, value=value + 0.25) for name, value in values.items()]
    reading = Reading(key="t", time_ns=STARTED_NS, elapsed_s=10.0, seconds=10.0, gauges=gauges, final=True)
    params = Params(key="p", time_ns=STARTED_NS, values={"lr": 1, "a.b": None, "big": 1 << 70, "flag": True})
    changed = Params(key="q", time_ns=STARTED_NS, values={"lr": 2})
    batch = [
        step(1, values),
        step(-1, values),
        step(1 << 62, values),
        step(1, others, "🔥"),
        reading,
        params,
        changed,
    ]
    many = [step(5, {f"name/{number}": float(number) for number in range(2_000)}, "many")]
    (done,) = call(Given("aim:experiment=mine,run_name=ours", tmp_path, [batch, many]))
    assert done.raised == [""] * 4
    found = read_back(tmp_path, done.where)
    assert found.steps.pop(("many", 5)) == many[0].values
    assert found.steps == {**{("train", at): values for at in (1, -1, 1 << 62)}, ("🔥", 1): others}
    assert found.finals["a=b@c\\{d\\}"] == 1.25
    assert found.params == {"lr": "2", "a.b": "None", "big": str(1 << 70), "flag": "True"}
    assert found.about == {"name": "ours", "experiment": "mine", "began": STARTED_NS / 1e9, "ended": True}
    assert found.newest_s == (STARTED_NS + 10**9 * (1 << 62)) / 1e9


def test_a_call_that_takes_too_long_goes_on_later(tmp_path: Path) -> None:
    """The next call goes on where the last one stopped.

    So a writer gets through items that no single call could write.
    """
    script = SLOW.replace("FOLDER", str(tmp_path)).replace("STARTED_NS", str(STARTED_NS))
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=100, stdout=subprocess.PIPE)
    assert done.stdout.decode().split() == ["6"]
    assert read_back(tmp_path, str(tmp_path / "data")).steps == {("a", at): {"v": 1.0} for at in range(5)}


SLOW = """
from pathlib import Path
from telemetry.backends.aim import backend as module
from telemetry.backends.choice import make, parse
from telemetry.backends.items import Step
from telemetry.backends.backend import RunFacts, Unavailable
module._WRITE_S = 0.0
backend = make(parse("aim"), Path("FOLDER") / "data")
backend.open(RunFacts("run-1", "bench", STARTED_NS, None), {})
items = [Step(key=f"r{at}", time_ns=STARTED_NS + at, axis="a", step=at, values={"v": 1.0}) for at in range(5)]
for number in range(1, 10):
    try:
        backend.write(items)
        break
    except Unavailable:
        pass
backend.flush()
backend.close(final=True)
print(number)
"""
