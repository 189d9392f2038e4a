"""The `telemetry` command: finds subcommands, and turns errors into one line and an exit code."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pkgutil import iter_modules
from types import ModuleType

import pytest

from telemetry.cli import commands
from telemetry.cli import main as main_module
from telemetry.cli.main import COMMANDS, GROUPS, build_parser, main
from telemetry.errors import EndpointError, TelemetryError, UsageError
from telemetry.wire.exit_codes import Exit

Behave = Callable[[argparse.Namespace], int]


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Behave], None]:
    """Puts a command `probe` into the table, which does what the test says."""

    def install(behave: Behave) -> None:
        module = ModuleType("probe_command")
        module.add_arguments = lambda parser: parser.add_argument("--flag")  # type: ignore[attr-defined]
        module.run = behave  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "telemetry.cli.commands.probe", module)
        monkeypatch.setitem(main_module.COMMANDS, "probe", "does what the test says")

    return install


def test_every_command_of_the_table_exists() -> None:
    """Each command has a file in `cli/commands`, each file is a command, and each summary is one line."""
    modules = {module.name for module in iter_modules(commands.__path__)}
    assert modules == {main_module.module_of(command) for command in COMMANDS}
    assert all(summary and "\n" not in summary and not summary.endswith(".") for summary in COMMANDS.values())


def test_the_whole_parser_can_be_built() -> None:
    """All commands declare arguments that go together, and every argument has a help text."""
    parser = build_parser()
    subcommands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    assert set(subcommands.choices) == set(COMMANDS)
    silent = [
        (name, action.dest)
        for name, child in subcommands.choices.items()
        for action in child._actions
        if not action.help
    ]
    assert silent == []


def test_the_exit_code_is_the_commands(command: Callable[[Behave], None]) -> None:
    """The process returns the exit code that the command returns."""
    command(lambda args: int(args.flag))
    assert main(["probe", "--flag", "4"]) == 4


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (EndpointError("no answer at ipc://x", hint="start it"), 1, "telemetry: no answer at ipc://x (start it)\n"),
        (UsageError("no"), 2, "telemetry: no\n"),
        (TelemetryError("it broke"), 1, "telemetry: it broke\n"),
        (OSError(28, "No space left on device"), 1, "telemetry: [Errno 28] No space left on device\n"),
    ],
)
def test_errors_are_one_line(
    command: Callable[[Behave], None],
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    code: int,
    line: str,
) -> None:
    """An error of ours or of the system is one line on stderr with its exit code, and stdout stays clean."""

    def fail(_args: argparse.Namespace) -> int:
        raise error

    command(fail)
    assert main(["probe"]) == code
    assert capsys.readouterr() == ("", line)


def test_ctrl_c_is_130(command: Callable[[Behave], None], capsys: pytest.CaptureFixture[str]) -> None:
    """An interrupted command is silent and says so by its exit code."""

    def interrupted(_args: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    command(interrupted)
    assert main(["probe"]) == Exit.SIGINT == 130
    assert capsys.readouterr() == ("", "")


def test_a_bug_is_not_hidden(command: Callable[[Behave], None]) -> None:
    """An error nobody planned for keeps its traceback."""

    def broken(_args: argparse.Namespace) -> int:
        raise ZeroDivisionError

    command(broken)
    with pytest.raises(ZeroDivisionError):
        main(["probe"])


def test_an_unknown_command_names_the_near_miss(capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped command is a usage error with a suggestion."""
    assert main(["staus"]) == 2
    assert "did you mean `telemetry status`?" in capsys.readouterr().err
    assert main(["watch"]) == 2
    assert "did you mean `telemetry top`?" in capsys.readouterr().err
    assert main(["xyzzy"]) == 2
    assert "--help" in capsys.readouterr().err


@pytest.mark.parametrize("argv", [["report", "--format", "pdf"], ["gate"], ["report", "--dir"]])
def test_wrong_arguments_are_usage_errors(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong choices and missing arguments exit with 2, show the usage and leave stdout clean."""
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: telemetry" in captured.err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_suggests_an_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped option is one line with the near option, whatever the command is."""
    assert main([command, "--hepl"]) == 2
    line = f"telemetry: unknown option --hepl of `telemetry {command}` (did you mean --help?)\n"
    assert capsys.readouterr() == ("", line)


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["run", "--gates", "lost == 0", "--", "true"], "--gates of `telemetry run` (did you mean --gate?)"),
        (["report", "--frmat=json"], "--frmat of `telemetry report` (did you mean --format?)"),
        (["ls", "--js"], "--js of `telemetry ls` (did you mean --json?)"),
        (["gate", "job", "--confidnt", "lost == 0"], "--confidnt of `telemetry gate` (did you mean --confident?)"),
        (["keys", "show", "--jsn"], "--jsn of `telemetry keys show` (did you mean --json?)"),
        (
            ["gate", "job", "--wait", "lost == 0"],
            "--wait of `telemetry gate` (`telemetry gate --help` lists its options)",
        ),
        (["--versoin"], "--versoin of `telemetry` (did you mean --version?)"),
        (["ls", "--xyzzy"], "--xyzzy of `telemetry ls` (`telemetry ls --help` lists its options)"),
    ],
)
def test_unknown_options_name_the_near_one(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown option is noticed with a value, between other arguments and in an action."""
    assert main(argv) == 2
    assert capsys.readouterr() == ("", f"telemetry: unknown option {said}\n")


def test_words_of_the_users_command_are_not_options(command: Callable[[Behave], None]) -> None:
    """Words after `--` are not checked for unknown options."""
    command(lambda _args: 0)
    assert main(["probe", "--flag", "1"]) == 0
    with pytest.raises(SystemExit):
        build_parser(only="run").parse_args(["run", "--name"])
    assert build_parser(only="run").parse_args(["run", "--", "x", "--gates"]).command == ["--", "x", "--gates"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["keys", "shw"], "did you mean show?"),
        (["report", "--format", "jsn"], "did you mean json?"),
        (["doctor", "job"], "unexpected argument 'job'"),
    ],
)
def test_wrong_words_name_the_near_one(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Actions and choices are suggested; an argument too many is named."""
    assert main(argv) == 2
    assert said in capsys.readouterr().err


def test_help_lists_all_commands(capsys: pytest.CaptureFixture[str]) -> None:
    """`telemetry` without arguments, or with `--help`, shows every command with what it does."""
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert main(["--help"]) == 0
    assert capsys.readouterr().out == shown
    for name, summary in COMMANDS.items():
        assert name in shown
        assert summary.split(",")[0] in " ".join(shown.split())


def test_help_is_in_groups_of_one_line_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Each command stands once, below its group, and no line is longer than a terminal of 80 columns."""
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) < 80
    for group, members in GROUPS.items():
        first = lines.index(f"{group}:") + 1
        assert [line.split()[0] for line in lines[first : first + len(members)]] == list(members)


def test_help_names_a_command_in_either_order(capsys: pytest.CaptureFixture[str]) -> None:
    """`help CMD` and `help CMD ACTION` are what `--help` prints there; `help` alone is the list."""
    for words in ([], ["ls"], ["keys", "new"]):
        assert main(["help", *words]) == 0
        shown = capsys.readouterr().out
        assert main([*words, "--help"]) == 0
        assert capsys.readouterr().out == shown
    assert main(["help", "staus"]) == 2
    assert "did you mean `telemetry status`?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "action"),
    [
        (["keys"], "show"),
        (["keys", "--json"], "show"),
        (["plugins"], "list"),
        (["plugins", "--timeout=3", "--full"], "list"),
        (["stack"], "status"),
        (["stack", "--json"], "status"),
    ],
)
def test_a_bare_command_does_its_natural_thing(argv: list[str], action: str) -> None:
    """A command without an action shows what is there, and it takes the options of that action."""
    assert build_parser(only=argv[0]).parse_args(argv).action == action


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` is one line on stdout."""
    assert main(["--version"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("telemetry ")
    assert main(["-V"]) == 0
    assert capsys.readouterr().out == shown


def test_start_up_is_light() -> None:
    """Showing the help imports none of the commands and nothing heavy."""
    code = (
        "import sys; from telemetry.cli.main import main; main(['--help']);"
        "heavy = {'numpy', 'asyncio', 'zmq', 'hdrh', 'textual', 'rich', 'msgspec'};"
        "light = {'telemetry.errors', 'telemetry.common', 'telemetry.common.lazy', 'telemetry.wire',"
        " 'telemetry.wire.exit_codes', 'telemetry.wire.upper_modules'};"
        "commands = {name for name in sys.modules if name.startswith('telemetry.') and"
        " not name.startswith('telemetry.cli')} - light;"
        "print(sorted(heavy & set(sys.modules)), sorted(commands), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.strip() == "[] []"


def test_a_reader_that_leaves_is_quiet() -> None:
    """`telemetry … | head` ends without a traceback when the reader closes the pipe."""
    command_line = f"{sys.executable} -m telemetry config schema | true; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command_line], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() in ("141", "0")
    assert done.stderr == ""
