"""A plot shows its lines, bars, marks and names, and never falls over what it is given."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.text import Text
from tests.unit.tui.widgets.showing import Showing, picture, strips

from telemetry.tui.model.plot import Plot, Trace
from telemetry.tui.theme import palette
from telemetry.tui.widgets.plot_view import PlotView

pytestmark = pytest.mark.slow

SIZE = (60, 12)
XS = tuple(float(x) for x in range(50))
LINES = Plot(
    title="over time",
    traces=(
        Trace("p50", XS, tuple(10 + math.sin(x / 5) for x in XS)),
        Trace("p99", XS, tuple(30 + math.sin(x / 5) for x in XS)),
        Trace("max", XS, tuple(50.0 for _ in XS), "bad"),
    ),
    x_ticks=((0.0, "12:00:00"), (25.0, "12:00:25"), (99.0, "12:01:39")),
    y_ticks=((0.0, "0 s"), (30.0, "30 ms"), (60.0, "60 ms"), (90.0, "90 ms")),
    x_range=(0.0, 49.0),
    y_range=(0.0, 60.0),
)
BARS = Plot(
    title="histogram",
    kind="bars",
    traces=(
        Trace("values", tuple(x + 0.5 for x in range(20)), (*(4.0,) * 10, *(0.0,) * 5, *(8.0,) * 5), "accent"),
    ),
    x_ticks=((0.0, "1 ms"), (20.0, "32 ms")),
    y_ticks=((0.0, "0"), (8.0, "8")),
    x_range=(0.0, 20.0),
    y_range=(0.0, 8.0),
)


class Counted(PlotView):
    """Knows how often it was drawn."""

    drawn = 0

    def render(self) -> Text:
        self.drawn += 1
        return super().render()


def braille(line: str) -> bool:
    return any("\u2800" < character <= "\u28ff" for character in line)


async def test_lines_marks_and_names_are_where_they_belong() -> None:
    """The title and the names of the lines on top, marks in the model's words, each line at its height."""
    view = PlotView()
    async with Showing(view).run_test(size=SIZE) as pilot:
        view.show(LINES)
        await pilot.pause()
        lines = picture(view)
        assert lines[0] == "over time   ━━ p50   ━━ p99   ━━ max"
        assert [at for at, line in enumerate(lines) if line.startswith(("60 ms┤", "30 ms┤", "  0 s┤"))] == [1, 5, 9]
        assert lines[11].split() == ["12:00:00", "12:00:25"]
        assert [at for at, line in enumerate(lines) if braille(line)] == [2, 5, 8]
        assert len(lines) == 12


async def test_a_line_has_a_gap_where_there_is_no_value() -> None:
    """A line has a gap where there is no value, and a value between two gaps is a dot."""
    view = PlotView()
    async with Showing(view).run_test(size=SIZE) as pilot:
        ys = tuple(30.0 if x < 10 or x == 30 else None for x in XS)
        view.show(replace(LINES, title="", traces=(Trace("p99", XS, ys),)))
        await pilot.pause()
        [line] = [line for line in picture(view) if braille(line)]
        assert len([part for part in line.partition("┤")[2].split() if braille(part)]) == 2


async def test_each_line_has_its_tone_or_a_colour_of_its_own() -> None:
    """The legend has the same; axes are dim."""
    view = PlotView()
    async with Showing(view).run_test(size=SIZE) as pilot:
        view.show(LINES)
        await pilot.pause()
        paint = palette(view)
        colours = [paint.traces[0].color, paint.traces[1].color, paint.text["bad"].color]
        legend = [segment.style.color for segment in strips(view)[0] if segment.text == "━━" and segment.style]
        drawn = [
            segment.style.color
            for strip in reversed(strips(view)[1:])
            for segment in strip
            if braille(segment.text) and segment.style
        ]
        assert legend == colours
        assert list(dict.fromkeys(drawn)) == colours
        axis = next(segment for segment in strips(view)[10] if "└" in segment.text)
        assert axis.style is not None
        assert axis.style.color == paint.text["dim"].color
        assert axis.style.bgcolor == paint.text["dim"].bgcolor


async def test_without_colour_lines_differ_by_their_marks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines differ by their marks where there is no colour, and the legend says which is which."""
    monkeypatch.setenv("NO_COLOR", "1")
    view = PlotView()
    async with Showing(view).run_test(size=SIZE) as pilot:
        view.show(LINES)
        await pilot.pause()
        lines = picture(view)
        assert lines[0] == "over time   ⣀⡠ p50   ▄▀ p99   •• max"
        assert [at for at, line in enumerate(lines[1:], 1) if braille(line)] == [8]
        assert [at for at, line in enumerate(lines[1:], 1) if "•" in line] == [2]
        assert any("▄" in line or "▀" in line for line in lines[5:7])


async def test_bars_stand_on_the_axis_and_leave_gaps() -> None:
    """Bars stand on the axis, and twice as many are twice as high.

    Where there is no value there is no ink, not even a thin line.
    """
    view = PlotView()
    async with Showing(view).run_test(size=SIZE) as pilot:
        view.show(BARS)
        await pilot.pause()
        lines = picture(view)
        assert lines[0] == "histogram"
        body = [line.split("┤")[-1].split("│")[-1] for line in lines[1:10]]
        left, right = (sum("█" in line[span] for line in body) for span in (slice(0, 27), slice(45, 60)))
        assert right == 9
        assert left in (4, 5)
        assert {line[30:42].strip() for line in body} == {""}
        assert body[-1].strip().startswith("█████")


async def test_the_cursor_is_a_line_where_it_is_in_sight() -> None:
    """A moment beyond the edge marks nothing."""
    view = PlotView()
    async with Showing(view).run_test(size=SIZE) as pilot:
        view.show(replace(LINES, cursor=20.0))
        await pilot.pause()
        with_cursor = picture(view)
        view.show(replace(LINES, cursor=1000.0))
        await pilot.pause()
        without = picture(view)
        assert all(line.count("│") + line.count("┤") == 2 for line in with_cursor[1:5:3])
        assert all(line.count("│") + line.count("┤") == 1 for line in without[1:5:3])
        view.show(LINES)
        await pilot.pause()
        assert picture(view) == without


async def test_nothing_to_draw_is_said() -> None:
    """A plot with nothing to draw has the model's words in the middle."""
    view = PlotView()
    async with Showing(view).run_test(size=SIZE) as pilot:
        view.show(Plot(title="rate", empty="no history of this series yet"))
        await pilot.pause()
        lines = picture(view)
        assert lines[0] == "rate"
        assert lines[6] == " " * 15 + "no history of this series yet"
        view.show(Plot(empty="words " * 30))
        await pilot.pause()
        assert len(picture(view)[5]) <= 60


async def test_the_same_plot_is_not_drawn_again() -> None:
    """Drawing is what costs; a plot that is equal costs nothing."""
    view = Counted()
    async with Showing(view).run_test(size=SIZE) as pilot:
        view.show(LINES)
        await pilot.pause()
        before = view.drawn
        view.show(replace(LINES))
        await pilot.pause()
        assert view.drawn == before
        view.show(replace(LINES, cursor=1.0))
        await pilot.pause()
        assert view.drawn == before + 1


@pytest.mark.parametrize("size", [(200, 50), (60, 5), (18, 4), (10, 12), (60, 2), (60, 1), (3, 1)])
async def test_a_plot_fits_in_any_room(size: tuple[int, int]) -> None:
    """A large one is as wide as the screen, a small one says less, and none is wider or higher than it may be."""
    for plot in (LINES, BARS, Plot(title="a title that is long")):
        view = PlotView()
        async with Showing(view).run_test(size=size) as pilot:
            view.show(plot)
            await pilot.pause()
            assert {strip.cell_length for strip in strips(view)} == {size[0]}
            assert len(picture(view)) == size[1]
    view = PlotView()
    async with Showing(view).run_test(size=(200, 50)) as pilot:
        view.show(LINES)
        await pilot.pause()
        assert len(picture(view)[-2]) == 200


async def test_far_values_do_not_hold_up_the_screen() -> None:
    """A point that is a billion pictures away is not walked to."""
    far = Plot(
        traces=(Trace("p50", (0.0, 1.0, 2.0, 1e12), (0.5, 1e12, -1e12, 0.5)),),
        x_range=(0.0, 2.0),
        y_range=(0.0, 1.0),
    )
    view = PlotView()
    async with Showing(view).run_test(size=SIZE) as pilot:
        started = time.process_time()
        view.show(far)
        await pilot.pause()
        assert any(map(braille, picture(view)))
        assert time.process_time() - started < 5


values = st.floats(-1e15, 1e15) | st.sampled_from((0.0, 1e-300, -0.0, 1e300))
points = st.lists(st.tuples(values, values), max_size=8, unique_by=lambda point: point[0])


async def test_any_finite_points_can_be_drawn() -> None:
    """One point, none, all at one place, or as far apart as numbers are."""
    view = PlotView()
    async with Showing(view).run_test(size=(40, 8)) as pilot:
        await pilot.pause()

        @settings(max_examples=min(60, settings().max_examples), deadline=None)
        @given(found=points, bars=st.booleans())
        def draws(found: list[tuple[float, float]], bars: bool) -> None:
            found = sorted(found)
            trace = Trace("t", tuple(x for x, _ in found), tuple(y for _, y in found))
            view.show(Plot(traces=(trace,), kind="bars" if bars else "lines", y_ticks=((0.0, "0"),)))
            rows = view.render().plain.split("\n")
            assert len(rows) <= 8
            assert all(len(row) <= 40 for row in rows)

        draws()


async def test_another_theme_draws_it_afresh() -> None:
    """Lines change their colours with everything else."""
    view = PlotView()
    app = Showing(view)
    async with app.run_test(size=SIZE) as pilot:
        view.show(LINES)
        await pilot.pause()
        app.theme = "textual-light"
        await pilot.pause()
        colours = {segment.style.color for strip in strips(view) for segment in strip if segment.style}
        assert palette(view).traces[0].color in colours


@pytest.mark.parametrize("theme", ["ansi-dark", "ansi-light", "nord"])
async def test_the_background_is_the_widgets(theme: str) -> None:
    """The background is the widget's, as `plotext` paints none of its own.

    The plot is neither black on a light terminal nor of another shade.
    """
    view = PlotView()
    app = Showing(view)
    async with app.run_test(size=SIZE) as pilot:
        app.theme = theme
        view.show(LINES)
        await pilot.pause()
        grounds = {segment.style.bgcolor for strip in strips(view) for segment in strip if segment.style}
        assert grounds == {palette(view).text["plain"].bgcolor}


@pytest.mark.parametrize(
    ("height", "marked"),
    [
        (3, ["30/s"]),
        (4, ["30/s", "0/s"]),
        (5, ["30/s", "0/s"]),
        (7, ["20/s", "0/s"]),
        (9, ["30/s", "20/s", "10/s", "0/s"]),
    ],
)
async def test_even_marks_stay_even(height: int, marked: list[str]) -> None:
    """Even marks stay even, as marks that would stand side by side make way.

    A single row is not marked with the lower end.
    """
    view = PlotView()
    ticks = tuple((10.0 * each, f"{10 * each}/s") for each in range(4))
    async with Showing(view).run_test(size=(40, height)) as pilot:
        view.show(
            Plot(
                traces=(Trace("rate", (0.0, 9.0), (26.0, 26.0)),),
                y_ticks=ticks,
                y_range=(0.0, 30.0),
                x_ticks=((0.0, "a"),),
            )
        )
        await pilot.pause()
        assert [line.split("┤")[0].strip() for line in picture(view) if "┤" in line] == marked
