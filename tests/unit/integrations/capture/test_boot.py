"""The start of captures in real Python processes: which are reached, what they load, and what else they run."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tests.unit.integrations.capture.started import HOOKED, REPORT, Started

from telemetry.errors import UsageError
from telemetry.integrations.capture.boot_module import BOOT, BOOT_FOLDER, CAPTURES
from telemetry.integrations.capture.captures import check_captures


@pytest.fixture
def started(tmp_path: Path) -> Started:
    return Started(tmp_path)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python without any package."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, timeout=100)
    return str(folder / "bin" / "python")


# --- which processes -----------------------------------------------------------------------------


def test_nothing_is_loaded_before_a_hooked_module(started: Started) -> None:
    """Nor importlib, which every start of Python would pay for."""
    assert started.told("-c", REPORT) == "False True"
    loaded = "import sys; print(*sorted(sys.modules))"
    extra = set(started.told("-c", loaded).split()) - set(started.told("-c", loaded, PYTHONPATH="").split())
    assert extra <= {"_telemetry_boot", "sitecustomize"}
    assert started.signs()[0] == f"booted {sys.executable}"


@pytest.mark.parametrize("words", [("-c",), ("-s", "-c"), ("-P", "-c"), ("-O", "-B", "-c"), ("-X", "utf8", "-c")])
def test_usual_starts_are_captured(started: Started, words: tuple[str, ...]) -> None:
    """Options of Python that keep PYTHONPATH keep the capture."""
    assert started.told(*words, HOOKED) == "True"
    assert started.signs() == [f"booted {sys.executable}", "hooked logging"]


def test_a_module_and_a_script_and_a_package_are_captured(started: Started) -> None:
    """Each way to name the program."""
    script = started.write("script.py", HOOKED)
    started.write("package/__init__.py", "")
    started.write("package/__main__.py", HOOKED)
    for words in ((script,), ("-m", "script"), ("-m", "package"), ("package",)):
        assert started.told(*words) == "True", words


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_isolated_starts_leave_no_sign_and_run(started: Started, flag: str) -> None:
    """Isolated starts run without hooks and leave no sign.

    Nothing inside them can report, so the missing sign is the report.
    """
    assert started.told(flag, "-c", HOOKED) == "False"
    assert started.signs() == []


def test_without_the_variable_nothing_is_prepared(started: Started) -> None:
    """A process without names of libraries to capture gets no hooks and leaves no signs.

    It may have inherited only `PYTHONPATH`.
    """
    assert started.told("-c", HOOKED, TELEMETRY_CAPTURE="") == "False"
    assert started.told("-c", HOOKED, TELEMETRY_CAPTURE="unknown, ,") == "False"
    assert started.signs() == []


def test_names_may_have_spaces_around_them(started: Started) -> None:
    """A person may set the variable by hand."""
    assert started.told("-c", HOOKED, TELEMETRY_CAPTURE=" wandb , logging ") == "True"


def test_processes_of_telemetry_itself_are_left_out(started: Started) -> None:
    """A writer to W&B would record again what it writes."""
    code = "import runpy, sys; sys.argv = ['x', '--version']; runpy.run_module('telemetry', run_name='__main__')"
    assert started.python("-m", "telemetry", "--version").returncode == 0
    assert started.python("-P", "-W", "default", "-m", "telemetry", "--version").returncode == 0
    assert started.signs() == []
    started.python("-c", code)
    assert started.signs()[:1] == [f"booted {sys.executable}"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_of_multiprocessing_are_captured(started: Started, method: str) -> None:
    """Each child loads telemetry itself, when it imports a hooked module and not before."""
    script = started.write(
        "script.py",
        f"""
import multiprocessing, sys

def work(queue):
    before = "telemetry" in sys.modules
    {HOOKED.replace("print(", "queue.put((before, ").replace("))", ")))")}

if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    queue = context.SimpleQueue()
    child = context.Process(target=work, args=(queue,))
    child.start()
    print(*queue.get())
    child.join()
    print("telemetry" in sys.modules)
""",
    )
    assert started.told(script) == "False True\nFalse"
    booted = [sign for sign in started.signs() if sign.startswith("booted")]
    assert len(booted) >= {"fork": 1, "spawn": 2, "forkserver": 2}[method]
    assert started.signs().count("hooked logging") == 1


def test_helpers_of_multiprocessing_load_nothing(started: Started) -> None:
    """The tracker of resources and the fork server start Python, too. What the server has, its children inherit."""
    script = started.write(
        "script.py",
        """
import multiprocessing, os, time
from multiprocessing import forkserver, resource_tracker

if __name__ == "__main__":
    resource_tracker.ensure_running()
    child = multiprocessing.get_context("forkserver").Process(target=time.sleep, args=(0,))
    child.start()
    child.join()
    for pid in (resource_tracker._resource_tracker._pid, forkserver._forkserver._forkserver_pid):
        libraries = open(f"/proc/{pid}/maps").read()
        print("msgspec" in libraries, "zmq" in libraries, len(os.listdir(f"/proc/{pid}/task")))
""",
    )
    assert started.told(script).splitlines() == ["False False 1"] * 2
    assert started.signs() == [f"booted {sys.executable}"] * 3


def test_a_subprocess_and_what_it_starts_are_captured(started: Started) -> None:
    """The variables are inherited, unless the program clears its environment."""
    inner = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOOKED!r}])"
    assert (
        started.told("-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}])") == "True"
    )
    assert started.signs().count(f"booted {sys.executable}") == 3
    cleared = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOOKED!r}], env={{}})"
    assert started.told("-c", cleared) == "False"


@pytest.mark.slow
def test_pytest_runs_under_the_capture(started: Started) -> None:
    """pytest runs with the hooks in place, and its rewriting of assertions still works."""
    started.write(
        "test_it.py",
        """
import logging

def test_hooked():
    assert hasattr(logging.Logger.callHandlers, "__wrapped__")

def test_rewritten():
    left, right = [1, 2], [1, 3]
    assert left == right
""",
    )
    started.write("pytest.ini", "[pytest]\n")
    for words in (("-m", "pytest"), (str(Path(sys.executable).parent / "pytest"),)):
        done = started.python(*words, "-q", "-p", "no:cacheprovider", "test_it.py")
        assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
        assert "At index 1 diff: 2 != 3" in done.stdout


# --- what another environment has ----------------------------------------------------------------


def test_without_telemetry_one_line_says_so_and_the_program_runs(started: Started, bare: str) -> None:
    """One line reports the missing package although the module runs twice, and the program runs."""
    done = started.python("-c", "import logging, importlib; importlib.reload(logging); print('ran')", python=bare)
    assert (done.returncode, done.stdout) == (0, "ran\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("telemetry: logging is not captured: No module named 'telemetry'. Install ")
    assert line.endswith(bare)
    assert started.signs() == [f"booted {bare}", f"absent logging {bare}"]


def test_without_telemetry_and_without_a_hooked_module_nothing_is_said(started: Started, bare: str) -> None:
    """Most Python processes of a command have nothing to capture."""
    done = started.python("-c", "print('ran')", python=bare)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")


def test_another_package_of_this_name_is_no_telemetry(started: Started, bare: str, tmp_path: Path) -> None:
    """PyPI has one."""
    package = started.write("other/telemetry/__init__.py", "raise SystemExit('was executed')")
    done = started.python(
        "-c", "import logging; print('ran')", python=bare, PYTHONPATH=started.path(tmp_path / "other")
    )
    assert (done.stdout, done.stderr) == ("ran\n", hidden_by(package))
    assert started.signs() == [f"booted {bare}", f"hidden logging {package}"]


def hidden_by(path: str) -> str:
    return f"telemetry: the program has a module named telemetry ({path}), so nothing is captured; rename it\n"


@pytest.mark.parametrize("place", ["telemetry.py", "telemetry/__init__.py"])
def test_a_module_of_the_program_with_our_name_is_not_executed(started: Started, place: str) -> None:
    """The line comes once, although two libraries are captured."""
    module = started.write(place, "print('was executed')")
    script = started.write("script.py", "import logging, tensorboardX.writer")
    started.write("tensorboardX/__init__.py", "")
    started.write("tensorboardX/writer.py", "")
    done = started.python(script, TELEMETRY_CAPTURE="logging,tensorboard")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", hidden_by(module))
    assert started.signs()[1:] == [f"hidden {name} {module}" for name in ("logging", "tensorboard")]


def test_a_script_with_our_name_runs_once(started: Started) -> None:
    """A script with the package's name runs once as the main module and is not imported again."""
    script = started.write("telemetry.py", "import logging; print('ran')")
    done = started.python(script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", hidden_by(script))


def test_a_module_with_our_name_that_was_imported_is_left_alone(started: Started) -> None:
    """A module with the package's name runs once and is left alone, also while it is being imported."""
    module = started.write("telemetry.py", "import logging; print('ran')")
    done = started.python("-c", "import telemetry")
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", hidden_by(module))


def test_another_copy_of_telemetry_is_used(started: Started, tmp_path: Path) -> None:
    """The program's environment may have its own."""
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "telemetry").symlink_to(Path(BOOT_FOLDER).parents[2])
    code = f"{HOOKED}; import sys; print(sys.modules['telemetry'].__path__)"
    told = started.told("-c", code, PYTHONPATH=started.path(tmp_path / "copy"))
    assert told == f"True\n['{tmp_path}/copy/telemetry']"


def test_a_folder_of_our_name_without_code_hides_nothing(started: Started) -> None:
    """Programs have folders with data."""
    (started.folder / "telemetry").mkdir()
    assert started.told("-c", HOOKED) == "True"


def test_a_capture_that_fails_is_named_and_the_others_work(started: Started, tmp_path: Path) -> None:
    """The module of the library lacks what is patched."""
    started.write("libraries/tensorboardX/__init__.py", "")
    started.write("libraries/tensorboardX/writer.py", "here = True\n")
    done = started.python(
        "-c",
        f"import tensorboardX.writer; {HOOKED}; print(tensorboardX.writer.here)",
        PYTHONPATH=started.path(tmp_path / "libraries"),
        TELEMETRY_CAPTURE="tensorboard,logging",
    )
    assert (done.returncode, done.stdout) == (0, "True\nTrue\n")
    why = "can't hook into tensorboardX.writer: AttributeError: "
    assert done.stderr.startswith(f"telemetry: {why}")
    assert [sign for sign in started.signs() if sign.startswith(f"failed {why}")]
    assert [sign for sign in started.signs() if sign.startswith("hooked")] == ["hooked logging"]


def test_a_closed_stderr_breaks_no_import(started: Started, bare: str) -> None:
    """Daemons close it; frameworks replace it."""
    for close in ("sys.stderr.close()", "sys.stderr = None", "sys.stderr = object()", "import os; os.close(2)"):
        done = started.python("-c", f"import sys; {close}; import logging; print('ran')", python=bare)
        assert done.stdout == "ran\n", (close, done.stderr)


@pytest.mark.parametrize("log", ["", "/nowhere/capture.log", "/", "/dev/full"])
def test_a_log_that_cannot_be_written_changes_nothing(started: Started, log: str) -> None:
    """The run directory may be on another host, or its disk full."""
    assert started.told("-c", HOOKED, TELEMETRY_CAPTURE_LOG=log) == "True"


def test_the_log_is_bounded(started: Started) -> None:
    """A command may start processes for days."""
    started.log.write_bytes(b"x" * BOOT.SIGNS_BYTES)
    assert started.told("-c", HOOKED) == "True"
    assert started.log.stat().st_size == BOOT.SIGNS_BYTES


def test_a_capture_removed_by_hand_stays_removed(started: Started) -> None:
    """A reload of the library does not bring it back; install() does."""
    code = """
import importlib, logging
from telemetry.integrations import logging as capture
capture.uninstall()
importlib.reload(logging)
print(hasattr(logging.Logger.callHandlers, "__wrapped__"))
capture.install()
print(hasattr(logging.Logger.callHandlers, "__wrapped__"))
"""
    assert started.told("-c", code) == "False\nTrue"


# --- names ---------------------------------------------------------------------------------------


def test_names_of_captures_are_checked() -> None:
    """A typing error gets the nearest name."""
    assert check_captures(" logging, wandb ,") == ["logging", "wandb"]
    with pytest.raises(UsageError, match="no capture is named 'loging'") as raised:
        check_captures("loging")
    assert raised.value.hint == "did you mean logging?"
    with pytest.raises(UsageError, match="needs a name"):
        check_captures(" , ")


@pytest.mark.parametrize("name", sorted(CAPTURES))
def test_each_capture_has_a_module_with_its_two_functions(name: str) -> None:
    """The boot knows names only, and loads nothing to check them."""
    module = import_module(f"telemetry.integrations.{name}")
    assert callable(module.install)
    assert callable(module.uninstall)
