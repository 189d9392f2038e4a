"""Collectors beside real commands: what arrives, and that they never are in the way."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.process.conftest import Ground
from tests.processes import KILLED, processes_with

ON = {"TELEMETRY_COLLECT__NAMES": "host,gpu"}
"""The default, which other tests turn off."""
COLLECTING = "telemetry.collectors.process"
FAMILY = """
import os, subprocess, sys, time, telemetry
run = telemetry.start("job")
child = subprocess.Popen([sys.executable, "-c", "x = b'x' * (60 << 20)\\nwhile True: sum(range(1000))"])
deadline = time.monotonic() + 40
values = run.series("work", unit="ms")
while not os.path.exists("enough") and time.monotonic() < deadline:
    values.record(1.0)
    time.sleep(0.01)
child.kill()
child.wait()
run.finish()
"""
ENOUGH = """
import time
while not __import__("os").path.exists("enough"):
    time.sleep(0.01)
"""


def gauges(final: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Gauges by name, those with labels as `name{key=value}`."""
    found = {}
    for one in final["gauges"]:
        labels = ",".join(f"{key}={value}" for key, value in one["labels"].items())
        found[f"{one['name']}{{{labels}}}" if labels else one["name"]] = one
    return found


def collecting(ground: Ground) -> list[int]:
    """Processes of collectors that this test has started."""
    found = []
    for pid in processes_with(f"XDG_RUNTIME_DIR={ground.folder}"):
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if COLLECTING.encode() in words:
            found.append(pid)
    return found


def live_gauges(ground: Ground) -> dict[str, dict[str, Any]]:
    """The gauges of the run that goes on."""
    code, out, _ = ground.run("status", "--json")
    return gauges(json.loads(out)) if code == 0 else {}


def test_figures_of_machine_and_command_arrive(ground: Ground, wait_until: Callable[..., object]) -> None:
    """Host and the tree of the command, a busy child included, with rates. They are no part of the job: the report
    counts one producer and its events alone."""
    program = ground.program("job.py", FAMILY)
    child = ground.telemetry("run", "--strict", "--", sys.executable, program, environ=ON)
    wait_until(
        lambda: live_gauges(ground).get("process.cpu", {}).get("value"), 40.0, "a rate of the command's tree"
    )
    (ground.folder / "enough").touch()
    _, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    final, found = ground.final(), gauges(ground.final())
    assert final["completeness"] == "complete"
    assert found["process.cpu"]["max"] > 5.0
    assert found["process.memory"]["max"] > 60 << 20
    assert found["process.count"]["max"] >= 2
    assert 0.0 <= found["host.cpu"]["max"] <= 100.0
    assert found["host.memory"]["unit"] == "B"
    of_job = [one for one in final["producers"] if not one["producer"].startswith("telemetry.collectors.")]
    of_collectors = [one for one in final["producers"] if one not in of_job]
    assert [(one["name"], one["status"]) for one in of_collectors] == [("collectors", "ended")]
    assert len(of_job) == 1
    events = of_job[0]["emitted"]
    assert f"{events:,} of {events:,} events applied" in err
    assert "machine: CPU peak " in err
    assert "gpu" not in err.lower()


def test_the_collectors_end_with_the_run(ground: Ground, wait_until: Callable[..., object]) -> None:
    """The collectors leave no process behind when the run ends. The end does not wait for them as for workers."""
    child = ground.telemetry("run", "--", sys.executable, "-c", ENOUGH, environ=ON)
    wait_until(lambda: "host.memory" in live_gauges(ground), 40.0, "the first sample")
    assert len(collecting(ground)) == 1
    (ground.folder / "enough").touch()
    _, err = child.communicate(timeout=60)
    assert (child.returncode, collecting(ground)) == (0, []), err
    assert "waiting" not in err


def test_collectors_that_are_killed_come_back_and_harm_nothing(
    ground: Ground, wait_until: Callable[..., object]
) -> None:
    """A new process goes on. The result is complete, and the exit code that of the command."""
    program = ground.program("job.py", FAMILY)
    child = ground.telemetry("run", "--strict", "--quiet", "--", sys.executable, program, environ=ON)
    wait_until(lambda: "host.memory" in live_gauges(ground), 40.0, "the first sample")
    (first,) = collecting(ground)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: [pid for pid in collecting(ground) if pid != first], 40.0, "another process")

    def several() -> bool:
        code, out, _ = ground.run("status", "--json")
        names = [one["name"] for one in json.loads(out)["producers"]] if code == 0 else []
        return names.count("collectors") == 2

    wait_until(several, 40.0, "a second producer of the collectors")
    (ground.folder / "enough").touch()
    _, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert "the collectors process was killed by signal 9; it is started again" in err
    assert ground.final()["completeness"] == "complete"


def test_collectors_that_do_not_react_are_left_behind(ground: Ground, wait_until: Callable[..., object]) -> None:
    """A stopped process takes no signal to end: it is killed, and the run is complete without its goodbye."""
    child = ground.telemetry("run", "--strict", "--", sys.executable, "-c", ENOUGH, environ=ON)
    wait_until(lambda: "host.memory" in live_gauges(ground), 40.0, "the first sample")
    (pid,) = collecting(ground)
    os.kill(pid, signal.SIGSTOP)
    (ground.folder / "enough").touch()
    _, err = child.communicate(timeout=60)
    assert (child.returncode, collecting(ground)) == (0, []), err
    final = ground.final()
    assert (final["completeness"], [one["status"] == "ended" for one in final["producers"]]) == (
        "complete",
        [KILLED == "complete"],
    )
    assert "never ended" not in err


def test_a_short_command_is_quiet_about_collectors(ground: Ground) -> None:
    """A short command ends before the collectors have begun. This is no reason to wait or to print anything."""
    code, _, err = ground.run("run", "--quiet", "--strict", "--", "true", environ=ON)
    assert (code, err, collecting(ground)) == (0, "", [])


@pytest.mark.parametrize("words", [("--no-collect",), ()])
def test_one_switch_turns_them_off(
    words: tuple[str, ...], ground: Ground, wait_until: Callable[..., object]
) -> None:
    """A flag or a setting. No process is started."""
    environ = ON if words else {"TELEMETRY_COLLECT__NAMES": "none"}
    child = ground.telemetry("run", *words, "--", sys.executable, "-c", ENOUGH, environ=environ)
    wait_until(lambda: ground.run("status", "--json")[0] == 0, 40.0, "the run")
    begin = time.monotonic()
    wait_until(lambda: time.monotonic() - begin > 0.5)
    assert collecting(ground) == []
    (ground.folder / "enough").touch()
    child.communicate(timeout=60)
    assert ground.final()["gauges"] == []


def test_a_collector_that_is_asked_for_must_work(ground: Ground, wait_until: Callable[..., object]) -> None:
    """A collector that is asked for must work: without a GPU, `--collect gpu` prints what is missing.

    With --strict the exit code is 6, and the rest goes on.
    """
    child = ground.telemetry(
        "run", "--strict", "--quiet", "--collect", "gpu", "--", sys.executable, "-c", ENOUGH, environ=ON
    )
    wait_until(lambda: "host.memory" in live_gauges(ground), 40.0, "the first sample")
    (ground.folder / "enough").touch()
    _, err = child.communicate(timeout=60)
    if "gpu" in err:  # a machine with a GPU has nothing to say
        assert "telemetry: gpu: " in err
        assert child.returncode == 6
    else:
        assert any(name.startswith("gpu.") for name in gauges(ground.final()))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("hots", "no collector is named 'hots' (did you mean host?)"),
        ("host:interval=2", "host has no option 'interval' (did you mean interval_s?)"),
        ("host:interval_s=0.01", "interval_s"),
    ],
)
def test_a_wrong_collector_starts_no_run(words: str, said: str, ground: Ground) -> None:
    """A wrong collector is a usage error before anything is started."""
    code, _, err = ground.run("run", "--collect", words, "--", "true")
    assert code == 2
    assert said in err
    assert not (ground.folder / "runs").exists()


def test_a_wrong_setting_is_named(ground: Ground) -> None:
    """The user has not typed it, at least not now."""
    code, _, err = ground.run("run", "--", "true", environ={"TELEMETRY_COLLECT__NAMES": "host,folder"})
    assert code == 2
    assert err.startswith("telemetry: the setting collect.names: no collector is named 'folder' (one of ")


def test_an_aggregator_alone_collects_on_request(ground: Ground, wait_until: Callable[..., object]) -> None:
    """`serve --collect host` has the machine, and no command whose tree could be read. It ends all the same when
    all producers are gone."""
    environ = ON | {"TELEMETRY_RUN__ORPHAN_GRACE_S": "0.2"}
    server, endpoint = ground.serve("--collect", "host", environ=environ)
    wait_until(lambda: "host.cpu" in live_gauges(ground), 40.0, "two samples")
    program = "import telemetry; run = telemetry.start(); run.counter('done').add(); run.finish()"
    code = ground.popen(sys.executable, "-c", program, environ={"TELEMETRY_ENDPOINT": endpoint}).wait(60)
    server.communicate(timeout=60)
    assert (code, server.returncode, collecting(ground)) == (0, 0, [])
    final = ground.final()
    assert "all producers have been gone" in final["reason"]
    assert not any(name.startswith("process.") for name in gauges(final))


def test_a_node_labels_its_figures(ground: Ground, wait_until: Callable[..., object]) -> None:
    """The root has those of each node, told apart."""
    server, endpoint = ground.serve("--nodes", "1")
    child = ground.telemetry(
        "run", "--upstream", endpoint, "--node", "left", "--", sys.executable, "-c", ENOUGH, environ=ON
    )

    def at_root() -> bool:
        code, out, _ = ground.run("status", endpoint, "--json")
        return code == 0 and "host.cpu{node=left}" in gauges(json.loads(out))

    wait_until(at_root, 40.0, "the node's figures at the root")
    (ground.folder / "enough").touch()
    child.communicate(timeout=60)
    server.send_signal(signal.SIGTERM)
    server.communicate(timeout=60)
