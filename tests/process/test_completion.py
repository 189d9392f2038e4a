"""Completion in the shells themselves: keys into a real terminal, and what the line becomes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.process.conftest import Ground
from tests.process.tmux import Tmux

PROGRAM = """
import telemetry
with telemetry.start("bench", quiet=True) as run:
    run.series("latency", unit="ms").record(2.0)
"""
STARTS = {
    "bash": "bash --norc --noprofile -i\nsource <(telemetry completion bash)\n",
    "zsh": "zsh -f -i\nautoload -U compinit; compinit -u -D\nsource <(telemetry completion zsh)\n",
    "fish": "fish --no-config -i\ntelemetry completion fish | source\n",
}


@pytest.mark.parametrize("shell", STARTS)
def test_a_shell_completes_what_is_there(shell: str, ground: Ground, require_tool: Callable[[str], str]) -> None:
    """Commands, actions, runs, backends with options, and figures of the run in quotes."""
    require_tool(shell)
    require_tool("tmux")
    ground.run("run", "--quiet", "--no-collect", "--name", "bench", "--", sys.executable, "-c", PROGRAM)
    with Tmux(ground.folder, ground.environ) as terminal:
        terminal.type(f"export PATH={Path(sys.executable).parent}:$PATH HOME={ground.folder} PS1='> '\n")
        terminal.type(STARTS[shell])
        terminal.type("echo rea''dy\n")
        terminal.wait_until(lambda: "\nready" in terminal.screen(), "the shell has read the script")
        for typed, line in (
            ("telemetry keys tr", "telemetry keys trust"),
            ("telemetry run --stri", "telemetry run --strict"),
            ("telemetry report ben", "telemetry report bench"),
            ("telemetry run --to jsonl:pa", "telemetry run --to jsonl:path="),
            ("telemetry report bench --as vl", "telemetry report bench --as vllm"),
            ("telemetry report bench --as aiperf@", "telemetry report bench --as aiperf@0."),
            ("telemetry run --goodput tt", "telemetry run --goodput ttft:"),
            ("telemetry gate bench 'p99(", "telemetry gate bench 'p99(latency)'"),
        ):
            terminal.press("C-u")
            terminal.type(typed)
            terminal.press("Tab")
            terminal.wait_until(lambda line=line: line in terminal.screen(), line)
