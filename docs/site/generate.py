"""Writes the sources of the site to build/site-source.

The pages of the repository are copied under the paths that they have, so links between them work as they do on
GitHub. The reference is written from the code: commands from the argument parser, settings from their schema, the
API from the names that `telemetry` exports. The sample report comes from a short run.
"""

from __future__ import annotations

import argparse
import html
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import telemetry

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "build" / "site-source"
REFERENCE = TARGET / "docs" / "reference"
COPIED = ("*.md", "docs/*.json", "docs/**/*.md", "docs/pictures/*", "docs/site/assets/*")
EXAMPLES = ("*.md", "*.py", "producer-*/*.[cjm]*")
LABEL = re.compile(r"^```(\w+) (?!title=)[^\n]*$", re.MULTILINE)
"""Tests name some blocks, as in ```hex journal. The site builder takes no such name."""


def copy_pages() -> None:
    """Copy what is written by hand."""
    sources = [path for pattern in COPIED for path in ROOT.glob(pattern)]
    sources += [path for pattern in EXAMPLES for path in (ROOT / "examples").glob(pattern)]
    for source in sources:
        if "template" in source.name:
            continue
        target = TARGET / source.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            target.write_text(LABEL.sub(r"```\1", source.read_text()))
        else:
            shutil.copyfile(source, target)


def commands() -> str:
    """Write the page of the `telemetry` command."""
    (script,) = entry_points(group="console_scripts", name="telemetry")
    parser: argparse.ArgumentParser = import_module(script.module).build_parser()
    parts = ["# The `telemetry` command", "", escape(sentences(parser.epilog or ""))]
    for child, summary in children(parser):
        parts += command(child, summary, 2)
    return "\n".join(parts) + "\n"


def command(parser: argparse.ArgumentParser, summary: str, level: int) -> Iterator[str]:
    """Describe one command, and the commands that it has itself."""
    yield from ("", f"{'#' * level} {parser.prog}", "", sentence(parser.description or summary), "")
    usage = parser.format_usage().rstrip()
    yield from ("```text", usage.replace("\n" + " " * len("usage: "), "\n").removeprefix("usage: "), "```")
    for group in parser._action_groups:
        rows = list(options(parser, group))
        head = {"positional arguments": "argument", "options": "option"}.get(group.title or "", group.title)
        if rows:
            yield from ("", f"| {head} | meaning |", "|---|---|", *rows)
    for child, child_summary in children(parser):
        yield from command(child, child_summary, level + 1)


def children(parser: argparse.ArgumentParser) -> Iterator[tuple[argparse.ArgumentParser, str]]:
    """List the commands of a parser: the parser of each, and what the command does."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            summaries = {pseudo.dest: pseudo.help or "" for pseudo in action._choices_actions}
            for name, child in action.choices.items():
                yield child, summaries.get(name, "")


def options(parser: argparse.ArgumentParser, group: Any) -> Iterator[str]:
    """Write a row of a table for each option of a group."""
    formatter = parser._get_formatter()
    for action in group._group_actions:
        if action.help == argparse.SUPPRESS or isinstance(
            action, argparse._SubParsersAction | argparse._HelpAction
        ):
            continue
        words = formatter._format_action_invocation(action)
        meaning = formatter._expand_help(action) if action.help else ""
        yield f"| {code(words)} | {cell(meaning)} |"


def settings() -> str:
    """Write the page of the settings."""
    schema = json.loads(run_telemetry("config", "schema"))["$defs"]
    shown = json.loads(run_telemetry("config", "show", "--json"))
    parts = [
        "# Settings",
        "",
        "A setting comes from a flag, from the environment, from `telemetry.toml`, from `[tool.telemetry]` in",
        "`pyproject.toml` or from the user's `telemetry/config.toml`: the first of these that has it wins.",
        "`telemetry config show` prints the settings in force and where each comes from.",
    ]
    sections = {
        name: schema[entry["$ref"].rpartition("/")[2]] for name, entry in schema["Config"]["properties"].items()
    }
    for section, found in sections.items():
        parts += ["", f"## {section}", "", found.get("description", ""), ""]
        for item in shown:
            head, _, key = item["key"].partition(".")
            if head == section:
                kind = schema_type(found["properties"][key], schema)
                parts += [
                    f"### {item['key']}",
                    "",
                    escape(item["description"]),
                    "",
                    f"* Default: {code(json.dumps(item['default'], ensure_ascii=False))}",
                    f"* Value: {kind}",
                    f"* Environment: `{item['environment']}`",
                    "",
                ]
    return "\n".join(parts) + "\n"


def schema_type(entry: dict[str, Any], schema: dict[str, Any]) -> str:
    """Say what a setting may be."""
    if "$ref" in entry:
        return schema_type(schema[entry["$ref"].rpartition("/")[2]], schema)
    if "anyOf" in entry:
        return " or ".join(schema_type(each, schema) for each in entry["anyOf"])
    if "enum" in entry:
        return " or ".join(code(json.dumps(value)) for value in entry["enum"])
    words = {"array": "list", "object": "table", "null": "none"}.get(str(entry.get("type")), str(entry.get("type")))
    if "minimum" in entry or "exclusiveMinimum" in entry:
        words += (
            f", from {number(entry['minimum'])}"
            if "minimum" in entry
            else f", above {number(entry['exclusiveMinimum'])}"
        )
    if "maximum" in entry:
        words += f" up to {number(entry['maximum'])}"
    return words


def number(value: float) -> str:
    return f"{value:,.10g}" if isinstance(value, float) else f"{value:,}"


def api() -> str:
    """Write the page of the names that `telemetry` exports."""
    names = [name for name in telemetry.__all__ if not name.startswith("_")]
    values = {name: getattr(telemetry, name) for name in names}
    errors = [name for name in names if inspect.isclass(values[name]) and issubclass(values[name], Exception)]
    classes = [name for name in names if inspect.isclass(values[name]) and name not in errors]
    functions = [name for name in names if name not in errors and name not in classes]
    of_run = [name for name in functions if hasattr(telemetry.Run, name)]
    alone = [name for name in functions if name not in of_run]
    parts = ["# Python API", "", "Everything here is imported from `telemetry`: `import telemetry`."]
    for title, group, options in (
        ("Functions", alone, ""),
        ("Classes", classes, ""),
        ("Errors", errors, "\n    options: {members: false, show_bases: true}"),
    ):
        parts += ["", f"## {title}"]
        parts += [
            f"\n::: telemetry.{name}{options}" for name in sorted(group, key=lambda name: (name != "start", name))
        ]
    parts += [
        "",
        "## Functions without a run at hand",
        "",
        "Each calls the method of the run of this process. Before `telemetry.start` it does nothing.",
        "",
        "| function | calls |",
        "|---|---|",
        *(f"| `telemetry.{name}` | [`Run.{name}`][telemetry.Run.{name}] |" for name in of_run),
    ]
    return "\n".join(parts) + "\n"


def sample_report() -> None:
    """Run the example benchmark for a moment and keep its HTML report."""
    folder = ROOT / "build" / "sample-runs"
    shutil.rmtree(folder, ignore_errors=True)
    benchmark = ("python", "examples/http_benchmark.py", "--requests", "6000")
    run_telemetry("run", "--quiet", "--name", "http", "--dir", str(folder), "--", *benchmark)
    run_telemetry("report", "--dir", str(folder), "-o", str(REFERENCE / "sample-report-page.html"))
    shutil.rmtree(folder)


def run_telemetry(*words: str) -> str:
    """Return the output of a command, with the settings as they are by default."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TELEMETRY_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', os.defpath)}"
    done = subprocess.run(
        [sys.executable, "-m", "telemetry", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment | {"XDG_CONFIG_HOME": str(TARGET)},
        check=False,
    )
    if done.returncode:
        sys.exit(f"telemetry {' '.join(words)} exits with {done.returncode}: {done.stderr}")
    return done.stdout


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def sentences(text: str) -> str:
    """Make the list of exit codes, which is a line of the help, a paragraph."""
    return text.replace("\nexit codes:", "\n\nExit codes:")


def code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def cell(text: str) -> str:
    return escape(" ".join(text.split())).replace("|", "\\|")


def escape(text: str) -> str:
    """Keep what is code as it is, and stars, angles and brackets of all else out of Markdown's reach."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(
        piece if piece.startswith("`") else re.sub(r"([*_\[\]])", r"\\\1", html.escape(piece, quote=False))
        for piece in pieces
    )


SAMPLE = """# A sample report

`telemetry report latest -o report.html` writes one file that needs no network. This is the report of
[an HTTP benchmark](../../examples/http_benchmark.py). [Open it on a page of its own](sample-report-page.html).

<iframe src="sample-report-page.html" title="The report of an HTTP benchmark" class="sample-report"></iframe>
"""


def main() -> None:
    os.environ["COLUMNS"] = "90"  # the width of usage lines
    shutil.rmtree(TARGET, ignore_errors=True)
    REFERENCE.mkdir(parents=True)
    copy_pages()
    (REFERENCE / "cli.md").write_text(commands())
    (REFERENCE / "settings.md").write_text(settings())
    (REFERENCE / "api.md").write_text(api())
    (REFERENCE / "sample-report.md").write_text(SAMPLE)
    sample_report()


if __name__ == "__main__":
    main()
