"""Reads the lines of `--to jsonl`."""

from __future__ import annotations

import json
import math
from pathlib import Path

import msgspec

from telemetry.backends.items import Reading
from telemetry.backends.naming import FINAL, flat
from telemetry.testing.backends import Written


def read_back(folder: Path, where: str) -> Written:
    """`where` is the file."""
    found = Written(counts={"step": 0, "reading": 0})
    for line in Path(where).read_text().splitlines():
        item = json.loads(line)
        if item["item"] == "step":
            for name, value in item["values"].items():
                found.value(item["axis"], item["step"], name, math.nan if value is None else value)
        elif item["item"] == "params":
            found.params |= {name: str(value) for name, value in item["values"].items()}
        elif item["item"] == "reading" and item["final"]:
            numbers = flat(msgspec.convert(item, Reading))
            found.finals = {name.removeprefix(FINAL): number for name, number in numbers.items()}
        elif item["item"] == "reading":
            found.counts["reading"] += 1
    return found
