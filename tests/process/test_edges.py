"""Odd surroundings: closed streams, strange names, and nothing left over."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from telemetry.cli.wrapped.status_line import FIRST_LINES_S
from telemetry.transport import ControlClient, hello, subscribe
from telemetry.wire.control import Barrier, Catchup, GetHistory, GetStatus, Ping

RECORD = """
import telemetry
run = telemetry.start("x")
run.counter("n").add(7)
print("to stdout")
"""
FIELDS_OF_NAMES = ["a/b/c", "../../up", "grüße 你好 🙂", "x" * 200, "-dash", "a.b:c=d e", "..", "{x}"]


def shell(ground: Any, line: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """A line of sh in which `$T` is the command."""
    return subprocess.run(
        ["/bin/sh", "-c", line],
        cwd=ground.folder,
        env=ground.environ | {"PY": sys.executable, "T": f"{sys.executable} -m telemetry"},
        text=True,
        timeout=90,
        check=False,
        **options,
    )


def processes_of(ground: Any) -> list[bytes]:
    """Command lines of all processes with the environment of this test."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if str(ground.folder).encode() in entry.read_bytes():
                found.append((entry.parent / "cmdline").read_bytes())
    return found


@pytest.mark.parametrize("closed", ["2>&-", "0<&- 2>&-", "0<&- 1>&- 2>&-", "1>&-"])
def test_run_with_closed_streams(ground: Any, closed: str) -> None:
    """A supervisor may leave nothing open: the command runs, its code is ours, the result is on disk."""
    ground.program("job.py", RECORD.replace('print("to stdout")', "raise SystemExit(3)"))
    done = shell(ground, f"$T run --name quiet -- $PY job.py {closed}", stdout=subprocess.PIPE)
    assert done.returncode == 3
    assert done.stdout == ""
    assert ground.final()["counters"][0]["value"] == 7
    assert ground.final()["completeness"] == "complete"


@pytest.mark.parametrize("code", [0, 3])
def test_run_whose_reader_of_stderr_is_gone(ground: Any, code: int) -> None:
    """The run keeps the command's exit code and has its result on disk if nobody reads the report."""
    ground.program("job.py", RECORD + f"raise SystemExit({code})\n")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as broken:
        done = shell(ground, "$T run --name quiet -- $PY job.py", stdout=subprocess.PIPE, stderr=broken)
    assert (done.returncode, done.stdout) == (code, "to stdout\n")
    assert ground.final()["command"]["exit_code"] == code


def test_run_goes_on_when_its_log_reader_leaves(ground: Any) -> None:
    """The live line falls silent in mid-run, the command does not notice."""
    ground.program(
        "job.py",
        "import os, time, telemetry\nn = telemetry.start('x').counter('n')\n"
        "while not os.path.exists('go'): n.add(); time.sleep(0.01)\n"
        "raise SystemExit(4)\n",
    )
    wrapper = ground.telemetry("run", "--name", "lone", "--", sys.executable, "job.py")
    assert "  n " in wrapper.stderr.readline()
    wrapper.stderr.close()
    (live,) = ground.live()
    with subscribe(live["endpoint"]) as snapshots:
        begun = next(snapshots).elapsed_s
        for snapshot in snapshots:
            if snapshot.elapsed_s > begun + FIRST_LINES_S + 1.0:
                break
    (ground.folder / "go").touch()
    assert wrapper.wait(60) == 4
    assert ground.final()["completeness"] == "complete"


@pytest.mark.parametrize("name", FIELDS_OF_NAMES)
def test_any_printable_name_is_a_name(ground: Any, name: str) -> None:
    """The run keeps it; its directory stays below the root, and the name finds the run again."""
    ground.program("job.py", RECORD)
    code, _, err = ground.run("run", f"--name={name}", "--", sys.executable, "job.py")
    assert code == 0, err
    assert ground.final()["name"] == name
    root = ground.folder / "runs"
    assert [path.parent for path in ground.folder.rglob("final_snapshot.json")] == [(root / "latest").resolve()]
    code, out, err = ground.run("report", "--json", "--", name)
    assert code == 0, err
    assert json.loads(out)["name"] == name


@pytest.mark.parametrize("name", ["x" * 201, "a\nb", "\x1b[31m", " ", "a\udcff"])
def test_a_name_that_cannot_be_one_is_a_usage_error(ground: Any, name: str) -> None:
    """One line, exit 2, and no run."""
    for command in (["run", f"--name={name}", "--", "true"], ["serve", f"--name={name}"]):
        code, out, err = ground.run(*command)
        assert (code, out, err.count("\n")) == (2, "", 1), err
    assert not (ground.folder / "runs").exists()


def test_arguments_that_are_no_text(ground: Any) -> None:
    """Bytes that are not UTF-8, in an argument and in the folder, end up readable in the result."""
    ground.program("job.py", RECORD)
    strange = os.fsencode(ground.folder) + b"/\xff"
    os.mkdir(strange)
    line = b"cd '%s' && $T run -- $PY ../job.py 'a\xffb'" % strange
    done = subprocess.run(
        [b"/bin/sh", b"-c", line],
        cwd=ground.folder,
        env=ground.environ | {"PY": sys.executable, "T": f"{sys.executable} -m telemetry"},
        capture_output=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    (file,) = Path(os.fsdecode(strange)).rglob("final_snapshot.json")
    final = json.loads(file.read_text())
    assert final["command"]["argv"][-1] == "a\ufffdb"
    assert final["counters"][0]["value"] == 7


def test_a_command_without_a_name(ground: Any) -> None:
    """A path that ends in no name is still run, and refused by the system, not by us."""
    code, _, err = ground.run("run", "--quiet", "--", "/")
    assert code == 126, err
    assert ground.final()["command"]["exit_code"] == 126


def test_nothing_is_left_over(ground: Any, wait_until: Any) -> None:
    """Clients and producers come and go without a descriptor more; after the end there is no socket."""
    aggregator, endpoint = ground.serve()
    program = ground.program("job.py", RECORD)

    def visit() -> None:
        job = ground.popen(sys.executable, program, environ={"TELEMETRY_ENDPOINT": endpoint})
        job.communicate(timeout=60)
        with ControlClient(endpoint) as client:
            for request in (Ping(), GetStatus(), GetHistory(), Catchup(), Barrier(producer="p", batches=0)):
                client.request(request)
        with subscribe(endpoint) as snapshots:
            next(snapshots)

    def descriptors() -> int:
        return len(os.listdir(f"/proc/{aggregator.pid}/fd"))

    visit()
    before = descriptors()
    for _ in range(5):
        visit()
    wait_until(lambda: descriptors() <= before, 20.0, "closed descriptors")
    runtime = ground.folder / "telemetry"
    assert [path.name for path in runtime.iterdir()] == [hello(endpoint).run_id]
    aggregator.send_signal(signal.SIGTERM)
    aggregator.communicate(timeout=60)
    assert aggregator.returncode == 0
    assert list(runtime.iterdir()) == []
    (run,) = (path for path in (ground.folder / "runs").iterdir() if not path.is_symlink())
    assert not [path for path in run.rglob("*") if path.suffix == ".tmp" or path.name.startswith(".")]


def test_a_wrapped_run_leaves_nothing_over(ground: Any, wait_until: Any) -> None:
    """A wrapped run leaves no process, no socket and no temporary file.

    This holds once the final snapshot's grace is over.
    """
    ground.program("job.py", RECORD)
    code, _, err = ground.run("run", "--name", "mine", "--", sys.executable, "job.py")
    assert code == 0, err
    wait_until(lambda: not list((ground.folder / "telemetry").iterdir()), 20.0, "an empty runtime directory")
    assert sorted(path.name for path in (ground.folder / "runs/latest").iterdir()) == [
        "daemon.log",
        "final_snapshot.json",
        "history",
        "journal",
        "manifest.json",
    ]
    wait_until(lambda: not processes_of(ground), 20.0, "no process")
