"""README.md and docs/ say what the code does, and point to what is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from telemetry.cli.main import COMMANDS
from telemetry.cli.wrapped import command
from telemetry.config.schema import Config
from telemetry.wire.exit_codes import Exit

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
USING = (ROOT / "docs" / "USING.md").read_text()
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
PAGES = [page for page in PAGES if "node_modules" not in page.parts and "template" not in page.name]
NOT_IN_THE_TREE = {"/proc", "requests/requests.log"}
"""Paths of a run or of a machine."""
NOT_SETTINGS = {"run.report", "emit.start"}
"""Python names that look like settings."""
FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`[^`]*`")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def rows(text: str, first_header: str) -> list[list[str]]:
    """Cells of the table whose header line begins so."""
    lines = iter(text.splitlines())
    next(line for line in lines if line.startswith(f"| {first_header} "))
    next(lines)
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def anchor(heading: str) -> str:
    """Return the anchor of a heading as code hosts make it."""
    plain = re.sub(r"[`*]", "", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")


def anchors(target: Path) -> set[str]:
    """Return all texts that may follow a `#` in a link to the page, and the empty text."""
    headings = HEADING.findall(FENCE.sub("", target.read_text())) if target.suffix == ".md" else []
    return {"", *map(anchor, headings)}


def links(page: Path) -> list[str]:
    return LINK.findall(CODE.sub("", FENCE.sub("", page.read_text())))


@pytest.mark.parametrize("page", PAGES, ids=[page.relative_to(ROOT).as_posix() for page in PAGES])
def test_links_inside_the_repository_lead_somewhere(page: Path) -> None:
    """Files exist, and so do the headings that are pointed to."""
    broken = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, fragment = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.is_relative_to(ROOT) or not target.exists() or fragment not in anchors(target):
            broken.append(link)
    assert broken == []


def test_the_paths_of_the_architecture_exist() -> None:
    """Each is the path of a file or folder, or the end of one."""
    tree = [
        f"/{path.relative_to(ROOT).as_posix()}"
        for part in ("src", "tests", "tools")
        for path in (ROOT / part).rglob("*")
    ]
    texts = set(re.findall(r"`([\w./-]+)`", FENCE.sub("", (ROOT / "ARCHITECTURE.md").read_text())))
    paths = {text for text in texts if "/" in text or text.endswith((".py", ".c"))} - NOT_IN_THE_TREE
    assert len(paths) > 60
    assert {
        path for path in paths if not any(f"{known}/".endswith(f"/{path.strip('/')}/") for known in tree)
    } == set()


def test_the_readme_names_every_command() -> None:
    """The table has every command and promises none that is not there."""
    written = set()
    for first, _ in rows(README, "command"):
        words = " ".join(re.findall(r"`([^`]+)`", first)).replace("telemetry ", "")
        written |= set(re.findall(r"[a-z]+", re.sub(r"-- CMD …|config show", "", words)))
        written |= {"config"} if "config show" in words else set()
    assert written == set(COMMANDS)


def test_commands_in_the_examples_of_the_pages_exist() -> None:
    """`telemetry WORD` in a block of code is a command."""
    unknown = []
    for page in PAGES:
        for block in FENCE.findall(page.read_text()):
            for word in re.findall(r"^(?:\$ |\s+)?telemetry ([a-z]+)\b", block, re.MULTILINE):
                if word not in COMMANDS:
                    unknown.append(f"{page.name}: {word}")
    assert unknown == []


def test_exit_codes_that_are_written_down_are_the_codes() -> None:
    """Number by number, with a meaning that fits the name."""
    written = {int(code): meaning for codes, meaning in rows(USING, "code") for code in codes.split(",")}
    words = {
        Exit.OK: "ok",
        Exit.ERROR: "error",
        Exit.USAGE: "usage",
        Exit.INCONCLUSIVE: "inconclusive",
        Exit.INCOMPLETE: "incomplete, with `--strict`",
        Exit.INTERRUPTED: "interrupted",
        Exit.BACKEND_FAILED: "a feed failed",
        Exit.GATE_FAILED: "a gate failed",
        command._NOT_FOUND: "not found",
        command._NOT_EXECUTABLE: "can't be executed",
    }
    assert set(written) == set(words)
    assert [code for code, word in words.items() if word not in written[code]] == []


def test_the_help_lists_the_same_codes() -> None:
    """The epilog of `telemetry --help` and the enumeration can't drift apart."""
    done = subprocess.run(
        [sys.executable, "-m", "telemetry", "--help"], capture_output=True, text=True, timeout=60, check=True
    )
    told = " ".join(done.stdout.partition("exit codes:")[2].split())
    assert {int(number) for number in re.findall(r"(\d+) [a-z]", told)} == {
        code for code in Exit if code not in (Exit.SIGINT, Exit.SIGPIPE)
    }


def test_settings_that_are_named_exist() -> None:
    """Every `section.key` in the pages, with the default that is given beside it."""
    sections = {name: getattr(Config(), name) for name in Config.__struct_fields__}
    known = {f"{section}.{key}" for section, made in sections.items() for key in made.__struct_fields__}
    named = {
        (page.name, setting)
        for page in PAGES
        for setting in re.findall(rf"`((?:{'|'.join(sections)})\.[a-z_0-9]+)`", page.read_text())
        if not setting.endswith((".py", ".toml", ".json", ".jsonl"))
    }
    assert {(page, setting) for page, setting in named if setting not in known | NOT_SETTINGS} == set()
    assert {"emit.buffer_events", "emit.block_timeout_s", "run.fallback_dirs"} <= {setting for _, setting in named}
    emit = Config().emit
    assert f"`emit.buffer_events` ({emit.buffer_events:,})" in USING
    assert f"`emit.start_timeout_s` ({emit.start_timeout_s:g} s)" in USING
    assert f'`policy="{emit.policy}"` (the default)' in USING


def test_environment_variables_that_are_named_are_settings() -> None:
    """TELEMETRY_SECTION__KEY is spelled as it is read."""
    sections = {name: getattr(Config(), name) for name in Config.__struct_fields__}
    known = {
        f"TELEMETRY_{section}__{key}".upper()
        for section, made in sections.items()
        for key in made.__struct_fields__
    }
    named = {name for page in PAGES for name in re.findall(r"TELEMETRY_\w+__\w+", page.read_text())}
    assert named - known - {"TELEMETRY_SECTION__KEY"} == set()


def test_the_run_directory_is_described_as_it_is() -> None:
    """The names in USING.md are those of the paths."""
    from telemetry.cli.beside_run.flight import FOLDER
    from telemetry.integrations.capture.capture_log import SIGNS
    from telemetry.store.backends import BACKENDS
    from telemetry.store.output_log import OUTPUT
    from telemetry.store.run_directory import RunDirectory

    directory = RunDirectory(Path("d"))
    block = USING.partition("## The run directory")[2].partition("##")[0]
    described = set(re.findall(r"^      ([\w.]+)/?(?: |$)", block, re.MULTILINE))
    paths = (
        directory.manifest,
        directory.final,
        directory.history,
        directory.journal,
        directory.records,
        directory.upstream,
        directory.log,
        directory.path / OUTPUT,
        directory.path / SIGNS,
        directory.path / FOLDER,
        directory.path / BACKENDS,
    )
    assert described == {path.name for path in paths}
