"""MLflow's own database and its own server, read back by its client and over REST."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.backends import handing
from tests.backends.calling import STARTED_NS, Given, call
from tests.backends.reading_mlflow import ask, read_back
from tests.backends.written import Written
from tests.mlflow_server import mlflow_server
from tests.ports import free_port

from telemetry.backends.items import GaugeReading, Params, Reading, Step, Text

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
NAN = float("nan")


@pytest.fixture(autouse=True)
def skinny(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow as our extra has it; the server is a whole one."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).with_name("skinny")))


def hand(to: str, folder: Path, steps: int, killed_after: int = 0) -> str:
    """Lets a process of its own write; it lives to the end, or is killed as it was told. Where the data is."""
    words = [sys.executable, "-m", "tests.backends.handing", to, str(folder), str(steps), str(killed_after)]
    done = subprocess.run(words, cwd=ROOT, check=False, timeout=200, stdout=subprocess.PIPE, text=True)
    assert done.returncode == (-9 if killed_after else 0)
    return done.stdout.strip().rpartition("\n")[2]


def check(found: Written, steps: int) -> None:
    """Every step once, with the right value at the right step."""
    assert found.counts == {"step": steps * handing.SCALARS + 2, "reading": handing.READINGS, "files": 4}
    assert len(found.steps) == steps + 1
    for step in range(steps):
        got = found.steps["train", step]
        assert got == {f"train/v{number}": handing.value(step, number) for number in range(handing.SCALARS)}, step
    assert found.steps["eval", 7]["eval/λ"] == 0.5
    assert math.isnan(found.steps["eval", 7]["eval/nan"])
    assert found.finals["latency9{route=/a}/p50"] == 12.0
    assert found.finals["latency0{route=/a}/p99.9"] == 500.0
    assert found.params == {"lr": "0.25", "layers": "4", "opt": "adam", "warm": "True", "none": "None"}


def step(number: int, values: dict[str, float], axis: str = "train", **more: Any) -> Step:
    key = f"{axis}{number}.{more.get('revision', 0)}"
    return Step(key=key, time_ns=STARTED_NS + number * 10**9, axis=axis, step=number, values=values, **more)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real server on a database."""
    with mlflow_server(tmp_path_factory) as address:
        yield address


class Gate(ThreadingHTTPServer):
    """Stands before a server, and answers itself where it was told to."""

    daemon_threads = True

    def __init__(self, behind: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.behind = behind
        self.answers: Callable[[str, int], int] = lambda path, number: 0
        """(path, how many like it came before) → status to answer with; 0: the server's own."""
        self.asked: dict[str, int] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Passing(BaseHTTPRequestHandler):
    server: Gate

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        number = self.server.asked[path] = self.server.asked.get(path, -1) + 1
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status = self.server.answers(path, number)
        if status:
            self._answer(status, b"<html>an error of somebody in between</html>")
            return
        request = Request(self.server.behind + self.path, body or None, method=self.command)
        request.add_header("Content-Type", self.headers.get("Content-Type", "application/json"))
        try:
            with urlopen(request, timeout=30) as answer:
                self._answer(answer.status, answer.read())
        except HTTPError as error:
            self._answer(error.code, error.read())

    do_POST = do_PUT = do_GET

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture
def gate(server: str) -> Iterator[Gate]:
    with Gate(server) as gate:
        thread = threading.Thread(target=gate.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield gate
        gate.shutdown()


@pytest.mark.timeout(300)  # 200,000 rows at MLflow's own pace
def test_everything_is_read_back(tmp_path: Path) -> None:
    """10,000 steps of 20 scalars, 10 series and one of everything else, in a database of the writer's own."""
    where = hand("mlflow", tmp_path, 10_000)
    assert where == f"sqlite:///{tmp_path}/data/mlflow.db"
    check(read_back(tmp_path, where), 10_000)
    files = tmp_path / "data" / "mlartifacts"
    assert next(files.rglob("texts/sample/eval-3.m1.txt")).read_text() == "# Hello\n\n*there* ü"
    assert json.loads(next(files.rglob("best/eval-3.m2.json")).read_text())["data"] == [["x|y", 1], [None, 2.5]]
    assert next(files.rglob("plot/eval-3.m4.png")).read_bytes() == handing.PNG
    assert json.loads(next(files.rglob("model/eval-3.m5.json")).read_text())["uri"] == "s3://bucket/model 1.bin"


def test_a_server_has_a_killed_writer_s_run_once(tmp_path: Path, server: str) -> None:
    """Killed when what it wrote was there and before it knew: the next one goes on in the same run, REST says."""
    to = f"mlflow:uri={server},experiment=killed"
    hand(to, tmp_path, 100, killed_after=1)
    where = hand(to, tmp_path, 100)
    assert where.startswith(f"{server}/#/experiments/")
    check(read_back(tmp_path, where), 100)
    experiment = ask(server, "experiments/get-by-name", experiment_name="killed")["experiment"]["experiment_id"]
    runs = ask(server, "runs/search", {"experiment_ids": [experiment]})["runs"]
    assert [(run["info"]["status"], run["info"]["run_name"]) for run in runs] == [("FINISHED", "bench-1")]
    assert int(runs[0]["info"]["end_time"]) == (STARTED_NS + 10**12) // 10**6


def test_names_come_back_from_a_server(tmp_path: Path, server: str) -> None:
    """Signs it refuses, paths that are none, names of two axes and of readings, and some far too long."""
    names = [
        "p99%",
        "a=b@c{d}",
        "ü/π 火",
        "x//y",
        "/x",
        "x/",
        ".",
        "..",
        "a/../b",
        "a:b",
        "a:2Fb",
        "a\nb",
        "\\",
        "🔥",
    ]
    names += ["🔥" * 200, "🔥" * 199 + "x"]
    values = {name: float(number) for number, name in enumerate(names)}
    others = {name: value + 0.5 for name, value in values.items()}
    gauges = [GaugeReading(name=name, value=value + 0.25) for name, value in values.items()]
    reading = Reading(key="t1", time_ns=STARTED_NS, elapsed_s=10.0, seconds=10.0, gauges=gauges, final=True)
    params = Params(key="p", time_ns=STARTED_NS, values={name: str(value) for name, value in values.items()})
    batch = [step(1, values), step(1, others, "ev/:al"), step(2, others, "🔥" * 200), reading, params]
    (done,) = call(Given(f"mlflow:uri={server},experiment=names", tmp_path, [batch]))
    assert done.raised == ["", "", ""]
    found = read_back(tmp_path, done.where)
    assert found.steps == {("train", 1): values, ("ev/:al", 1): others, ("🔥" * 200, 2): others}
    assert found.params == {name: str(value) for name, value in values.items()}
    assert len(found.finals) == len(names)
    assert found.finals["a=b@c\\{d\\}"] == 1.25


def test_many_long_names(tmp_path: Path, server: str) -> None:
    """More than one request holds, and many of them long ones that are four times as long as JSON."""
    names = {f"{'ünicode' * 20}/{number}": float(number) for number in range(3_000)}
    (done,) = call(Given(f"mlflow:uri={server},experiment=many", tmp_path, [[step(1, names)]]))
    assert done.raised == ["", "", ""]
    run = ask(server, "runs/get", run_id=done.state["run"])["run"]["data"]
    assert len(run["metrics"]) == 3_000


def test_corrections_and_changed_params(tmp_path: Path, server: str) -> None:
    """The newest value of a step is the latest; a param keeps its first. All of it comes twice."""
    batches = [
        [step(1, {"a": 1.0, "b": NAN}), step(2, {"a": 2.0})],
        [Params(key="p1", time_ns=STARTED_NS, values={"lr": 1, "big": 1 << 70, "empty": ""})],
        [Params(key="p2", time_ns=STARTED_NS, values={"lr": 2})],
        [Params(key="p3", time_ns=STARTED_NS, values={"lr": 1})],
        [step(2, {"a": 2.5}, revision=1)],
    ]
    batches[4][0] = Step(
        key="late", time_ns=STARTED_NS + 5 * 10**9, axis="train", step=2, values={"a": 2.5}, revision=1
    )
    to = f"mlflow:uri={server},experiment=corrections"
    first, again = call(Given(to, tmp_path, batches, final=False), Given(to, tmp_path, batches))
    assert first.raised + again.raised == [""] * 14
    found = read_back(tmp_path, again.where)
    assert found.counts["step"] == 4
    assert found.steps["train", 2] == {"a": 2.5}
    assert found.steps["train", 1]["a"] == 1.0
    assert found.params == {"lr": "1", "big": str(1 << 70), "empty": ""}
    tags = ask(server, "runs/get", run_id=again.state["run"])["run"]["data"]["tags"]
    assert {"key": "telemetry.param/lr", "value": "1"} in tags


def test_an_unwell_server_is_waited_for(tmp_path: Path, gate: Gate) -> None:
    """A call reports at once that the server answers 500, 503, 429 or not at all.

    The server has each value that came through once.
    """
    to = f"mlflow:uri={gate.address},experiment=unwell"
    statuses = iter([500, 500, 503, 503, 429, 429])  # each is tried twice
    gate.answers = lambda path, number: next(statuses, 0) if path.endswith("log-batch") else 0
    batch = [step(number, {"a": float(number)}) for number in range(1_500)]
    (done,) = call(Given(to, tmp_path, [batch] * 4))
    assert [words.partition(":")[0] for words in done.raised] == [
        "",
        "Unavailable",
        "Unavailable",
        "Unavailable",
        "",
        "",
    ]
    assert "500" in done.raised[1]
    assert read_back(tmp_path, done.where.replace(gate.address, gate.behind)).counts["step"] == 1_500


def test_what_is_sent_is_not_sent_again_after_a_failure(tmp_path: Path, gate: Gate) -> None:
    """The last of four requests fails, and the try after it; the same items come again, and only it is repeated."""
    gate.answers = lambda path, number: 500 if path.endswith("log-batch") and number in (3, 4) else 0
    batch = [step(number, {"a": float(number)}) for number in range(2_500)]
    (done,) = call(Given(f"mlflow:uri={gate.address},experiment=again", tmp_path, [batch, batch]))
    assert [words[:11] for words in done.raised] == ["", "Unavailable", "", ""]
    assert gate.asked["/api/2.0/mlflow/runs/log-batch"] == 5
    assert read_back(tmp_path, done.where.replace(gate.address, gate.behind)).counts["step"] == 2_500


def test_nobody_there_and_no_key(tmp_path: Path, gate: Gate) -> None:
    """A refused connection may pass, and a server's error; a refused key, or what is no MLflow, is said at once."""
    closed = f"http://127.0.0.1:{free_port()}"
    statuses = [401, 403, 404, 500, 500]
    gate.answers = lambda path, number: statuses[number]
    (tmp_path / "broken.db").write_bytes(b"no database" * 1_000)
    others = [
        f"mlflow:uri=sqlite:///{tmp_path}/broken.db",
        f"mlflow:uri={closed}",
        *[f"mlflow:uri={gate.address}"] * 4,
    ]
    words = [done.raised[0] for done in call(*(Given(to, tmp_path, state={}) for to in others))]
    kinds = [text.partition(": ")[0] for text in words]
    assert kinds == ["NotConfigured", "Unavailable", *["NotConfigured"] * 3, "Unavailable"]
    assert "not a database" in words[0]
    assert [str(status) in text for status, text in zip(statuses, words[2:], strict=False)] == [True] * 4


def test_a_deleted_run_is_not_begun_again(tmp_path: Path, server: str) -> None:
    """Neither the writer that began a deleted run nor the next writer begins it again.

    The items that are left are not dropped.
    """
    to = f"mlflow:uri={server},experiment=deleted"
    (done,) = call(Given(to, tmp_path, [[step(1, {"a": 1.0})]], final=False))
    ask(server, "runs/delete", {"run_id": done.state["run"]})
    (again,) = call(Given(to, tmp_path, [[step(2, {"a": 2.0})]], state=done.state))
    gone = f"NotConfigured: mlflow: the run {done.state['run']} is deleted"
    assert again.raised == [f"{gone} (restore it in MLflow, or export again: mlflow:as=…)"]


def test_a_file_that_is_not_taken_is_no_reason_to_wait(tmp_path: Path, gate: Gate) -> None:
    """A server without a place for files refuses the text alone."""
    gate.answers = lambda path, number: 413 if "mlflow-artifacts" in path else 0
    text = Text(key="x", time_ns=STARTED_NS, name="n", text="t")
    batches = [[step(1, {"a": 1.0}), text], [step(1, {"a": 1.0})]]
    (done,) = call(Given(f"mlflow:uri={gate.address},experiment=files", tmp_path, batches))
    assert [words.partition(":")[0] for words in done.raised] == ["", "ValueError", "", ""]


def test_a_call_that_takes_too_long_goes_on_later(tmp_path: Path, server: str) -> None:
    """The next call goes on where the last one stopped.

    So a writer gets through items that no single call could write.
    """
    script = SLOW.replace("SERVER", server).replace("STARTED_NS", str(STARTED_NS))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, check=True, timeout=100, stdout=subprocess.PIPE, text=True
    )
    often, where = done.stdout.split()[-2:]
    assert int(often) > 1
    assert read_back(tmp_path, where).counts["step"] == 6_000


SLOW = """
from pathlib import Path
from telemetry.backends.mlflow import backend as module
from telemetry.backends.choice import make, parse
from telemetry.backends.items import Step
from telemetry.backends.backend import RunFacts, Unavailable
module._WRITE_S = 0.05
backend = make(parse("mlflow:uri=SERVER,experiment=slow"), Path("."))
backend.open(RunFacts("run-1", "bench", STARTED_NS, None), {})
items = [Step(key=f"r{at}", time_ns=STARTED_NS, axis="a", step=at, values={"v": 1.0}) for at in range(6_000)]
for number in range(1, 1_000):
    try:
        backend.write(items)
        break
    except Unavailable:
        pass
backend.flush()
backend.close(final=True)
print(number, backend.where())
"""
