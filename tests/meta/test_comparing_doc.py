"""Tests that docs/COMPARING.md names the options, rules and figures there are."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import pytest

from telemetry.cli.commands import calibrate, compare, ls
from telemetry.common import directions
from telemetry.judge.compare import VERDICT_WORDS, Options
from telemetry.judge.compare.figures import PERCENTILES, needed

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "COMPARING.md").read_text()
WORDS = " ".join(TEXT.split())


def rows(first_header: str) -> list[list[str]]:
    """Cells of the table whose header line begins so."""
    table = TEXT.partition(f"| {first_header} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table]


def test_options_exist() -> None:
    """Each `--option` of the page is one of the two commands, of `ls`, or of `run`."""
    known = {"--quiet"}
    for command in (compare, calibrate, ls):
        parser = argparse.ArgumentParser()
        command.add_arguments(parser)
        known |= {flag for action in parser._actions for flag in action.option_strings}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT)) - known == set()


def test_every_verdict_has_its_row() -> None:
    """Each verdict has a row with the words that reports use."""
    assert {word for cells in rows("verdict") for word in cells[0].split(", ")} == set(VERDICT_WORDS.values())
    assert f"`--min-effect` ({Options().min_effect * 100:g} %)" in TEXT


def test_values_a_percentile_needs() -> None:
    """One number for each."""
    said = ", ".join(f"{needed(f'p{key}'):,} for p{key}" for key in PERCENTILES)
    assert said in WORDS


def test_words_that_decide_a_direction_are_read() -> None:
    """The words that the page names as examples decide the direction that it states."""
    trouble, time, speed, loss, success, settings = (
        re.findall(r"`(\w+)`", WORDS.partition(start)[2].partition(")")[0])
        for start in (
            "a word of trouble (",
            "A word of time (",
            "of speed (",
            "of loss (",
            "of success (",
            "A word of settings (",
        )
    )
    assert len(trouble) > 3
    assert set(trouble) <= directions.TROUBLE
    assert set(time) <= directions.TIME
    assert set(speed) <= directions.SPEED
    found = [{directions.better_of_name(word) for word in words} for words in (loss, success, settings)]
    assert found == [{"lower"}, {"higher"}, {"neither"}]
    assert directions.better_of_name("loss_scale") == "neither"


def test_figures_are_those_that_were_stored() -> None:
    """The newest results that have them."""
    stored = [
        json.loads(path.read_bytes())["groups"] for path in sorted((ROOT / "benchmarks/results").glob("*.json"))
    ]
    figures = [
        figure["value"] for figure in [groups for groups in stored if "compare" in groups][-1]["compare"]["figures"]
    ]
    written = [float(cells[-1].strip("* %")) for cells in rows("200 trials, 10 runs a side")]
    assert written == [pytest.approx(value, abs=0.05) for value in figures]
