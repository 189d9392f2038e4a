"""The page of a sweep in a real browser."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.process.pages import Seen
from tests.unit.judge.sweeps.runs import load_run, training_run
from tests.unit.report.html.samples import EVIL

from telemetry.judge.sweeps.build import sweep_of
from telemetry.judge.sweeps.model import Sweep
from telemetry.report import render_as


def load_sweep(repeats: int = 1) -> Sweep:
    loads = ((1, 10.0, 1.0, 20.0), (4, 38.0, 1.0, 25.0), (8, 41.0, 0.7, 60.0), (16, 40.0, 0.1, 900.0))
    return sweep_of(
        [
            load_run({"users": users}, rate + turn, good=good, p99_ms=p99)
            for turn in range(repeats)
            for users, rate, good, p99 in loads
        ]
    )


def test_curves_with_labels_knee_and_bars(seen: Seen) -> None:
    """Points are labelled by the parameter, hollow beyond the limits, ringed at the knee, with bars for repeats."""
    browser = seen.report(render_as("sweep", load_sweep(2), "html"))
    charts = browser.locator("figure.scatter:visible")
    assert charts.locator("figcaption").all_text_contents() == [
        "Latency over throughput",
        "Goodput/s over throughput",
        "TTFT over throughput",
        "Requests/s by users",
    ]
    first = charts.nth(0)
    assert first.locator(".spot-label").all_text_contents() == ["1", "4", "8", "16"]
    assert first.locator(".spot").count() == 8
    assert first.locator(".spot.hollow").count() == 4
    assert first.locator(".knee").count() == 2
    assert first.locator(".error-bar").count() == 8
    assert charts.nth(1).locator(".mark").count() == 1
    assert "Knee: users = 4" in browser.locator("#verdict").inner_text()
    assert browser.locator("#points .badge").all_text_contents() == ["pass", "pass", "fail", "fail"]
    seen.check_quiet()


def test_points_are_read_by_pointer_and_keys(seen: Seen) -> None:
    """The readout has the parameter and both figures; lines can be hidden."""
    browser = seen.report(render_as("sweep", load_sweep(), "html"))
    chart = browser.locator("figure.scatter").first
    chart.locator(".spot").nth(2).hover()
    readout = chart.locator(".readout")
    assert readout.inner_text().startswith("users = 8")
    assert "latency p99 60.0 ms" in readout.inner_text()
    chart.locator("svg").focus()
    for _ in range(2):
        browser.keyboard.press("ArrowRight")
    browser.keyboard.press("ArrowLeft")
    assert readout.inner_text().startswith("users = ")
    chart.locator(".legend button").first.click()
    assert chart.locator(".spot").count() == 4
    seen.check_quiet()


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_a_narrow_page_does_not_scroll_sideways(ground: str, seen: Seen) -> None:
    """A page of 400 pixels does not scroll sideways. Tables scroll by themselves, and every chart fits."""
    seen.page.emulate_media(color_scheme="dark" if ground == "dark" else "light")
    seen.page.set_viewport_size({"width": 400, "height": 900})
    browser = seen.report(render_as("sweep", load_sweep(), "html"))
    assert browser.evaluate("document.documentElement.scrollWidth") <= 400
    widths = browser.locator(".plot svg").evaluate_all("all => all.map(svg => svg.getBoundingClientRect().right)")
    assert len(widths) == 4
    assert max(widths) <= 400
    seen.check_quiet()


def test_all_points_of_a_model_fit(seen: Seen) -> None:
    """A wide window shows all figures of a model at once."""
    sweep = load_sweep()
    (latency,) = [column for column in sweep.columns if column.key == "latency_p99"]
    for name in ("TPOT p50", "TPOT p99", "ITL p50", "ITL p99"):
        sweep.columns.append(replace(latency, key=name, title=name, detail=True))
        for point in sweep.points:
            point.figures[name] = point.figures[latency.key]
    seen.page.set_viewport_size({"width": 1400, "height": 900})
    table = seen.report(render_as("sweep", sweep, "html")).locator("#points .scroll")
    assert table.locator("thead th").count() == 15
    assert table.evaluate("table => table.scrollWidth - table.clientWidth") == 0


def test_a_training_and_parameters_of_text(seen: Seen) -> None:
    """Each value has a chart over the parameter; two parameters make a line for each value of the second."""
    runs = [training_run({"lr": lr, "mode": mode}, lr, lr / 2) for mode in ("a", EVIL) for lr in (0.001, 0.01, 0.1)]
    browser = seen.report(render_as("sweep", sweep_of(runs), "html"))
    charts = browser.locator("figure.scatter:visible")
    assert charts.count() == 3
    assert charts.first.locator(".line").count() == 2
    assert charts.first.locator(".legend .key").count() == 2
    texts = [training_run({"mode": mode}, 1.0, 0.5) for mode in ("fast", EVIL, "slow")]
    browser = seen.report(render_as("sweep", sweep_of(texts), "html"))
    assert "fast" in browser.locator("figure.scatter .tick").all_text_contents()
    seen.check_quiet()


def test_without_scripts_the_table_is_there(seen: Seen) -> None:
    """Charts are hidden then."""
    page = seen.page.context.browser.new_context(java_script_enabled=False).new_page()  # type: ignore[union-attr]
    page.set_content(render_as("sweep", load_sweep(), "html"))
    assert page.locator("#points tbody tr").count() == 4
    assert page.locator("figure.scatter:visible").count() == 0


def test_print_has_all_charts(seen: Seen) -> None:
    """The printed page has all charts and no controls."""
    browser = seen.report(render_as("sweep", load_sweep(), "html"))
    browser.emulate_media(media="print")
    tall = browser.locator(".plot svg").evaluate_all(
        "all => all.map(one => one.getBoundingClientRect().height > 40)"
    )
    assert tall == [True] * 4
    assert not browser.locator("#theme").is_visible()
    assert not browser.locator(".readout").first.is_visible()
