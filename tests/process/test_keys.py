"""Runs that other machines reach: with keys, or not at all. A second user stands for the other machine."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ANYWHERE = "tcp://0.0.0.0:*"
BIND = {"TELEMETRY_TRANSPORT__BIND": ANYWHERE}
NO_END = {"TELEMETRY_RUN__ORPHAN_GRACE_S": "0"}
RECORD = """
import telemetry
run = telemetry.start("job")
for value in range(1_000):
    run.series("latency").record(value)
print(run.finish().completeness)
"""
FLOOD = """
import pathlib, sys, telemetry
run = telemetry.start("flood", policy="block")
counter, events = run.counter("n"), 0
print("begun", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    for _ in range(1_000):
        counter.add()
    events += 1_000
run.finish()
print(events)
"""


@pytest.fixture
def stranger(ground: Any) -> dict[str, str]:
    """The environment of another user."""
    (ground.folder / "stranger").mkdir()
    return {"XDG_CONFIG_HOME": str(ground.folder / "stranger")}


def make_keys(ground: Any, environ: dict[str, str] | None = None) -> str:
    """Makes a user's pair; returns the public key."""
    code, out, err = ground.run("keys", "new", environ=environ or {})
    assert code == 0, err
    return str(out.strip())


def serve(ground: Any, *words: str) -> tuple[subprocess.Popen[str], str]:
    child, quoted = ground.serve("--bind", ANYWHERE, *words, environ=NO_END)
    [address] = shlex.split(quoted)
    return child, address


def record(ground: Any, address: str, environ: dict[str, str] | None = None) -> tuple[int, str, str]:
    """(exit code, stdout, stderr) of a program that records a thousand values."""
    program = ground.program("record.py", RECORD)
    child = ground.popen(sys.executable, program, environ={"TELEMETRY_ENDPOINT": address, **(environ or {})})
    out, err = child.communicate(timeout=60)
    return child.returncode, out, err


def ended(child: subprocess.Popen[str]) -> int:
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=60)
    return child.returncode


def test_without_keys_nothing_listens_for_others(ground: Any) -> None:
    """Served, run and embedded alike; the error says how keys are made."""
    program = ground.program("record.py", RECORD)
    for code, _, err in (
        ground.run("serve", "--bind", ANYWHERE),
        ground.run("run", "--", sys.executable, program, environ=BIND),
    ):
        assert code == 1
        assert "is reachable from other machines, but " in err
        assert "telemetry keys new" in err
    child = ground.popen(sys.executable, program, environ=BIND)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "KeysError" in err.splitlines()[-1]
    assert not (ground.folder / "runs").exists()


def test_only_whom_the_owner_trusts_takes_part(ground: Any, stranger: dict[str, str]) -> None:
    """Another user is refused by everything, then trusted while the aggregator runs, and then counted whole."""
    make_keys(ground)
    child, address = serve(ground)
    assert "#" in address
    assert child.stderr is not None
    assert "accepts this user's own key only" in child.stderr.readline()
    assert record(ground, address)[:2] == (0, "incomplete\n")
    plain = address.partition("#")[0]
    for target, environ, words in (
        (address, stranger, "no keys in"),
        (plain, stranger, "requires a key"),
    ):
        code, _, err = record(ground, target, environ)
        assert (code, words in err) == (1, True), err
    key = make_keys(ground, stranger)
    for command in ("status", "stop", "tail"):
        code, _, err = ground.run(command, address, environ=stranger)
        assert (code, "does not trust your key" in err) == (1, True), err
    assert "does not trust your key" in record(ground, address, stranger)[2]
    assert ground.run("keys", "trust", "bob@elsewhere", key)[0] == 0
    assert record(ground, address, stranger)[0] == 0
    assert ground.run("status", address, environ=stranger)[0] == 0
    assert ground.run("stop", address, environ=stranger)[0] == 0
    assert child.wait(60) == 0
    final = ground.final()
    assert (final["completeness"], final["accounting"]["applied"]) == ("complete", 2_000)
    assert len(final["producers"]) == 2
    log = (ground.folder / "runs" / "latest" / "daemon.log").read_text()
    assert f"refused 127.0.0.1: unknown key '{key}'" in log
    assert any("unknown keys" in warning for warning in final["warnings"])


def test_a_trusted_name_stands_for_the_key_in_an_address(ground: Any, stranger: dict[str, str]) -> None:
    """A person types it."""
    owner, other = make_keys(ground), make_keys(ground, stranger)
    assert ground.run("keys", "trust", "bob", other)[0] == 0
    assert ground.run("keys", "trust", "job-host", owner, environ=stranger)[0] == 0
    child, address = serve(ground)
    assert record(ground, address.partition("#")[0] + "#job-host", stranger)[0] == 0
    assert ended(child) == 0


def test_run_and_start_hand_the_key_to_their_children(ground: Any) -> None:
    """A process that the command starts joins by itself. The readers find the run as any other."""
    make_keys(ground)
    program = ground.program(
        "parent.py",
        "import os, subprocess, sys, telemetry\n"
        "run = telemetry.start('parent')\n"
        "assert '#' in os.environ['TELEMETRY_ENDPOINT']\n"
        "subprocess.run([sys.executable, sys.argv[1]], check=True)\n"
        "run.series('latency').record(1.0)\n"
        "print(run.finish().completeness)\n",
    )
    child = ground.program("record.py", RECORD)
    code, out, err = ground.run("run", "--", sys.executable, program, child, environ=BIND)
    assert code == 0, err
    assert ground.final()["accounting"]["applied"] == 1_001
    embedded = ground.popen(sys.executable, program, child, environ=BIND)
    out, err = embedded.communicate(timeout=60)
    assert (embedded.returncode, out.splitlines()[-1]) == (0, "complete"), err
    assert ground.final()["accounting"]["applied"] == 1_001


def test_insecure_is_as_open_as_it_says(ground: Any, stranger: dict[str, str]) -> None:
    """An insecure run needs no keys, has none and uses none."""
    make_keys(ground)
    child, address = serve(ground, "--insecure")
    assert "#" not in address
    assert record(ground, address, stranger)[0] == 0
    assert ended(child) == 0
    assert ground.final()["accounting"]["applied"] == 1_000


def test_an_insecure_run_is_resumed_as_it_was(ground: Any) -> None:
    """An insecure run is resumed if this machine remembers that the user allowed it.

    A directory alone opens no port to others.
    """
    child, address = serve(ground, "--insecure")
    child.kill()
    child.wait(60)
    again = ground.telemetry("serve", "--resume", "latest", environ=NO_END)
    assert again.stderr is not None
    again.stderr.readline()
    assert shlex.split(again.stderr.readline())[-1:] == [f"TELEMETRY_ENDPOINT={address}"]
    again.kill()
    again.wait(60)
    [announcement] = ground.folder.rglob("run.json")
    announcement.unlink()
    code, _, err = ground.run("serve", "--resume", "latest")
    assert (code, "or pass --insecure" in err) == (1, True), err


def test_loopback_needs_no_keys_unless_they_are_demanded(ground: Any, stranger: dict[str, str]) -> None:
    """Loopback needs no keys. On a machine of many users `security.curve` demands them there too."""
    loopback = {"TELEMETRY_TRANSPORT__BIND": "tcp://127.0.0.1:*"}
    show = "import os; print(os.environ['TELEMETRY_ENDPOINT'])"
    code, out, _ = ground.run("run", "--quiet", "--", sys.executable, "-c", show, environ=loopback)
    assert (code, "#" in out) == (0, False)
    loopback["TELEMETRY_SECURITY__CURVE"] = "always"
    code, _, err = ground.run("run", "--quiet", "--", sys.executable, "-c", show, environ=loopback)
    assert (code, "requires keys because of the setting security.curve" in err) == (1, True)
    make_keys(ground)
    code, out, _ = ground.run("run", "--quiet", "--", sys.executable, "-c", show, environ=loopback)
    assert (code, "#" in out) == (0, True)


def test_revoking_somebody_costs_the_others_nothing(
    ground: Any, stranger: dict[str, str], wait_until: Callable[..., Any]
) -> None:
    """All connections are cut and made again in the middle of a flood; what was on the way is sent again."""
    make_keys(ground)
    ground.run("keys", "trust", "bob", make_keys(ground, stranger))
    child, address = serve(ground)
    stop = ground.folder / "stop"
    flood = ground.popen(
        sys.executable, ground.program("flood.py", FLOOD), str(stop), environ={"TELEMETRY_ENDPOINT": address}
    )
    assert flood.stdout is not None
    assert flood.stdout.readline() == "begun\n"
    tail = ground.telemetry("tail", address, "--all", environ=stranger)
    assert tail.stdout is not None
    assert tail.stdout.readline()
    ground.run("keys", "revoke", "bob")
    log: Path = ground.folder / "runs" / "latest" / "daemon.log"
    wait_until(lambda: "unknown key" in log.read_text(), 30.0, "the refusal of who is revoked")
    stop.touch()
    out, err = flood.communicate(timeout=60)
    events = int(out)
    assert ended(child) == 0
    accounting = ground.final()["accounting"]
    assert (accounting["emitted"], accounting["applied"], accounting["missing"]) == (events, events, 0), err


def test_a_producer_that_is_revoked_says_so_and_goes_on(
    ground: Any, stranger: dict[str, str], wait_until: Callable[..., Any]
) -> None:
    """The program is not disturbed; the result names what it lacks."""
    make_keys(ground)
    ground.run("keys", "trust", "bob", make_keys(ground, stranger))
    child, address = serve(ground)
    stop = ground.folder / "stop"
    paced = FLOOD.replace('policy="block"', 'policy="drop", finish_timeout_s=5')
    paced = paced.replace("import pathlib, sys, telemetry", "import pathlib, sys, telemetry, time")
    program = ground.program("paced.py", paced.replace("    events +=", "    time.sleep(0.002)\n    events +="))
    flood = ground.popen(sys.executable, program, str(stop), environ={"TELEMETRY_ENDPOINT": address, **stranger})
    assert flood.stdout is not None
    assert flood.stderr is not None
    assert flood.stdout.readline() == "begun\n"
    ground.run("keys", "revoke", "bob")
    assert "does not trust your key" in flood.stderr.readline()
    stop.touch()
    assert flood.wait(60) == 0
    assert ended(child) == 0
    assert ground.final()["completeness"] != "complete"


def test_a_run_goes_on_under_the_same_address(ground: Any) -> None:
    """The address and key stay the same after the death of the aggregator, so peers need not be told."""
    make_keys(ground)
    child, address = serve(ground)
    assert record(ground, address)[0] == 0
    child.kill()
    child.wait(60)
    again = ground.telemetry("serve", "--resume", "latest", environ=NO_END)
    assert again.stderr is not None
    again.stderr.readline()
    assert shlex.split(again.stderr.readline())[-1] == f"TELEMETRY_ENDPOINT={address}"
    assert record(ground, address)[0] == 0
    assert ended(again) == 0
    assert ground.final()["accounting"]["applied"] == 2_000


@pytest.mark.parametrize("words", [(), ("--insecure",)], ids=["keys were replaced", "no keys any more"])
def test_a_run_does_not_go_on_as_somebody_else(ground: Any, words: tuple[str, ...]) -> None:
    """A run does not go on with another key or none.

    Its peers insist on the key they were told, so its aggregator would wait for ever.
    """
    make_keys(ground)
    child, address = serve(ground)
    assert record(ground, address)[0] == 0
    child.kill()
    child.wait(60)
    assert ground.run("keys", "new", "--force")[0] == 0
    code, _, err = ground.run("serve", "--resume", "latest", *words)
    assert (code, f"of this run expect {address}" in err) == (1, True), err
