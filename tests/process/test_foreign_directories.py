"""Run directories of somebody else under the commands that take one: nothing outside of them changes."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import pytest
from tests.foreign_directories import Change, Place, changes, make_good, set_fields

from telemetry.testing.sample import RUN_ID
from telemetry.wire.exit_codes import Exit

CPU_S: Final = 5.0
END_S: Final = 30.0
"""Time after which a command hangs, also on a machine that is busy with other things."""
FOLDERS: Final = {"template", "work", "runs", "outside", "out", "runtime", "log", "modules"}
MEMORY_MIB: Final = 300
READING: Final = (
    ["export", "{run}", "--to", "parquet:path={root}/out/lake"],
    ["report", "{run}"],
    ["merge", "{run}", "{other}", "--dir", "{root}/out"],
    ["gate", "{run}", "count(n) > 0"],
    ["ls", "--dir", "{root}/runs"],
)
WRITING: Final = (
    ["recover", "{run}"],
    ["serve", "--resume", "{run}", "--ready-fd", "{ready}"],
    ["replay", "{run}", "--speed", "max", "--dir", "{root}/out"],
)
RUNNER: Final = """
import json, os, resource, select, signal, sys, traceback
from importlib import import_module
from telemetry.cli.main import main

LIMIT_S = float(sys.argv[1])
os.fsync = os.fdatasync = lambda fd: None  # this is not about power cuts
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))  # a command that takes all there is harms nobody

def run(argv, log):
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(fd, 1), os.dup2(fd, 2)
        try:
            code = main([word.replace("{ready}", str(writer)) for word in argv])
        except BaseException:
            traceback.print_exc()
            code = 70
        with open("../modules", "w") as file:
            file.write(chr(10).join(sys.modules))
        sys.stderr.flush()
        os._exit(code)
    os.close(writer)
    if "--resume" in argv and select.select([reader], [], [], LIMIT_S)[0]:
        if b'"endpoint"' in os.read(reader, 65536):
            os.kill(child, signal.SIGTERM)
    os.close(reader)
    fd = os.pidfd_open(child)
    if not select.select([fd], [], [], LIMIT_S)[0]:
        os.kill(child, signal.SIGKILL)
    os.close(fd)
    _, status, used = os.wait4(child, 0)
    return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss >> 10

def import_what_it_imported():
    with open("../modules") as file:
        for name in file.read().split(chr(10)):
            if name not in sys.modules and name.startswith(("telemetry.", "numpy", "pyarrow", "zmq", "msgspec")):
                import_module(name)

warm = set()
for line in sys.stdin:
    argv, log = json.loads(line)
    print(json.dumps(run(argv, log)), flush=True)
    if argv[0] not in warm and os.path.exists("../modules"):
        warm.add(argv[0])
        import_what_it_imported()
"""


class Done(NamedTuple):
    code: int
    cpu_s: float
    memory_mib: int
    output: str

    @property
    def is_good(self) -> bool:
        is_own_error = self.code in tuple(Exit) and "Traceback" not in self.output
        return is_own_error and self.cpu_s < CPU_S and self.memory_mib < MEMORY_MIB


class Runner:
    """A process that forks a new one for each command: as true as starting it, and ten times as fast."""

    def __init__(self, root: Path) -> None:
        self.log = root / "log"
        environment = os.environ | {
            "XDG_RUNTIME_DIR": str(root / "runtime"),
            "XDG_CONFIG_HOME": str(root / "runtime"),
            "XDG_STATE_HOME": str(root / "runtime"),
            "TMPDIR": str(root / "runtime"),
            "TELEMETRY_RUN__TERMINAL_GRACE_S": "0",
            "TELEMETRY_RUN__DRAIN_TIMEOUT_S": "0",
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", RUNNER, str(END_S)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root / "work",
            env=environment,
        )

    def run(self, argv: list[str]) -> Done:
        """Run a command to its end, or kill it when it takes too long."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([argv, str(self.log)]), file=self._process.stdin, flush=True)
        return Done(*json.loads(self._process.stdout.readline()), self.log.read_text(errors="replace")[-2_000:])

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def facts(folder: Path) -> dict[str, Any]:
    """Return all that can change in a folder."""
    found: dict[str, Any] = {}
    for place, folders, files in os.walk(folder):
        for path in (Path(place) / name for name in [*folders, *files]):
            stat = path.lstat()
            content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
            found[str(path)] = (stat.st_mode, stat.st_ino, stat.st_mtime_ns, stat.st_size, content)
    return found


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    """A folder with a short path: an ipc address ends at 107 bytes."""
    with TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as folder:
        for name in ("work", "runs", "outside", "out", "runtime"):
            (Path(folder) / name).mkdir()
        yield Path(folder)


@pytest.fixture(scope="module")
def good(root: Path) -> Path:
    return make_good(root / "template", root / "runtime" / "telemetry" / RUN_ID)


@pytest.fixture(scope="module")
def other(root: Path, good: Path) -> Path:
    """A run to merge others with."""
    shutil.copytree(good, path := root / "template" / "other")
    for name in ("manifest.json", "final_snapshot.json"):
        set_fields(path / name, run_id="other")
    return path


@pytest.fixture(scope="module")
def runner(root: Path) -> Iterator[Runner]:
    made = Runner(root)
    yield made
    made.close()


def commands_for(number: int, change: Change) -> list[list[str]]:
    """Return one command for each change in turn, and those that write where a link or an id leads."""
    (export, *others), (recover, resume, replay) = READING, WRITING
    if change.name.startswith("link to a copy"):
        return [recover, resume]
    if change.name.startswith("run id"):
        return [export if "final" in change.name else resume]
    commands = [export, *others, recover, resume, replay, *others, recover, *others]
    return [commands[number % len(commands)]]


CHANGES: Final = list(enumerate(changes()))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, len(CHANGES), 50))
def test_nothing_outside_changes(first: int, root: Path, good: Path, other: Path, runner: Runner) -> None:
    """The command ends soon, in bounded memory, and with one of our own errors."""
    outside = root / "outside"
    wrong = []
    for number, change in CHANGES[first : first + 50]:
        run = root / "runs" / (good.name if "run id" not in change.name else "theirs")
        shutil.copytree(good, run)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(outside / "socket"))
            change.apply(Place(run, outside))
            before = facts(outside)
            for command in commands_for(number, change):
                if command in WRITING and "final" not in change.name:
                    (run / "final_snapshot.json").unlink(missing_ok=True)
                words = {"run": run, "other": other, "root": root, "ready": "{ready}"}
                done = runner.run([word.format_map(words) for word in command])
                changed = facts(outside).items() ^ before.items()
                strays = {*os.listdir(root)} - FOLDERS | {*os.listdir(root / "work")}
                if changed or strays or not done.is_good:
                    wrong.append(f"{change.name}: {command[0]}: {done} {changed} {strays}")
        for folder in (run, outside, root / "out"):
            shutil.rmtree(folder, ignore_errors=True)
        outside.mkdir()
        (root / "out").mkdir()
    assert not wrong, "\n\n".join(wrong)


def test_what_a_link_leads_to_survives_a_recovery(root: Path, good: Path) -> None:
    """A recovery, in a process of its own as a user starts it, leaves a link's target alone.

    The rest of the run is recovered, and the link is named.
    """
    run = root / "runs" / good.name
    shutil.copytree(good, run)
    (run / "final_snapshot.json").unlink()
    (run / "requests" / "requests.log").unlink()
    precious = root / "template" / "precious"
    precious.write_bytes(b"precious\n")
    (run / "requests" / "requests.log").symlink_to(precious)
    done = subprocess.run(
        [sys.executable, "-m", "telemetry", "recover", str(run)], capture_output=True, text=True, check=False
    )
    assert precious.read_bytes() == b"precious\n"
    assert (done.returncode, (run / "final_snapshot.json").exists()) == (0, True)
    assert "can't write the request log" in done.stderr
    assert "requests.log: it is a link" in done.stderr
