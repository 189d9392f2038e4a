"""Tests that docs/LAKE.md has the tables, columns and options of a lake."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from telemetry.backends.parquet.backend import ParquetOptions
from telemetry.history.tables.lake.table_file import SCHEMA, TABLES
from telemetry.history.tables.request_rows import RequestRow
from telemetry.history.tables.step_rows import StepRow

TEXT = (Path(__file__).parents[2] / "docs" / "LAKE.md").read_text()


def cells(first_header: str, second: str) -> dict[str, list[str]]:
    """Words in backquotes of the second column, by that of the first."""
    table = TEXT[TEXT.index(f"| {first_header} | {second}") :].partition("\n\n")[0].splitlines()[2:]
    split = [line.strip("|").split(" | ") for line in table]
    return {line[0].strip(" `"): re.findall(r"`(\w+)`", line[1]) for line in split}


def test_tables_and_columns_are_those_of_the_layout() -> None:
    """The tables and columns are those of the layout, in its order and with its version."""
    assert list(cells("table", "a row for each")) == list(TABLES)
    assert cells("table", "columns besides") == {name: list(columns) for name, columns in TABLES.items()}
    assert f"the version of this layout: {SCHEMA}." in " ".join(TEXT.split())


def test_options_are_those_of_the_backend() -> None:
    """The options are those of the backend, with their defaults."""
    options = {info.encode_name: info.default for info in msgspec.structs.fields(ParquetOptions)}
    assert list(cells("option", "default")) == list(options)
    for name, default in options.items():
        shown = f"{default:g}" if isinstance(default, float) else f"`{default}`"
        assert f"| `{name}` | {shown} |" in TEXT


def test_requests_and_steps_have_the_columns_of_their_files() -> None:
    """The page says so."""
    assert set(TABLES["requests"]) - set(RequestRow._fields) == {"good"}
    assert set(RequestRow._fields) <= set(TABLES["requests"])
    assert set(TABLES["steps"]) - set(StepRow._fields) == {"elapsed_s"}
