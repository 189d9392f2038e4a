"""Tests that docs/AB.md names the options there are."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from telemetry.cli.commands import ab

TEXT = (Path(__file__).parents[2] / "docs" / "AB.md").read_text()
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
