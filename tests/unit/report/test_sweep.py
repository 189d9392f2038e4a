"""A sweep as text, Markdown, CSV, JSON and HTML."""

from __future__ import annotations

import csv
import io
import json

import pytest
from tests.unit.judge.sweeps.runs import load_run, training_run
from tests.unit.report.html.samples import EVIL

from telemetry.errors import UsageError
from telemetry.judge.sweeps.build import sweep_of
from telemetry.judge.sweeps.model import Sweep
from telemetry.report import formats_of, render_as
from telemetry.report.sweep import conclusion


def load_sweep(*, good: tuple[float | None, ...] = (1.0, 0.995, 0.5)) -> Sweep:
    rates = (10.0, 20.0, 22.0)
    return sweep_of(
        [load_run({"users": 2**at}, rates[at], good=share, p99_ms=20.0 * (at + 1)) for at, share in enumerate(good)]
    )


def test_the_knee_is_the_first_sentence() -> None:
    """The first sentence names the knee with its throughput, attainment, interval and latency."""
    text = render_as("sweep", load_sweep(), width=200)
    first, facts, _, head, *_ = text.splitlines()
    assert first == (
        "knee: users = 2 with 20 requests/s, the highest throughput with attainment of at least 99 % "
        "(99.5 %; 95 %: 97.2 % to 99.9 %), latency p99 40.0 ms"
    )
    assert facts == "3 points, 3 runs of llm"
    assert head.split()[:2] == ["users", "requests/s"]
    assert head.split()[-2:] == ["in", "flight"]
    assert "no higher load" not in text


@pytest.mark.parametrize(
    ("good", "words"),
    [
        ((1.0, 1.0, 1.0), "no higher load was tried, so the knee may lie beyond"),
        ((0.5, 0.4, 0.3), "no point has attainment of at least 99 %; the best is users = 1 with 50.0 %"),
        ((None, None, None), "highest throughput: 22 requests/s at users = 4"),
    ],
)
def test_other_conclusions(good: tuple[float | None, ...], words: str) -> None:
    """A knee at the end, no knee, and no limits."""
    assert words in conclusion(load_sweep(good=good))


def test_a_training_concludes_with_its_best_point() -> None:
    """The conclusion of a sweep of trainings is the point with the best loss."""
    sweep = sweep_of([training_run({"lr": 0.01}, 0.5, 0.4), training_run({"lr": 0.1}, 2.0, 0.9)])
    assert conclusion(sweep) == "best loss: 0.4 at lr = 0.01"


def test_narrow_text_keeps_rate_percentile_and_verdict() -> None:
    """Less important columns are left out first."""
    text = render_as("sweep", load_sweep(), width=60)
    assert max(map(len, text.splitlines())) <= 60
    for title in ("users", "requests/s", "attainment", "latency p99", "verdict"):
        assert title in text
    assert "in flight" not in text


def test_csv_has_a_row_for_each_point() -> None:
    """Numbers are in full; intervals have columns of their own."""
    rows = list(csv.DictReader(io.StringIO(render_as("sweep", load_sweep(), "csv"))))
    assert [row["users"] for row in rows] == ["1", "2", "4"]
    assert [row["verdict"] for row in rows] == ["pass", "pass", "fail"]
    assert float(rows[1]["requests_per_s"]) == 20.0
    assert rows[1]["requests_per_s_low"] == ""
    assert 0.0 < float(rows[1]["attainment_low"]) < float(rows[1]["attainment"])


def test_json_and_markdown_have_the_same_points() -> None:
    """JSON has the fields of `Sweep`."""
    sweep = load_sweep()
    found = json.loads(render_as("sweep", sweep, "json"))
    assert found["knee"]["params"] == {"users": 2}
    assert [point["params"]["users"] for point in found["points"]] == [1, 2, 4]
    table = [line for line in render_as("sweep", sweep, "md").splitlines() if line.startswith("| ")]
    assert [row.split()[1] for row in table] == ["users", "---", "1", "2", "4"]


def test_the_page_has_curves_and_no_text_from_outside_as_markup() -> None:
    """Names and values of parameters may be anything."""
    runs = [load_run({"mode": f"{EVIL}{number}"}, 10.0 + number, name=EVIL) for number in range(2)]
    html = render_as("sweep", sweep_of(runs), "html")
    assert "<img" not in html
    assert "<svg onload" not in html
    assert html.count('class="chart scatter"') == 4
    assert "style=" not in html.partition("</style>")[2].partition("<script>")[0]


def test_a_page_without_figures_has_no_empty_section() -> None:
    """Runs that recorded nothing still have a row."""
    runs = [load_run({"users": users}, counters=[], series=[]) for users in (1, 2)]
    html = render_as("sweep", sweep_of(runs), "html")
    assert 'id="curves"' not in html
    assert 'id="points"' in html


@pytest.mark.parametrize("form", formats_of("sweep"))
def test_each_format_ends_with_a_newline(form: str) -> None:
    """Each format of a sweep ends with a newline, for files and terminals."""
    assert render_as("sweep", load_sweep(), form).endswith("\n")


def test_an_unknown_format_is_refused() -> None:
    """The hint has those that there are."""
    with pytest.raises(UsageError, match="unknown sweep format 'pdf'"):
        render_as("sweep", load_sweep(), "pdf")
