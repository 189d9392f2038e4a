"""Slow ranks on the screen of steps."""

from __future__ import annotations

from msgspec.structs import replace
from tests.unit.report.test_stragglers import report

from telemetry.common.formatting import columns
from telemetry.tui.model.grid import Line
from telemetry.tui.model.scene import Scene
from telemetry.tui.model.stragglers import stragglers
from telemetry.wire.report import LagFold, LagMap, Stragglers


def drawn(*found: Stragglers, axis: str = "step", width: int = 100, height: int = 60) -> list[str]:
    scene = Scene(stragglers=found or tuple(report().stragglers))
    return ["".join(cell.text for cell in line) for line in stragglers(scene, axis, width, height)]


def tones(lines: tuple[Line, ...]) -> list[str]:
    return [line[0].tone for line in lines]


def test_the_sentence_heads_the_map() -> None:
    """A row for each rank, and a line with the steps below."""
    head, *rows, foot = drawn(width=140)
    assert head.startswith("rank 3 costs ")
    assert len(rows) == 12
    assert rows[3].lstrip().startswith("rank 3 ▓") or rows[3].lstrip().startswith("rank 3 █")
    assert all("█" not in row for row in (*rows[:3], *rows[4:]))
    assert foot.split()[:2] == ["step", "0"]
    assert foot.endswith(" 99")
    assert "longer than the median rank" in foot


def test_without_a_slow_rank_it_says_so_quietly() -> None:
    """A yellow line would be an alarm."""
    calm = stragglers(Scene(stragglers=tuple(report(1.0).stragglers)), "step", 100, 40)
    assert tones(calm)[0] == "dim"
    assert tones(stragglers(Scene(stragglers=tuple(report().stragglers)), "step", 100, 40))[0] == "warn"


def test_other_axes_and_runs_have_nothing() -> None:
    """Axes and runs without slow ranks have no lines of stragglers, so their screen is as before."""
    assert drawn(axis="eval") == []
    assert stragglers(Scene(), "step", 100, 40) == ()
    assert stragglers(Scene(), None, 100, 40) == ()


def test_on_a_low_screen_ranks_share_rows() -> None:
    """The row with the slow one shows it. Names of rows say which ranks they are."""
    rows = [row for row in drawn(height=30) if row.lstrip().startswith("ranks ")]
    assert [row.split()[1] for row in rows] == ["0–2", "3–5", "6–8", "9–11"]
    assert "█" in rows[1]
    assert "█" not in rows[0]


def test_lines_fit_on_every_screen() -> None:
    """Long names are cut."""
    one = report().stragglers[0]
    wide = replace(one, map=replace(one.map, ranks=["producer 漢字 with a long name"] * 12))
    for width in (20, 40, 79, 80, 200):
        assert max(map(columns, drawn(wide, width=width))) <= width


def test_absent_ranks_are_dots() -> None:
    """Absent ranks are drawn as dots, as they are not fast."""
    one = report().stragglers[0]
    lags = LagMap(ranks=["a", "b"], steps=[0, 10], last_step=19, lags=[[None, 0.2], [0.0, 0.0]])
    rows = drawn(replace(one, map=lags), width=42)
    assert any(row.startswith("a ····") and row.endswith("████") for row in rows)


def test_many_slow_ranks_are_counted() -> None:
    """The first three have lines of their own."""
    one = report().stragglers[0]
    lines = drawn(replace(one, slow=[one.slow[0]] * 5), width=200)
    assert lines[3] == "and 2 more causes"


def test_on_a_low_screen_ranks_are_folded_by_group() -> None:
    """Groups with a row each tell more than ranks that share one. The dimension with the most groups is taken."""
    one = report().stragglers[0]
    columns = len(one.map.steps)
    folds = [
        LagFold(dimension="dp", ranks=[f"dp {at}" for at in range(2)], lags=[[0.0] * columns] * 2),
        LagFold(
            dimension="pp",
            ranks=[f"pp {at}" for at in range(3)],
            lags=[[0.0] * columns, [0.4] * columns, [0.0] * columns],
        ),
        LagFold(dimension="node", ranks=[f"node {at}" for at in range(9)], lags=[[0.0] * columns] * 9),
    ]
    rows = drawn(replace(one, map=replace(one.map, folds=folds)), height=30)[-4:-1]
    assert [row.split(" ")[:2] for row in rows] == [["pp", "0"], ["pp", "1"], ["pp", "2"]]
    assert "█" in rows[1]
    assert "rank 3 " in "".join(drawn(replace(one, map=replace(one.map, folds=folds)), height=60))
