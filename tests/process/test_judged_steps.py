"""Gates, comparisons and files of runs with steps and with limits, by real commands."""

from __future__ import annotations

import csv
import json
import re
import sys
from typing import Any

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TRAIN = """
import sys, telemetry
scale = float(sys.argv[1])
with telemetry.start("x") as run:
    for step in range(200):
        run.log({"loss": scale / (step + 1), "accuracy": step / 200}, step=step, axis="train")
        if step % 20 == 0:
            run.log({"loss": 2 * scale / (step + 1)}, step=step, axis="eval")
"""

SERVE = """
import sys, time, telemetry
slow = int(sys.argv[1])
with telemetry.start("x") as run:
    llm = run.requests("llm")
    for number in range(400):
        request = llm.issue()
        if number < slow:
            time.sleep(0.06)
        request.chunk()
        request.chunk()
        request.complete() if number else request.fail("busy")
"""
"""The first requests are late; the very first fails."""

DIVERGE = """
import time, telemetry
run = telemetry.start("x")
for step in range(100_000):
    run.log({"loss": 1.0 if step < 3 else float("nan")}, step=step)
    time.sleep(0.05)
"""


def outcomes(text: str) -> list[tuple[str, str]]:
    """Outcome and expression of each result in a text."""
    return re.findall(r"^  (pass|fail|inconclusive)  (.*)$", text, re.MULTILINE)


def test_a_training_run_is_judged_by_its_steps(ground: Any) -> None:
    """A training run is judged by its steps in four ways.

    They are while it is recorded, afterwards, against a baseline, and as a file of rows.
    """
    program = ground.program("train.py", TRAIN)
    for name, scale in (("old", "1"), ("new", "2")):
        conditions = ("steps(train) == 200", "best(accuracy) > 0.9", "last(train/loss) < 0.1")
        gates = [word for condition in conditions for word in ("--gate", condition)]
        code, _, err = ground.run("run", "--name", name, *gates, "--", sys.executable, program, scale)
        assert code == 0, err
    expressions = {
        "last(loss{axis=train}) < 0.1": "pass",
        "first(loss{axis=train}) == 2": "pass",
        "best(loss{axis=eval}) > 1": "fail",
        "min(accuracy) == 0": "pass",
        "last(loss{axis=train}) <= baseline": "fail",
        "last(accuracy) >= baseline": "pass",
    }
    code, out, err = ground.run("gate", "new", *expressions, "--baseline", "old")
    assert code == 99, err
    assert {expression: outcome for outcome, expression in outcomes(out)} == expressions
    code, out, err = ground.run("compare", "old", "new", "--json")
    assert code == 0, err
    found = {(m["name"], m["statistic"], m["labels"].get("axis")): m for m in json.loads(out)["metrics"]}
    assert found["loss", "last", "train"]["verdict"] == "differs"
    assert found["loss", "best", "eval"]["difference"] == pytest.approx(1.0)
    assert found["accuracy", "last", "train"]["verdict"] == "same"
    assert found["train", "steps", None]["verdict"] == "same"
    code, _, err = ground.run("compare", "old", "new", "-o", "c.html")
    assert code == 0, err
    assert "overlay-grid" in (ground.folder / "c.html").read_text()
    code, _, err = ground.run("export", "new", "--steps", "s.csv")
    assert (code, err) == (0, "telemetry: wrote s.csv: 410 values of steps\n")
    with (ground.folder / "s.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    losses = [float(row["value"]) for row in rows if (row["axis"], row["name"]) == ("train", "loss")]
    assert losses == [2.0 / (step + 1) for step in range(200)]


def test_a_loss_that_is_not_finite_stops_a_command(ground: Any) -> None:
    """A loss that is not finite for ten seconds stops the command with `--abort-on-fail`. The report says why."""
    program = ground.program("diverge.py", DIVERGE)
    gate = ["--quiet", "--gate", "last(loss) < 0.5", "--abort-on-fail"]
    code, _, err = ground.run("run", *gate, "--", sys.executable, program)
    assert code == 99, err
    assert "the last value of loss on axis step is not finite; the command was stopped" in err


def test_requests_are_judged_by_their_limits(ground: Any) -> None:
    """Goodput, attainment and shares; a short name finds the only kind; attainment is compared."""
    program = ground.program("serve.py", SERVE)
    for name, slow in (("fast", "1"), ("late", "20")):
        words = ["--name", name, "--goodput", "ttft:50", "e2el:10s", "--", sys.executable, program, slow]
        code, _, err = ground.run("run", "--quiet", *words)
        assert code == 0, err
    expressions = {
        "goodput(llm) > 1/s": "pass",
        "goodput.loadgen(llm) > 1/s": "pass",
        "attainment(llm) >= 97%": "fail",
        "attainment(llm.ttft) >= 90%": "pass",
        "attainment(llm.e2el) >= 99%": "pass",
        "attainment(llm) >= 99.9%": "fail",
        "share(llm.ttft < 50ms) >= 90%": "pass",
        "share(llm.ttft <= 50ms) < 97%": "pass",
        "p50(ttft) < 50ms": "pass",
    }
    code, out, err = ground.run("gate", "late", *expressions)
    assert code == 99, err
    short = {"p50(ttft) < 50ms": "p50(llm.ttft) < 50ms"}
    found = {expression: outcome for outcome, expression in outcomes(out)}
    assert found == {short.get(text, text): outcome for text, outcome in expressions.items()}
    report = json.loads(ground.run("report", "late", "--json")[1])
    (requests,) = report["requests"]
    code, out, err = ground.run("gate", "late", "attainment(llm) >= 50%", "goodput(llm) > 1/s", "--json")
    assert code == 0, err
    share, good = json.loads(out)["gates"]
    assert share["value"] / 100 == pytest.approx(requests["attainment"])
    assert share["low"] / 100 == pytest.approx(requests["attainment_low"])
    assert good["value"] == requests["goodput_per_s"]
    code, out, err = ground.run("compare", "fast", "late", "--json", "--metric", "llm:attainment")
    assert code == 0, err
    (compared,) = json.loads(out)["metrics"]
    assert compared["after"] == requests["attainment"]
    assert compared["after_within"]["low"] == requests["attainment_low"]
