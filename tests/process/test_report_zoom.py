"""The HTML report in a real browser: the first chart, and ranges of time or steps that all charts show."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace
from tests.process.pages import Seen
from tests.unit.report.html.samples import llm_report, load_report, training_report

from telemetry import render
from telemetry.wire.pictures import GaugeOverTime, RequestsOverTime
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CounterStat

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

TIME = "#over-time .plot > svg, #more-over-time .plot > svg"
STEPS = "#steps .plot > svg"
DRAWN_WIDTHS = "all => all.map(svg => svg.viewBox.baseVal.width === Math.max(svg.parentElement.clientWidth, 200))"
TICKS = "svg => [...svg.querySelectorAll('.tick[text-anchor=middle]')].map(one => one.textContent)"


def final(report: Report, directory: str = "/data/runs/job-1") -> Report:
    """Return a report whose run can be asked for a time range."""
    return replace(report, snapshot=replace(report.snapshot, run_id="abcd1234", directory=directory))


def two_kinds() -> Report:
    """Return the requests of two routes, which have the same course."""
    stats = load_report().snapshot.series[:1]
    both = [stats[0].labels | {"route": route} for route in ("/a", "/b")]
    latencies = [replace(stats[0], name="llm.latency", unit="ns", labels=labels) for labels in both]
    counters = [
        CounterStat(name=f"llm.{word}", unit="requests", value=number, labels=labels, events=1)
        for labels in both
        for word, number in (("issued", 4_500), ("completed", 4_500))
    ]
    course = load_report()
    assert course.pictures is not None
    requests = [
        RequestsOverTime(kind="llm", labels=labels, completed_per_s=[150.0] * 30, failed_per_s=[0.0] * 30)
        for labels in both
    ]
    over = [
        replace(one, name="llm.latency", unit="ns", labels=labels)
        for one, labels in zip(course.over_time, both, strict=False)
    ]
    snapshot = replace(course.snapshot, series=latencies, counters=counters, gauges=[], elapsed_s=30.0)
    pictures = replace(course.pictures, requests=requests, heat_maps=[], distributions=[], counters=[], gauges=[])
    return replace(course, snapshot=snapshot, pictures=pictures, over_time=over)


def drag(browser: Page, plot: Locator, start: float, end: float) -> None:
    """Drag over a plot, from and to a share of its width."""
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    browser.mouse.move(box["x"] + box["width"] * start, box["y"] + 60)
    browser.mouse.down()
    browser.mouse.move(box["x"] + box["width"] * (start + end) / 2, box["y"] + 60)
    browser.mouse.move(box["x"] + box["width"] * end, box["y"] + 60)
    browser.mouse.up()


def ticks(browser: Page, plots: str) -> list[list[str]]:
    """Return the labels of the axis of time or steps of each plot."""
    found = browser.locator(plots)
    return [found.nth(at).evaluate(TICKS) for at in range(found.count())]


def test_one_chart_has_rate_p99_and_failures(seen: Seen) -> None:
    """The rate is an area, failures are bars, p99 has an axis of its own; everything fits at 400 pixels."""
    for width in (1_280, 400):
        seen.page.set_viewport_size({"width": width, "height": 900})
        browser = seen.report(render(llm_report(), "html"))
        first = browser.locator("#time-charts .chart").first
        plot = first.locator(".plot > svg")
        assert plot.locator(".band").count() == 1
        assert plot.locator(".bar.bad-key").count() == 30
        assert plot.locator(".line").count() == 4
        right = plot.locator(".tick:not([text-anchor]):not(.word)").all_text_contents()
        assert right[0] == "p99"
        assert plot.locator(".word").all_text_contents() == ["per s"]
        assert right[-1].endswith(" ns")
        boxes = plot.locator("text").evaluate_all("all => all.map(one => one.getBoundingClientRect())")
        outer = plot.bounding_box()
        assert outer is not None
        assert min(box["left"] for box in boxes) >= outer["x"] - 1
        assert max(box["right"] for box in boxes) <= outer["x"] + outer["width"] + 1
        plot.hover()
        legend = first.locator(".legend").inner_text()
        assert "failed/s 0.5" in legend
        assert "p99 latency 20.0 ns" in legend
        heights = plot.locator(".bar").evaluate_all("all => all.map(one => Number(one.getAttribute('height')))")
        assert min(heights) >= 3
    seen.check_quiet()


def test_a_drag_zooms_all_charts_over_time(seen: Seen) -> None:
    """Gauges and counters too; the bar has the command for the figures of the range; a double click shows all."""
    browser = seen.report(render(final(load_report()), "html"))
    plots = f"{TIME}, #counters-grid .plot > svg, #gauges-grid .plot > svg"
    before = ticks(browser, plots)
    assert "0 s" in before[0]
    bar = browser.locator(".range-row:visible")
    assert bar.count() == 0
    drag(browser, browser.locator(TIME).first, 0.4, 0.7)
    after = ticks(browser, plots)
    assert len(after) == len(before)
    assert all("0 s" not in labels for labels in after)
    assert all(len(labels) >= 2 for labels in after)
    told = bar.inner_text()
    assert "Figures are of the whole run" in told
    command = bar.locator("code").inner_text()
    assert command.startswith("telemetry report abcd1234 --from 1")
    start, end = (float(command.split()[at].rstrip("s")) for at in (4, 6))
    assert 9 < start < 14
    assert 18 < end < 22
    browser.locator(TIME).first.dblclick()
    assert bar.count() == 0
    assert ticks(browser, plots) == before
    seen.check_quiet()


def test_lines_are_cut_at_the_edges_of_the_range(seen: Seen) -> None:
    """Lines outside the range are not drawn over the axis. The value axis fits what is inside the range."""
    report = load_report()
    over = [
        replace(one, points=[replace(point, max=900.0) if point.start_s < 5 else point for point in one.points])
        for one in report.over_time
    ]
    browser = seen.report(render(final(replace(report, over_time=over)), "html"))
    chart = browser.locator("#more-over-time .chart", has_text="latency{route=a}: percentiles")
    chart.get_by_role("button", name="log scale").click()
    labels = chart.locator(".tick[text-anchor=end]")
    assert "800 ms" in labels.all_text_contents()
    drag(browser, browser.locator(TIME).first, 0.5, 0.8)
    assert "800 ms" not in labels.all_text_contents()
    inside = chart.locator(".plot > svg > svg")
    assert inside.evaluate("one => getComputedStyle(one).overflow") == "hidden"
    assert inside.locator(".line").count() == 4
    seen.check_quiet()


def test_keys_zoom_and_a_button_shows_all(seen: Seen) -> None:
    """Plus, minus and Escape on a chart; the button of the bar takes the focus. The chart keeps it."""
    browser = seen.report(render(final(load_report(), "/elsewhere/job-1"), "html"))
    bar = browser.locator(".range-row:visible")
    first = browser.locator(TIME).first
    first.focus()
    for key in ("ArrowLeft", "+"):
        browser.keyboard.press(key)
    assert bar.locator("strong").inner_text() == "22 s – 30 s of the run"
    assert "/elsewhere/job-1" in bar.locator("code").inner_text()
    assert first.evaluate("one => one === document.activeElement")
    browser.keyboard.press("-")
    assert bar.locator("strong").inner_text() == "18 s – 30 s of the run"
    for _ in range(3):
        browser.keyboard.press("-")
    assert bar.count() == 0
    browser.keyboard.press("+")
    browser.keyboard.press("Escape")
    assert bar.count() == 0
    browser.keyboard.press("+")
    bar.get_by_role("button", name="Show all").focus()
    browser.keyboard.press("Enter")
    assert bar.count() == 0
    seen.check_quiet()


def test_steps_zoom_within_their_grid(seen: Seen) -> None:
    """Other charts stay; there is no command, because time ranges are not of steps."""
    browser = seen.report(render(final(training_report()), "html"))
    time = ticks(browser, TIME)
    drag(browser, browser.locator(STEPS).nth(1), 0.4, 0.7)
    assert all("10" not in labels and "1,000" not in labels for labels in ticks(browser, STEPS))
    assert ticks(browser, TIME) == time
    bar = browser.locator(".range-row:visible")
    assert bar.inner_text().startswith("Steps ")
    assert not bar.locator("code").is_visible()
    browser.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert bar.count() == 0
    seen.check_quiet()


def test_a_touch_scrolls_and_does_not_zoom(seen: Seen) -> None:
    """A finger on a chart reads values."""
    browser = seen.report(render(final(load_report()), "html"))
    plot = browser.locator(TIME).first
    for kind, x in (("pointerdown", 300), ("pointermove", 600), ("pointerup", 600)):
        event = {"pointerType": "touch", "clientX": x, "clientY": 500, "pointerId": 7, "bubbles": True}
        plot.dispatch_event(kind, event)
    assert browser.locator(".range-row:visible").count() == 0
    assert browser.locator(".chosen").count() == 0
    seen.check_quiet()


def test_zoomed_lines_stay_in_their_frame(seen: Seen) -> None:
    """A line with a point on each side of the range is cut at the frame, and its axis covers what is seen of it."""
    report = training_report(["loss"])
    curve = replace(report.curves[0], low=[], high=[], count=6, steps=[0, 200, 400, 600, 800, 1_000])
    curve = replace(curve, values=[9.0, 1.0, 2.0, 1.0, 2.0, 30.0], times_s=[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    browser = seen.report(render(replace(report, curves=[curve]), "html"))
    drag(browser, browser.locator(STEPS).first, 0.25, 0.95)
    plot = browser.locator(STEPS).first
    frame = plot.locator("svg").evaluate("svg => ['y', 'height'].map(name => Number(svg.getAttribute(name)))")
    assert frame[0] >= 5
    assert frame[0] + frame[1] < 115
    axis = plot.locator(".tick[text-anchor=end]").all_text_contents()
    assert max(float(text) for text in axis) >= 5
    seen.check_quiet()


def test_lines_of_the_first_chart_have_colours_of_their_own(seen: Seen) -> None:
    """Two kinds of request have one rate, and a dashed p99 each, on the axis on the right."""
    browser = seen.report(render(two_kinds(), "html"))
    first = browser.locator("#time-charts .chart").first
    colours = first.locator(".line").evaluate_all("all => all.map(one => getComputedStyle(one).stroke)")
    assert len(colours) >= 3
    assert len(set(colours)) == len(colours)
    assert first.locator(".line.dashed").count() == 2
    legend = first.locator(".legend").inner_text()
    assert "requests/s 300" in legend
    assert "p99 llm{route=/a}" in legend
    seen.check_quiet()


def test_a_distribution_names_its_percentiles(seen: Seen) -> None:
    """A distribution names percentiles that are near each other or at the edge, too.

    The percentile curve begins at p50, because nothing is known below.
    """
    whole = load_report()
    stat = replace(whole.snapshot.series[0], min=1, max=17, percentiles={"50": 15.2, "90": 15.6, "99": 15.9})
    snapshot = replace(whole.snapshot, series=[stat, *whole.snapshot.series[1:]])
    browser = seen.report(render(replace(whole, snapshot=snapshot), "html"))
    shapes = browser.locator(".pair").first
    names = shapes.locator(".mark-name").all_text_contents()
    assert sorted(names) == ["p50", "p90", "p99"]
    ticks = shapes.locator(".chart").nth(1).locator(".tick[text-anchor=middle]").all_text_contents()
    assert ticks[0] == "50 %"
    seen.check_quiet()


def test_the_machine_takes_little_room(seen: Seen, wait_until: Callable[..., object]) -> None:
    """The machine takes one line with its main figures, which opens small charts and a table."""
    report = load_report()
    assert report.pictures is not None
    names = [
        *(
            f"host.{word}"
            for word in ("cpu", "cpu_iowait", "cpu_steal", "memory_percent", "disk_busy", "swap_used")
        ),
        *(f"host.pressure_{word}" for word in ("cpu", "memory", "io")),
        *(f"container.{word}" for word in ("cpu", "cpu_throttled", "memory_percent")),
        *(f"process.{word}" for word in ("cpu", "memory")),
    ]
    values = [float(at) for at in range(30)]
    gauges = [GaugeOverTime(name=name, unit="%", values=list(values)) for name in names]
    shared = [
        GaugeOverTime(name=f"host.{word}", unit="B/s", values=list(values))
        for word in ("net_sent", "net_received", "disk_read", "disk_written")
    ]
    drawn = replace(report.pictures, gauges=[*gauges, *shared])
    stats = [replace(report.snapshot.gauges[0], name=one.name, unit=one.unit, labels={}) for one in drawn.gauges]
    whole = replace(report, pictures=drawn, snapshot=replace(report.snapshot, gauges=stats))
    for width, most in ((1_280, 110), (400, 160)):
        seen.page.set_viewport_size({"width": width, "height": 900})
        browser = seen.report(render(whole, "html"))
        section, line = browser.locator("#machine"), browser.locator("#machine summary")
        assert line.inner_text().startswith("CPU mean 14 %, peak ")
        box = section.bounding_box()
        assert box is not None
        assert box["height"] < most
        assert not section.locator(".cell").first.is_visible()
        line.focus()
        browser.keyboard.press("Enter")
        assert section.locator(".cell").count() == 11
        assert section.locator("table").is_visible()
        plots = section.locator(".plot > svg")
        wait_until(lambda: plots.evaluate_all(DRAWN_WIDTHS) == [True] * 11)  # noqa: B023 – called at once
        assert browser.evaluate("document.documentElement.scrollWidth") <= width
    seen.check_quiet()


def test_a_late_series_does_not_shorten_the_whole(seen: Seen) -> None:
    """The chart of a late series begins late. Minus on another chart still leads back to the whole run."""
    report = load_report()
    late = [replace(one, points=one.points[15:]) for one in report.over_time]
    browser = seen.report(render(final(replace(report, over_time=late)), "html"))
    for name in browser.locator("#series-table .open").all():
        name.click()
    bar = browser.locator(".range-row:visible")
    plot = browser.locator("#counters-grid .plot > svg").first
    plot.focus()
    for key in ("ArrowRight", "+"):
        browser.keyboard.press(key)
    assert bar.locator("strong").inner_text().startswith("0 s – ")
    browser.keyboard.press("-")
    assert bar.count() == 0 or bar.locator("strong").inner_text().startswith("0 s – ")
    for _ in range(3):
        browser.keyboard.press("-")
    assert bar.count() == 0
    seen.check_quiet()


def test_each_request_is_a_bar_in_its_slot(seen: Seen) -> None:
    """A failed one is red, as a whole; a bar tells its phases. Other charts share the range of time."""
    browser = seen.report(render(final(llm_report()), "html"))
    slots = browser.locator("#slots")
    bars = slots.locator(".bar")
    assert bars.count() == 39 * 3 + 1
    assert slots.locator(".bar.bad-key").count() == 1
    assert slots.locator(".tick[text-anchor=end]").all_text_contents() == ["1", "3"]
    bars.nth(1).hover()
    assert slots.locator(".readout").inner_text() == (
        "0 s in slot 1 \u2002waiting to be issued 100 ms to the first token 400 ms decoding 1.40 s"
    )
    slots.locator(".bar.bad-key").hover()
    assert slots.locator(".readout").inner_text().endswith("failed 1.90 s http_503")
    drag(browser, browser.locator(TIME).first, 0.4, 0.7)
    assert 3 < bars.count() < 39 * 3
    seen.check_quiet()
