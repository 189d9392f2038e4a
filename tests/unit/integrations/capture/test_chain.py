"""Another `sitecustomize`, which the boot of captures hides: it runs as if it was alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.integrations.capture.started import HOOKED, Started

from telemetry.integrations.capture.boot_module import BOOT_FOLDER


@pytest.fixture
def started(tmp_path: Path) -> Started:
    return Started(tmp_path)


THEIRS = "import sys; print('theirs', __name__, sys.modules['sitecustomize'].__file__ == __file__)\n"


def test_another_sitecustomize_in_pythonpath_runs_as_if_alone(started: Started, tmp_path: Path) -> None:
    """Another `sitecustomize` finds itself in `sys.modules`, and so does the program."""
    file = started.write("theirs/sitecustomize.py", THEIRS)
    code = f"import sitecustomize; print(sitecustomize.__file__ == {file!r}); {HOOKED}"
    found = started.told("-c", code, PYTHONPATH=started.path(tmp_path / "theirs"))
    assert found.split("\n") == ["theirs sitecustomize True", "True", "True"]


def test_another_sitecustomize_in_the_environment_runs_as_if_alone(started: Started, tmp_path: Path) -> None:
    """Distributions put one there."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "own"], check=True, timeout=100)
    (site,) = (tmp_path / "own").glob("lib/python*/site-packages")
    (site / "sitecustomize.py").write_text(THEIRS)
    done = started.python("-c", "print('ran')", python=str(tmp_path / "own" / "bin" / "python"))
    assert (done.stdout, done.stderr) == ("theirs sitecustomize True\nran\n", "")


def test_a_package_named_sitecustomize_runs(started: Started, tmp_path: Path) -> None:
    """A package named `sitecustomize` has the right spec: its relative imports work."""
    started.write("theirs/sitecustomize/__init__.py", "from . import more\n")
    started.write("theirs/sitecustomize/more.py", "print('more')\n")
    assert started.told("-c", "pass", PYTHONPATH=started.path(tmp_path / "theirs")) == "more"


def test_an_error_of_another_sitecustomize_is_reported_as_ever(started: Started, tmp_path: Path) -> None:
    """The interpreter prints the same lines as without the capture."""
    started.write("theirs/sitecustomize.py", "1 / 0\n")
    with_boot = started.python("-c", HOOKED, PYTHONPATH=started.path(tmp_path / "theirs"))
    alone = started.python("-c", "print('ran')", PYTHONPATH=str(tmp_path / "theirs"))
    assert (with_boot.returncode, with_boot.stdout) == (0, "True\n")
    assert with_boot.stderr == alone.stderr
    assert "ZeroDivisionError" in alone.stderr


def test_a_second_installation_of_telemetry_behind_the_first_runs_once(started: Started, tmp_path: Path) -> None:
    """A second installation behind the first boots once.

    A captured command may run `telemetry run --capture` of another environment.
    """
    for name in ("sitecustomize.py", "_telemetry_boot.py"):
        started.write(f"second/{name}", (Path(BOOT_FOLDER) / name).read_text())
    started.write("theirs/sitecustomize.py", THEIRS)
    path = started.path(tmp_path / "second", tmp_path / "theirs")
    found = started.told("-c", HOOKED, PYTHONPATH=path)
    assert found.split("\n") == ["theirs sitecustomize True", "True"]
    assert started.signs() == [f"booted {sys.executable}", "hooked logging"]


def test_the_folder_may_be_in_the_path_several_times(started: Started, tmp_path: Path) -> None:
    """The boot folder may stand in `PYTHONPATH` under several names, as nested commands write it."""
    started.write("theirs/sitecustomize.py", THEIRS)
    (tmp_path / "link").symlink_to(BOOT_FOLDER)
    path = os.pathsep.join([BOOT_FOLDER + "/", str(tmp_path / "link"), BOOT_FOLDER, str(tmp_path / "theirs")])
    assert started.told("-c", HOOKED, PYTHONPATH=path).split("\n") == ["theirs sitecustomize True", "True"]
