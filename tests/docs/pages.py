"""Runs the commands of a page of the documentation, in order, in one shell.

A block with a title is a file. A `bash` block is run. A `text` block after it is the output that the page
shows: its lines have to come in this order, with the same words. Numbers, units and padding may differ. A table
may have more columns than the page shows, because their number depends on the width of the terminal, and its rows
come in the order in which processes defined them. A line that is `…` stands for other lines.
"""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DEADLINE_S = 110.0
BLOCK = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
UNIT = r"(?:[num]?s|µs|min|h|B|[KMG]iB|[kM]|%)"
NUMBER = re.compile(rf"[*<≥+−-]*\d[\d,.]*(?:e-?\d+)?(?: ?{UNIT}(?![a-z]))?")
VARIES = re.compile(r"\b[0-9a-f]{8}\b|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\d{8}T\d{6}Z|/\S*/")
"""Run ids, times and folders."""


@dataclass
class Command:
    """One block of commands, what the page shows of its output, and the output."""

    text: str
    shown: str = ""
    output: str = ""


def shape(line: str) -> str:
    """Return a line without what differs from run to run."""
    return " ".join(NUMBER.sub("#", VARIES.sub("@", line)).split())


def within(shown: str, line: str) -> bool:
    """Return whether a line has all the shown words in their order."""
    words = iter(shape(line).split())
    return all(word in words for word in shape(shown).split())


def missing(shown: str, output: str) -> list[str]:
    """List the shown lines that the output lacks, or has in another order. Rows of a table come in any order."""
    lines = iter(output.splitlines())
    return [
        line
        for line in shown.splitlines()
        if line.strip() not in ("", "…")
        and not any(within(line, other) for other in (output.splitlines() if line.startswith("  ") else lines))
    ]


def run_page(page: Path, ground: Any) -> list[Command]:
    """Run all blocks of a page in a copy of the set-up that it asks for.

    Raises AssertionError, with all output, if a command fails that the page does not expect to fail.
    """
    blocks = ground.folder / "blocks"
    blocks.mkdir()
    (ground.folder / ".venv").symlink_to(sys.prefix)
    (ground.folder / "examples").symlink_to(ROOT / "examples")
    script, commands = ["set -e"], list[Command]()
    for number, (language, title, body) in enumerate(BLOCK.findall(page.read_text())):
        source = blocks / f"{number}"
        if title:
            source.write_text(body)
            script.append(f"cp {shlex.quote(str(source))} {shlex.quote(title)}")
        elif language == "bash":
            commands.append(Command(body))
            script.append(f"{{\n{body}}} >{blocks / f'out{len(commands)}'} 2>&1")
        elif language == "text" and commands:
            commands[-1].shown = body
    child = ground.popen("bash", "-c", "\n".join(script), environ={"COLUMNS": "200"})
    _, err = child.communicate(timeout=DEADLINE_S)
    for number, command in enumerate(commands, 1):
        path = blocks / f"out{number}"
        command.output = path.read_text() if path.exists() else "(was not reached)"
    said = "\n".join(f"$ {command.text}{command.output}" for command in commands)
    assert child.returncode == 0, f"{page.name} exits with {child.returncode}\n{said}\n{err}"
    return commands
