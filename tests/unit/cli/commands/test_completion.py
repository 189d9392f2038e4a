"""Completion scripts know every command, and their shells can read them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from telemetry.cli.main import COMMANDS, main


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_know_every_command(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command and its options are in the script."""
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert [name for name in COMMANDS if name not in script] == []
    assert "strict" in script
    assert "ready-fd" not in script or shell != "fish"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_can_be_read_by_their_shell(
    shell: str, capsys: pytest.CaptureFixture[str], require_tool: Callable[[str], str]
) -> None:
    """The shell itself finds no syntax error."""
    require_tool(shell)
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_fish_strings_are_quoted(capsys: pytest.CaptureFixture[str]) -> None:
    """Every line is a `complete` command for `telemetry` with balanced quotes."""
    assert main(["completion", "fish"]) == 0
    for line in capsys.readouterr().out.splitlines():
        assert line.startswith("complete -c telemetry -n ")
        assert line.replace("\\'", "").count("'") % 2 == 0
        assert "%(" not in line


def test_fish_knows_the_commands_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    """`telemetry keys` has its own, with their own options."""
    assert main(["completion", "fish"]) == 0
    script = capsys.readouterr().out
    assert "-n '__fish_seen_subcommand_from keys' -f -a trust -d " in script
    assert "-n '__fish_seen_subcommand_from keys; and __fish_seen_subcommand_from new' -l force " in script
