"""Notifications of real runs, at a real receiver: each event once, the verdict of gates, and no secret anywhere."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.gateway_run import Client, until
from tests.notification_receiver import SECRET, NotificationReceiver
from tests.process.conftest import Ground

pytestmark = pytest.mark.slow
TRAINS = """
import sys, time, telemetry
run = telemetry.start("job")
for step in range(30):
    run.log({"loss": float("nan") if step == 10 else 1.0 / (step + 1), "acc": step / 30}, step=step)
    if step == 12:
        run.mark("out of memory", severity="error", rank=3)
run.finish()
sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
"""
STALLS = """
import os, time, telemetry
run = telemetry.start("job")
run.log({"loss": 0.5}, step=0)
run.end_step(0)
while not os.path.exists("go"):
    time.sleep(0.02)
run.log({"loss": 0.25}, step=1)
while not os.path.exists("enough"):
    time.sleep(0.02)
"""
SLOW_TO_END = """
import os, signal, time, telemetry
signal.signal(signal.SIGTERM, lambda *_: open("told", "w").close())
run = telemetry.start("job")
errors = run.counter("errors")
while not os.path.exists("enough"):
    errors.add(1)
    time.sleep(0.02)
"""


@pytest.fixture
def receiver() -> Iterator[NotificationReceiver]:
    with NotificationReceiver() as made:
        yield made


def python(ground: Ground, text: str, *arguments: str) -> list[str]:
    return ["--", sys.executable, ground.program("job.py", text), *arguments]


def touch(ground: Ground, name: str) -> None:
    (ground.folder / name).touch()


def test_a_run_tells_what_happened_and_how_it_ended(ground: Ground, receiver: NotificationReceiver) -> None:
    """NaN, an error mark, and one message for the end, which has the verdict of the gates."""
    words = [
        "--name",
        "trainer",
        "--notify",
        receiver.url,
        "--gate",
        "last(loss) < 0.001",
        "--gate",
        "last(acc) > 0",
    ]
    code, _, err = ground.run("run", *words, *python(ground, TRAINS))
    assert code == 99, err
    assert receiver.one("NaN").title == "trainer: loss is NaN or infinite at step 10"
    error = receiver.one("error")
    assert error.title == "trainer: error: out of memory"
    assert "rank: 3" in error.body
    end = receiver.got[-1]
    assert end.title == "trainer ended: gate failed: last(loss) < 0.001"
    assert "step 29" in end.body
    assert "gate failed: last(loss) < 0.001: 0.0333 is not < 0.001" in end.body
    assert end.look == "failure"
    assert len(receiver.got) == 3, receiver.titles
    assert f"telemetry report {ground.final()['run_id']}" in end.body
    assert "notify: see json://***" in err
    assert json.loads((ground.folder / "runs" / "latest" / "gates.json").read_text())["gates"]


@pytest.mark.parametrize(
    ("argument", "title"), [("0", "job ended: step 29"), ("7", "job failed: exit code 7")], ids=["well", "failed"]
)
def test_the_end_of_a_command(ground: Ground, receiver: NotificationReceiver, argument: str, title: str) -> None:
    """A setting with an address and events is enough to notify the end of a command without gates."""
    (ground.folder / "telemetry.toml").write_text(
        f'[notify]\nurls = ["{receiver.url}"]\nevents = ["failed", "ended", "start"]\n'
    )
    code, _, err = ground.run("run", "--name", "job", *python(ground, TRAINS, argument))
    assert code == int(argument), err
    assert [one.partition(",")[0] for one in receiver.titles] == ["job started", title]


def test_a_switch_turns_all_off(ground: Ground, receiver: NotificationReceiver) -> None:
    """The flag `--no-notify` turns off all notifications of one run, in spite of the setting."""
    environ = {"TELEMETRY_NOTIFY__URLS": receiver.url}
    code, _, err = ground.run("run", "--no-notify", *python(ground, TRAINS), environ=environ)
    assert code == 0, err
    assert receiver.tries == 0
    assert not (ground.folder / "runs" / "latest" / "backends").exists()


def test_a_gate_that_stops_the_command_is_told_at_once(ground: Ground, receiver: NotificationReceiver) -> None:
    """The notification of a gate that stops the command comes before the command has ended.

    The command may take its time to end, and the notification of its end names the gate again.
    """
    words = ["--notify", receiver.url, "--gate", "value(errors) == 0", "--abort-on-fail", "--name", "job"]
    child = ground.telemetry("run", *words, *python(ground, SLOW_TO_END))
    receiver.await_title("gate failed, the command is stopped")
    assert child.poll() is None
    touch(ground, "enough")
    _, err = child.communicate(timeout=90)
    assert child.returncode == 99, err
    assert receiver.got[-1].title == "job was stopped: gate failed: value(errors) == 0"
    assert len(receiver.got) == 2, receiver.titles


def test_a_stall_and_its_end(ground: Ground, receiver: NotificationReceiver) -> None:
    """A stall and its end are notified once each, while the machine's own figures go on."""
    environ = {"TELEMETRY_NOTIFY__STALLED_S": "1", "TELEMETRY_COLLECT__NAMES": "host"}
    child = ground.telemetry(
        "run", "--name", "job", "--notify", receiver.url, *python(ground, STALLS), environ=environ
    )
    receiver.await_title("job stalled: nothing new for")
    touch(ground, "go")
    receiver.await_title("job goes on after")
    touch(ground, "enough")
    _, err = child.communicate(timeout=90)
    assert child.returncode == 0, err
    receiver.one("goes on")
    assert "step 0 · loss 0.5" in receiver.got[0].body
    assert receiver.got[-1].title.startswith("job ended: step 1")


def test_an_error_through_the_gateway_is_told(ground: Ground, receiver: NotificationReceiver) -> None:
    """`POST /metrics/log_error`."""
    text = "import os, time\nopen('url.part', 'w').write(os.environ['TELEMETRY_GATEWAY_URL'])\n"
    text += "os.rename('url.part', 'url')\nwhile not os.path.exists('enough'): time.sleep(0.02)\n"
    child = ground.telemetry(
        "run", "--name", "job", "--gateway", "0", "--notify", receiver.url, *python(ground, text)
    )
    url = ground.folder / "url"
    until(url.exists, "an address of the gateway")
    client = Client(url.read_text())
    body = {"error_message": "rollout worker 3 died", "error_traceback": "Traceback …"}
    assert client.post("/metrics/log_error", body).status in (200, 202)
    client.close()
    receiver.await_title("job: error: rollout worker 3 died")
    touch(ground, "enough")
    _, err = child.communicate(timeout=90)
    assert child.returncode == 0, err


def test_an_interrupted_run_says_so(ground: Ground, receiver: NotificationReceiver) -> None:
    """Ctrl-C reaches the command; the run has its result."""
    child = ground.telemetry("run", "--name", "job", "--notify", receiver.url, *python(ground, STALLS))
    until((ground.folder / "runs" / "latest" / "records" / "records.jsonl").exists, "a record")
    os.killpg(child.pid, signal.SIGINT)
    child.communicate(timeout=90)
    receiver.one("job was interrupted")


def test_no_secret_is_on_disk_or_on_a_command_line(ground: Ground, receiver: NotificationReceiver) -> None:
    """Only the process that the user typed the address into has the secret on its command line.

    Other processes of the run do not have it, and no file has it.
    """
    shown: set[str] = set()
    address = f"{receiver.port}/{SECRET}"
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            for entry in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    words = (entry / "cmdline").read_bytes().decode(errors="replace")
                    if address in words:
                        shown.add(words)
            time.sleep(0.02)

    watcher = threading.Thread(target=look)
    watcher.start()
    receiver.is_down = True  # errors of the library quote addresses
    environ = {"TELEMETRY_BACKENDS__FINISH_TIMEOUT_S": "3", "TELEMETRY_NOTIFY__EVENTS": "start,failed,ended"}
    command = python(ground, STALLS)
    child = ground.telemetry("run", "--name", "job", "--notify", receiver.url, *command, environ=environ)
    receiver.until(lambda: receiver.tries)
    touch(ground, "go")
    touch(ground, "enough")
    out, err = child.communicate(timeout=90)
    tries = receiver.tries
    child = ground.telemetry("serve", "--name", "job", f"--notify={receiver.url}", environ=environ)
    receiver.until(lambda: receiver.tries > tries)
    child.send_signal(signal.SIGTERM)
    more = child.communicate(timeout=90)
    over.set()
    watcher.join()
    assert all("\0run\0" in words or "\0serve\0" in words for words in shown), shown
    assert not any("\0--ready-fd\0" in words or "\0--writer\0" in words for words in shown), shown
    assert "json://***" in err
    assert SECRET not in out + err + "".join(more)
    files = [path for path in ground.folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []
    manifests = [json.loads(path.read_text()) for path in ground.folder.glob("runs/*/manifest.json")]
    assert any("--notify=json://***" in manifest["argv"] for manifest in manifests)


def test_a_sweep_hands_the_address_on_in_the_environment(ground: Ground, receiver: NotificationReceiver) -> None:
    """Each run of it notifies."""
    words = ["--param", "x=1,2", "--env", "--notify", receiver.url, "--name", "job", "--quiet"]
    code, _, err = ground.run("sweep", *words, *python(ground, TRAINS))
    assert code == 0, err
    assert sum("ended" in title for title in receiver.titles) == 2, receiver.titles


def test_a_program_that_starts_its_own_run_notifies(ground: Ground, receiver: NotificationReceiver) -> None:
    """A program that starts its own run notifies by the setting, without `telemetry run`."""
    child = ground.popen(*python(ground, TRAINS)[1:], environ={"TELEMETRY_NOTIFY__URLS": receiver.url})
    _, err = child.communicate(timeout=90)
    assert child.returncode == 0, err
    receiver.one("job: loss is NaN or infinite at step 10")
    assert receiver.titles[-1].startswith("job ended: step 29")


def test_a_relax_program_keeps_its_option(ground: Ground, receiver: NotificationReceiver) -> None:
    """`notify_urls` of its arguments, in a run that it starts itself."""
    text = "import sys, telemetry\nfrom argparse import Namespace\nfrom telemetry.compat import relax\n"
    text += "relax.init_tracking(Namespace(use_metrics_service=False, notify_urls=sys.stdin.read()))\n"
    text += "relax.log(None, {'step': 1, 'loss': float('inf')}, 'step')\n"
    child = ground.popen(sys.executable, ground.program("job.py", text), stdin=subprocess.PIPE)
    _, err = child.communicate(f"{receiver.url}?freq=10", timeout=90)
    assert child.returncode == 0, err
    receiver.one("loss is NaN or infinite")
    assert " ended" in receiver.titles[-1]
    assert SECRET not in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--notify", "nosuch://s3cretword"],
            "can't send notifications to nosuch://***: Apprise has no such service",
        ),
        (["--notify", "slack://s3cretword"], "can't send notifications to slack://***: "),
        (["--to", "notify"], "--to notify has no receiver"),
    ],
    ids=["service", "part", "none"],
)
def test_a_wrong_address_is_found_before_the_command_starts(ground: Ground, words: list[str], said: str) -> None:
    """A wrong address ends `telemetry run` with exit code 2. The message does not show the secret."""
    code, _, err = ground.run("run", *words, "--", "touch", "ran")
    assert code == 2, err
    assert said in err
    assert "s3cretword" not in err
    assert not (ground.folder / "ran").exists()


def test_a_missing_library_is_named_with_its_extra(ground: Ground) -> None:
    """A missing library is reported with its extra before the command starts, too."""
    (ground.folder / "sitecustomize.py").write_text(
        "import importlib.util as util\nfind = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'apprise' else find(name, *rest)\n"
    )
    environ = {"PYTHONPATH": str(ground.folder)}
    code, _, err = ground.run("run", "--notify", "json://127.0.0.1", "--", "touch", "ran", environ=environ)
    assert code == 2, err
    assert "pip install 'telemetryd[notify]'" in err
    assert not (ground.folder / "ran").exists()


def test_an_address_can_be_tried(ground: Ground, receiver: NotificationReceiver) -> None:
    """`telemetry notify test`: each receiver by itself, with the reason of a failure."""
    code, _, err = ground.run("notify", "test", receiver.url)
    assert (code, err.strip()) == (0, "telemetry: json://***: delivered")
    assert receiver.one("this is a test").body.startswith("Notifications arrive.")
    environ: dict[str, Any] = {"TELEMETRY_NOTIFY__URLS": f"{receiver.url},json://127.0.0.1:9/s3cretword"}
    code, _, err = ground.run("notify", "test", environ=environ)
    assert code == 6
    assert "json://***: not delivered: " in err
    assert "s3cretword" not in err
    code, _, err = ground.run("notify", "test", "nosuch://s3cretword")
    assert code == 2
    code, _, err = ground.run("notify", "test")
    assert (code, "no receiver of notifications is configured" in err) == (2, True)
    code, out, err = ground.run("notify")
    assert (code, out, "set notify.urls" in err) == (0, "", True)
    code, out, err = ground.run("notify", environ=environ)
    assert (code, out.count("json://***  (environment TELEMETRY_NOTIFY__URLS)\n")) == (0, 2)
    assert "s3cretword" not in out + err
