"""Every way a run ends, on a real aggregator: the state, the file, the time it takes."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.processes import KILLED

from telemetry.errors import EndpointError, RunDirectoryError
from telemetry.history.result import final_report
from telemetry.transport import ControlClient, subscribe
from telemetry.wire.control import Ping, Pong

FLOOD = """
import os, telemetry
run = telemetry.start("flood", policy="block")
value = run.series("value", unit="1")
print("up", flush=True)
number = 0
while True:
    value.record(number % 1000)
    number += 1
"""
INTERRUPT_FILE_S = 2.0
SLACK = 5  # deadlines on a shared machine are asserted at five times their figure


def test_sigterm_in_a_flood_leaves_a_file_at_once_and_an_exact_one_soon(ground: Any, wait_until: Any) -> None:
    """Bucket precision first, marked interrupted, then the same counts with exact percentiles."""
    aggregator, endpoint = ground.serve()
    flood = ground.popen(
        sys.executable, ground.program("flood.py", FLOOD), environ={"TELEMETRY_ENDPOINT": endpoint}
    )
    flood.stdout.readline()
    with subscribe(endpoint) as snapshots:
        wait_until(lambda: next(snapshots).accounting.applied > 2_000_000, 60.0, "a flood")
    begun = time.monotonic()
    aggregator.send_signal(signal.SIGTERM)
    file = ground.folder / "runs" / "latest" / "final_snapshot.json"
    wait_until(file.exists, INTERRUPT_FILE_S * SLACK, "the first final file")
    first = ground.final()
    assert time.monotonic() - begun < INTERRUPT_FILE_S * SLACK
    assert (first["state"], first["completeness"]) == ("INTERRUPTED", "interrupted")
    aggregator.communicate(timeout=90)
    assert aggregator.returncode == 0
    final = ground.final()
    assert final["state"] == "INTERRUPTED"
    assert final["reason"] == "stopped by SIGTERM"
    assert final["exact"] is True, final["exact_reason"]
    (series,) = final["series"]
    assert series["count"] == final["accounting"]["applied"]
    assert series["count"] >= first["series"][0]["count"]
    # values are 0 … 999 over and over, so the order statistics are known
    full, rest = divmod(series["count"], 1000)
    assert series["total"] == full * 499_500 + rest * (rest - 1) // 2
    assert series["percentiles"]["50"] in (499, 500)
    assert series["percentiles"]["99"] in (989, 990)


def test_a_second_signal_gives_up_exactness_and_says_so(ground: Any) -> None:
    """Two SIGTERMs in a row still leave a whole file and exit 0."""
    aggregator, _ = ground.serve()
    aggregator.send_signal(signal.SIGTERM)
    aggregator.send_signal(signal.SIGINT)
    aggregator.communicate(timeout=30)
    assert aggregator.returncode == 0
    assert ground.final()["state"] == "INTERRUPTED"


def test_finish_ends_an_embedded_run_and_returns_the_final_report(ground: Any) -> None:
    """The process that started the aggregator gets COMPLETE by pub/sub, and the aggregator is gone afterwards."""
    program = ground.program(
        "own.py",
        "import telemetry, json\n"
        "with telemetry.start('own') as run:\n"
        "    for n in range(100): run.series('v', unit='1').record(n)\n"
        "r = run.report\n"
        "print(json.dumps([r.source, r.state, r.completeness, r.series('v').percentiles['50'], r.final]))\n",
    )
    owner = ground.popen(sys.executable, program)
    out, err = owner.communicate(timeout=60)
    assert json.loads(out) == ["pubsub", "COMPLETE", "complete", 49, True], err
    assert ground.live() == []
    assert ground.final()["name"] == "own"


def test_a_killed_owner_is_noticed_and_named(ground: Any, wait_until: Any) -> None:
    """The result names the process that started the aggregator and was then ended by kill -9.

    The reason in the result says that this process never finished.
    """
    program = ground.program(
        "own.py",
        "import telemetry\nrun = telemetry.start('own')\nv = run.series('v')\nprint(run.directory, flush=True)\n"
        "while True: v.record(1)\n",
    )
    owner = ground.popen(sys.executable, program)
    directory = Path(owner.stdout.readline().strip())
    owner.kill()
    wait_until((directory / "final_snapshot.json").exists, 30.0, "the final file")
    final = ground.final(directory.name)
    assert final["state"] == "COMPLETE"
    assert final["completeness"] in (KILLED, "lossy" if KILLED == "complete" else KILLED)
    assert f"process {owner.pid}" in final["reason"]
    assert [producer["pid"] for producer in final["producers"]] == [owner.pid]


def test_what_was_recorded_for_a_dead_aggregator_is_missing_not_forgotten(ground: Any, wait_until: Any) -> None:
    """The owner's report without a journal falls back to the last live snapshot.

    It adds what the producer itself knows.
    """
    program = ground.program(
        "own.py",
        "import json, sys, telemetry\nrun = telemetry.start('own', journal=False)\nn = run.counter('n')\n"
        "for _ in range(10): n.add()\n"
        "while run.live_report().snapshot.accounting.applied < 10: pass\n"
        "print('up', flush=True)\nsys.stdin.readline()\n"
        "for _ in range(1000): n.add()\n"
        "r = run.finish(timeout=4)\na = r.snapshot.accounting\n"
        "print(json.dumps([r.source, r.completeness, a.emitted, a.applied, a.missing]))\n",
    )
    owner = ground.popen(sys.executable, program, stdin=subprocess.PIPE)
    owner.stdout.readline()
    wait_until(lambda: json.loads(ground.run("status", "own", "--json")[1])["accounting"]["applied"] == 10)
    (live,) = ground.live()
    os.kill(live["pid"], signal.SIGKILL)
    out, err = owner.communicate("go\n", timeout=60)
    source, completeness, emitted, applied, missing = json.loads(out)
    assert (source, completeness, emitted) == ("last_live", "incomplete", 1010), err
    assert applied in (0, 10)
    assert missing == 1010 - applied


def test_what_nobody_has_any_more_is_not_waited_for(ground: Any) -> None:
    """A new aggregator at the address of a dead one, without its journal: the producer says which batches it can't
    send again, and ends at once, with what is missing named."""
    program = ground.program(
        "job.py",
        "import json, sys, time, telemetry\nrun = telemetry.start('x')\nn = run.counter('n')\n"
        "for _ in range(10): n.add()\nprint('up', flush=True)\nsys.stdin.readline()\n"
        "while getattr(run._process.flusher.welcome, 'run_id', run.run_id) == run.run_id: time.sleep(0.01)\n"
        "for _ in range(5): n.add()\nbegun = time.monotonic()\n"
        "a = run.finish().snapshot.accounting\n"
        "print(json.dumps([time.monotonic() - begun, a.emitted, a.applied, a.missing, a.unrepairable]))\n",
    )
    address = f"ipc://{ground.folder}/c"
    first, _ = ground.serve("--bind", address)
    producer = ground.popen(sys.executable, program, stdin=subprocess.PIPE, environ={"TELEMETRY_ENDPOINT": address})
    producer.stdout.readline()
    with subscribe(address, conflate=False) as snapshots:  # the tick after it was applied acknowledges it
        assert all(next(s for s in snapshots if s.accounting.applied == 10) for _ in range(3))
    first.kill()
    first.wait()
    second, _ = ground.serve("--bind", address)
    out, err = producer.communicate("go\n", timeout=60)
    took_s, *account, unrepairable = json.loads(out)
    assert account == [15, 5, 10], err
    assert unrepairable > 0
    assert took_s < 2.0 * SLACK
    second.send_signal(signal.SIGTERM)
    second.communicate(timeout=30)
    (stat,) = ground.final()["producers"]
    assert (stat["status"], stat["completeness"]) == ("ended", "lossy")
    assert stat["unrepairable_batches"] == [[0, unrepairable - 1]]


def test_one_killed_producer_of_two_is_the_one_that_is_named(ground: Any) -> None:
    """The other's account is complete; `stop` need not wait for the dead one until the deadline."""
    _, endpoint = ground.serve()
    environ = {"TELEMETRY_ENDPOINT": endpoint}
    good = ground.popen(
        sys.executable,
        ground.program("good.py", "import telemetry\nr = telemetry.start('g')\nr.counter('n').add(5)\n"),
        environ=environ,
    )
    bad = ground.popen(sys.executable, ground.program("bad.py", FLOOD), environ=environ)
    bad.stdout.readline()
    good.communicate(timeout=30)
    bad.kill()
    bad.wait()
    begun = time.monotonic()
    code, _, err = ground.run("stop", "job", "--reason", "enough")
    assert code == 0, err
    assert time.monotonic() - begun < 8.0, "waited for a dead producer until the deadline"
    final = ground.final()
    verdicts = {producer["pid"]: producer["completeness"] for producer in final["producers"]}
    assert verdicts.keys() == {good.pid, bad.pid}
    assert verdicts[good.pid] == "complete"
    assert (final["completeness"], final["reason"]) == (verdicts[bad.pid], "enough")
    if KILLED == "incomplete":
        assert verdicts[bad.pid] == "incomplete"
    else:  # whoever records without a pause may be too fast for the aggregator
        (killed,) = (producer for producer in final["producers"] if producer["pid"] == bad.pid)
        assert (killed["completeness"] in ("complete", "lossy"), killed["missing"]) == (True, 0)
    assert final["counters"][0]["value"] == 5


def test_stop_asks_living_producers_to_end(ground: Any) -> None:
    """A producer in mid-run flushes and ends when the run is stopped, so that nothing of before is missing. What it
    records afterwards is, so the result is not complete."""
    aggregator, endpoint = ground.serve()
    program = ground.program(
        "job.py",
        "import os, time, telemetry\nrun = telemetry.start('j')\nn = run.counter('n')\nprint('up', flush=True)\n"
        "while not os.path.exists('go'): n.add(1); time.sleep(0.001)\n",
    )
    job = ground.popen(sys.executable, program, environ={"TELEMETRY_ENDPOINT": endpoint})
    job.stdout.readline()
    code, _, err = ground.run("stop", "job")
    assert code == 0, err
    aggregator.communicate(timeout=30)
    final = ground.final()
    assert (final["state"], final["completeness"]) == ("COMPLETE", "incomplete"), final["producers"]
    assert [producer["unfinished"] for producer in final["producers"]] == [True]
    assert final["accounting"]["missing"] == 0
    (ground.folder / "go").touch()
    _, err = job.communicate(timeout=30)
    assert job.returncode == 0
    assert "after" in err, "what was recorded after the end is said"


def test_one_call_waits_for_the_result(ground: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call returns the result from the aggregator, else from disk, else from the newest snapshot.

    The result names its source.
    """
    monkeypatch.chdir(ground.folder)
    aggregator, endpoint = ground.serve()
    directory = str((ground.folder / "runs" / "latest").resolve())
    for source in (endpoint, directory, "job"):
        early = final_report(source, 0.1)
        assert (early.source, early.final, early.state) == ("last_live", False, "INITIALIZE")
        assert "the run is still going" in early.source_reason
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(final_report, source=endpoint, timeout_s=60.0)
        assert ground.run("stop", "job")[0] == 0
        published = waiting.result()
    assert (published.source, published.state, published.directory) == ("pubsub", "COMPLETE", directory)
    aggregator.communicate(timeout=30)
    for source in (directory, "latest", Path(directory) / "final_snapshot.json"):
        written = final_report(source)
        assert (written.source, written.snapshot) == ("file", published.snapshot)
    with pytest.raises(EndpointError, match="no aggregator answers at"):
        final_report(endpoint)


def test_one_call_does_not_wait_for_a_dead_aggregator(ground: Any) -> None:
    """The call names the way to a result of a dead aggregator at once, because nobody restarts it."""
    aggregator, _ = ground.serve()
    aggregator.kill()
    aggregator.communicate(timeout=30)
    with pytest.raises(RunDirectoryError, match=r"its aggregator died.*telemetry recover"):
        final_report((ground.folder / "runs" / "latest").resolve(), math.inf)


OUTLIVES = """
import os, sys, time, telemetry
run = telemetry.start("j")
run.counter("n").add(1)
print("up", flush=True)
sys.stdin.readline()
if "fork" in sys.argv and (child := os.fork()):
    sys.exit(os.waitpid(child, 0)[1])
if "fork" in sys.argv:
    run.counter("n").add(1)
begun = time.monotonic()
if "exit" not in sys.argv:
    print(run.finish().source, file=sys.stderr)
import atexit
atexit._run_exitfuncs()
print(f"{time.monotonic() - begun:.3f}", flush=True)
"""


@pytest.mark.parametrize("how", ["finish", "fork", "fork exit"])
def test_a_process_that_outlives_its_run_ends_promptly(ground: Any, how: str) -> None:
    """The run has its result and nobody listens any more: `finish`, a forked child's too, and the exit of a child
    wait for nobody."""
    aggregator, endpoint = ground.serve()
    job = ground.popen(
        sys.executable,
        ground.program("job.py", OUTLIVES),
        *how.split(),
        environ={"TELEMETRY_ENDPOINT": endpoint},
        stdin=subprocess.PIPE,
    )
    job.stdout.readline()
    assert ground.run("stop", "job")[0] == 0
    aggregator.communicate(timeout=30)
    out, err = job.communicate("go\n", timeout=60)
    assert job.returncode == 0, err
    assert float(out) < 2.0 * 2.5, (out, err)


def test_a_finish_after_a_kill_waits_two_seconds_for_what_is_acknowledged(ground: Any, wait_until: Any) -> None:
    """Everything was acknowledged and nobody is known who starts another aggregator: two seconds for the end, and
    two for the state so far, are enough."""
    aggregator, endpoint = ground.serve()
    job = ground.popen(
        sys.executable,
        ground.program("job.py", OUTLIVES),
        environ={"TELEMETRY_ENDPOINT": endpoint},
        stdin=subprocess.PIPE,
    )
    job.stdout.readline()
    with subscribe(endpoint) as snapshots:
        wait_until(lambda: next(snapshots).accounting.applied == 1, 10.0, "the event")
        for _ in range(3):  # an acknowledgement is sent with each
            next(snapshots)
    aggregator.kill()
    aggregator.wait()
    out, err = job.communicate("go\n", timeout=60)
    assert "all events were acknowledged" in err
    assert float(out) < 4.0 * 1.8, (out, err)


def test_an_aggregator_whose_producers_are_gone_ends_by_itself(ground: Any) -> None:
    """The run ends as COMPLETE after the grace, without anybody asking."""
    aggregator, endpoint = ground.serve(environ={"TELEMETRY_RUN__ORPHAN_GRACE_S": "0.3"})
    program = ground.program("job.py", "import telemetry\ntelemetry.start('j').counter('n').add(2)\n")
    ground.popen(sys.executable, program, environ={"TELEMETRY_ENDPOINT": endpoint}).communicate(timeout=30)
    _, err = aggregator.communicate(timeout=30)
    assert aggregator.returncode == 0
    assert "complete: job, 1 of 1 event applied, 0 lost" in err
    assert ground.final()["reason"] == "all producers have been gone for 0.3 s"


def test_a_run_directory_that_vanished_does_not_lose_the_result(ground: Any) -> None:
    """The final file goes to the fallback directory, and the report says where."""
    fallback = ground.folder / "spare"
    fallback.mkdir()
    aggregator, _ = ground.serve(environ={"TELEMETRY_RUN__FALLBACK_DIRS": str(fallback)})
    (run,) = ground.live()
    directory = Path(run["dir"])
    moved = directory.with_name("moved")
    directory.rename(moved)
    directory.write_text("in the way")
    aggregator.send_signal(signal.SIGTERM)
    aggregator.communicate(timeout=30)
    assert aggregator.returncode == 0
    (file,) = fallback.iterdir()
    final = json.loads(file.read_text())
    assert final["state"] == "INTERRUPTED"
    assert any(str(file) in warning for warning in final["warnings"])


def test_the_service_manager_is_told(ground: Any) -> None:
    """READY=1 once the sockets are bound, STOPPING=1 at the end."""
    import socket

    address = str(ground.folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(30)
        aggregator, _ = ground.serve(environ={"NOTIFY_SOCKET": address})
        assert manager.recv(100) == b"READY=1"
        aggregator.send_signal(signal.SIGTERM)
        while (message := manager.recv(100)) == b"WATCHDOG=1":
            pass
        assert message == b"STOPPING=1"
        aggregator.communicate(timeout=30)


def test_a_directory_that_cannot_be_made_is_one_line(ground: Any) -> None:
    """A directory that can't be made gives one line, exit code 1, no aggregator and no traceback."""
    (ground.folder / "file").write_text("")
    code, out, err = ground.run("serve", "--name", "x", "--dir", str(ground.folder / "file" / "runs"))
    assert (code, out) == (1, "")
    assert err.startswith("telemetry: ")
    assert err.count("\n") == 1


def test_bad_configuration_is_one_clear_error(ground: Any) -> None:
    """An unknown key names the near miss; exit 2."""
    code, _, err = ground.run("serve", "--name", "x", environ={"TELEMETRY_RUN__REFRESH_HTZ": "3"})
    assert code == 2
    assert "TELEMETRY_RUN__REFRESH_HZ" in err
    assert "Traceback" not in err


def test_two_aggregators_on_one_address(ground: Any) -> None:
    """The second says who has it and ends; the first goes on."""
    bind = f"ipc://{ground.folder}/ctl"
    first, endpoint = ground.serve("--bind", bind)
    code, _, err = ground.run("serve", "--name", "other", "--bind", bind)
    assert code == 1
    assert "in use" in err
    assert err.count("\n") == 1
    assert [run["endpoint"] for run in ground.live()] == [endpoint]
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=30)


def test_the_run_is_found_while_it_lives_and_after_it_died_by_force(ground: Any) -> None:
    """The command `ls` lists a live run, and does not call it live after kill -9 of its aggregator."""
    aggregator, _ = ground.serve()
    assert [run["pid"] for run in ground.live()] == [aggregator.pid]
    os.kill(aggregator.pid, signal.SIGKILL)
    aggregator.wait()
    _, out, _ = ground.run("ls", "--json")
    states = [(run["name"], run["state"]) for run in json.loads(out)]
    assert ("job", "LIVE") not in states
    assert ("job", "INITIALIZE") not in states


def test_more_peers_than_the_soft_limit_of_descriptors(ground: Any) -> None:
    """Each takes one, and ZeroMQ aborts a process that has none left."""
    soft = 64
    script = ground.program(
        "limited.py",
        "import os, resource, sys\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'telemetry', 'serve', '--name', 'job'])\n",
    )
    aggregator = ground.popen(sys.executable, script)
    endpoint = [aggregator.stderr.readline() for _ in range(2)][1].strip().rpartition("=")[2]
    with ExitStack() as peers:
        for _ in range(2 * soft):
            client = peers.enter_context(ControlClient(endpoint))
            assert isinstance(client.request(Ping(), 30.0), Pong)
        aggregator.send_signal(signal.SIGTERM)
        aggregator.communicate(timeout=30)
    assert aggregator.returncode == 0
    assert ground.final()["state"] == "INTERRUPTED"


def test_serve_needs_no_terminal(ground: Any) -> None:
    """The command serve works with all standard streams closed, and exits with 0 after SIGTERM."""
    child = ground.telemetry("serve", "--name", "quiet", stdin=subprocess.DEVNULL)
    while not (live := ground.live()):
        assert child.poll() is None
    os.kill(live[0]["pid"], signal.SIGTERM)
    child.communicate(timeout=30)
    assert child.returncode == 0
