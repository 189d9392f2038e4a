"""Tests that docs/report.schema.json is the schema of the code.

After a wanted change, run `telemetry report --schema > docs/report.schema.json`.
"""

from __future__ import annotations

import json
from pathlib import Path

from telemetry.report.json import json_schema

PUBLISHED = Path(__file__).parents[2] / "docs" / "report.schema.json"


def test_the_published_schema_is_that_of_the_code() -> None:
    """The published schema changes only with the code, and the code only with it. Others build on this schema."""
    assert json.loads(PUBLISHED.read_text()) == json_schema()
