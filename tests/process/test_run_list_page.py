"""The page of a list of runs in a real browser: sorted, filtered, and curves of chosen runs over each other."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.process.conftest import Ground
from tests.process.pages import FINISHED, Seen

from telemetry.history.headlines import Figure
from telemetry.report.run_list import ListedRun, RunDetails, run_list_page
from telemetry.report.run_list.page import RunCurve

if TYPE_CHECKING:
    from playwright.sync_api import Page

EVIL = "</script><img src=x onerror=alert(1)>\"'><svg onload=alert(2)>"


def training(number: int, **more: Any) -> ListedRun:
    """Return a run whose loss ends at its number."""
    steps = [float(step) for step in range(0, 100, 2)]
    loss = [number + math.exp(-step / 30) for step in steps]
    details = RunDetails(
        figures=[Figure("loss", f"{number}.00", value=float(number)), Figure("steps/s", "41", value=41.0)],
        params={"lr": number / 10, "ranks": 3},
        curves=[
            RunCurve("loss", "", True, steps, loss, True, f"{number}.00"),
            RunCurve("lr", "", True, steps[: 10 * number], loss[: 10 * number]),
        ],
    )
    facts = {
        "result": "complete",
        "health": "good",
        "started_ns": (100 + number) * 10**9,
        "duration_s": 60.0 - number,
    }
    return ListedRun(name="train", run_id=f"aaaa{number:04}", details=details, **{**facts, **more})


def load(number: int) -> ListedRun:
    """Return a load with requests per second and p99."""
    seconds = [at + 0.5 for at in range(20)]
    details = RunDetails(
        figures=[Figure("requests/s", "120", value=120.0), Figure("failed", "7", health="warn", value=7.0)],
        curves=[
            RunCurve("requests/s", "", False, seconds, [100.0 + at for at in range(20)], whole="120"),
            RunCurve("latency p99", "ns", False, seconds, [2e8] * 20, whole="200 ms"),
        ],
        main=1,
    )
    return ListedRun(
        name="http",
        run_id=f"bbbb{number:04}",
        result="failed",
        health="bad",
        exit="3",
        started_ns=number * 10**9,
        duration_s=20.0,
        details=details,
        link="reports/a%20b.html",
    )


def names(browser: Page) -> list[str]:
    """Return the ids of the rows, in their order."""
    return browser.locator("#run-table tbody th small").all_inner_texts()


def heads(browser: Page) -> list[str]:
    """Return the titles of the columns."""
    return [text for text in browser.locator("#run-table thead th").all_inner_texts() if text]


def test_the_most_repeated_runs_are_drawn_at_once(seen: Seen) -> None:
    """Each value of the most repeated runs has one chart.

    The parameter that differs tells the runs apart, with the same colour in the table.
    """
    browser = seen.report(run_list_page("Runs", [*(training(number) for number in (5, 4, 3, 2)), load(1)]))
    cells = browser.locator("#run-charts .cell")
    assert cells.locator(".enlarge").all_inner_texts() == ["loss", "lr"]
    assert cells.first.locator(".line:not(.raw)").count() == 4
    assert [text.split() for text in cells.first.locator(".key").all_inner_texts()] == [
        ["lr", f"{number / 10}", f"{number}.00"] for number in (5, 4, 3, 2)
    ]
    assert browser.locator("#run-table .key.c2 input").get_attribute("aria-label") == "Curves of train aaaa0003"
    first = browser.locator("#run-charts .plot > svg").first.bounding_box()
    assert first is not None
    assert first["y"] < 900
    browser.locator("#run-charts .plot > svg").first.hover()
    assert cells.first.locator(".moment").inner_text().startswith("about step ")
    assert float(cells.first.locator(".key b").first.inner_text()) > 5
    assert cells.nth(1).locator(".key b").last.inner_text() == ""  # its curve has ended
    seen.check_quiet()


def test_runs_are_sorted_and_filtered(seen: Seen) -> None:
    """Runs are sorted by any column, and filtered by words of name, result and parameters.

    The columns are those that the shown runs need.
    """
    browser = seen.report(run_list_page("Runs", [training(3), training(2), load(1)]))
    assert names(browser) == ["aaaa0003", "aaaa0002", "bbbb0001"]
    assert "ranks" in heads(browser)
    browser.get_by_role("button", name="took", exact=True).click()
    assert names(browser) == ["aaaa0002", "aaaa0003", "bbbb0001"]
    browser.locator("#run-table").get_by_role("button", name="loss", exact=True).click()
    assert names(browser) == ["aaaa0003", "aaaa0002", "bbbb0001"]
    browser.locator("#run-table").get_by_role("button", name="loss", exact=True).click()
    assert names(browser) == ["aaaa0002", "aaaa0003", "bbbb0001"]  # a run without it stays last
    browser.get_by_role("searchbox").fill("train LR=0.2")
    assert names(browser) == ["aaaa0002"]
    assert browser.get_by_role("status").filter(has_text="of 3 runs").inner_text() == "1 of 3 runs"
    browser.get_by_role("searchbox").fill("train")
    assert "requests/s" not in heads(browser)
    assert "ranks" not in heads(browser)  # it is the same in both
    assert "lr" in heads(browser)
    seen.check_quiet()


def test_chosen_runs_share_charts(seen: Seen) -> None:
    """A tick box adds and removes curves; at most eight runs; the focus stays in the table."""
    browser = seen.report(run_list_page("Runs", [*(training(number) for number in range(9, 0, -1)), load(1)]))
    assert browser.locator("#run-charts h3").all_inner_texts() == ["By step"]
    browser.get_by_role("searchbox").fill("http")
    box = browser.get_by_role("checkbox", name="Curves of http bbbb0001")
    box.check()
    assert box.evaluate("one => one === document.activeElement")
    assert browser.locator("#run-charts h3").all_inner_texts()[1].startswith("Over time")
    titles = browser.locator("#run-charts .enlarge").all_inner_texts()
    assert titles == ["loss", "lr", "requests/s", "latency p99"]
    assert "http" in browser.locator("#run-charts .cell").nth(2).locator(".key").inner_text()
    browser.get_by_role("searchbox").fill("")
    browser.get_by_role("button", name="Choose these").click()
    assert browser.locator("#run-table input:checked").count() == 8
    assert browser.locator("#run-table input:disabled").count() == 2
    browser.get_by_role("button", name="Choose none").click()
    assert "Choose runs" in browser.locator("#run-charts").inner_text()
    seen.check_quiet()


def test_smoothing_survives_another_choice(seen: Seen) -> None:
    """A reader who chose it does not choose it again; a zoom holds for all charts by step."""
    browser = seen.report(run_list_page("Runs", [training(3), training(2)]))
    browser.get_by_role("slider").fill("0.9")
    browser.get_by_role("checkbox", name="Curves of train aaaa0002").uncheck()
    assert browser.get_by_role("slider").input_value() == "0.9"
    browser.locator("#run-charts .plot > svg").first.focus()
    browser.keyboard.press("+")
    assert browser.locator(".range-row:visible").inner_text().startswith("Steps ")
    browser.get_by_role("checkbox", name="Curves of train aaaa0002").check()
    assert browser.locator(".range-row:visible").count() == 1
    seen.check_quiet()


@pytest.mark.parametrize("ground", ["light", "dark"])
def test_failed_runs_are_red_and_reports_are_links(ground: str, seen: Seen) -> None:
    """A list with failed runs and links to reports scrolls only its table sideways on a narrow page.

    Failed runs are red.
    """
    seen.page.emulate_media(color_scheme="dark" if ground == "dark" else "light")
    seen.page.set_viewport_size({"width": 400, "height": 900})
    browser = seen.report(run_list_page("Runs", [training(3), load(1)]))
    assert browser.evaluate("document.documentElement.scrollWidth") <= 400
    badge = browser.locator("#run-table .badge.bad")
    assert badge.inner_text() == "failed, exit 3"
    red = "one => getComputedStyle(one).color"
    assert badge.evaluate(red) != browser.locator("#run-table .badge.good").evaluate(red)
    assert browser.get_by_role("link", name="http").get_attribute("href") == "reports/a%20b.html"
    assert browser.get_by_role("link", name="train").count() == 0
    seen.check_quiet()


def test_the_table_has_the_width_of_the_window(seen: Seen) -> None:
    """A narrow window begins with the result and the main figures; the curve is last. The name stays in sight."""
    long = "complete, loss NaN or infinite"
    browser = seen.open(run_list_page("runs", [training(1), training(2, result=long, health="warn")]))
    browser.set_viewport_size({"width": 1400, "height": 900})
    assert browser.locator(".runs").evaluate("box => box.clientWidth") > 1300
    assert heads(browser)[:4] == ["name", "result", "curve", "lr"]
    browser.set_viewport_size({"width": 400, "height": 900})
    browser.locator("#run-table thead th:last-child").filter(has_text="curve").wait_for()
    assert heads(browser)[:4] == ["name", "result", "loss", "steps/s"]
    assert heads(browser)[-1] == "curve"
    first = browser.locator("#run-table tbody tr").first
    right = "cell => cell.getBoundingClientRect().right"
    assert first.locator("td").nth(2).inner_text() == "2.00"
    assert first.locator("td").nth(2).evaluate(right) <= 400
    browser.locator(".runs").evaluate("box => box.scrollLeft = 1000")
    assert first.locator("th").evaluate("cell => cell.getBoundingClientRect().left") >= 12


def test_names_from_outside_do_not_run(seen: Seen) -> None:
    """Names, results, figures and parameters are text, whatever they hold."""
    steps = [0.0, 1.0, 2.0]
    details = RunDetails([Figure(EVIL, EVIL)], {EVIL: EVIL}, [RunCurve(EVIL, EVIL, True, steps, steps, whole=EVIL)])
    runs = [ListedRun(name=EVIL, run_id=str(at), result=EVIL, health="bad", details=details) for at in range(2)]
    browser = seen.report(run_list_page(EVIL, runs))
    assert browser.locator("h1").inner_text() == EVIL
    assert browser.locator("img").count() == 0
    seen.check_quiet()


def test_paper_and_browsers_without_scripts_have_the_table(seen: Seen) -> None:
    """All rows, and no tick boxes."""
    html = run_list_page("Runs", [replace(training(number % 9 + 1), run_id=f"r{number}") for number in range(120)])
    browser = seen.report(html)
    assert browser.locator("#run-table tbody tr").count() == 50
    browser.evaluate("dispatchEvent(new Event('beforeprint'))")
    browser.emulate_media(media="print")
    assert browser.locator("#run-table tbody tr").count() == 120
    assert not browser.locator("#run-table input").first.is_visible()
    plain = seen.page.context.browser.new_context(java_script_enabled=False).new_page()  # type: ignore[union-attr]
    plain.set_content(html)
    assert plain.locator("noscript table tbody tr, #runs table tbody tr").count() == 120
    assert not plain.locator("#charts").is_visible()


def test_the_page_of_recorded_runs(ground: Ground, seen: Seen) -> None:
    """The page that the command makes of three recorded runs works in the browser.

    The runs differ in a parameter, and their reports open.
    """
    script = ground.program(
        "train.py",
        "import sys, telemetry\n"
        "with telemetry.start('train') as run:\n"
        "    run.params({'lr': float(sys.argv[1])})\n"
        "    for step in range(60):\n"
        "        run.log({'loss': 1 / (1 + step * float(sys.argv[1]))}, step=step)\n",
    )
    for rate in ("0.1", "0.2", "0.4"):
        code, _, err = ground.run("run", "--quiet", "--name", "train", "--", sys.executable, script, rate)
        assert code == 0, err
    code, _, err = ground.run("ls", "train", "--html", "runs.html", "--reports")
    assert code == 0, err
    assert "3 new reports" in err
    seen.page.goto((ground.folder / "runs.html").as_uri())
    seen.page.locator(FINISHED).wait_for(state="attached")
    cell = seen.page.locator("#run-charts .cell").first
    assert cell.locator(".enlarge").inner_text() == "loss"
    assert [text.split()[:2] for text in cell.locator(".key").all_inner_texts()] == [
        ["lr", rate] for rate in ("0.4", "0.2", "0.1")
    ]
    seen.page.get_by_role("link", name="train").first.click()
    seen.page.locator(FINISHED).wait_for(state="attached")
    assert seen.page.title() == "train – telemetry report"
    assert seen.said == []


def test_a_parameter_may_have_any_name(seen: Seen) -> None:
    """A parameter may also have a name that every object of a script has."""
    odd = {"constructor": "a", "toString": 1, "__proto__": "x", "valueOf": True}
    runs = [training(3), replace(training(2), details=replace(training(2).details, params=odd))]
    browser = seen.report(run_list_page("Runs", runs))
    assert {*odd, "lr", "ranks"} <= set(heads(browser))
    seen.check_quiet()


def test_parameters_of_code_and_machine_leave_room_for_others(seen: Seen) -> None:
    """A run that has not recorded them is no difference; those that differ come after the user's own."""
    around = {**{f"machine.part{at}": "same" for at in range(9)}, **{f"packages.p{at}": "1.0" for at in range(9)}}
    runs = [
        replace(run, details=replace(run.details, params={**more, "lr": run.run_id}))
        for run, more in ((training(9), {**around, "git.commit": "b"}), (training(8), {}))
    ]
    runs.append(replace(training(7), details=replace(training(7).details, params={**around, "git.commit": "a"})))
    browser = seen.report(run_list_page("Runs", runs))
    assert heads(browser)[3:6] == ["lr", "git.commit", "loss"]
    browser.get_by_role("searchbox").fill("machine.part3=same git.commit=a")
    assert names(browser) == ["aaaa0007"]
    seen.check_quiet()


def test_an_unknown_figure_comes_last(seen: Seen) -> None:
    """Whichever way the column is sorted: a live run that did not answer has no duration."""
    browser = seen.report(run_list_page("Runs", [training(3), training(1, duration_s=None), training(2)]))
    for order in (["aaaa0002", "aaaa0003"], ["aaaa0003", "aaaa0002"]):
        browser.get_by_role("button", name="took", exact=True).click()
        assert set(names(browser)[:2]) == set(order)
        assert names(browser)[2] == "aaaa0001"
    seen.check_quiet()


def test_names_from_right_to_left_do_not_move_their_ids(seen: Seen) -> None:
    """The digits of an id or value that follows stay where they are written."""
    details = replace(training(2).details, params={})
    runs = [replace(training(at), name="עולם", run_id=f"819bcc5{at}", details=details) for at in (1, 2)]
    browser = seen.report(run_list_page("Runs", runs))
    place = """one => {
        const text = one.firstChild, range = document.createRange(), at = text.data.indexOf("819");
        const left = (from, to) => {
            range.setStart(text, from);
            range.setEnd(text, to);
            return range.getBoundingClientRect().left;
        };
        const name = text.data.indexOf("עולם"), value = one.querySelector("b").getBoundingClientRect().left;
        return [left(name, name + 4), left(at, at + 3), left(at + 3, at + 8), value];
    }"""
    for key in browser.locator("#run-charts .cell").first.locator(".key").all():
        places = key.evaluate(place)
        assert places == sorted(places)
    seen.check_quiet()
