"""A simulated language model's server under load, and the report's figures worked out again from the load's log.

The two programs are those of examples/; the log has the times that the calls returned.
"""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.ports import free_port
from tests.process import request_truth
from tests.process.conftest import DEADLINE_S, Ground
from tests.process.request_truth import Line, check_instruments, log_lines, truth

pytestmark = pytest.mark.slow

LOAD = str(Path(__file__).parents[2] / "examples" / "llm_load.py")
SERVER = [*("--first-ms", "20"), *("--gap-ms", "2"), *("--tokens", "12")]
FAULTS = [*("--busy", "0.03"), *("--cut", "0.03"), *("--stragglers", "0.02"), *("--straggler-s", "1.5")]
DEFINITIONS = ("while_issuing", "loadgen", "overall")


@dataclass
class Done:
    """A run that has ended, and what its program wrote down."""

    ground: Ground
    final: dict[str, Any]
    lines: list[Line]

    def report(self, form: str = "json") -> str:
        code, out, err = self.ground.run("report", "latest", "--format", form)
        assert code == 0, err
        return out

    @property
    def requests(self) -> dict[str, Any]:
        """The report's section of the one kind there is."""
        (kind,) = json.loads(self.report())["requests"]
        return dict(kind)


def load(ground: Ground, *words: str) -> Done:
    """Runs server and load under `telemetry run`, to a complete and exact result."""
    log = ground.folder / "log.jsonl"
    command = [sys.executable, LOAD, "--log", str(log), *words]
    code, _, err = ground.run("run", "--name", "llm", "--", *command)
    assert code == 0, err
    final = ground.final()
    assert (final["state"], final["completeness"], final["exact"]) == ("COMPLETE", "complete", True), err
    return Done(ground, final, log_lines(log))


@pytest.fixture(scope="module")
def place() -> Iterator[Ground]:
    made = Ground()
    yield made
    made.close()


@pytest.fixture(scope="module")
def open_loop(place: Ground) -> Done:
    """Four seconds of planned requests, in two windows and outside, of which some fail and some are forgotten."""
    windows = ["--window", "warm-up:1", "--window", ":0.5", "--window", "measured:2"]
    shares = ["--plain", "0.2", "--forget", "0.02", "--by-key"]
    return load(place, "--rate", "120", "--seconds", "4", *windows, *shares, *SERVER, *FAULTS)


def of_window(lines: list[Line], name: str) -> list[Line]:
    return [line for line in lines if line["window"] == name]


def test_every_figure_is_that_of_the_log(open_loop: Done) -> None:
    """Counts, reasons, totals and every percentile, in each window and outside, to the nanosecond."""
    check_instruments(open_loop.final, truth(open_loop.lines))
    assert {line["window"] for line in open_loop.lines} == {"", "warm-up", "measured"}
    assert {line["reason"] for line in open_loop.lines} >= {None, "cut", "http_503"}


def test_the_report_counts_as_the_log_does(open_loop: Done) -> None:
    """Issued is completed, failed by reason, and in flight, altogether and in each window."""
    whole = open_loop.requests
    for part in (whole, *whole["windows"]):
        lines = open_loop.lines if part is whole else of_window(open_loop.lines, part["window"])
        open_ = [line for line in lines if line["ended"] is None]
        failed = [line["reason"] for line in lines if line["reason"] is not None]
        assert (part["issued"], part["in_flight"], part["expired"]) == (len(lines), len(open_), 0)
        assert part["completed"] == len(lines) - len(open_) - len(failed)
        assert part["failed"] == {reason: failed.count(reason) for reason in set(failed)}
    assert [part["window"] for part in whole["windows"]] == ["", "warm-up", "measured"]


def test_rates_by_every_definition(open_loop: Done) -> None:
    """The rates of requests and of tokens are right by every definition, in each window.

    Rates of the whole run are there where they can be computed.
    """
    whole = open_loop.requests
    for part in whole["windows"]:
        expected = request_truth.rates(of_window(open_loop.lines, part["window"]))
        for definition in DEFINITIONS:
            check_rate(part["rates"][definition], expected[definition])
    expected = request_truth.rates(open_loop.lines)
    assert whole["rates"]["while_issuing"] == {"requests_per_s": None, "tokens_per_s": None}
    for definition in ("loadgen", "overall"):
        check_rate(whole["rates"][definition], expected[definition])


def check_rate(rate: dict[str, float], expected: tuple[float, float]) -> None:
    assert rate["requests_per_s"] == pytest.approx(expected[0], rel=1e-6)
    assert rate["tokens_per_s"] == pytest.approx(expected[1], rel=1e-6)


def test_early_stopping_bounds_are_those_of_the_binomial(open_loop: Done) -> None:
    """Each percentile from p50 on has the bound of its samples, or says how many are missing."""
    for part in open_loop.requests["windows"]:
        window = {"window": part["window"]} if part["window"] else {}
        values = truth(open_loop.lines).series
        for word, stops in part["early_stopping"].items():
            for key, stop in stops.items():
                expected = request_truth.early_bound(values[word, tuple(window.items())], key)
                assert (stop["missing"] > 0) == (expected is None), (word, key)
                if expected is not None:  # the slot of the histogram that has it is 0.1 % wide
                    assert expected <= stop["bound"] <= 1.002 * expected, (word, key)
        assert {"latency", "latency_corrected", "ttft", "tpot"} <= set(part["early_stopping"])


def test_conversations_of_users_who_wait(ground: Ground) -> None:
    """A closed loop: turns and whole conversations are those of the log, and nothing was planned."""
    users = ["--users", "6", "--turns", "3", "--seconds", "3", "--window", "warm-up:1", "--window", "measured:2"]
    done = load(ground, *users, *SERVER, *FAULTS[:4])
    check_instruments(done.final, truth(done.lines))
    words = {word for word, _ in truth(done.lines).series}
    assert {"turn.ttft", "conversation.duration", "conversation.turns"} <= words
    assert not {"latency_corrected", "queue_delay"} & words


def test_long_answers_and_long_conversations(ground: Ground) -> None:
    """Every gap of an answer of thousands of pieces counts. Turns from the 33rd on are counted as one."""
    pieces = ["--first-ms", "1", "--gap-ms", "0", "--tokens", "9000", "--max-tokens", "20000"]
    users = ["--users", "1", "--turns", "35", "--requests", "8"]
    done = load(ground, *users, *pieces)
    check_instruments(done.final, truth(done.lines))
    assert max(len(line["pieces"]) for line in done.lines) > 4_096
    talk = load(ground, "--users", "1", "--turns", "35", "--requests", "35", "--first-ms", "1", "--gap-ms", "0")
    check_instruments(talk.final, truth(talk.lines))
    assert ("turn.latency", (("turn", "32+"),)) in truth(talk.lines).series


def test_several_processes_are_one_kind(ground: Ground) -> None:
    """Two loads at once: figures and rates are those of both logs together."""
    words = [sys.executable, LOAD, "--rate", "60", "--seconds", "2", *SERVER, *FAULTS]
    loads = [" ".join([*words, "--seed", seed, "--log", f"{seed}.jsonl"]) for seed in ("1", "2")]
    code, _, err = ground.run("run", "--name", "llm", "--", "sh", "-c", f"{' & '.join(loads)} & wait")
    assert code == 0, err
    lines = [line for seed in ("1", "2") for line in log_lines(ground.folder / f"{seed}.jsonl")]
    done = Done(ground, ground.final(), lines)
    check_instruments(done.final, truth(lines))
    expected = request_truth.rates(lines)
    for definition in DEFINITIONS:
        check_rate(done.requests["rates"][definition], expected[definition])


def test_a_stall_that_omission_hides(ground: Ground) -> None:
    """A stall of 2 s shows in half of the corrected latencies, but in only 8 of 4,000 raw ones.

    The load is 1,000 requests a second on 8 connections, corrected latencies begin at the planned time, and the
    report has a sentence on it.
    """
    quick = ["--first-ms", "1", "--gap-ms", "0", "--tokens", "2", "--stall-at-s", "1", "--stall-s", "2"]
    done = load(ground, "--rate", "1000", "--connections", "8", "--seconds", "4", *quick)
    check_instruments(done.final, truth(done.lines))
    series = {stat["name"]: stat for stat in done.final["series"]}
    raw, corrected = (series[f"llm.{word}"]["percentiles"] for word in ("latency", "latency_corrected"))
    assert raw["99"] < 500e6
    assert series["llm.latency"]["max"] > 1.9e9
    assert corrected["99"] > 1.5e9
    assert corrected["50"] > 3 * raw["50"]
    (sentence,) = [line for line in json.loads(done.report())["findings"] if "planned" in line]
    assert sentence in done.report("text").replace("\n  ", " ")


def test_stragglers_stretch_no_rate_while_issuing(ground: Ground) -> None:
    """The last answers come seconds after the last request: that lowers the overall rate alone."""
    slow = ["--stragglers", "0.1", "--straggler-s", "4"]
    done = load(ground, "--rate", "100", "--connections", "200", "--seconds", "2", *SERVER, *slow)
    rates = done.requests["rates"]
    for definition, expected in request_truth.rates(done.lines).items():
        check_rate(rates[definition], expected)
    assert rates["while_issuing"]["requests_per_s"] > 1.5 * rates["overall"]["requests_per_s"]


def test_requests_that_nobody_tells_of_expire(ground: Ground) -> None:
    """Forgotten requests that were sent early count as expired, and late ones are still in flight."""
    done = load(ground, "--rate", "100", "--seconds", "3", "--forget", "0.1", "--expire-s", "1", *SERVER)
    forgotten = [line for line in done.lines if line["ended"] is None]
    whole = done.requests
    assert whole["expired"] + whole["in_flight"] == len(forgotten)
    assert whole["expired"] >= sum(line["issued"] < forgotten[0]["issued"] + 500_000_000 for line in forgotten)
    assert whole["completed"] == len(done.lines) - len(forgotten)


def test_an_aggregator_that_is_killed_costs_no_request(ground: Ground, wait_until: Callable[..., Any]) -> None:
    """Requests in flight are the program's: the next aggregator has every figure of the log."""
    log = ground.folder / "log.jsonl"
    words = ["--rate", "100", "--seconds", "8", "--window", "measured:6", "--log", str(log), *SERVER, *FAULTS]
    wrapper = ground.telemetry("run", "--name", "llm", "--", sys.executable, LOAD, *words)
    for size in (1, 40_000):  # the second one after a third of the load, so that a slow `ls` still sees it
        wait_until(lambda size=size: log.exists() and log.stat().st_size > size, DEADLINE_S)
        (live,) = wait_until(ground.live, DEADLINE_S)
        os.kill(live["pid"], signal.SIGKILL)
    _, err = wrapper.communicate(timeout=DEADLINE_S)
    assert wrapper.returncode == 0, err
    assert err.count("was killed by SIGKILL; restarted, the run continues") == 2
    done = Done(ground, ground.final(), log_lines(log))
    assert (done.final["completeness"], done.final["exact"]) == ("complete", True)
    check_instruments(done.final, truth(done.lines))
    expected = request_truth.rates(of_window(done.lines, "measured"))
    for definition in DEFINITIONS:
        check_rate(done.requests["windows"][1]["rates"][definition], expected[definition])


def test_a_load_stops_when_its_figure_is_known(ground: Ground) -> None:
    """A minute was allowed; p90 takes 64 samples, and some seconds."""
    done = load(ground, "--rate", "50", "--seconds", "60", "--stop-when", "p90 known", *SERVER)
    check_instruments(done.final, truth(done.lines))
    span_s = (max(line["issued"] for line in done.lines) - done.lines[0]["issued"]) / 1e9
    assert len(done.lines) >= 64
    assert span_s < 30
    assert math.isclose(done.requests["issued"], len(done.lines))


def of_parent(pid: int) -> list[int]:
    """The processes that this one started and that have not ended."""
    done = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    return [int(child) for child, parent, state in rows if int(parent) == pid and not state.startswith("Z")]


def is_there(pid: int) -> bool:
    """Return whether a process has not ended. A process that only has to be waited for has ended."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout.strip()[:1] not in ("", "Z")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_load_that_is_killed_leaves_no_server(
    ground: Ground, wait_until: Callable[..., Any], number: signal.Signals
) -> None:
    """The server of a load ends by itself when a signal kills the load in the middle of requests.

    SIGTERM and SIGKILL run no line of the load.
    """
    _, endpoint = ground.serve()
    log = ground.folder / "log.jsonl"
    words = [LOAD, "--users", "4", "--seconds", "60", "--log", str(log), *SERVER]
    child = ground.popen(sys.executable, *words, environ={"TELEMETRY_ENDPOINT": endpoint})
    wait_until(lambda: log.exists() and log.stat().st_size, DEADLINE_S)
    (server,) = of_parent(child.pid)
    child.send_signal(number)
    try:
        assert child.wait(DEADLINE_S) == -number
        wait_until(lambda: not is_there(server), 10.0)
    finally:
        if is_there(server):
            os.kill(server, signal.SIGKILL)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--port", "REFUSED", "--users", "2"], 1, "can't connect to port"),
        (["--port", "REFUSED", "--rate", "100"], 1, "can't connect to port"),
        (["--stop-when", "soon"], 2, "'soon' is not a condition to stop"),
        (["--port", "REFUSED", "--stall-s", "2"], 2, "--stall-s 2"),
        (["--no-such-option"], 2, "--no-such-option"),
    ],
)
def test_what_cannot_work_is_said_in_a_line(ground: Ground, words: list[str], code: int, said: str) -> None:
    """The exit code says who has to act, and no traceback follows."""
    port = str(free_port())
    words = [port if word == "REFUSED" else word for word in words]
    _, endpoint = ground.serve()
    child = ground.popen(sys.executable, LOAD, *words, environ={"TELEMETRY_ENDPOINT": endpoint})
    _, err = child.communicate(timeout=DEADLINE_S)
    assert child.returncode == code, err
    assert said in err.splitlines()[-1]
    assert "Traceback" not in err


def test_windows_that_are_longer_than_the_load_are_whole(ground: Ground) -> None:
    """The load goes on until the last one is over."""
    windows = ["--window", "warm-up:0.5", "--window", "measured:1"]
    done = load(ground, "--rate", "100", "--seconds", "0.2", *windows, *SERVER)
    check_instruments(done.final, truth(done.lines))
    measured = [line["issued"] for line in of_window(done.lines, "measured")]
    assert max(measured) - min(measured) > 500_000_000
