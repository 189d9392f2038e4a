"""Parameters that differ between runs, and the points that they make."""

from __future__ import annotations

import pytest

from telemetry.errors import UsageError
from telemetry.judge.sweeps.points import axis_first, grouped, parameters_of, together


def test_the_parameter_that_differs() -> None:
    """Equal parameters make no points."""
    runs = [{"model": "tiny", "users": users} for users in (1, 2, 4)]
    assert parameters_of(runs) == ["users"]


def test_a_parameter_that_follows_another_is_left_out() -> None:
    """A port or a seed that changes with each value says nothing more."""
    runs = [{"users": users, "port": 8_000 + users, "half": users // 2} for users in (1, 2, 3)]
    assert parameters_of(runs) == ["users", "half"]
    assert together(runs, ["users"]) == ["port"]


def test_a_run_without_a_parameter_does_not_differ() -> None:
    """A command that failed early has not told its own parameters."""
    runs = [{"users": 1, "limits": "50ms"}, {"users": 2}, {"users": 4, "limits": "50ms"}]
    assert parameters_of(runs) == ["users"]
    assert together(runs, ["users"]) == []


def test_the_axis_is_numeric_with_the_most_values() -> None:
    """The axis is the numeric parameter with the most values, whatever the order.

    Parameters that were asked for keep their order.
    """
    runs = [
        {"mode": mode, "size": size, "users": users} for mode in "abc" for size in (1, 2) for users in (1, 2, 4)
    ]
    assert axis_first(runs, ["mode", "size", "users"]) == ["users", "size", "mode"]
    assert parameters_of(runs, ["mode", "users"]) == ["mode", "users"]


def test_runs_without_a_difference_or_with_too_many() -> None:
    """The user is told how to record or choose a parameter."""
    with pytest.raises(UsageError, match="do not differ") as error:
        parameters_of([{"a": 1}, {"a": 1}])
    assert "--param NAME=VALUE" in error.value.hint
    runs = [{name: (number >> at) & 1 for at, name in enumerate("abcd")} for number in range(16)]
    with pytest.raises(UsageError, match="differ in 4 parameters: a, b, c, d") as error:
        parameters_of(runs)
    assert "--by a" in error.value.hint


def test_an_unknown_parameter() -> None:
    """The hint has the near one, else those that there are."""
    with pytest.raises(UsageError) as error:
        parameters_of([{"users": 1}], ["user"])
    assert error.value.hint == "did you mean users?"
    with pytest.raises(UsageError) as error:
        parameters_of([{"users": 1}], ["threads"])
    assert error.value.hint == "they have: users"


def test_points_are_sorted_by_number_then_by_appearance() -> None:
    """Repeated runs are one point; 4 and 4.0 are the same value."""
    runs = [{"users": 16}, {"users": 4}, {"users": 4.0}, {"users": "max"}, {"users": 2}]
    assert grouped(runs, ["users"]) == [[4], [1, 2], [0], [3]]
    pairs = [{"a": a, "b": b} for b in (2, 1) for a in (9, 8)]
    assert grouped(pairs, ["a", "b"]) == [[3], [2], [1], [0]]


def test_the_choice_of_a_headline_is_no_parameter() -> None:
    """The choice of a headline travels as a parameter but is none, because only screens read it."""
    assert parameters_of([{"telemetry.headline": "[]", "a": 1}, {"telemetry.headline": '["x"]', "a": 2}]) == ["a"]


def test_code_and_machine_make_no_points_unless_they_are_asked_for() -> None:
    """Code and machine make no points unless they are asked for.

    They are still named if they change together with a parameter.
    """
    runs = [{"users": at, "git.commit": f"c{at}", "machine.host": "a" if at < 2 else "b"} for at in (1, 2)]
    assert parameters_of(runs) == ["users"]
    assert parameters_of(runs, ["git.commit"]) == ["git.commit"]
    assert together(runs, ["users"]) == ["git.commit", "machine.host"]
