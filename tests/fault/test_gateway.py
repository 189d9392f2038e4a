"""Faults of a gateway, of its aggregator and of the backends behind it: an answer never says more than is true."""

from __future__ import annotations

import errno
import os
import random
import re
import signal
import socket
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any
from urllib.parse import urlsplit

from tests.backends.otlp_receiver import HttpReceiver
from tests.backends.reading_otlp import points
from tests.backends.reading_tensorboard import read_back
from tests.gateway_run import DEADLINE_S, Answer, Client, GatewayRun, Steps, in_threads, until
from tests.processes import KILLED

from telemetry import limits

CLIENTS = 4
KILLS = 4
SHARED = range(1_000_000, 1_000_000_000)
"""Steps of all clients; each client has other steps of its own."""
OUTAGE_S = 10.0
PICKY = """
from msgspec import Struct
from telemetry.backends.items import Step
from telemetry.backends.backend import Refused

class Options(Struct, frozen=True):
    folder: str

class Picky:
    Options, takes, idempotent = Options, (Step,), True
    def __init__(self, options, place):
        self.path = options.folder + "/taken"
    def open(self, run, state):
        pass
    def write(self, items):
        refused = [item.key for item in items if item.step % 10 == 7]
        with open(self.path, "a") as file:
            file.writelines(f"{item.step}\\n" for item in items if item.key not in refused)
        if refused:
            raise Refused("seven", refused)
    def flush(self):
        pass
    def state(self):
        return {}
    def close(self, *, final):
        pass
    def where(self):
        return self.path
"""
Values = dict[int, dict[str, float]]


class Poster:
    """A client that logs and reports steps until it is told to stop, and notes what was said to be recorded."""

    def __init__(self, run: GatewayRun, index: int) -> None:
        self.client = run.client()
        self.reported: set[int] = set()
        """Steps whose report was answered with 200."""
        self.recorded: Values = {}
        """Values whose call was answered with 200."""
        self.sent: Values = {}
        self._index = index
        self.stop = threading.Event()

    def run(self) -> None:
        for number in count():
            self.post(self._index * 100_000 + number)
            self.post(SHARED.start + number)
            if self.stop.is_set():
                break
        self.client.close()

    def post(self, step: int) -> None:
        names = [f"{name}/{self._index}" for name in ("loss", "reward", "tokens")]
        values = {name: step + place / 4 for place, name in enumerate(names)}
        first, *others = names
        self._log("log_metric", step, {first: values[first]}, metric_name=first, metric_value=values[first])
        rest = {name: values[name] for name in others}
        self._log("log_metrics_batch", step, rest, metrics=rest)
        answer = self.client.insist("/metrics/report_step", {"step": step, "wait_s": 20.0})
        assert answer.status in (200, 202), answer
        if answer.status == 200:
            assert set(answer.body["results"].values()) == {"success"}
            self.reported.add(step)
        else:
            assert answer.body["status"] == "pending"

    def _log(self, call: str, step: int, values: dict[str, float], **body: Any) -> None:
        answer = self.client.insist(f"/metrics/{call}", {"step": step, **body})
        assert answer.status in (200, 202), answer
        self.sent.setdefault(step, {}).update(values)
        if answer.status == 200:
            self.recorded.setdefault(step, {}).update(values)


def check(run: GatewayRun, posters: list[Poster]) -> None:
    """Compare the record log and TensorBoard with what the clients were told."""
    steps = Steps(run.folder)
    written = read_back(run.folder, str(run.folder / "backends" / "tensorboard" / "data"))
    in_tensorboard = {step: values for (_, step), values in written.steps.items()}
    assert written.counts["step"] == sum(map(len, in_tensorboard.values())), "a value is there twice"
    assert in_tensorboard == steps.values
    assert set(steps.closed.values()) == {1}
    sent: Values = {}
    for poster in posters:
        assert poster.client.refused == 0
        assert poster.reported <= set(steps.closed)
        for step, values in poster.recorded.items():
            assert values.items() <= steps.values[step].items()
        for step, values in poster.sent.items():
            sent.setdefault(step, {}).update(values)
    for step, values in steps.values.items():
        assert values.items() <= sent[step].items()


def kill_under_load(posters: list[Poster], chance: random.Random, kill: Callable[[], object]) -> None:
    """Kill a process several times while clients post."""
    threads = [threading.Thread(target=poster.run, daemon=True) for poster in posters]
    for thread in threads:
        thread.start()

    def more(before: int) -> bool:
        assert all(thread.is_alive() for thread in threads), "a client failed"
        return sum(len(poster.reported) for poster in posters) > before + CLIENTS

    for _ in range(KILLS):
        before = sum(len(poster.reported) for poster in posters)
        until(lambda before=before: more(before), "reports are answered")
        time.sleep(chance.uniform(0.0, 0.6))
        kill()
    before = sum(len(poster.reported) for poster in posters)
    until(lambda: more(before), "reports are answered again")
    for poster in posters:
        poster.stop.set()
    for thread in threads:
        thread.join(2 * DEADLINE_S)
        assert not thread.is_alive()


def log(client: Client, step: int, values: dict[str, float]) -> None:
    answer = client.confirm("/metrics/log_metrics_batch", {"step": step, "metrics": values})
    assert (answer.status, answer.body["status"]) == (200, "success"), answer


def report(client: Client, step: int, **more: float) -> Answer:
    return client.confirm("/metrics/report_step", {"step": step, **more})


def begin_gateway(ground: Any, endpoint: str) -> str:
    """Start a gateway of a run, and return its address once it answers."""
    child = ground.telemetry("gateway", endpoint, "--listen", "0")
    said = child.stderr.readline()
    found = re.search(r" at (http://\S+);", said)
    assert found, said
    return found[1]


def install_picky(ground: Any) -> None:
    """Install a backend that refuses steps whose last digit is 7."""
    facts = ground.folder / "plug" / "picky-1.dist-info"
    facts.mkdir(parents=True)
    ground.program("plug/picky.py", PICKY)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: picky\nVersion: 1\n")
    (facts / "entry_points.txt").write_text("[telemetry.backends]\npicky = picky:Picky\n")
    ground.environ["PYTHONPATH"] = str(ground.folder / "plug")


def test_a_killed_gateway_loses_nothing_that_it_confirmed(ground: Any, chance: random.Random) -> None:
    """Clients wait for the next gateway and are not refused. Every value and step with a 200 is in the run and in
    TensorBoard once, with the right value. Without salvage the result names the gateways that were killed."""
    run = GatewayRun(ground, "--to", "tensorboard")
    posters = [Poster(run, index) for index in range(CLIENTS)]
    kill_under_load(posters, chance, run.kill_gateway)
    said = run.end()
    assert said.count("gateway was killed by signal 9; it is started again") == KILLS
    check(run, posters)
    final = ground.final()
    assert [one["name"] for one in final["producers"]] == ["gateway"] * (KILLS + 1)
    verdicts = [one["completeness"] for one in final["producers"]]
    assert sorted(verdicts) == ["complete"] + [KILLED] * KILLS
    assert final["completeness"] == KILLED
    assert ("never ended: gateway" in said) == (KILLED == "incomplete")


def test_a_gateway_that_dies_again_and_again_is_given_up(ground: Any) -> None:
    """Clients are refused then, and don't wait for a gateway that will not come. The run goes on."""
    run = GatewayRun(ground, "--strict")
    log(run.client(), 1, {"loss": 0.5})
    for _ in range(limits.RESTARTS + 1):
        run.kill_gateway()

    def is_refused() -> bool:
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", urlsplit(run.url).port)) == errno.ECONNREFUSED

    until(is_refused, "an end of the gateway")
    said = run.end(code=4 if KILLED == "incomplete" else 6)
    assert said.count("it is started again") == limits.RESTARTS
    assert Steps(run.folder).values == {1: {"loss": 0.5}}


def test_a_killed_aggregator_makes_no_answer_wrong(ground: Any, faults: Any, chance: random.Random) -> None:
    """The gateway sends again what the next aggregator lacks. An answer of 200 names every backend, also while the
    next aggregator has not heard of one yet."""
    run = GatewayRun(ground, "--to", "tensorboard")
    client = run.client()
    posters = [Poster(run, index) for index in range(CLIENTS)]

    def kill() -> None:
        pid = until(lambda: faults.aggregators(ground), "an aggregator")[0]
        os.kill(pid, signal.SIGKILL)
        until(lambda: [one for one in faults.aggregators(ground) if one != pid], "a follower")
        answer = client.insist("/metrics/report_step", {"step": -1, "wait_s": 0.0})
        assert (answer.status, list(answer.body["results"])) != (200, []), answer

    kill_under_load(posters, chance, kill)
    said = run.end()
    assert "restarted" in said
    check(run, posters)
    final = ground.final()
    assert (final["state"], final["completeness"]) == ("COMPLETE", "complete"), final["producers"]


def test_a_backend_that_is_down_delays_its_own_steps_alone(ground: Any, faults: Any) -> None:
    """A collector that is started late: reports are answered with 202 and its error long before their own limit.
    Another backend has the steps at once. The late one gets each step once it is there."""
    environ = faults.seam({"FAULT_LIMITS": "BACKEND_RETRY_MOST_S=2"})
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        collector = f"otlp:endpoint=http://127.0.0.1:{port}"
        run = GatewayRun(ground, "--to", collector, "--to", "tensorboard", environ=environ)
        client = run.client()
        until_s = time.monotonic() + OUTAGE_S
        steps = 0
        while steps < 3 or time.monotonic() < until_s:
            log(client, steps, {"loss": steps / 4})
            # a wait of ten minutes would outlast the test
            answer = report(client, steps, wait_s=600.0)
            results = answer.body["results"]
            assert (answer.status, answer.body["status"], results["tensorboard"]) == (202, "pending", "success")
            assert re.fullmatch(r"pending: .*refused.*", results["otlp"]), results
            steps += 1
        with HttpReceiver(ground.folder / "collector", port) as receiver:
            until(lambda: all(report(client, step).status == 200 for step in range(steps)), "delivery")
            run.end()
            found = [got for got in points(receiver.folder) if got.scope == "telemetry.steps"]
    stored = {(int(got.labels["step"]), got.name): got.value for got in found}
    assert stored == {(step, "loss"): step / 4 for step in range(steps)}
    assert len(found) - len(stored) <= run.stat("otlp")["repeated"]
    assert run.stat("otlp")["dropped"] == {}
    assert (ground.final()["completeness"], set(Steps(run.folder).closed)) == ("complete", set(range(steps)))


def test_a_step_that_a_backend_refuses_costs_no_other_step(ground: Any) -> None:
    """The report of that step alone is answered with 502 and the reason, also when it is repeated. Steps that are
    reported at the same time are answered with 200."""
    install_picky(ground)
    run = GatewayRun(ground, "--to", f"picky:folder={ground.folder}", "--to", "tensorboard")
    answers: dict[int, Answer] = {}

    def post(index: int) -> None:
        client = run.client()
        for step in range(index, 40, CLIENTS):
            log(client, step, {"loss": step / 4})
            answers[step] = report(client, step, wait_s=60.0)

    in_threads(CLIENTS, post)
    again = report(run.client(), 7, wait_s=60.0)
    run.end()
    for step, answer in (*answers.items(), (7, again)):
        results = answer.body["results"]
        assert results["tensorboard"] == "success"
        if step % 10 == 7:
            assert (answer.status, answer.body["status"]) == (502, "error")
            assert re.fullmatch(r"error: it refused the step: .*seven", results["picky"])
        else:
            assert (answer.status, answer.body["status"], results["picky"]) == (200, "success", "success"), step
    taken = [int(line) for line in (ground.folder / "taken").read_text().split()]
    assert sorted(taken) == [step for step in range(40) if step % 10 != 7]
    assert run.stat("picky")["dropped"] == {"seven": 4}
    assert set(Steps(run.folder).closed) == set(range(40))


def test_two_gateways_share_steps(ground: Any, faults: Any) -> None:
    """Values come through both, and the report through one: each step closes once, with all of its values."""
    aggregator, endpoint = ground.serve()
    urls = [begin_gateway(ground, endpoint) for _ in range(2)]

    def post(index: int) -> None:
        clients = [Client(url) for url in urls]
        for step in range(index, 200, CLIENTS):
            for place, client in enumerate(clients):
                values = {f"value/{2 * number + place}": step + number / 4 for number in range(25)}
                log(client, step, values)
            answer = report(clients[step // CLIENTS % 2], step)
            assert (answer.status, answer.body["status"]) == (200, "success")
        for client in clients:
            client.close()

    in_threads(CLIENTS, post)
    faults.stop(endpoint, aggregator)
    steps = Steps(ground.folder / "runs" / "latest")
    assert steps.closed == dict.fromkeys(range(200), 1)
    for step, values in steps.first.items():
        assert values == {f"value/{number}": step + number // 2 / 4 for number in range(50)}
    final = ground.final()
    assert (final["completeness"], len(final["producers"])) == ("complete", 2)
