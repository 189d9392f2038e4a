"""The page of a list of runs."""

from __future__ import annotations

import json
import random
import re
from typing import Any

from telemetry.history.headlines import Figure
from telemetry.report.run_list import ListedRun, RunDetails, run_list_page
from telemetry.report.run_list.page import RunCurve

EVIL = "</script><img src=x onerror=alert(1)>\"'"


def listed(name: str = "train", run_id: str = "aaaa1111", **more: Any) -> ListedRun:
    facts: dict[str, Any] = {"result": "complete", "health": "good", "started_ns": 10**18, "duration_s": 90.0}
    return ListedRun(name=name, run_id=run_id, **{**facts, **more})


def curve(title: str = "loss", seed: int = 0, points: int = 80) -> RunCurve:
    values = random.Random(seed)
    return RunCurve(
        title, "", True, [float(step) for step in range(points)], [values.random() for _ in range(points)]
    )


def data_of(html: str) -> list[dict[str, Any]]:
    found = re.search(r'<script type="application/json" id="runs-data">(.*?)</script>', html)
    assert found
    return list(json.loads(found[1])["runs"])


def test_a_row_has_figures_parameters_and_curves() -> None:
    """Numbers to sort by stand beside their texts; curves with the same steps share them."""
    details = RunDetails(
        figures=[Figure("loss", "0.25", value=0.25), Figure("failed", "3", health="warn", value=3.0)],
        params={"lr": 0.1, "model": "b" * 90, "amp": True},
        curves=[curve("loss"), curve("accuracy", 1)],
    )
    (row,) = data_of(run_list_page("Runs", [listed(details=details, link="r/a.html")]))
    assert row["figures"] == {"loss": ["0.25", 0.25], "failed": ["3", 3, "warn"]}
    assert row["params"]["lr"] == ["0.1", 0.1]
    assert row["params"]["amp"] == ["true", None]
    assert len(row["params"]["model"][0]) == 60
    assert [one["x"] for one in row["curves"]] == [0, 0]
    assert len(row["xs"]) == 1
    assert row["link"] == "r/a.html"


def test_the_banner_counts_results_in_the_colour_of_the_worst() -> None:
    """A failed run is red, and without scripts there is a table."""
    failed = listed(run_id="bbbb2222", result="failed", health="bad", exit="3")
    html = run_list_page("Runs", [listed(), listed(), failed], ["a note"])
    assert '<p class="banner bad" id="verdict">3 runs · 2 complete · 1 failed</p>' in html
    assert '<p class="soft">a note</p>' in html
    assert '<td class="left">failed, exit 3</td>' in html.partition("<noscript>")[2]
    assert 'id="run-charts"' not in html


def test_names_from_outside_are_text() -> None:
    """Names of runs, figures and parameters are escaped."""
    details = RunDetails([Figure(EVIL, EVIL)], {EVIL: EVIL}, [curve(EVIL)])
    html = run_list_page(EVIL, [listed(EVIL, EVIL, result=EVIL, details=details)])
    assert "<img" not in html


def test_two_hundred_runs_stay_below_a_megabyte() -> None:
    """A page of two hundred runs with eight noisy curves each stays below a megabyte."""
    runs = [
        listed(run_id=f"{seed:08x}", details=RunDetails(curves=[curve(f"v{at}", 8 * seed + at) for at in range(8)]))
        for seed in range(200)
    ]
    assert len(run_list_page("Runs", runs)) < 1_000_000
