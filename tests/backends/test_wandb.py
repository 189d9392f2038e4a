"""W&B runs on this host and on a server, read back from W&B's own log, by its own reader, and from the server."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.backends import handing
from tests.backends.reading_wandb import inspected, logs, read_back, records, rows
from tests.backends.wandb_server import server

from telemetry.backends.wandb.log import key_of, whole_row

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
OFFLINE = "wandb:mode=offline"
SHAKEN = """
import json, os, signal, sys
from pathlib import Path
from telemetry.backends.choice import make, parse
from telemetry.backends.backend import RunFacts, Unavailable
from telemetry.backends.wandb import session
from tests.backends.handing import STARTED_NS, _step

place = Path(sys.argv[1])
session._FINISH_S = 1.0

def begun(mode):
    backend = make(parse(f"wandb:mode={mode}"), place)
    backend.open(RunFacts("run-1", "bench", STARTED_NS, None), {})
    return backend

def again(call):
    failed = 0
    while True:
        try:
            call()
        except Unavailable as error:
            failed += 1
            print(error, flush=True)
        else:
            return failed

def told(word):
    print(word, flush=True)
    sys.stdin.readline()
"""


RANKS = """
import multiprocessing
import telemetry

def rank(number):
    run = telemetry.start("many")
    for step in range(100):
        run.log({"train/loss": step + number / 8, f"train/of{number}": number}, step=step, axis="train")
        run.end_step(step, axis="train")
    run.finish()

if __name__ == "__main__":
    ranks = [multiprocessing.get_context("spawn").Process(target=rank, args=(number,)) for number in range(8)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
"""


def environment(home: Path, **more: str) -> dict[str, str]:
    """Nobody's settings of W&B."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    return kept | {"HOME": str(home), "PYTHONPATH": str(ROOT)} | more


def hand(to: str, folder: Path, steps: int, killed_after: int = 0, **more: str) -> str:
    """Lets a process of its own write; it lives to the end, or is killed as it was told. Where it wrote to."""
    words = [sys.executable, "-m", "tests.backends.handing", to, str(folder), str(steps), str(killed_after)]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=environment(folder.parent, **more),
        check=False,
        timeout=60,
        capture_output=True,
        text=True,
    )
    assert done.returncode == (-9 if killed_after else 0), done.stderr
    return done.stdout.strip()


def on_server(url: str) -> dict[str, str]:
    return {"WANDB_BASE_URL": url, "WANDB_API_KEY": "0" * 40}


def check(folder: Path, where: str, steps: int) -> None:
    """Every step once, with the right value at the right step, and one run."""
    found = read_back(folder, where)
    assert found.counts == {"step": steps * handing.SCALARS + 2, "reading": handing.READINGS, "mark": 1}
    assert len(found.steps) == steps + 1
    for step in range(steps):
        wanted = {f"train/v{number}": handing.value(step, number) for number in range(handing.SCALARS)}
        assert found.steps["train", step] == wanted, step
    assert found.steps["eval", 7]["eval/λ"] == 0.5
    assert math.isnan(found.steps["eval", 7]["eval/nan"])
    assert found.finals["latency9{route=/a}/p50"] == 12.0
    assert found.params == {"lr": "0.25", "layers": "4", "opt": "adam", "warm": "True", "none": "None"}
    written = logs(Path(where))
    numbers = [row["_step"] for log in written for row in rows(log)]
    assert numbers == sorted(set(numbers))
    assert {log.name for log in written} == {"run-run-1.wandb"}


def test_everything_is_read_back(tmp_path: Path) -> None:
    """10,000 steps of 20 scalars, 10 series and one of everything else, each on its own x-axis."""
    where = hand(OFFLINE, tmp_path / "w", 10_000)
    check(tmp_path / "w", where, 10_000)
    said = list(records(logs(Path(where))[0]))
    metrics = [one.metric for one in said if one.WhichOneof("record_type") == "metric"]
    axes = {metric.name: metric.step_metric for metric in metrics}
    assert axes["train/v0"] == "axis/train"
    assert axes["eval/λ"] == axes["weights"] == "axis/eval"
    assert axes["latency3{route=/a}/p99.9"] == axes["requests/rate"] == axes["mark"] == "elapsed_s"
    nested = [one.history for one in said if any(key_of(item) == "axis/eval" for item in one.history.item)]
    values = {name: value for one in nested for name, value in whole_row(one.item).items()}
    assert values["weights"] == {"_type": "histogram", "bins": [-1, 0, 1, 4], "values": [1, 0, 5]}
    assert (values["plot"]["_type"], values["best"]["_type"]) == ("image-file", "table-file")
    assert (values["sample"], values["model"]) == ("# Hello\n\n*there* ü", "s3://bucket/model 1.bin")
    assert sum(one.WhichOneof("record_type") == "artifact" for one in said) == 2
    files = Path(where) / "files" / "media"
    assert [path.read_bytes() for path in files.glob("images/plot_*.png")] == [handing.PNG]
    assert [json.loads(path.read_bytes())["data"] for path in files.glob("table/best_*")] == [
        [["x|y", 1], [None, 2.5]]
    ]


def test_many_ranks_are_one_run(tmp_path: Path) -> None:
    """8 processes of a job log the same steps: W&B has one run, and every step once with the values of all."""
    (tmp_path / "ranks.py").write_text(RANKS)
    words = [
        "-m",
        "telemetry",
        "run",
        "--dir",
        "runs",
        "--to",
        OFFLINE,
        "--quiet",
        "--",
        sys.executable,
        "ranks.py",
    ]
    subprocess.run([sys.executable, *words], cwd=tmp_path, env=environment(tmp_path), check=True, timeout=60)
    (where,) = (tmp_path / "runs" / "latest" / "backends" / "wandb" / "data" / "wandb").glob("offline-run-*")
    found = read_back(tmp_path, str(where))
    assert sorted(found.steps) == [("train", step) for step in range(100)]
    for (_, step), values in found.steps.items():
        assert values == {
            "train/loss": step + 3.5 / 8,
            **{f"train/of{number}": float(number) for number in range(8)},
        }
    assert found.counts["step"] == 100 * 9


def test_a_killed_writer_goes_on_in_the_same_run(tmp_path: Path) -> None:
    """Killed twice with a batch that no flush saw: nothing is there twice, nothing is missing."""
    hand(OFFLINE, tmp_path / "w", 1_100, killed_after=2)
    hand(OFFLINE, tmp_path / "w", 1_100, killed_after=1)
    where = hand(OFFLINE, tmp_path / "w", 1_100)
    assert len(logs(Path(where))) == 3
    check(tmp_path / "w", where, 1_100)


def test_a_server_gets_what_a_killed_writer_left(tmp_path: Path) -> None:
    """Rows that were in the log of a process that was killed, and not with the server, are sent by the next."""
    with server() as run:
        for killed_after in (2, 1, 0):
            where = hand("wandb:mode=online", tmp_path / "w", 1_100, killed_after, **on_server(run.url))
        assert where == f"{run.url}/me/bench/runs/run-1"
        assert [row["_step"] for row in run.rows] == list(range(len(run.rows)))
        assert max(Counter(row["_item"] for row in run.rows).values()) == 1
        steps = {row["axis/train"]: row for row in run.rows if "axis/train" in row}
        assert list(steps) == list(range(1_100))
        assert steps[1_034]["train/v3"] == handing.value(1_034, 3)
        assert sum("elapsed_s" in row for row in run.rows) == handing.READINGS + 1
        assert run.summary["final/latency9{route=/a}/p50"] == 12.0
        assert run.config["lr"]["value"] == 0.25
        assert handing.PNG in run.files.values()
        assert run.exit_code == 0


def test_a_server_that_fails_for_a_while_misses_nothing(tmp_path: Path) -> None:
    """While the server answers 500, the rows that are written are safe on this host.

    Then `close` reports that the server did not take them, and the next try delivers them.
    """
    script = (
        SHAKEN
        + """
backend = begun("online")
backend.write([_step(number) for number in range(50)])
backend.flush()
told("failing")
backend.write([_step(number) for number in range(50, 100)])
backend.flush()
try:
    backend.close(final=True)
except Unavailable as error:
    told("refused")
print(again(lambda: backend.close(final=True)))
"""
    )
    (tmp_path / "w").mkdir()
    with server() as run:
        child = subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path / "w")],
            cwd=ROOT,
            env=environment(tmp_path, **on_server(run.url)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with child:
            assert child.stdin is not None
            assert child.stdout is not None
            assert child.stdout.readline() == "failing\n"
            run.failing = 500
            print(file=child.stdin, flush=True)
            assert child.stdout.readline() == "refused\n"
            run.failing = 0
            print(file=child.stdin, flush=True)
            assert child.stdout.readline() == "0\n"
        assert run.failed > 0
        assert [row["axis/train"] for row in run.rows] == list(range(100))
        assert run.exit_code == 0


def test_the_process_of_wandb_may_die(tmp_path: Path) -> None:
    """The backend reports W&B's dead process as unavailable.

    The next try starts another process in the same run.
    """
    script = (
        SHAKEN
        + """
backend = begun("offline")
backend.write([_step(number) for number in range(30)])
os.kill(json.loads((place / "processes.json").read_text())[0], signal.SIGKILL)
steps = [_step(number) for number in range(60)]
failed = again(lambda: (backend.write(steps), backend.flush()))
backend.close(final=True)
assert failed, failed
print(backend.where())
"""
    )
    (tmp_path / "w").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "w")],
        cwd=ROOT,
        env=environment(tmp_path),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    *said, where = done.stdout.splitlines()
    assert said[0] == "W&B's own process exited"
    assert [row["axis/train"] for log in logs(Path(where)) for row in rows(log)] == list(range(60))
    assert inspected(logs(Path(where))[-1])[1]["axis/train"] == 59


@pytest.mark.parametrize("key", ["", "0" * 40])
def test_without_a_good_key_it_can_not_begin(tmp_path: Path, key: str) -> None:
    """Missing or refused: the words say what to do, and nothing asks on the terminal."""
    with server() as run:
        run.failing = 401
        more = on_server(run.url) | {"WANDB_API_KEY": key}
        done = subprocess.run(
            [sys.executable, "-c", SHAKEN + 'begun("online")', str(tmp_path)],
            cwd=ROOT,
            env=environment(tmp_path, **more),
            check=False,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=60,
        )
    assert "NotConfigured: W&B: " in done.stderr
    assert "run `wandb login`, set WANDB_API_KEY, or use mode=offline" in done.stderr
