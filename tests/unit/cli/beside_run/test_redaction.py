"""The rules of the command line, for all processes of a run."""

from __future__ import annotations

import argparse
import os

import pytest

from telemetry.cli.beside_run import redaction
from telemetry.config import RedactConfig, load
from telemetry.judge.gates.parser import parse_all
from telemetry.redaction import Redactor


def _parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    redaction.add_arguments(parser)
    return parser.parse_args(words)


def test_flags_become_settings() -> None:
    """Flags that are not given leave the settings alone."""
    given = _parsed("--redact", "personal", "--redact-pattern", "a=x", "--redact-pattern", "b=y,z")
    assert (given.redact_personal, given.redact_patterns) == (True, ["a=x", "b=y,z"])
    empty = _parsed()
    assert (empty.redact_personal, empty.redact_patterns) == (None, None)


@pytest.mark.parametrize(
    ("gate", "masked"),
    [
        ("p99(latency{route=/x,tenant=ghp_KEY}) < 5ms", 'p99(latency{route=/x,tenant="***"}) < 5ms'),
        ('value(calls{token="abc"}) == 5', 'value(calls{token="***"}) == 5'),
        ("value(calls{auth=google}) >= 5", 'value(calls{auth="***"}) >= 5'),
        ('p99("time of ghp_KEY") < 5ms in every 1s', 'p99("time of ***") < 5ms in every 1s'),
        ("p99(forward_pass{token=5,rank=*}) < 5ms", "p99(forward_pass{token=5,rank=*}) < 5ms"),
    ],
)
def test_a_gate_is_masked_as_the_instruments_it_is_about(gate: str, masked: str) -> None:
    """A masked gate is still a gate and finds the same instruments."""
    text = redaction.masked_gate(gate.replace("KEY", "a1B2" * 9), Redactor())
    assert text == masked
    assert parse_all([text])[0].text == masked


def test_another_kind_is_refused() -> None:
    """Another kind of rules is refused with the choices."""
    with pytest.raises(argparse.ArgumentError, match="the only choice is: personal"):
        _parsed("--redact", "everything")


def test_processes_of_the_run_get_the_rules_by_their_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes of a run read the rules as settings from the environment.

    Afterwards the environment is as before.
    """
    monkeypatch.setenv("TELEMETRY_REDACT__PERSONAL", "false")
    before = dict(os.environ)
    rules = RedactConfig(personal=True, patterns=("a=x{1,3}", "b=y"))
    with redaction.in_environment(rules):
        assert load().config.redact == rules
    assert dict(os.environ) == before
