"""Options that `telemetry sweep` passes on to `telemetry run`."""

from __future__ import annotations

import argparse

import pytest

from telemetry.cli import run_options
from telemetry.cli.commands import run, serve

WORDS = {
    "one value": ["--baseline=main"],
    "a number": ["--refresh-hz=5.0"],
    "on": ["--abort-on-fail"],
    "off": ["--no-journal"],
    "repeated": ["--gate=p99(latency) < 1s", "--gate=lost == 0"],
    "several": ["--goodput", "ttft:200", "tpot:50"],
    "a dash": ["--stragglers=-x"],
}


def shared() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(add_help=False)
    serve.add_run_flags(parser)
    run_options.add_arguments(parser)
    return parser


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_given_options_come_back_as_words(words: list[str]) -> None:
    """The words hold each option that was given, and no other."""
    assert run_options.given_words(shared(), shared().parse_args(words)) == words


def test_options_can_be_left_out() -> None:
    """Options can be left out by their destination."""
    args = shared().parse_args(["--dir", "x", "--abort-on-fail"])
    assert run_options.given_words(shared(), args, without=("dir",)) == ["--abort-on-fail"]


def test_run_understands_all_of_them() -> None:
    """Each option of the shared parser is one of `telemetry run`."""
    whole = argparse.ArgumentParser()
    run.add_arguments(whole)
    known = {option for action in whole._actions for option in action.option_strings}
    passed = {option for action in shared()._actions for option in action.option_strings}
    assert passed
    assert passed <= known
