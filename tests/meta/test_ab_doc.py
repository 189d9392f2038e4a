"""Tests that docs/AB.md names the options there are."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import telemetryd_pytest
from telemetry.cli.commands import ab

PAGE = (Path(__file__).parents[2] / "docs" / "AB.md").read_text()
OF_PYTEST = PAGE.partition("## Benchmarks in pytest")[2].partition("\n## ")[0]
TEXT = PAGE.replace(OF_PYTEST, "")
ELSEWHERE = {"--json", "--dir", "--help"}
"""Options that other commands have in the same sense."""


def test_the_table_has_every_option() -> None:
    """Each option of the command has its place in the table, and the page names no other."""
    parser = argparse.ArgumentParser()
    ab.add_arguments(parser)
    options = {flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")}
    table = TEXT.partition("| option |")[2].partition("\n\n")[0]
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", table)) == options - ELSEWHERE - {"--output"}
    assert set(re.findall(r"`--[a-z][a-z-]+", TEXT)) <= {f"`{option}" for option in options}


def test_the_section_on_pytest_has_every_option() -> None:
    """Each option of the plug-in, and the way from its figures to a verdict."""
    options = {f"--{option.replace('_', '-')}" for option in telemetryd_pytest.OPTIONS}
    assert set(re.findall(r"--telemetry[a-z-]*", OF_PYTEST)) == options
