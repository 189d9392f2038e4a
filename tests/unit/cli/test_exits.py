"""Exit codes."""

from __future__ import annotations

from telemetry.cli.exits import Exit, strictly


def test_exit_codes_are_frozen() -> None:
    """Scripts rely on these numbers."""
    assert {code.name: code.value for code in Exit} == {
        "OK": 0,
        "ERROR": 1,
        "USAGE": 2,
        "INCONCLUSIVE": 3,
        "INCOMPLETE": 4,
        "INTERRUPTED": 5,
        "GATE_FAILED": 99,
        "SIGINT": 130,
        "SIGPIPE": 141,
    }


def test_strict_tells_interrupted_from_incomplete() -> None:
    """Only a complete result is a success."""
    assert [strictly(word) for word in ("complete", "lossy", "incomplete", "interrupted")] == [0, 4, 4, 5]
