"""The state table."""

from __future__ import annotations

from itertools import product
from typing import get_args

import pytest

from telemetry.aggregator.lifecycle import MOVES, Lifecycle
from telemetry.wire.snapshot import TERMINAL, State

STATES: tuple[State, ...] = get_args(State)
PATHS: dict[State, list[State]] = {
    "INITIALIZE": [],
    "LIVE": ["LIVE"],
    "DRAINING": ["LIVE", "DRAINING"],
    "COMPLETE": ["LIVE", "DRAINING", "COMPLETE"],
    "INTERRUPTED": ["INTERRUPTED"],
}


def _at(state: State) -> Lifecycle:
    lifecycle = Lifecycle()
    for step in PATHS[state]:
        lifecycle.to(step)
    return lifecycle


@pytest.mark.parametrize(("start", "end"), list(product(STATES, STATES)))
def test_every_move_is_allowed_or_raises(start: State, end: State) -> None:
    """The table decides on each of the 25 moves; staying is always allowed; a refused move changes nothing."""
    lifecycle = _at(start)
    if start == end or end in MOVES[start]:
        lifecycle.to(end)
        assert lifecycle.state == end
    else:
        with pytest.raises(ValueError, match=f"from {start} to {end}"):
            lifecycle.to(end)
        assert lifecycle.state == start


def test_terminal_states_are_those_without_a_way_out() -> None:
    """The table and the wire agree on what is terminal."""
    assert {state for state in STATES if not MOVES[state]} == TERMINAL
    assert _at("COMPLETE").terminal
    assert not _at("DRAINING").terminal
