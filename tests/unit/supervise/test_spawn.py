"""Starting an aggregator: its ready message, its errors, its last words."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from telemetry.errors import EndpointError, RunDirectoryError, TelemetryError, UsageError
from telemetry.supervise import spawn as spawn_module
from telemetry.supervise.spawn import SpawnedAggregator, StartConditions, respawn, spawn
from telemetry.testing.aggregator import FakeAggregator
from telemetry.wire.snapshot import BackendStat

pytestmark = pytest.mark.slow


def dead_aggregator() -> SpawnedAggregator:
    return SpawnedAggregator(
        endpoint="",
        snapshots="",
        run_id="r",
        name="job",
        directory="/the/run",
        process=None,  # type: ignore[arg-type]
        conditions=StartConditions(dict(os.environ), None, os.getpid()),
    )


@pytest.fixture
def instead(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    """`instead(body)` makes the interpreter a script that sees the arguments as `words` and the pipe as `ready`."""

    def install(body: str) -> None:
        script = short_dir / "python"
        script.write_text(
            f"#!{sys.executable}\nimport json, os, sys, time\nwords = sys.argv[1:]\n"
            f"ready = os.fdopen(int(words[words.index('--ready-fd') + 1]), 'w')\n{body}\n"
        )
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setattr(spawn_module.sys, "executable", str(script))

    return install


def test_a_ready_aggregator_is_greeted(short_dir: Path, instead: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name may begin with a dash; flags go as configuration variables; another run's endpoint does not."""
    monkeypatch.setenv("TELEMETRY_ENDPOINT", "ipc:///other")
    seen = short_dir / "seen"
    with FakeAggregator(short_dir) as fake:
        instead(  # type: ignore[operator]
            "environ = {name: text for name, text in os.environ.items() if 'TELEMETRY' in name}\n"
            f"open({str(seen)!r}, 'w').write(json.dumps([words, environ]))\n"
            f'print(\'{{"endpoint": "{fake.endpoint}"}}\', file=ready, flush=True)\ntime.sleep(60)'
        )
        flags = {"run.dir": "here", "journal.enabled": False, "emit.policy": None}
        backends = [BackendStat(name="w", kind="jsonl")]
        made = spawn("-job", flags, owner_pid=os.getpid(), timeout_s=20.0, backends=backends)
        assert (made.endpoint, made.run_id, made.gone) == (fake.endpoint, "fake", False)
        made.process.kill()
        made.process.wait()
        assert made.gone
    words, environ = json.loads(seen.read_text())
    assert words[:6] == ["-P", "-m", "telemetry", "serve", "--name=-job", "--backend=jsonl=w"]
    assert words[-2:] == ["--owner-pid", str(os.getpid())]
    assert environ["TELEMETRY_RUN__DIR"] == "here"
    assert environ["TELEMETRY_JOURNAL__ENABLED"] == "false"
    assert "TELEMETRY_ENDPOINT" not in environ


def test_another_is_started_under_the_same_circumstances(
    short_dir: Path, instead: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another aggregator starts under the same circumstances.

    Later changes of the environment, of flags in it and of the working directory have no effect.
    """
    seen = short_dir / "seen"
    monkeypatch.setenv("TELEMETRY_LIMITS__SERIES", "7")
    monkeypatch.chdir(short_dir)
    with FakeAggregator(short_dir) as fake:
        instead(  # type: ignore[operator]
            "names = ['TELEMETRY_LIMITS__SERIES', 'TELEMETRY_RUN__DIR', 'TELEMETRY_ENDPOINT']\n"
            "environ = {name: os.environ[name] for name in names if name in os.environ}\n"
            f"open({str(seen)!r}, 'a').write(json.dumps([words, environ, os.getcwd()]) + '\\n')\n"
            f'print(\'{{"endpoint": "{fake.endpoint}"}}\', file=ready, flush=True)'
        )
        first = spawn("job", {"run.dir": "here"}, owner_pid=5, timeout_s=20.0)
        first.process.wait()
        monkeypatch.setenv("TELEMETRY_LIMITS__SERIES", "8")
        monkeypatch.setenv("TELEMETRY_ENDPOINT", fake.endpoint)
        monkeypatch.chdir("/")
        second = respawn(replace(first, directory="/the/run"), 20.0)
        second.process.wait()
    before, after = map(json.loads, seen.read_text().splitlines())
    assert before[1:] == after[1:]
    assert after[1] == {"TELEMETRY_LIMITS__SERIES": "7", "TELEMETRY_RUN__DIR": "here"}
    assert after[0][3:6] == ["serve", "--resume", "/the/run"]
    assert after[0][-2:] == before[0][-2:] == ["--owner-pid", "5"]
    assert (second.run_id, second.endpoint) == (first.run_id, first.endpoint)


def test_the_programs_service_manager_hears_nothing_of_the_aggregator(monkeypatch: pytest.MonkeyPatch) -> None:
    """READY=1 and STOPPING=1 are the program's to say."""
    for variable in ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.setenv(variable, "1")
        assert variable not in spawn_module.environment({})


def test_files_beside_the_program_are_no_modules_of_the_aggregator(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A working directory may hold a `secrets.py` of its own."""
    (short_dir / "secrets.py").write_text("raise SystemExit('not this one')")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_dir))
    monkeypatch.chdir(short_dir)
    made = spawn("job", {}, owner_pid=os.getpid(), timeout_s=30.0)
    made.process.terminate()
    made.process.wait(30)
    assert (Path(made.directory) / "final_snapshot.json").exists()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("RunDirectoryError", RunDirectoryError), ("UsageError", UsageError), ("Unheard", TelemetryError)],
)
def test_the_aggregators_error_is_raised_as_its_own(
    instead: object, kind: str, expected: type[TelemetryError]
) -> None:
    """The error of the aggregator keeps its message and its hint."""
    instead(f"""print('{{"error": "no room", "hint": "tidy", "kind": "{kind}"}}', file=ready)""")  # type: ignore[operator]
    with pytest.raises(expected) as raised:
        spawn("job", {}, owner_pid=1, timeout_s=20.0)
    assert (raised.value.message, raised.value.hint) == ("no room", "tidy")


def test_an_aggregator_that_dies_without_a_word_has_last_words(instead: object) -> None:
    """The end of its stderr is in the error."""
    instead("sys.exit('ImportError: no module named such')")  # type: ignore[operator]
    with pytest.raises(EndpointError, match="exited before it was ready: ImportError: no module named such"):
        spawn("job", {}, owner_pid=1, timeout_s=20.0)


@pytest.mark.parametrize("stubborn", [False, True])
def test_an_aggregator_that_never_gets_ready_is_not_waited_for_long(
    short_dir: Path, instead: object, monkeypatch: pytest.MonkeyPatch, stubborn: bool
) -> None:
    """An aggregator that never gets ready is ended and leaves no process, not even a zombie."""
    monkeypatch.setattr(spawn_module, "_LAST_RESPECTS_S", 0.2)
    pid_file = short_dir / "pid"
    ignore = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if stubborn else ""
    instead(f"{ignore}open({str(pid_file)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)")  # type: ignore[operator]
    with pytest.raises(EndpointError, match="was not ready within"):
        spawn("job", {}, owner_pid=1, timeout_s=2.0)
    assert not Path(f"/proc/{pid_file.read_text()}").exists()


@pytest.mark.parametrize("ready", [False, True])
def test_a_follower_that_cannot_be_taken_over_is_not_asked_to_end(
    short_dir: Path, instead: object, ready: bool
) -> None:
    """A new aggregator that can't be taken over gets no SIGTERM, which would mean the end of the run.

    The journal has all that it knows, whether it is ready or not.
    """
    pid_file, asked = short_dir / "pid", short_dir / "asked"
    silent = f'print(\'{{"endpoint": "ipc://{short_dir}/nobody"}}\', file=ready, flush=True)\n' if ready else ""
    instead(  # type: ignore[operator]
        f"import signal\nsignal.signal(signal.SIGTERM, lambda *_: open({str(asked)!r}, 'w'))\n"
        f"open({str(pid_file)!r}, 'w').write(str(os.getpid()))\n{silent}time.sleep(60)"
    )
    with pytest.raises(EndpointError, match="no aggregator answered at" if ready else "was not ready within"):
        respawn(dead_aggregator(), 3.0)
    assert not asked.exists()
    assert not Path(f"/proc/{pid_file.read_text()}").exists()


@pytest.mark.parametrize("state", ["LIVE", "DRAINING"])
def test_who_takes_over_learns_whether_the_run_ends(short_dir: Path, instead: object, state: Any) -> None:
    """A run that was asked to end goes on only to its end."""
    with FakeAggregator(short_dir) as fake:
        fake.state = state
        instead(f'print(\'{{"endpoint": "{fake.endpoint}"}}\', file=ready, flush=True)')  # type: ignore[operator]
        made = respawn(dead_aggregator(), 20.0)
        made.process.wait()
    assert made.ending == (state == "DRAINING")


@pytest.mark.parametrize("what", ["tempfile.TemporaryFile", "os.pipe", "subprocess.Popen"])
def test_a_machine_without_room_is_an_error_that_may_pass(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """A lack of descriptors is an error of the start, and no descriptor stays open.

    Another try must not use up the rest.
    """
    module, name = what.split(".")

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(getattr(spawn_module, module), name, fail)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(EndpointError, match=r"can't start .*: Too many open files"):
        respawn(dead_aggregator(), 1.0)
    assert os.listdir("/proc/self/fd") == before


def test_an_interpreter_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen program has none."""
    monkeypatch.setattr(spawn_module.sys, "executable", "/no/python")
    with pytest.raises(EndpointError, match="can't start /no/python"):
        spawn("job", {}, owner_pid=1, timeout_s=1.0)
