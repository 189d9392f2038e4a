"""ClearML tasks on this host and on a server, read back from the zip that ClearML imports, and from the server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.backends import handing
from tests.backends.clearml_server import server
from tests.backends.reading_clearml import arranged, read_back, session

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
OFFLINE = "clearml:mode=offline"
SHAKEN = """
import json, signal, sys, time
from pathlib import Path
from telemetry.backends.choice import make, parse
from telemetry.backends.backend import Refused, RunFacts, Unavailable
from tests.backends.handing import STARTED_NS, _step

def begun(mode):
    backend = make(parse(f"clearml:mode={mode}"), Path(sys.argv[1]))
    backend.open(RunFacts("run-1", "bench", STARTED_NS, None), {})
    return backend

"""


def environment(home: Path, **more: str) -> dict[str, str]:
    """Nobody's settings of ClearML."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CLEARML_")}
    return kept | {"HOME": str(home), "PYTHONPATH": str(ROOT)} | more


def python(script: list[str], home: Path, code: int = 0, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, *script],
        cwd=ROOT,
        env=environment(home, **more),
        check=False,
        timeout=60,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == code, done.stderr
    return done.stdout.strip()


def hand(to: str, folder: Path, steps: int, killed_after: int = 0, **more: str) -> str:
    """Lets a process of its own write; it lives to the end, or is killed as it was told. Where it wrote to."""
    words = ["-m", "tests.backends.handing", to, str(folder), str(steps), str(killed_after)]
    return python(words, folder.parent, -signal.SIGKILL if killed_after else 0, **more)


def on_server(url: str) -> dict[str, str]:
    keys = {"CLEARML_API_ACCESS_KEY": "a", "CLEARML_API_SECRET_KEY": "b"}
    return keys | {"CLEARML_API_HOST": url, "CLEARML_WEB_HOST": url, "CLEARML_FILES_HOST": url}


def check(found: Any, steps: int) -> None:
    """Every step once, with the right value at the right step."""
    assert len(found.steps) == steps + 1
    for step in range(steps):
        wanted = {f"train/v{number}": handing.value(step, number) for number in range(handing.SCALARS)}
        assert found.steps["train", step] == wanted, step
    assert found.steps["eval", 7] == {"eval/λ": 0.5}
    assert found.counts["step"] == steps * handing.SCALARS + 1
    assert found.counts["reading"] == handing.READINGS
    assert found.counts["plot"] == (handing.READINGS + 1) * handing.SERIES + 3
    assert found.finals["latency9{route=/a}/p50"] == 12.0


def test_everything_is_read_back(tmp_path: Path) -> None:
    """10,000 steps of 20 scalars, 10 series and one of everything else; nothing is left in the user's home."""
    where = hand(OFFLINE, tmp_path / "w", 10_000)
    found = read_back(tmp_path / "w", where)
    check(found, 10_000)
    assert (found.counts["mark"], found.counts["artifact"], found.counts["training_debug_image"]) == (1, 1, 1)
    assert found.params == {"lr": "0.25", "layers": "4", "opt": "adam", "warm": "True", "none": ""}
    assert [path.name for path in tmp_path.iterdir()] == ["w"]
    task, events, logs = session(Path(f"{where}.zip"))
    assert {event["task"] for event in (*events, *logs)} == {task["id"]}
    assert task["execution"]["artifacts"][0]["uri"] == "s3://bucket/model 1.bin"
    image = next(event for event in events if event["type"] == "training_debug_image")
    assert (Path(where) / "data" / image["key"]).read_bytes() == handing.PNG
    plots = {(event["metric"], event["variant"], event["iter"]): event for event in events if "plot_str" in event}
    bars = json.loads(plots["weights", "weights", 3]["plot_str"])["data"][0]
    assert (bars["x"], bars["width"], bars["y"]) == ([-0.5, 0.5, 2.5], [1.0, 1.0, 3.0], [1, 0, 5])
    table = json.loads(plots["best", "best", 3]["plot_str"])["data"][0]
    assert table["cells"]["values"] == [["x|y", None], [1, 2.5]]
    assert logs[0]["msg"] == "warm rank=0"


def test_a_killed_writer_leaves_no_trace(tmp_path: Path) -> None:
    """Killed twice with a batch that no flush saw: it goes on in the same session, and nothing is there twice."""
    hand(OFFLINE, tmp_path / "w", 2_000, killed_after=2)
    hand(OFFLINE, tmp_path / "w", 2_000, killed_after=1)
    where = hand(OFFLINE, tmp_path / "w", 2_000)
    check(read_back(tmp_path / "w", where), 2_000)
    assert len(list(Path(where).parent.glob("offline-*.zip"))) == 1


def test_a_server_has_everything_once(tmp_path: Path) -> None:
    """A server has one task and each value once at its iteration, also after the writer was killed."""
    with server() as tasks:
        for killed_after in (2, 0):
            where = hand("clearml:mode=online", tmp_path / "w", 1_100, killed_after, **on_server(tasks.url))
        owners = json.loads((tmp_path / "w" / "data" / "names.json").read_bytes())
        check(arranged(tasks.events.values(), owners), 1_100)
        assert tasks.calls.count("tasks.create") == 1
        assert tasks.status == "completed"
        assert tasks.task["params"]["opt"] == "adam"
        assert [one["key"] for one in tasks.task["artifacts"]] == ["plot", "model"]
        assert {log["msg"] for log in tasks.logs} == {"warm rank=0"}
        assert where == f"{tasks.url}/projects/p1/experiments/t1/output/log"


def test_its_own_importer_takes_the_session(tmp_path: Path) -> None:
    """`Task.import_offline_session` brings all of it to a server."""
    where = hand(OFFLINE, tmp_path / "w", 200)
    script = "import sys; from clearml import Task; Task.import_offline_session(sys.argv[1])"
    with server() as tasks:
        python(["-c", script, f"{where}.zip"], tmp_path, **on_server(tasks.url))
        owners = json.loads((tmp_path / "w" / "data" / "names.json").read_bytes())
        check(arranged(tasks.events.values(), owners), 200)
        assert tasks.status == "completed"
        assert tasks.task["hyperparams"]["General"]["lr"]["value"] == "0.25"
        assert [one["key"] for one in tasks.task["execution"]["artifacts"]] == ["model"]
        assert [log["msg"] for log in tasks.logs] == ["warm rank=0"]
        assert any(handing.PNG in data for data in tasks.files)


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_that_fails_is_tried_again(tmp_path: Path, status: int) -> None:
    """A batch that the server refuses raises `Unavailable`, and arrives when it is written again."""
    script = (
        SHAKEN
        + """
backend = begun("online")
sys.stdout.write("failing\\n"); sys.stdout.flush()
sys.stdin.readline()
steps = [_step(number) for number in range(100)]
try:
    backend.write(steps)
except Unavailable as error:
    sys.stdout.write("refused\\n"); sys.stdout.flush()
sys.stdin.readline()
backend.write(steps)
backend.flush()
"""
    )
    with server() as tasks:
        child = subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path)],
            cwd=ROOT,
            env=environment(tmp_path, **on_server(tasks.url)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with child:
            assert child.stdin is not None
            assert child.stdout is not None
            for word, failing in (("failing\n", status), ("refused\n", 0)):
                assert child.stdout.readline() == word
                tasks.failing = failing
                print(file=child.stdin, flush=True)
            assert child.wait(30) == 0
        assert tasks.failed > 0
        assert len(tasks.events) == 100 * handing.SCALARS


def test_its_library_takes_nothing_of_the_process(tmp_path: Path) -> None:
    """Signals, exits and forks of the writer are its own, offline and online; what is not finite is counted."""
    script = (
        SHAKEN
        + """
import os
from telemetry.backends.items import Step

def mine(*_):
    print("mine")

signal.signal(signal.SIGTERM, mine)
before = (sys.excepthook, sys.exit, os.fork)
for mode in ("offline", "online"):
    backend = begun(mode)
    odd = {"a": float("nan"), "b": 1.0, "c": float("inf")}
    backend.write([Step(key="r1", time_ns=STARTED_NS, axis="train", step=1, values=odd)])
    try:
        backend.write([Step(key="r2", time_ns=STARTED_NS, axis="train", step=2, values={"a": float("nan")})])
    except Refused as error:
        print(error.reason, sorted(error.keys), backend.left_out)
    backend.flush()
    assert signal.getsignal(signal.SIGTERM) is mine
    assert (sys.excepthook, sys.exit, os.fork) == before
    backend.close(final=True)
    assert ("clearml" in sys.modules) == (mode == "online")
os.kill(os.getpid(), signal.SIGTERM)
time.sleep(0)
"""
    )
    with server() as tasks:
        said = python(["-c", script, str(tmp_path)], tmp_path, **on_server(tasks.url))
    odd = "not_finite ['r2'] {'not_finite': 2}"
    assert said.splitlines() == [odd, odd, "mine"]


def test_without_keys_it_can_not_begin(tmp_path: Path) -> None:
    """The words say what to do."""
    script = SHAKEN.replace("def begun", "sys.tracebacklimit = 0\ndef begun") + 'begun("online")'
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=ROOT,
        env=environment(tmp_path),
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "NotConfigured: ClearML: It seems ClearML is not configured on this machine!" in done.stderr
    assert "mode=offline" in done.stderr
