"""The page of `telemetry ab` in a real browser."""

from __future__ import annotations

import pytest
from tests.process.pages import Seen
from tests.unit.report.test_ab import result

from telemetry.report import render_as


def test_both_sides_of_each_pair_are_drawn(seen: Seen) -> None:
    """Each figure has a chart with two lines; the readout has both values of a pair."""
    browser = seen.report(render_as("ab", result(), "html"))
    charts = browser.locator("figure.scatter:visible")
    assert charts.locator("figcaption").all_text_contents() == [
        "wall time over the pairs",
        "CPU time over the pairs",
    ]
    assert charts.nth(0).locator(".spot").count() == 2 * 17
    charts.nth(0).locator("svg").focus()
    browser.keyboard.press("ArrowRight")
    readout = " ".join(charts.nth(0).locator(".readout").inner_text().split())
    assert readout.startswith("pair 1 ")
    assert "before 1.00 s after 1.04 s" in readout
    assert browser.locator("#figures .badge").all_text_contents() == ["worse", "can't tell"]
    seen.check_quiet()


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_a_narrow_page_does_not_scroll_sideways(ground: str, seen: Seen) -> None:
    """A page of 400 pixels does not scroll sideways, and the bars fit."""
    seen.page.emulate_media(color_scheme="dark" if ground == "dark" else "light")
    seen.page.set_viewport_size({"width": 400, "height": 900})
    browser = seen.report(render_as("ab", result(), "html"))
    assert browser.evaluate("document.documentElement.scrollWidth") <= 400
    widths = browser.locator(".plot svg").evaluate_all("all => all.map(svg => svg.getBoundingClientRect().right)")
    assert len(widths) == 3
    assert max(widths) <= 400
    seen.check_quiet()
