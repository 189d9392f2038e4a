"""Tests of completions of the last word of a command line.

Tests of the shells are in tests/process/test_completion.py.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from telemetry.cli.commands.completion import candidates, split
from telemetry.cli.main import COMMANDS, main
from telemetry.errors import RunNotFoundError
from telemetry.report.other_tools.tool import TOOLS
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.snapshot import SeriesStat

MakeRun = Callable[..., RunDirectory]


def words_for(*words: str) -> list[str]:
    return [one.word for one in candidates(words)]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts_can_be_read_by_their_shell(
    shell: str, capsys: pytest.CaptureFixture[str], require_tool: Callable[[str], str]
) -> None:
    """The shell itself finds no syntax error, and nothing else is printed where a start-up file reads it."""
    require_tool(shell)
    assert main(["completion", shell]) == 0
    script, said = capsys.readouterr()
    assert said == ""
    done = subprocess.run([shell, "-n"], input=script, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_shell_of_the_user_is_the_default(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """SHELL names it; another shell is told which there are."""
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert main(["completion"]) == 0
    assert "complete -c telemetry" in capsys.readouterr().out
    monkeypatch.setenv("SHELL", "/bin/dash")
    assert main(["completion"]) == 2
    assert "source <(telemetry completion bash)" in capsys.readouterr().err


def test_commands_actions_options_and_choices(root: Path) -> None:
    """Every command, also behind `help`; suppressed options are left out."""
    assert words_for("") == list(COMMANDS)
    assert words_for("comp") == ["compare", "completion"]
    assert words_for("help", "gat") == ["gateway", "gate"]
    assert words_for("keys", "") == ["new", "show", "trust", "revoke"]
    assert words_for("keys", "new", "--f") == ["--force"]
    assert words_for("report", "--format", "h") == ["html", "hlog", "hgrm"]
    assert words_for("report", "--format=js") == ["--format=json"]
    assert "--ready-fd" not in words_for("serve", "--")
    assert words_for("nosuch", "") == []


def test_runs_by_name_and_id(make_run: MakeRun) -> None:
    """`latest` and names; an id once it is begun; nothing where a path is."""
    make_run("job", "aaaa1111")
    make_run("job", "bbbb2222")
    make_run("other", "cccc3333")
    for command in ("report", "gate", "open", "compare", "export", "ls"):
        assert sorted(words_for(command, "")) == ["job", "latest", "other"]
    assert words_for("report", "bb") == ["bbbb2222"]
    assert words_for("compare", "job", "--vs", "oth") == ["other"]
    assert words_for("gate", "--baseline", "jo") == ["job"]
    assert words_for("report", "runs/jo") == []
    assert words_for("report", "--dir", "/nowhere", "") == []


def test_gates_by_the_figures_of_the_run(make_run: MakeRun) -> None:
    """The functions that fit each instrument, and facts; for `run --gate` those of the newest run."""
    make_run("old", "aaaa1111", series=[SeriesStat(name="ttft")])
    make_run("job", "bbbb2222", series=[SeriesStat(name="latency", labels={"route": "/a"})])
    assert words_for("gate", "job", "p99") == ["p99(latency{route=/a})"]
    assert words_for("gate", "old", "p9") == ["p99(ttft)"]
    assert words_for("gate", "job", "lost == 0", "value(") == ["value(requests)"]
    assert words_for("gate", "job", "los") == ["lost"]
    assert words_for("run", "--gate", "p50(l") == ["p50(latency{route=/a})"]
    assert words_for("report", "job", "--series", "lat") == ["latency{route=/a}"]
    assert words_for("run", "--", "py") == []
    with pytest.raises(RunNotFoundError):
        words_for("gate", "nosuch", "p99")


def test_backends_and_their_options() -> None:
    """Backends and their options complete in each command with `--to`.

    The `--to` of `report` is a time range and gets none.
    """
    for command in ("run", "serve", "export", "sweep"):
        assert words_for(command, "--to", "json") == ["jsonl"]
    assert words_for("run", "--to=tens") == ["--to=tensorboard"]
    assert "jsonl:path=" in words_for("run", "--to", "jsonl:")
    assert words_for("run", "--to", "jsonl:as=x,pa") == ["jsonl:as=x,path="]
    assert words_for("report", "--to", "") == []
    assert "git" in words_for("run", "--collect", "g")
    assert "scrape:url=" in words_for("run", "--collect", "scrape:")
    assert words_for("run", "--capture", "wan") == ["wandb"]
    assert words_for("run", "--capture", "torchrun,wan") == ["torchrun,wandb"]
    assert words_for("feed", "end") == ["endpoints"]
    assert "jsonl" in words_for("plugins", "check", "js")


def test_options_that_take_few_words() -> None:
    """Other tools and their versions, libraries, kinds of data, and keys of limits."""
    assert words_for("report", "job", "--as", "sg") == ["sglang", "sglang-native"]
    assert words_for("report", "job", "--as=vllm@") == [f"--as=vllm@{TOOLS[0].version}"]
    assert words_for("run", "--stand-in", "") == ["wandb"]
    assert words_for("serve", "--redact", "") == ["personal"]
    for command in ("run", "report", "sweep"):
        assert words_for(command, "--goodput", "ttft:200", "tp") == ["tpot:", "tps:"]
    assert words_for("run", "--goodput", "chat=e") == ["chat=e2el:"]


def test_metrics_of_a_comparison(make_run: MakeRun) -> None:
    """Metrics complete for each option of a comparison that takes some, by the run that comes first."""
    make_run("job", "bbbb2222", series=[SeriesStat(name="latency")])
    for option in ("--metric", "--lower-is-better", "--higher-is-better"):
        assert words_for("compare", "job", option, "la") == ["latency"]


@pytest.mark.parametrize(
    ("line", "words", "is_quoted"),
    [
        ("telemetry ", [""], False),
        ("telemetry gate latest 'p99(la", ["gate", "latest", "p99(la"], True),
        ('A=1 ./telemetry report "a b', ["report", "a b"], True),
        ("telemetry report 'a b' ", ["report", "a b", ""], False),
        ("telemetry report a\\", ["report", "a\\"], False),
    ],
)
def test_a_line_is_split_as_the_shell_does(line: str, words: list[str], is_quoted: bool) -> None:
    """A line is split up to the cursor as the shell does, with an open quote and behind variables."""
    assert split(line) == (words, is_quoted)


def test_bash_gets_the_end_of_the_word(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """bash gets the end of the word, since bash replaces what is behind `=` and `:`.

    The reply is quoted, as bash quotes nothing itself.
    """
    make_run("job", "bbbb2222", series=[SeriesStat(name="latency")])
    for line, word, reply in (
        ("telemetry gate job p99", "p99", "'p99(latency)'\n"),
        ("telemetry gate job 'p99", "p99", "p99(latency)\n"),
        ("telemetry run --to jsonl:pa", "pa", "path=\n"),
        ("telemetry run --to=tens", "tens", "tensorboard\n"),
    ):
        assert main(["completion", "bash", "--line", line, "--word", word]) == 0
        assert capsys.readouterr().out == reply
