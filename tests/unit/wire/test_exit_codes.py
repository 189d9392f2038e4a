"""Exit codes."""

from __future__ import annotations

from telemetry.wire.exit_codes import Exit, strictly
from telemetry.wire.snapshot import Completeness


def test_exit_codes_are_frozen() -> None:
    """Scripts rely on these numbers."""
    assert {code.name: code.value for code in Exit} == {
        "OK": 0,
        "ERROR": 1,
        "USAGE": 2,
        "INCONCLUSIVE": 3,
        "INCOMPLETE": 4,
        "INTERRUPTED": 5,
        "BACKEND_FAILED": 6,
        "GATE_FAILED": 99,
        "SIGINT": 130,
        "SIGPIPE": 141,
    }


def test_strict_tells_interrupted_from_incomplete() -> None:
    """Strict exit codes tell interrupted from incomplete. Only a complete result is a success."""
    assert [strictly(word) for word in ("complete", "lossy", "incomplete", "interrupted")] == [0, 4, 4, 5]


def test_what_is_wrong_with_the_result_goes_before_what_is_wrong_beside_it() -> None:
    """A backend that failed is told from a complete result alone."""
    words: tuple[Completeness, ...] = ("complete", "lossy", "incomplete", "interrupted")
    assert [strictly(word, backend_failed=True) for word in words] == [6, 4, 4, 5]
