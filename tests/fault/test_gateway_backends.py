"""Backends that a gateway must not forget: an answer of 200 means that every backend of the run has the step."""

from __future__ import annotations

import os
import re
import signal
import sys
from subprocess import PIPE
from typing import Any

from tests.gateway_run import Answer, Client, GatewayRun, until

from telemetry import limits

MOODY = """
from msgspec import Struct
from telemetry.backends.items import Step
from telemetry.backends.backend import NotConfigured, Refused

class Options(Struct, frozen=True):
    pass

class Moody:
    Options, takes, idempotent = Options, (Step,), True
    def __init__(self, options, place):
        pass
    def open(self, run, state):
        pass
    def write(self, items):
        if any(item.step == 13 for item in items):
            raise NotConfigured("the key was revoked")
        refused = [item.key for item in items if item.step % 10 == 7 or item.step >= 5_000]
        if refused:
            raise Refused("unlucky", refused)
    def flush(self):
        pass
    def state(self):
        return {}
    def close(self, *, final):
        pass
    def where(self):
        return ""
"""
MORTAL = (
    MOODY
    + """
import os, sys
if "--writer" in sys.orig_argv:
    os._exit(1)
"""
)
STARTS = """
import sys, telemetry
run = telemetry.start("job", to="jsonl")
print(run.endpoint, flush=True)
sys.stdin.read()
"""
REVOKED = {"moody": "error: the key was revoked"}


def install_moody(ground: Any, program: str = MOODY) -> None:
    """Install a backend that refuses steps ending in 7 and steps from 5,000 on, and that gives up at step 13."""
    facts = ground.folder / "plug" / "moody-1.dist-info"
    facts.mkdir(parents=True)
    ground.program("plug/moody.py", program)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: moody\nVersion: 1\n")
    (facts / "entry_points.txt").write_text("[telemetry.backends]\nmoody = moody:Moody\n")
    ground.environ["PYTHONPATH"] = str(ground.folder / "plug")


def report(client: Client, step: int, **more: Any) -> Answer:
    """Log a value of a step, and report the step."""
    confirm(client, "/metrics/log_metric", {"step": step, "metric_name": "loss", "metric_value": step / 4})
    return confirm(client, "/metrics/report_step", {"step": step, **more})


def confirm(client: Client, path: str, body: dict[str, Any]) -> Answer:
    """Post until the run has confirmed it, whatever is restarted meanwhile."""

    def ask() -> Answer | None:
        answer = client.insist(path, body)
        waits = any(words in answer.body["message"] for words in ("not confirmed", "does not answer"))
        return None if answer.status == 202 and waits else answer

    return until(ask, f"a confirmation of {body}")


def decided(client: Client, step: int) -> Answer:
    """Report a step until no backend is pending."""

    def ask() -> Answer | None:
        answer = client.insist("/metrics/report_step", {"step": step, "wait_s": 20.0})
        return None if answer.status == 202 else answer

    return until(ask, f"delivery of step {step}")


def replace_aggregator(ground: Any, faults: Any) -> None:
    """Kill the aggregator, and wait for the next one."""
    pid = until(lambda: faults.aggregators(ground), "an aggregator")[0]
    os.kill(pid, signal.SIGKILL)
    until(lambda: [one for one in faults.aggregators(ground) if one != pid], "a follower")


def test_a_backend_whose_writer_starts_late_is_waited_for(ground: Any, faults: Any) -> None:
    """A step that is reported before the first report of a writer is pending there, and success once delivered.
    Another aggregator and another gateway know that too."""
    begins = ground.folder / "begins"
    environ = faults.seam({"FAULT_WRITERS_WAIT": str(begins)})
    run = GatewayRun(ground, "--to", "jsonl", "--to", "tensorboard", environ=environ)
    client = run.client()
    pending = {"jsonl": "pending", "tensorboard": "pending"}
    answer = report(client, 1, wait_s=0.0)
    assert (answer.status, answer.body["results"]) == (202, pending)
    replace_aggregator(ground, faults)
    run.kill_gateway()
    answer = confirm(client, "/metrics/report_step", {"step": 1, "wait_s": 0.0})
    assert (answer.status, answer.body["results"]) == (202, pending)
    begins.touch()
    assert decided(client, 1).body["results"] == {"jsonl": "success", "tensorboard": "success"}
    run.end()
    assert [run.stat(name)["state"] for name in pending] == ["done", "done"]


def test_every_run_knows_its_backends_from_its_start(ground: Any, faults: Any) -> None:
    """A run of `telemetry serve`, and one that a program starts."""
    environ = faults.seam({"FAULT_WRITERS_WAIT": str(ground.folder / "never")})
    aggregator, endpoint = ground.serve("--to", "jsonl", "--to", "otlp:as=other", environ=environ)
    found = [(stat.name, stat.kind, stat.state) for stat in faults.status(endpoint).backends]
    assert found == [("jsonl", "jsonl", "starting"), ("other", "otlp", "starting")]
    aggregator.send_signal(signal.SIGTERM)
    starts = ground.popen(sys.executable, ground.program("starts.py", STARTS), environ=environ, stdin=PIPE)
    endpoint = starts.stdout.readline().strip()
    assert [(stat.name, stat.state) for stat in faults.status(endpoint).backends] == [("jsonl", "starting")]


def test_a_backend_whose_writer_can_not_start_is_an_error(ground: Any) -> None:
    """The writer dies again and again before it can report anything."""
    install_moody(ground, MORTAL)
    run = GatewayRun(ground, "--to", "moody", "--to", "jsonl")
    client = run.client()
    report(client, 1)
    answer = decided(client, 1)
    assert (answer.status, answer.body["results"]) == (
        502,
        {"moody": "error: its writer has ended: undelivered", "jsonl": "success"},
    )
    said = run.end()
    assert re.search(r"moody: \d+ records? (is|are) not delivered; telemetry export --resume ", said), said
    [stat] = (stat for stat in ground.final()["backends"] if stat["name"] == "moody")
    assert (stat["state"], stat["restarts"]) == ("undelivered", limits.RESTARTS)


def test_a_backend_that_has_given_up_is_an_error_after_a_restart_too(ground: Any, faults: Any) -> None:
    """The next aggregator and the next gateway know of it."""
    install_moody(ground)
    run = GatewayRun(ground, "--to", "moody")
    client = run.client()
    report(client, 1)
    assert decided(client, 1).status == 200
    report(client, 13)
    answer = decided(client, 13)
    assert (answer.status, answer.body["results"]) == (502, REVOKED)
    replace_aggregator(ground, faults)
    report(client, 14)
    answer = decided(client, 14)
    assert (answer.status, answer.body["results"]) == (502, REVOKED)
    run.kill_gateway()
    report(client, 15)
    answer = decided(client, 15)
    assert (answer.status, answer.body["results"]) == (502, REVOKED)
    run.end()


def test_a_refused_step_is_an_error_however_late_it_is_reported_again(ground: Any) -> None:
    """The answer to a refused step stays an error even after the run has forgotten the step's values."""
    install_moody(ground)
    run = GatewayRun(ground, "--to", "moody")
    client = run.client()
    report(client, 7)
    assert decided(client, 7).status == 502
    for step in range(5, 5 + 10 * (limits.STEPS_KEPT + 2), 10):
        report(client, step, wait_s=0.0)
    assert decided(client, 5).status == 200
    answer = decided(client, 7)
    assert (answer.status, answer.body["results"]) == (
        502,
        {"moody": "error: it refused the step: Refused: 1 item: unlucky"},
    )
    run.end()


def test_a_backend_that_refuses_very_many_steps_is_an_error_for_each(ground: Any) -> None:
    """A writer names only the newest records that were refused. Steps that it has taken since are delivered."""
    install_moody(ground)
    run = GatewayRun(ground, "--to", "moody")
    client = run.client()
    steps = range(5_000, 5_000 + limits.BACKEND_REFUSED + 20)
    for step in steps:
        report(client, step, wait_s=0.0)
    assert decided(client, steps[-1]).status == 502
    answer = decided(client, steps[0])
    assert answer.status == 502
    words = f"error: it refused more than {limits.BACKEND_REFUSED} items; this step may be one of them: .*: unlucky"
    assert re.fullmatch(words, answer.body["results"]["moody"])
    report(client, 1)
    assert decided(client, 1).status == 200
    run.end()
