"""`telemetry run --capture` and `telemetry capture`: which processes are reached, and what is reported if not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.process.conftest import Ground

WARNS = """
import logging
logging.getLogger("trainer").warning("disk is %s", "nearly full")
"""
QUIET = "print('no logging here')\n"


def marks(ground: Ground) -> list[str]:
    code, out, err = ground.run("report", "latest", "--format", "json")
    assert code == 0, err
    return [mark["text"] for mark in json.loads(out)["marks"]]


@pytest.fixture
def other_python(tmp_path: Path) -> str:
    """A Python without telemetry."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True, timeout=60)
    return str(tmp_path / "bare" / "bin" / "python")


@pytest.fixture
def enabled_environment(ground: Ground, tmp_path: Path) -> Iterator[str]:
    """A Python that sees this one's packages, with the captures enabled by `.pth`."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "own"], check=True, timeout=60)
    python = tmp_path / "own" / "bin" / "python"
    (site,) = (tmp_path / "own").glob("lib/python*/site-packages")
    (site / "packages.pth").write_text("\n".join(path for path in sys.path if path and "zip" not in path))
    enable = ground.popen(str(python), "-m", "telemetry", "capture", "enable")
    assert enable.wait(60) == 0
    assert (site / "telemetry_capture.pth").exists()
    yield str(python)
    disable = ground.popen(str(python), "-m", "telemetry", "capture", "disable")
    assert disable.wait(60) == 0
    assert not (site / "telemetry_capture.pth").exists()


def test_an_unchanged_program_is_captured(ground: Ground) -> None:
    """The captured program imports nothing of telemetry."""
    program = ground.program("warns.py", WARNS)
    code, _, err = ground.run("run", "--strict", "--capture", "logging", "--", sys.executable, program)
    assert code == 0, err
    assert "disk is nearly full" in "\n".join(marks(ground))
    assert "capture" not in err.partition("Command")[0]


def test_a_library_that_is_not_imported_is_named(ground: Ground) -> None:
    """A library that is not imported is named once, with or without a report.

    With --strict the exit code tells it too.
    """
    program = ground.program("quiet.py", QUIET)
    for quiet, begins in (("--strict", "nothing was recorded"), ("--quiet", "telemetry: nothing to capture")):
        options = ("--strict", quiet, "--capture", "tensorboard,wandb")
        code, out, err = ground.run("run", *options, "--", sys.executable, program)
        assert (code, out) == (6, "no logging here\n")
        words = " ".join(err.split())
        assert words.count("tensorboard, wandb") == words.count("wandb") == 1
        assert f"{begins}: no Python process that the capture reached imported tensorboard, wandb" in words
        assert "telemetry capture list" in words
        assert "--capture NAME" not in words


@pytest.mark.parametrize(
    "command", [("true",), ("env", "-i", sys.executable, "-c", "pass"), (sys.executable, "-I", "-c", "")]
)
def test_a_command_that_never_reports_is_named(ground: Ground, command: tuple[str, ...]) -> None:
    """A command that never reports is named. Only from outside it can be seen that nothing inside could report."""
    code, _, err = ground.run("run", "--strict", "--capture", "logging", "--", *command)
    assert code == 6
    assert err.count("no Python process of the command reported that it is captured") == 1


def test_a_program_that_records_without_a_sign_counts_as_captured(ground: Ground) -> None:
    """A program that records without a sign may run where it can't write the file of signs.

    It counts as captured, and the missing sign is reported all the same.
    """
    program = ground.program("records.py", "import telemetry\ntelemetry.mark('recorded')\n")
    command = ("env", "-u", "TELEMETRY_CAPTURE", sys.executable, program)
    code, _, err = ground.run("run", "--strict", "--capture", "logging", "--", *command)
    assert code == 0, err
    assert "no Python process of the command reported that it is captured" in err
    assert "another host or in a container and can't write" in err


def test_a_program_that_records_itself_is_not_captured_by_that(ground: Ground) -> None:
    """A program that records by itself counts as a process that reported, but no library is captured."""
    program = ground.program("records.py", "import telemetry\ntelemetry.mark('recorded')\n")
    code, _, err = ground.run("run", "--strict", "--capture", "tensorboard", "--", sys.executable, program)
    assert code == 6
    assert "nothing to capture: no Python process that the capture reached imported tensorboard" in err


@pytest.mark.parametrize("program", ["telemetry.py", "train.py"])
def test_a_module_of_the_program_with_our_name_is_named(ground: Ground, program: str) -> None:
    """A module with our name stops the capture and is named. The program runs as without the capture."""
    (ground.folder / "code").mkdir()
    ours = ground.program("code/telemetry.py", WARNS + QUIET)
    path = ground.program(f"code/{program}", WARNS + QUIET)
    code, out, err = ground.run("run", "--strict", "--capture", "logging", "--", sys.executable, path)
    assert (code, out) == (6, "no logging here\n")
    assert f"logging was not captured: the program has a module named telemetry ({ours}); rename it" in err


def test_a_library_that_lacks_what_is_patched_is_not_captured(ground: Ground) -> None:
    """The exit code tells, and the reason is printed."""
    (ground.folder / "tensorboardX").mkdir()
    ground.program("tensorboardX/__init__.py", "")
    ground.program("tensorboardX/writer.py", "")
    program = ground.program("train.py", "import tensorboardX.writer\n")
    code, _, err = ground.run("run", "--strict", "--capture", "tensorboard", "--", sys.executable, program)
    assert code == 6
    assert "a capture failed: can't hook into tensorboardX.writer" in err


def test_without_strict_the_commands_own_code_counts(ground: Ground) -> None:
    """A capture is no reason to fail a command."""
    assert ground.run("run", "--capture", "logging", "--", "sh", "-c", "exit 7")[0] == 7
    assert ground.run("run", "--capture", "logging", "--", "true")[0] == 0


def test_a_python_without_telemetry_runs_on(ground: Ground, other_python: str) -> None:
    """One message names the interpreter."""
    program = ground.program("warns.py", WARNS + QUIET)
    code, out, err = ground.run("run", "--capture", "logging", "--", other_python, program)
    assert (code, out) == (0, "no logging here\n")
    assert f"telemetry is not installed for {other_python}" in err


def test_a_pth_file_reaches_isolated_pythons(ground: Ground, enabled_environment: str) -> None:
    """`telemetry capture enable` covers what PYTHONPATH can't."""
    program = ground.program("warns.py", WARNS)
    for flag in ("-I", "-E"):
        code, _, err = ground.run(
            "run", "--strict", "--capture", "logging", "--", enabled_environment, flag, program
        )
        assert code == 0, err
        assert "disk is nearly full" in "\n".join(marks(ground))


def test_a_pth_file_executes_no_module_with_our_name(ground: Ground, enabled_environment: str) -> None:
    """PYTHONPATH may have one."""
    (ground.folder / "code").mkdir()
    ours = ground.program("code/telemetry.py", "raise SystemExit('was executed')\n")
    command = ("env", f"PYTHONPATH={ground.folder}/code", enabled_environment, "-c", "import logging; print('ran')")
    code, out, err = ground.run("run", "--capture", "logging", "--", *command)
    assert (code, out) == (0, "ran\n")
    assert f"logging was not captured: the program has a module named telemetry ({ours}); rename it" in err


def test_a_pth_file_has_no_effect_outside_a_capture(ground: Ground, enabled_environment: str) -> None:
    """Other programs of the environment load nothing."""
    child = ground.popen(enabled_environment, "-c", "import sys; print('_telemetry_boot' in sys.modules)")
    assert child.communicate(timeout=60)[0] == "False\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--capture", "tensorbord"), "no capture is named 'tensorbord' (did you mean tensorboard?)"),
        (("--capture", ","), "--capture needs a name"),
        (("--stand-in", "wand"), "there is no stand-in for 'wand' (did you mean wandb?)"),
    ],
)
def test_wrong_names_are_refused_before_the_command(ground: Ground, words: tuple[str, ...], message: str) -> None:
    """The command does not run."""
    code, out, err = ground.run("run", *words, "--", "echo", "ran")
    assert (code, out) == (2, "")
    assert message in err


def test_the_list_names_every_capture(ground: Ground) -> None:
    """The list names every capture in alphabetical order."""
    code, out, _ = ground.run("capture")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == [
        *(
            "distributed",
            "lightning",
            "locust",
            "logging",
            "rl_insight",
            "tensorboard",
            "torchrun",
            "transformers",
            "verl",
            "wandb",
        )
    ]
