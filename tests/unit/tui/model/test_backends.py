"""Backends as rows, and in one line."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.tui import trainings
from tests.unit.tui.model.scenes import NOON, SECOND, column, scene, snapshot, text, tones

from telemetry.common.formatting import columns
from telemetry.tui.model.backends import backends, backends_line
from telemetry.tui.model.grid import Grid
from telemetry.tui.model.scene import Scene, View
from telemetry.wire.snapshot import BackendStat

NOW = NOON + 40 * SECOND


def stat(name: str = "wandb", **changes: Any) -> BackendStat:
    return BackendStat(**{"name": name, "state": "writing", "time_ns": NOW, "written": 12_300, **changes})


def grid(*stats: BackendStat, places: bool = False, **changes: Any) -> Grid:
    return backends(snapshot(backends=list(stats), **changes), View(), places=places)


def said(found: Grid) -> list[str]:
    return [" ".join(cell.text for cell in row.cells) for row in found.rows if row.heading]


def line(*stats: BackendStat, width: int = 200) -> str:
    return text(backends_line(scene(backends=list(stats)), width))


def test_states_in_words_and_colours() -> None:
    """The word is enough without a colour."""
    found = grid(
        stat(state="idle"),
        stat(state="starting"),
        stat(state="retrying"),
        stat(state="failed"),
        stat(time_ns=NOW - 12 * SECOND),
        stat(calling_s=25.0),
    )
    assert column(found, "state") == [
        "up to date",
        "starting",
        "retrying",
        "failed",
        "silent for 12 s",
        "hanging for 25 s",
    ]
    assert tones(found, "state") == ["good", "accent", "warn", "bad", "warn", "warn"]


def test_what_is_none_does_not_stand_out() -> None:
    """Figures that are none are dim, and a number of dropped values is not."""
    found = grid(stat(), stat(dropped={"refused": 3, "too_large": 1}, breaker="half-open", queued=9))
    assert column(found, "dropped") == ["0", "4"]
    assert tones(found, "dropped") == ["dim", "bad"]
    assert tones(found, "breaker") == ["dim", "warn"]
    assert tones(found, "queued") == ["dim", "plain"]


def test_when_it_was_heard_of() -> None:
    """The column `seen` has whole seconds while the run goes on, and the time of day afterwards."""
    stats = (stat(), stat(time_ns=NOW - 90 * SECOND), stat(time_ns=0))
    assert column(grid(*stats), "seen") == ["now", "90 s", "never"]
    assert column(grid(*stats, state="COMPLETE"), "seen") == ["12:00:40", "11:59:10", "never"]


def test_the_last_error_stands_below() -> None:
    """Dim once it is over; with how often it came while the breaker is open."""
    found = grid(
        stat("a", last_error="no\x1broute", state="retrying", breaker="open", failures=7),
        stat("b", last_error="was away"),
        stat("c", dropped={"refused": 2}),
    )
    assert said(found) == [
        r"  last error: no\x1broute (7 in a row, breaker open)",
        "  last error: was away",
        "  dropped: 2 refused",
    ]
    assert [row.cells[1].tone for row in found.rows if row.heading] == ["warn", "dim", "bad"]


def test_where_the_data_is_stands_below_if_there_is_room() -> None:
    """A path has none in a column."""
    one = stat(place="/data/runs/a")
    assert said(grid(one)) == []
    assert said(grid(one, places=True)) == ["  where: /data/runs/a"]


def test_raw_numbers() -> None:
    """The table of backends has raw numbers, as the other tables do."""
    found = backends(snapshot(backends=[stat(queued=2_000_000)]), View(units="raw"))
    assert column(found, "queued") == ["2,000,000"]


def test_one_line_for_all() -> None:
    """The line has what was delivered of backends that are well, and what is wrong with the others."""
    assert line() == ""
    assert text(backends_line(Scene(), 80)) == ""
    assert (
        line(stat("tb"), stat(state="retrying", queued=3_200, last_error="connection refused"))
        == "backends  tb ✓ 12,300 · wandb retrying, 3,200 queued: connection refused"
    )
    assert line(stat(queued=20_000, dropped={"refused": 2})) == "backends  wandb ✓ 12,300, 20,000 queued, 2 dropped"
    assert line(stat(queued=20)) == "backends  wandb ✓ 12,300"


def test_where_there_is_no_room_what_is_well_goes_first() -> None:
    """Backends that are well lose their names first, then reasons are cut, then amounts left out.

    Backends in trouble are named.
    """
    away = stat("away", state="retrying", queued=675, last_error="connection refused: https://api.wandb.ai")
    stats = [stat("one"), stat("two"), away, stat("hung", calling_s=29.0)]
    assert line(*stats, width=90).startswith("backends  2 ✓ · away retrying, 675 queued: connection re")
    assert line(*stats, width=70) == "backends  2 ✓ · away retrying, 675 queued · hung hanging for 29 s"
    assert line(*stats, width=60) == "backends  2 ✓ · away retrying · hung hanging for 29 s"
    assert line(*[stat(f"tensorboard-{number}") for number in range(12)], width=78) == "backends  12 ✓"


@pytest.mark.parametrize("width", range(0, 220, 7))
def test_the_line_has_room(width: int) -> None:
    """The line of the backends has room in any width."""
    found = backends_line(Scene(snapshot=trainings.training().last), width)
    assert columns(text(found)) <= width
