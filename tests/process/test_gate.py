"""Gates by a real `telemetry run`, and `telemetry gate` afterwards: every outcome and every exit code."""

from __future__ import annotations

import json
import re
import signal
import sys
from typing import Any

import pytest
from tests.processes import KILLED

pytestmark = pytest.mark.slow

RECORD = """
import sys, telemetry
run = telemetry.start("x")
ttft = run.series("ttft", unit="ms")
for value in range(1, 1001):
    ttft.record(value / 10)
run.counter("requests").add(1000)
run.counter("errors").add(5)
run.finish()
sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
"""
"""p99 is 99 ms, half a percent of requests failed."""

LOSE = """
import telemetry
run = telemetry.start("x")
ttft = run.series("ttft", unit="ms")
for value in range(1, 1001):
    ttft.record(value / 10)
ttft.record(-1)
run.finish()
"""
"""One event is dropped: it is negative."""

ENDLESS = """
import os, sys, time, telemetry
run = telemetry.start("x")
errors = run.counter("errors")
errors.add(1)
print(os.getpid(), flush=True)
while True:
    errors.add(1)
    time.sleep(0.01)
"""

FAIL = """
import time, telemetry
run = telemetry.start("x")
chat = run.requests("chat", model="m")
for window, failing in (("warm-up", 40), ("measured", 2)):
    with run.tracking(window):
        for number in range(200):
            request = chat.issue()
            time.sleep(0.0001)
            if number < failing:
                request.fail("busy" if number % 2 else "gone")
            else:
                request.complete(output_tokens=number, finish_reason="stop" if number % 3 else None)
run.finish()
"""
"""One in five fails while it warms up, then one in a hundred."""


def run(ground: Any, *words: str, code: str = RECORD, argument: str = "0") -> tuple[int, str]:
    """(exit code, stderr) of `telemetry run` with such flags."""
    program = ground.program("job.py", code)
    found, _, err = ground.run("run", "--name", "job", *words, "--", sys.executable, program, argument)
    return found, err


def gate(ground: Any, *words: str, **options: Any) -> tuple[int, str, str]:
    code, out, err = ground.run("gate", "latest", *words, **options)
    return int(code), out, err


def outcomes(ground: Any) -> list[str]:
    """Return the outcomes in gates.json of the newest run."""
    text = (ground.folder / "runs" / "latest" / "gates.json").read_text()
    return [result["outcome"] for result in json.loads(text)["gates"]]


def test_gates_that_pass(ground: Any) -> None:
    """Exit 0, the evidence in the report, the same once more from disk; and no gate is no file."""
    flags = ["--gate", "p99(ttft) < 250ms", "--gate", "rate(errors)/rate(requests) < 1%", "--gate", "lost == 0"]
    code, err = run(ground, *flags)
    assert code == 0, err
    assert "gates: 3 pass" in err
    full = ground.run("report", "latest", "--full")[1]
    assert "p99(ttft) < 250ms" in full
    assert "99.0 ms < 250 ms" in full
    assert outcomes(ground) == ["pass"] * 3
    (first, *_) = json.loads((ground.folder / "runs" / "latest" / "gates.json").read_text())["gates"]
    assert (first["value"], first["limit"], first["unit"], first["samples"]) == (99, 250, "ms", 1000)
    assert first["low"] < 99 < first["high"] < 100.01
    assert gate(ground, "p99(ttft) < 250ms", "completeness == complete", "command.exit_code == 0")[0] == 0
    assert "gates: 3 pass" in ground.run("report", "latest")[1]


def test_a_gate_that_fails_and_one_that_nobody_can_tell(ground: Any) -> None:
    """99 before 3, both with their reasons; a later look at the same run comes to the same."""
    code, err = run(ground, "--gate", "p99.99(ttft) < 1s", "--gate", "p99(ttft) < 50ms")
    assert code == 99, err
    assert outcomes(ground) == ["inconclusive", "fail"]
    assert "99.0 ms is not < 50.0 ms" in err
    code, out, err = gate(ground, "p99.99(ttft) < 1s", "p99(ttft) < 50ms", "--json")
    assert code == 99, err
    assert json.loads(out)["outcome"] == "fail"
    code, out, _ = gate(ground, "p99.99(ttft) < 1s")
    assert (code, "1,000 values are too few" in out) == (3, True)
    assert gate(ground, "p99(ttfb) < 1s")[0] == 3
    code, out, _ = gate(ground, "p50(ttft) <= baseline * 1.05", "--baseline", "latest")
    assert (code, "50.0 ms <= 52.5 ms" in out) == (0, True)
    assert gate(ground, "p50(ttft) <= baseline * 1.05")[0] == 3
    assert gate(ground, "p50(ttft) < 51ms", "--confident")[0] == 3


def test_the_command_s_own_code_wins(ground: Any) -> None:
    """The command's own code wins over a gate that failed. The gate is still reported, however quiet."""
    code, err = run(ground, "--quiet", "--gate", "p99(ttft) < 50ms", "--gate", "lost == 0", argument="7")
    assert code == 7, err
    (said,) = err.splitlines()
    assert said.startswith("telemetry: fail: p99(ttft) < 50ms · 99.0 ms is not < 50.0 ms")
    assert outcomes(ground) == ["fail", "pass"]


def test_a_signal_s_code_wins_too(ground: Any) -> None:
    """128 + n; what a dead producer leaves unknown is inconclusive, unless it was salvaged."""
    program = ground.program("job.py", ENDLESS)
    wrapper = ground.telemetry("run", "--gate", "value(errors) < 1M", "--", sys.executable, program)
    wrapper.stdout.readline()
    wrapper.send_signal(signal.SIGTERM)
    _, err = wrapper.communicate(timeout=60)
    assert wrapper.returncode == 128 + signal.SIGTERM, err
    assert outcomes(ground) == ["pass" if KILLED == "complete" else "inconclusive"], err


def test_losses_strict_and_gates(ground: Any) -> None:
    """A gate that one lost event can't change passes; then --strict is 4, unless a gate says 99 or 3."""
    assert run(ground, "--strict", "--gate", "p99(ttft) < 250ms", code=LOSE)[0] == 4
    assert outcomes(ground) == ["pass"]
    assert run(ground, "--strict", "--gate", "lost == 0", code=LOSE)[0] == 99
    assert run(ground, "--strict", "--gate", "max(ttft) < 1h", code=LOSE)[0] == 3
    code, out, _ = gate(ground, "max(ttft) < 1h")
    assert (code, bool(re.search(r"1 event is lost: the true value may be \S+ \S+ or more", out))) == (3, True)


def test_an_interrupted_run(ground: Any) -> None:
    """5 with --strict and a gate that is sure all the same; 3 for one that is not."""
    program = ground.program(
        "job.py",
        "import os, telemetry, time\nrun = telemetry.start('x')\nrun.counter('errors').add(1)\n"
        "print('up', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.01)\n",
    )
    for text, expected in (("count(errors) >= 1", 5), ("count(errors) < 1M", 3)):
        (ground.folder / "go").unlink(missing_ok=True)
        flags = ["--name", "cut", "--strict", "--gate", text]
        wrapper = ground.telemetry("run", *flags, "--", sys.executable, program)
        wrapper.stdout.readline()
        assert ground.run("stop", "cut", "--interrupt")[0] == 0
        (ground.folder / "go").touch()
        _, err = wrapper.communicate(timeout=60)
        assert wrapper.returncode == expected, err


def test_a_gate_that_can_t_pass_any_more_ends_the_command(ground: Any) -> None:
    """A gate that can't pass any more ends the command with --abort-on-fail.

    The command gets SIGTERM, the exit code is 99, and the report names the gate.
    """
    code, err = run(ground, "--abort-on-fail", "--gate", "value(errors) < 20", code=ENDLESS)
    assert code == 99, err
    assert "telemetry: gate failed, stopping the command: value(errors) < 20: " in err
    assert "the command was stopped" in err
    final = ground.final()
    assert final["command"]["signal"] == "SIGTERM"
    assert final["reason"] == (
        "stopped because the gate value(errors) < 20 failed; the command was killed by SIGTERM"
    )
    assert outcomes(ground) == ["fail"]


def test_a_window_that_failed_ends_the_command(ground: Any) -> None:
    """Windows come from the history, while it is written."""
    code, err = run(ground, "--abort-on-fail", "--gate", "value(errors) < 2 in every 1s", code=ENDLESS)
    assert code == 99, err
    assert "in every 1s: " in err
    assert "failed" in err


def test_usage(ground: Any) -> None:
    """Exit 2 with a caret, before anything is started; units and kinds once the run is known."""
    code, _, err = ground.run("run", "--gate", "p99(ttft) <> 5", "--", "true")
    assert code == 2
    assert err == "telemetry: `<>` is not a comparison; did you mean `!=`?\n  p99(ttft) <> 5\n            ^^\n"
    assert not (ground.folder / "runs").exists()
    assert run(ground)[0] == 0
    assert not (ground.folder / "runs" / "latest" / "gates.json").exists()
    code, _, err = gate(ground, "p99(ttft) < 5MiB")
    assert (code, "`p99(ttft)` is a time (ms) and `5MiB` is a size (MiB)" in err) == (2, True)
    assert gate(ground)[0] == 2


def test_the_settings_have_gates_too(ground: Any) -> None:
    """The settings have gates for both commands, and `--no-gates` leaves them out.

    Flags come before the settings.
    """
    (ground.folder / "telemetry.toml").write_text('[gates]\nexpressions = ["p99(ttft) < 50ms"]\n')
    assert run(ground)[0] == 99
    assert gate(ground)[0] == 99
    assert run(ground, "--no-gates")[0] == 0


def test_the_share_of_requests_that_failed_for_whatever_reason(ground: Any) -> None:
    """The share of failed requests is judged of each window by itself, of one, and of all together."""
    share = "sum(chat.failed)/value(chat.issued) < 5%"
    measured = "sum(chat.failed{window=measured})/value(chat.issued{window=measured}) <= 1%"
    assert run(ground, "--gate", share, code=FAIL)[0] == 99
    assert outcomes(ground) == ["fail", "pass"]
    code, out, _ = gate(ground, measured, "sum(chat.failed) == 42", "sum(chat.completed) == 358")
    assert (code, out.count("pass  ")) == (0, 3)
    assert gate(ground, "sum(chat.failed{reason=busy}) == 21", "sum(chat.expired) == 0")[0] == 0
    assert gate(ground, "sum(chat.failed) <= baseline", "--baseline", "latest")[0] == 0
    code, _, err = gate(ground, "sum(chat.latency) < 1")
    assert (code, "use `total(chat.latency)`" in err) == (2, True)


def test_throughput_is_the_report_s(ground: Any) -> None:
    """The throughput equals the report's by each definition and window, to the last digit.

    A part of time or of the run has no throughput.
    """
    assert run(ground, code=FAIL)[0] == 0
    (together,) = json.loads(ground.run("report", "latest", "--json")[1])["requests"]
    definitions = {
        "throughput": "while_issuing",
        "throughput.loadgen": "loadgen",
        "throughput.overall": "overall",
    }
    for function, definition in definitions.items():
        for window in together["windows"]:
            for series, unit in (("latency", "requests_per_s"), ("output_tokens", "tokens_per_s")):
                metric = f"{function}(chat.{series}{{window={window['window']}}})"
                code, out, _ = gate(ground, f"{metric} > 0", "--json")
                (result,) = json.loads(out)["gates"]
                assert (code, result["value"]) == (0, window["rates"][definition][unit])
    assert gate(ground, "throughput(chat.latency) > 0", "--to", "0.1s")[0] == 3
    code, _, err = gate(ground, "throughput(chat.latency) > 0 in every 1s")
    assert (code, "or write `rate(chat.latency)`" in err) == (2, True)
    code, _, err = gate(ground, "throughput(chat.failed_latency) > 0")
    assert (code, "use `rate(chat.failed_latency)`" in err) == (2, True)
