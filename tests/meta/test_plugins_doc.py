"""Tests that docs/PLUGINS.md has the groups, what each needs, and the list's states and fields.

Its example of a capture is one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from tests.backends.third_party import install

from telemetry.backends import choice as backends
from telemetry.cli.commands import plugins as command
from telemetry.cli.plugin_inventory.inventory import ListedPlugin, State
from telemetry.collectors import registry as collectors
from telemetry.config.plugins.entry_points import GROUPS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "PLUGINS.md").read_text()


def rows(first_header: str) -> list[list[str]]:
    """Cells of the table whose header line begins so, without the header."""
    table = TEXT[TEXT.index(f"| {first_header} |") :].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


def test_the_groups_are_those_there_are() -> None:
    """The groups are listed with their entry points in one table, and in the same order in the other."""
    found = {row[0].strip("`"): row[-1].strip("`") for row in rows("group | what a plug-in does")}
    assert found == GROUPS
    assert [row[0].strip("`") for row in rows("group | the entry point is")] == list(GROUPS)


def test_what_a_plug_in_must_have_is_what_is_checked() -> None:
    """The page names all that a plug-in must have, so an author does not learn it from an error."""
    needed = {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[2])) for row in rows("group | the entry point is")}
    assert needed["backends"] == set(backends._HAS)
    assert needed["collectors"] == {*collectors._HAS, "interval_s"}
    assert needed["feeds"] == {"topics", "addresses", "take", "over", "close"}
    assert needed["integrations"] == {"MODULES", "install"}


def test_states_and_fields_are_those_of_the_list() -> None:
    """The states and fields of the list are shown as people and programs see them."""
    assert [row[0].strip("`") for row in rows("state")] == list(command._LABELS.values())
    states = re.findall(r"`(\w+)`", next(row[1] for row in rows("field") if row[0] == "`state`"))
    assert tuple(states) == get_args(State) == tuple(command._LABELS)
    fields = [name for row in rows("field") for name in re.findall(r"`(\w+)`", row[0])]
    assert fields == [field.encode_name for field in msgspec.structs.fields(ListedPlugin)]
    assert f"Each\nimport may take {command._TIMEOUT_S:g} seconds" in TEXT


def test_the_pages_and_suites_exist() -> None:
    """Each test suite can be imported."""
    for suite in re.findall(r"`(telemetry\.testing\.\w+\.\w+)`", TEXT):
        module, _, name = suite.rpartition(".")
        code = f"from {module} import {name}"
        exec(code, {})


@pytest.mark.slow
def test_the_capture_records(tmp_path: Path, run_telemetry: Callable[..., Any]) -> None:
    """The capture in the document, copied as it stands, records calls of a library.

    Its parts are a module and an entry point, and the library is of the test's own.
    """
    capture = TEXT.partition("### A capture")[2]
    blocks = dict(re.findall(r"`([\w.]+)`:\n\n```\w+\n(.*?)```", capture, re.DOTALL))
    library = "def log(step, **values):\n    return len(values)\n"
    place = install({**blocks, "job.py": "import acme.trainer as t\nprint(t.log(3, loss=0.5))\n"}, tmp_path)
    place.joinpath("acme").mkdir()
    place.joinpath("acme", "__init__.py").touch()
    place.joinpath("acme", "trainer.py").write_text(library)
    done = run_telemetry("run", "--strict", "--capture", "acme", "--", sys.executable, str(place / "job.py"), place)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    assert "loss" in run_telemetry("report", "latest", "--json", place).stdout
    assert run_telemetry("plugins", "check", "acme", place).returncode == 0


@pytest.fixture
def run_telemetry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run a command; the last argument is the folder of the package."""
    import os
    import subprocess

    def run(*words: Any) -> Any:
        *command, place = words
        environment = os.environ | {"PYTHONPATH": str(place), "XDG_RUNTIME_DIR": str(tmp_path)}
        return subprocess.run(
            [sys.executable, "-m", "telemetry", *command],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=110,
            check=False,
        )

    return run
