"""Errors: one tree, one line each, one exit code."""

from __future__ import annotations

import pytest

from telemetry import errors


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.UsageError, 2),
        (errors.InstrumentError, 2),
        (errors.ConfigError, 2),
        (errors.EndpointError, 1),
        (errors.KeysError, 1),
        (errors.ProtocolError, 1),
        (errors.RunDirectoryError, 1),
        (errors.RunNotFoundError, 1),
    ],
)
def test_every_error_is_one_of_ours_and_knows_its_exit_code(error: type[errors.TelemetryError], code: int) -> None:
    """A caller catches one class; a command line ends with the class's code."""
    assert issubclass(error, errors.TelemetryError)
    assert error("what").exit_code == code


def test_the_hint_is_part_of_the_line() -> None:
    """The text of an error has the problem and, in parentheses, what to do about it."""
    assert str(errors.EndpointError("port 5 is taken", hint="choose another")) == "port 5 is taken (choose another)"
    assert str(errors.EndpointError("port 5 is taken")) == "port 5 is taken"


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    """The picture at the top of the file names every class."""
    named = {name for name, value in vars(errors).items() if isinstance(value, type) and name != "Any"}
    assert errors.__doc__ is not None
    assert {name for name in named if name not in errors.__doc__} == set()


def test_an_exception_as_text() -> None:
    """Class and message; an exception without a message has only its class."""
    assert errors.error_text(KeyError("x")) == "KeyError: 'x'"
    assert errors.error_text(TimeoutError()) == "TimeoutError"
