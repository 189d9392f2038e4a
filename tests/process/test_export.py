"""`telemetry export`: finished and live runs, writers that are killed and stopped, trackers that are away."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

PRODUCER = """
import sys, time, telemetry
run = telemetry.start("job")
latency = telemetry.series("latency", unit="ms")
count = int(sys.argv[1])
for number in range(count):
    run.mark(f"mark {number}")
    latency.record(number % 100 + 1.0)
    if len(sys.argv) > 2:
        print(number, flush=True)
        time.sleep(float(sys.argv[2]))
run.finish()
"""
PLUGIN = """
import json, os, time
from pathlib import Path
from msgspec import Struct
from telemetry.backends.items import Mark, Reading
from telemetry.backends.backend import Unavailable

class Options(Struct):
    folder: str = "."

class OddBackend:
    Options, takes, idempotent = Options, (Mark, Reading), False
    def __init__(self, options, place):
        self.down, self.file = Path(options.folder, "down"), place / "lines"
    def open(self, run, state):
        print("chatter of a library", flush=True)
    def write(self, items):
        if self.down.exists():
            raise Unavailable("503 from the tracker")
        with self.file.open("a") as file:
            file.writelines(f"{item.key}\\n" for item in items)
    def flush(self): pass
    def state(self): return {}
    def close(self, *, final): pass
    def where(self): return str(self.file)
"""


def plug_in(ground: Any) -> dict[str, str]:
    """A package with a backend called `odd`; the environment that has it."""
    folder = ground.folder / "plug"
    info = folder / "odd_tracker-1.dist-info"
    info.mkdir(parents=True)
    (folder / "odd_tracker.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-tracker\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[telemetry.backends]\nodd = odd_tracker:OddBackend\n")
    return {"PYTHONPATH": str(folder)}


def finished(ground: Any, marks: int = 300) -> Path:
    done = ground.popen(sys.executable, ground.program("job.py", PRODUCER), str(marks))
    _, err = done.communicate(timeout=60)
    assert done.returncode == 0, err
    return Path(os.path.realpath(ground.folder / "runs" / "latest"))


def lines(run: Path, name: str = "jsonl") -> list[dict[str, Any]]:
    path = run / "backends" / name / "data" / "items.jsonl"
    whole = path.read_text().rpartition("\n")[0] if path.exists() else ""  # a line may be half written
    return [json.loads(text) for text in whole.splitlines()]


def marks(found: list[dict[str, Any]]) -> list[str]:
    return [one["text"] for one in found if one["item"] == "mark"]


def status(run: Path, name: str = "jsonl") -> dict[str, Any]:
    path = run / "backends" / name / "status.json"
    return dict(json.loads(path.read_text())["status"]) if path.exists() else {"pid": 0, "restarts": 0, "state": ""}


def test_a_finished_run_goes_to_several_at_once(ground: Any) -> None:
    """All of it, in order, once; a second time there is nothing to do, and other options need another name."""
    run = finished(ground)
    code, out, err = ground.run("export", "--to", "jsonl", "--to", "console", "--every", "1", "--json")
    assert code == 0, err
    stats = {one["name"]: one for one in json.loads(out)}
    assert {one["state"] for one in stats.values()} == {"done"}
    found = lines(run)
    assert marks(found) == [f"mark {number}" for number in range(300)]
    assert found[-1]["item"] == "reading"
    assert found[-1]["final"]
    assert found[-1]["series"][0]["count"] == 300
    assert len({one["key"] for one in found}) == len(found) == stats["jsonl"]["written"]
    assert "telemetry: console: result: latency p50" in err
    assert "jsonl    done" in err
    code, out, err = ground.run("export", "--to", "jsonl")
    assert (code, lines(run)) == (0, found)
    code, out, err = ground.run("export", "--to", "jsonl:path=x")
    assert (code, "--to jsonl:path=x,as=jsonl-2" in err) == (2, True)
    code, out, err = ground.run("export", "--resume")
    assert (code, "nothing to deliver" in err) == (0, True)


def test_what_cant_be_is_said(ground: Any) -> None:
    """A wrong export exits with code 2 before anything starts, or when its writer fails."""
    run = finished(ground, 1)
    for words, said in (
        (["--to", "jsonl:pat=x"], "did you mean path?"),
        (["--resume", "--to", "console"], "the run has no writer named console"),
        (["--to", "jsonl:path=/proc/x/y"], "jsonl"),
    ):
        code, out, err = ground.run("export", *words)
        assert (code, out) == (2, "")
        assert said in err
    assert status(run)["state"] == "failed"


def test_a_live_run_is_followed_over_the_deaths_of_its_writer(ground: Any, wait_until: Callable[..., Any]) -> None:
    """SIGKILL, SIGSTOP and SIGCONT in mid-run: the next one goes on where it was, and nothing is there twice. The
    run hears of it in its snapshots."""
    child, endpoint = ground.serve()
    environ = {"TELEMETRY_ENDPOINT": endpoint}
    producer = ground.popen(sys.executable, ground.program("job.py", PRODUCER), "1200", "0.002", environ=environ)
    run = Path(os.path.realpath(ground.folder / "runs" / "latest"))
    export = ground.telemetry("export", "--to", "jsonl", "--json")
    wait_until(lambda: len(lines(run)) > 50, 30.0)
    first = status(run)["pid"]
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: status(run)["pid"] not in (0, first) and status(run)["restarts"] == 1, 30.0)
    second = status(run)["pid"]
    os.kill(second, signal.SIGSTOP)
    assert producer.stdout is not None
    for line in producer.stdout:
        if int(line) == 1_100:
            break
    os.kill(second, signal.SIGCONT)
    _, out, _ = ground.run("status", "--json")
    (told,) = json.loads(out)["backends"]
    assert (told["name"], told["kind"]) == ("jsonl", "jsonl")
    producer.communicate(timeout=60)
    ground.run("stop")
    out, err = export.communicate(timeout=60)
    assert export.returncode == 0, err
    (stat,) = json.loads(out)
    assert (stat["state"], stat["restarts"], stat["queued"]) == ("done", 1, 0)
    assert marks(lines(run)) == [f"mark {number}" for number in range(1_200)]
    assert "was killed by signal 9; it is started again" in err
    child.wait(timeout=60)


def test_what_a_tracker_did_not_take_is_delivered_later(ground: Any) -> None:
    """The exit reports records that a tracker did not take, because it was away to the end.

    Then `--resume` delivers all of them, and the library's chatter is in a file.
    """
    environ = plug_in(ground)
    run = finished(ground)
    (ground.folder / "down").touch()
    code, out, err = ground.run("export", "--to", f"odd:folder={ground.folder}", "--timeout", "5", environ=environ)
    assert code == 6
    assert "503 from the tracker" in err
    assert f"odd: {status(run, 'odd')['queued']:,} records are not delivered" in err
    assert f"telemetry export --resume {run}" in err
    assert status(run, "odd")["state"] == "undelivered"
    assert "chatter" not in err
    assert "chatter" in (run / "backends" / "odd" / "writer.log").read_text()
    (ground.folder / "down").unlink()
    code, out, err = ground.run("export", "--resume", str(run), "--json", environ=environ)
    assert code == 0, err
    (stat,) = json.loads(out)
    keys = (run / "backends" / "odd" / "data" / "lines").read_text().split()
    assert (stat["state"], stat["written"], len(keys)) == ("done", len(keys), len(set(keys)))
    assert len([key for key in keys if key.startswith("r")]) == 300


def test_the_list_names_all_backends(ground: Any) -> None:
    """Ours and others', with their options; one that can't be loaded says why."""
    environ = plug_in(ground)
    code, out, err = ground.run("export", "--list", environ=environ)
    assert code == 0, err
    assert "odd\n    folder: str = '.'\n    does not support step, live" in out
    assert "jsonl\n    path: str = ''\n    does not support live\n" in out
    code, out, err = ground.run("export", "--list", "--json", environ=environ)
    assert {"aim", "jsonl", "odd", "wandb"} <= {one["name"] for one in json.loads(out)}


def test_no_process_is_left_behind_by_an_interruption(ground: Any, wait_until: Callable[..., Any]) -> None:
    """Ctrl-C: writers end with a checkpoint."""
    child, _ = ground.serve()
    export = ground.telemetry("export", "--to", "jsonl")
    run = Path(os.path.realpath(ground.folder / "runs" / "latest"))
    writer = wait_until(lambda: status(run)["pid"], 30.0)
    wait_until(lambda: status(run)["state"] == "idle", 30.0)
    export.send_signal(signal.SIGINT)
    export.communicate(timeout=30)
    assert export.returncode == 130
    wait_until(lambda: not Path(f"/proc/{writer}").exists(), 10.0)
    assert status(run)["state"] == "undelivered"
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)
    assert subprocess.run(["pgrep", "-f", str(run)], capture_output=True, check=False).stdout == b""
