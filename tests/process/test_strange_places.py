"""Folders that a user can't read or write, and what commands say about what they have written."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.process.conftest import Ground

NOBODY = 65_534
WITHOUT_ROOT = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner,-chown,-kill")
"""Start a process of root that can open only what its user may open."""
PROGRAM = """
import telemetry
with telemetry.start("bench") as run:
    run.series("latency", unit="ms").record(2.0)
"""


@pytest.fixture
def second_user(require_tool: Callable[[str], str]) -> None:
    """There is a second user whose files this one can't open."""
    require_tool("setpriv")
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")


def ordinary(ground: Ground, *words: str, cwd: Path | None = None) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a Python program without root's rights."""
    child = ground.popen(
        *WITHOUT_ROOT, sys.executable, *words, **({"preexec_fn": lambda: os.chdir(cwd)} if cwd else {})
    )
    out, err = child.communicate(timeout=60)
    return child.returncode, out, err


def give_away(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)


@pytest.mark.usefixtures("second_user")
def test_a_run_of_another_user_is_named_as_such(ground: Ground, wait_until: Callable[..., object]) -> None:
    """Every command says so in one line; the list has it neither as live nor as dead."""
    code, _, err = ground.run("run", "--quiet", "--no-collect", "--", sys.executable, "-c", PROGRAM)
    assert code == 0, err
    runtime = ground.folder / "telemetry"
    wait_until(lambda: not list(runtime.iterdir()), 20.0, "the end of the aggregator, which would answer itself")
    root = ground.folder / "runs"
    (run,) = [path for path in root.iterdir() if not path.is_symlink()]
    give_away(run)
    for words in (
        ("status",), ("report",), ("open",), ("timeline",), ("nodes",), ("recover",), ("replay",), ("tail",),
        ("top", "--plain"), ("gate", "lost == 0"), ("compare", "latest"), ("export", "--to", "jsonl"),
    ):  # fmt: skip
        command, *rest = words
        code, out, err = ordinary(ground, "-m", "telemetry", command, str(run), *rest)
        assert (code, out, err.count("\n")) == (1, "", 1), err
        assert f"can't read {run}: it belongs to another user" in err
    code, out, err = ordinary(ground, "-m", "telemetry", "ls", "--json")
    assert (code, err) == (0, "")
    assert [(item["state"], item["pid"]) for item in json.loads(out)] == [("UNREADABLE", None)]
    code, _, err = ordinary(ground, "-m", "telemetry", "clean", "--keep", "0", "--yes")
    assert "stays: it belongs to another user" in err
    assert run.exists()


@pytest.mark.usefixtures("second_user")
def test_a_program_in_a_folder_without_write_access_goes_on(ground: Ground) -> None:
    """The run is in a temporary folder, which the program names, if its own folder cannot be written.

    A folder that somebody chose is one clear error.
    """
    folder = ground.folder / "readonly"
    folder.mkdir()
    program = Path(ground.program("first.py", PROGRAM))
    os.chown(folder, NOBODY, NOBODY)
    code, _, err = ordinary(ground, str(program), cwd=folder)
    assert code == 0, err
    first, _, last = err.splitlines()
    assert first.startswith(f"telemetry: can't write to {folder}/runs, so this run is in ")
    place = Path(first.partition("this run is in ")[2].partition(":")[0])
    try:
        assert f"telemetry report {place}" in last
        code, out, err = ground.run("report", "latest", "--dir", str(place))
        assert (code, "latency" in out) == (0, True), err
    finally:
        shutil.rmtree(place)
    ground.environ["TELEMETRY_RUN__DIR"] = "mine"
    code, _, err = ordinary(ground, str(program), cwd=folder)
    assert code == 1
    assert "can't create the run directory: Permission denied: " in err.splitlines()[-1]
    assert "start(dir=…) or TELEMETRY_RUN__DIR" in err.splitlines()[-1]


def test_a_command_says_what_it_has_written(ground: Ground) -> None:
    """One line on stderr for each file, whatever the command."""
    command = ("--", sys.executable, "-c", PROGRAM)
    code, _, err = ground.run(
        "sweep", "--param", "n=1,2", "--env", "--quiet", "--no-collect", "--html", "s.html", *command
    )
    assert (code, err.splitlines()[-1]) == (0, "telemetry: wrote s.html"), err
    name = ground.final()["name"]
    one, two = (path.name for path in (ground.folder / "runs").iterdir() if not path.is_symlink())
    for words, files in (
        (("report", "-o", "r.json", "-o", "r.hlog"), ("r.json", "r.hlog")),
        (("report", "--as", "vllm", "-o", "none.txt"), ()),
        (("gate", "latest", "lost == 0", "-o", "g.xml"), ("g.xml",)),
        (("compare", one, two, "-o", "c.md"), ("c.md",)),
        (("curve", name, "-o", "c.csv"), ("c.csv",)),
        (("ls", "--html", "l.html"), ("l.html",)),
    ):
        _, _, err = ground.run(*words)
        assert [line for line in err.splitlines() if "wrote " in line] == [
            f"telemetry: wrote {file}" for file in files
        ]
        assert all((ground.folder / file).exists() for file in files)


def test_a_missing_library_ends_the_command_before_it_starts(ground: Ground) -> None:
    """A missing library ends the command with exit code 2, as a backend that does not exist does.

    This holds for the command line and for the settings.
    """
    (ground.folder / "sitecustomize.py").write_text(
        "import sys\nclass Hide:\n    def find_spec(self, name, *rest):\n        if name == 'tensorboard':\n"
        "            raise ModuleNotFoundError(name)\nsys.meta_path.insert(0, Hide())\n"
    )
    ground.environ["PYTHONPATH"] = str(ground.folder)
    told = (
        "the backend tensorboard needs tensorboard, which is not installed (pip install 'telemetryd[tensorboard]')"
    )
    for environ, words in (
        ({}, ("run", "--to", "tensorboard", "--", "touch", "started")),
        ({}, ("serve", "--to", "tensorboard")),
        ({}, ("export", "--to", "tensorboard")),
        ({"TELEMETRY_BACKENDS__TO": "tensorboard"}, ("run", "--", "touch", "started")),
    ):
        code, out, err = ground.run(*words, environ=environ)
        assert (code, out, err) == (2, "", f"telemetry: {told}\n")
    assert not (ground.folder / "started").exists()
    assert not (ground.folder / "runs").exists()


def test_a_bench_names_no_folder_that_it_has_deleted(ground: Ground) -> None:
    """The runs of a bench are temporary, so its output does not tell how to open them."""
    code, out, err = ground.run("bench", "--seconds", "0.1", "--rate", "1000")
    assert code == 0, err
    assert "maximum throughput" in out
    assert "open it with" not in err


def test_old_runs_are_removed_at_the_end_of_a_run(ground: Ground, wait_until: Callable[..., object]) -> None:
    """The settings remove old runs at the end of a run, and one line says so.

    The command `clean` does not touch a live run.
    """
    runtime = ground.folder / "telemetry"
    for _ in range(2):
        code, _, err = ground.run("run", "--quiet", "--no-collect", "--", "true")
        assert code == 0, err
    wait_until(lambda: not list(runtime.iterdir()), 20.0, "the end of both aggregators")
    first, second = sorted(path for path in (ground.folder / "runs").iterdir() if not path.is_symlink())
    for run in (first, second):
        os.utime(run / "final_snapshot.json", (1, 1))
    ground.environ |= {"TELEMETRY_RETENTION__DAYS": "30", "TELEMETRY_RETENTION__KEEP": "2"}
    code, _, err = ground.run("run", "--quiet", "--no-collect", "--", "true")
    assert (code, "removed 1 run older than 30 days and freed " in err) == (0, True), err
    assert first.exists() != second.exists()
    wait_until(lambda: not list(runtime.iterdir()), 20.0, "the end of its aggregator")
    server, _ = ground.serve()
    code, _, err = ground.run("clean", "--keep", "0", "--yes")
    assert (code, "stays: it is live" in err, "removed 2 runs" in err) == (0, True, True), err
    assert len(ground.live()) == 1
    server.terminate()
    server.wait(60)
