"""The states of a run, as one table."""

from __future__ import annotations

from typing import Final

from telemetry.wire.snapshot import TERMINAL, State

MOVES: Final[dict[State, frozenset[State]]] = {
    "INITIALIZE": frozenset({"LIVE", "DRAINING", "INTERRUPTED"}),
    "LIVE": frozenset({"DRAINING", "INTERRUPTED"}),
    "DRAINING": frozenset({"COMPLETE", "INTERRUPTED"}),
    "COMPLETE": frozenset(),
    "INTERRUPTED": frozenset(),
}


class Lifecycle:
    """State of a run. It only moves forward; a move to the current state has no effect."""

    __slots__ = ("_state",)

    def __init__(self) -> None:
        self._state: State = "INITIALIZE"

    @property
    def state(self) -> State:
        return self._state

    @property
    def terminal(self) -> bool:
        return self._state in TERMINAL

    def to(self, state: State) -> None:
        """Move to a state. Raise ValueError for a move that the table forbids."""
        if state == self._state:
            return
        if state not in MOVES[self._state]:
            raise ValueError(f"a run can't go from {self._state} to {state}")
        self._state = state
