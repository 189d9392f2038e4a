"""Tests that the files of a run are for its owner alone.

Run directories, their files, and what killed aggregators left are checked.
"""

from __future__ import annotations

import os
import signal
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

RECORD = """
import telemetry
with telemetry.start("job") as run:
    run.series("latency").record(1.0)
    run.mark("here")
"""


def modes(folder: Path) -> dict[str, int]:
    """Return the modes of the folder and of everything in it."""
    found = [folder, *(path for path in folder.rglob("*") if not path.is_symlink())]
    return {str(path): stat.S_IMODE(path.stat().st_mode) for path in found}


@pytest.fixture
def open_umask() -> Any:
    """Children make files that others can read, unless they take care."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_a_run_directory_is_for_its_owner_alone(ground: Any, open_umask: None) -> None:
    """The files of a run, those of writers and gates included, are for their owner alone.

    A report that the user asks for follows the umask.
    """
    program = ground.program("record.py", RECORD)
    words = ("--to", "jsonl", "--gate", "lost == 0", "--", sys.executable, program)
    code, _, err = ground.run("run", *words)
    assert code == 0, err
    [run] = [path for path in (ground.folder / "runs").iterdir() if not path.is_symlink()]
    found = modes(run)
    assert {path: oct(mode) for path, mode in found.items() if mode & 0o077 and "/data" not in path} == {}
    assert any(path.endswith("gates.json") for path in found)
    assert ground.run("report", "latest", "-o", "report.json")[0] == 0
    assert stat.S_IMODE((ground.folder / "report.json").stat().st_mode) == 0o644


def test_a_result_elsewhere_is_for_its_owner_alone(ground: Any, open_umask: None) -> None:
    """The result is for its owner alone, even in a folder that others may read.

    The result goes to this folder when the run directory takes nothing.
    """
    (ground.folder / "fallback").mkdir(mode=0o755)
    environ = {"TELEMETRY_RUN__FALLBACK_DIRS": "fallback"}
    aggregator, _ = ground.serve(environ=environ)
    [run] = [path for path in (ground.folder / "runs").iterdir() if not path.is_symlink()]
    (run / "final_snapshot.json").mkdir()
    ((run / "final_snapshot.json") / "in the way").touch()
    aggregator.send_signal(signal.SIGTERM)
    aggregator.communicate(timeout=30)
    files = [path for path in (ground.folder / "fallback").rglob("*") if path.is_file()]
    assert len(files) == 1
    assert stat.S_IMODE(files[0].stat().st_mode) == 0o600


def test_what_a_killed_aggregator_left_goes_when_a_run_starts(ground: Any) -> None:
    """The sockets and locks of a killed aggregator go when a run starts, if no result can be made.

    Sockets and locks of a run with a journal wait for `recover`.
    """
    runtime = ground.folder / "telemetry"
    left = []
    for words in (("--no-journal",), ()):
        aggregator, endpoint = ground.serve(*words)
        left.append(Path(endpoint.removeprefix("ipc://")).parent)
        aggregator.kill()
        aggregator.wait()
    without, with_journal = left
    third, _ = ground.serve()
    assert not without.exists()
    assert with_journal.exists()
    code, _, err = ground.run("recover", with_journal.name)
    assert code == 0, err
    assert not with_journal.exists()
    third.send_signal(signal.SIGTERM)
    third.communicate(timeout=30)
    assert list(runtime.iterdir()) == []


def test_an_abstract_address_has_to_be_asked_for(ground: Any) -> None:
    """Every user of the machine reaches it."""
    code, _, err = ground.run("serve", "--bind", f"ipc://@{ground.folder.name}")
    assert code == 1
    assert "every user of this machine" in err
    child, endpoint = ground.serve("--bind", f"ipc://@{ground.folder.name}", "--insecure")
    assert endpoint == f"ipc://@{ground.folder.name}"
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=30)
