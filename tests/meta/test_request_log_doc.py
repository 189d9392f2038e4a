"""The section of docs/REQUESTS.md about the request log names every column of its files, and its cap."""

from __future__ import annotations

import re
from pathlib import Path

from telemetry import limits
from telemetry.config.schema import RunConfig
from telemetry.history.tables.request_rows import RequestRow

PAGE = (Path(__file__).parents[2] / "docs" / "REQUESTS.md").read_text()
SECTION = PAGE.partition("## The request log\n")[2].partition("\n## ")[0]


def test_columns_are_those_of_the_files() -> None:
    """Each once."""
    cells = re.findall(r"^\| (`.*?) \|", SECTION, re.MULTILINE)
    written = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(written) == sorted(RequestRow._fields)


def test_numbers_are_those_of_the_code() -> None:
    """The cap by default, and how many pieces of an answer are kept."""
    assert f"({RunConfig().request_log_cap // limits.MIB} MiB by default)" in SECTION
    assert f"more than {limits.CHUNKS_HELD:,} pieces" in SECTION
