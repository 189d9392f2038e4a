"""The wrapped command: real children, real signals."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from telemetry.cli.wrapped import command as job_module
from telemetry.cli.wrapped.command import Job

HANDLED = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCHLD,
)
NOTES_ONE = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
print("up", flush=True)
signal.pause()
"""
CHILD = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
open(sys.argv[1], "w").close()
while True: signal.pause()
"""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[dict[int, object]]:
    """A job takes the process's signal handlers; here they are given back whatever happens."""
    before = {number: signal.getsignal(number) for number in HANDLED}
    wakeup = signal.set_wakeup_fd(-1)
    yield dict(before)
    signal.set_wakeup_fd(wakeup)
    for number, handler in before.items():
        signal.signal(number, handler)


def nothing() -> None:
    """Do nothing in each second of the wait."""


def python(text: str, **environment: str) -> Job:
    return Job([sys.executable, "-c", text], environment)


def test_a_command_that_ends_by_itself(handlers: dict[int, object]) -> None:
    """The job has the command's exit code, environment and bill.

    Afterwards signals do again what they did before.
    """
    more = job_module._own_peak_bytes() + 60_000_000
    held = f"import os, time; held = b'x' * {more}\nwhile time.process_time() < 0.3: pass\n"
    job = python(held + "raise SystemExit(int(os.environ['CODE']))", CODE="7")
    assert job.started
    job.wait(nothing)
    assert (job.exit_code, job.ending()) == (7, "the command exited with code 7")
    facts = job.facts()
    assert (facts.pid, facts.exit_code, facts.signal, facts.argv[0]) == (job.pid, 7, None, sys.executable)
    assert facts.wall_s > 0
    assert facts.cpu_user_s + facts.cpu_system_s > 0
    assert more - 20_000_000 < facts.max_rss_bytes < 40_000_000_000  # kernels count roughly
    assert facts.max_rss_bound_bytes == 0
    assert {number: signal.getsignal(number) for number in HANDLED if number != signal.SIGCHLD} == {
        number: handler for number, handler in handlers.items() if number != signal.SIGCHLD
    }
    assert signal.set_wakeup_fd(-1) == -1


def test_a_command_that_a_signal_ends() -> None:
    """128 plus its number, and its name."""
    job = python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    job.wait(nothing)
    assert (job.exit_code, job.ending()) == (137, "the command was killed by SIGKILL")
    assert (job.facts().exit_code, job.facts().signal) == (None, "SIGKILL")


def test_a_signal_without_a_name() -> None:
    """Real-time signals have numbers only."""
    job = python(f"import os; os.kill(os.getpid(), {signal.SIGRTMIN + 3})")
    job.wait(nothing)
    assert job.facts().signal == f"signal {signal.SIGRTMIN + 3}"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files in the working directory that can't be started."""
    monkeypatch.chdir(tmp_path)
    for name, text, mode in (
        ("orphan.sh", "#!/no/such/interpreter\n", 0o700),
        ("plain.txt", "text\n", 0o600),
        ("bare.py", "print()\n", 0o700),
    ):
        Path(name).write_text(text)
        Path(name).chmod(mode)


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("no-such-command", 127, "command not found: is it installed, and in a folder of PATH?"),
        ("./no-such-file", 127, "no such file"),
        ("./orphan.sh", 127, "the interpreter that its first line names does not exist"),
        ("./plain.txt", 126, "not executable: run chmod +x ./plain.txt, or name its interpreter first"),
        ("./bare.py", 126, "not a program: its first line names no interpreter, such as #!/usr/bin/env python3"),
        ("/", 126, "a folder, not a program"),
    ],
)
def test_a_command_that_cannot_be_started(
    command: str, code: int, words: str, capsys: pytest.CaptureFixture[str], handlers: dict[int, object]
) -> None:
    """A shell's codes, one line that says why and what to do, and no handler stays."""
    job = Job([command], {})
    assert (job.started, job.exit_code, job.pid) == (False, code, 0)
    assert job.ending() == f"the command could not be started: {command}: {words}"
    assert capsys.readouterr().err == f"telemetry: {command}: {words}\n"
    assert (job.facts().exit_code, job.facts().signal) == (code, None)
    assert signal.getsignal(signal.SIGTERM) == handlers[signal.SIGTERM]


@pytest.mark.slow
def test_each_second_something_may_happen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The callback runs about once a second while the child runs. The wait ends as soon as the child does."""
    seconds = []
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as idle:
        monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: idle)
        job = Job(["x"], {})

        def each_second() -> None:
            seconds.append(len(seconds))
            if len(seconds) == 2:
                idle.kill()

        job.wait(each_second)
    assert seconds == [0, 1]
    assert job.facts().signal == "SIGKILL"


def test_signals_are_passed_on(tmp_path: Path) -> None:
    """A signal is passed on to the child, which decides what it means."""
    job = python(NOTES_ONE.replace('print("up", flush=True)', f"open({str(tmp_path / 'up')!r}, 'w').close()"))

    def when_up() -> None:
        if (tmp_path / "up").exists():
            os.kill(os.getpid(), signal.SIGTERM)

    job.wait(when_up)
    assert job.exit_code == 9


def test_a_command_that_is_told_to_end(tmp_path: Path) -> None:
    """SIGTERM, which it may answer as it likes."""
    job = python(NOTES_ONE.replace('print("up", flush=True)', f"open({str(tmp_path / 'up')!r}, 'w').close()"))
    job.wait(lambda: job.end() if (tmp_path / "up").exists() else None)
    assert job.exit_code == 9


@pytest.mark.slow
def test_a_command_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that doesn't end is killed after a while."""
    monkeypatch.setattr(job_module.limits, "ABORT_KILL_S", 0.01)
    up = f"open({str(tmp_path / 'up')!r}, 'w').close()"
    job = python(f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {up}\nwhile True: signal.pause()")
    job.wait(lambda: job.end() if (tmp_path / "up").exists() else None)
    assert job.facts().signal == "SIGKILL"


def test_a_signal_before_the_child_is_there_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """An early signal is kept until there is a child to pass it to."""
    real = subprocess.Popen

    def late(*args: object, **options: object) -> object:
        os.kill(os.getpid(), signal.SIGTERM)
        return real(*args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", late)
    job = python("import time\nwhile True: time.sleep(0.01)")
    job.wait(nothing)
    assert job.facts().signal == "SIGTERM"


@pytest.mark.slow
@pytest.mark.parametrize("error", [ProcessLookupError, PermissionError])
def test_a_signal_that_cannot_be_passed_on_ends_nothing(monkeypatch: pytest.MonkeyPatch, error: type) -> None:
    """The child has just ended, or runs as somebody else."""
    real, refused = os.kill, []

    def kill(pid: int, number: int) -> None:
        if pid == os.getpid():
            real(pid, number)
        else:
            refused.append(number)
            raise error

    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as idle:
        monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM) or idle)
        monkeypatch.setattr(os, "kill", kill)
        job = Job(["x"], {})

        def each_second() -> None:
            os.kill(os.getpid(), signal.SIGUSR1)
            real(idle.pid, signal.SIGKILL)

        job.wait(each_second)
    assert refused == [signal.SIGTERM, signal.SIGUSR1]
    assert job.facts().signal == "SIGKILL"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_what_we_ignore_the_command_ignores(number: signal.Signals) -> None:
    """`nohup telemetry run -- CMD` is `nohup CMD`."""
    signal.signal(number, signal.SIG_IGN)
    job = python(f"import signal; raise SystemExit(signal.getsignal({int(number)}) is not signal.SIG_IGN)")
    job.wait(nothing)
    assert job.exit_code == 0
    assert signal.getsignal(number) is signal.SIG_IGN


@pytest.mark.parametrize("command", ["no-such-\udcff", "x" * 10_000])
def test_a_name_that_is_no_text_or_too_long_can_be_said(command: str) -> None:
    """The reason goes to the aggregator, whatever the command line was."""
    reason = Job([command], {}).ending()
    assert len(reason) < 2_000
    assert reason.encode()


def test_secrets_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    """The bill can be published: values that look secret are masked, and what is no text is marked."""
    job = Job(["true", "--api-key", "hunter2", "PASSWORD=x", "a\udcffb"], {})
    job.wait(nothing)
    assert job.facts().argv == ["true", "--api-key", "***", "PASSWORD=***", "a\ufffdb"]


def apart(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Start a command in a session of its own, as a terminal of its own does."""
    return os.posix_spawnp(command[0], list(command), environment, setsid=True)


def test_a_command_that_is_started_apart() -> None:
    """A command in a session of its own has its environment, exit code and bill like any other."""
    job = Job([sys.executable, "-c", "import os; raise SystemExit(int(os.environ['CODE']))"], {"CODE": "7"}, apart)
    job.wait(nothing)
    assert (job.exit_code, job.facts().exit_code, job.told_to_end) == (7, 7, False)
    assert job.facts().max_rss_bound_bytes > 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_an_interrupt_reaches_all_of_a_command_that_is_apart(number: signal.Signals, tmp_path: Path) -> None:
    """An interrupt is passed to the command's whole group, since our terminal doesn't send it there."""
    parent = (
        "import os, signal, subprocess, sys\n"
        f"signal.signal({int(number)}, lambda *_: None)\n"
        f"child = subprocess.Popen([sys.executable, '-c', {CHILD!r}, 'up'])\n"
        f"raise SystemExit(100 + -child.wait())\n"
    )
    job = Job([sys.executable, "-c", parent.replace("'up'", repr(str(tmp_path / "up")))], {}, apart)

    def when_up() -> None:
        if (tmp_path / "up").exists():
            os.kill(os.getpid(), number)

    job.wait(when_up)
    assert job.exit_code == 100 + number


@pytest.mark.parametrize(
    ("number", "told"), [(signal.SIGTERM, True), (signal.SIGHUP, True), (signal.SIGUSR1, False)]
)
def test_it_is_known_whether_a_command_was_told_to_end(number: signal.Signals, told: bool) -> None:
    """The job knows whether a signal asked the command to end.

    The sender of such a signal doesn't wait for what follows.
    """
    job = python("import time\nwhile True: time.sleep(0.01)")
    os.kill(os.getpid(), number)
    job.wait(nothing)
    assert (job.facts().signal, job.told_to_end) == (number.name, told)


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    """A job that ran leaves no descriptor open, and neither does a job that could not start."""
    before = len(os.listdir("/proc/self/fd"))
    for command in ("true", "no-such-command"):
        job = Job([command], {})
        if job.started:
            job.wait(nothing)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("launch", [None, apart])
def test_the_peak_memory_of_a_small_command_is_not_ours(launch: Any) -> None:
    """The kernel counts from when the command was a copy of us: what is no more than that is not known."""
    job = Job(["true"], {}, launch)
    job.wait(nothing)
    facts = job.facts()
    assert facts.max_rss_bytes == 0
    assert 0 < facts.max_rss_bound_bytes <= job_module._own_peak_bytes() + (1 << 20)


def test_memory_of_ours_that_grows_while_the_command_starts_is_not_in_its_bill(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel's account of the child begins at our peak of the moment it became the command, not before."""
    real = subprocess.Popen

    def grown(*args: Any, **options: Any) -> Any:
        held = b"x" * (8 * os.sysconf("SC_PAGE_SIZE") + job_module._own_peak_bytes())
        process = real(*args, **options)
        del held
        return process

    monkeypatch.setattr(subprocess, "Popen", grown)
    sleeping = Job(["sleep", "0.2"], {})
    sleeping.wait(nothing)
    assert sleeping.facts().max_rss_bytes == 0


def test_a_process_with_thousands_of_descriptors_can_still_wait() -> None:
    """`select` takes none beyond 1,023, and the exit code of the command must not be lost for that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4_096), hard))
    held: list[int] = []
    try:
        while not held or held[-1] < 1_100:
            held.append(os.open(os.devnull, os.O_RDONLY))
        job = python("raise SystemExit(7)")
        job.wait(nothing)
    finally:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert job.exit_code == 7


def test_what_this_process_inherited_is_passed_on(tmp_path: Path) -> None:
    """Bash's `<(…)` and make's jobserver give descriptors to a command. Those of this process stay here."""
    given, own = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    os.set_inheritable(given, True)
    try:
        job = python(
            f"import os; os.fstat({given})\ntry: os.fstat({own})\nexcept OSError: raise SystemExit(7)", X="y"
        )
        job.wait(nothing)
    finally:
        os.close(given)
        os.close(own)
    assert job.exit_code == 7


def test_sockets_of_a_service_manager_are_for_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """LISTEN_PID names the process that may take them."""
    monkeypatch.setenv("LISTEN_PID", str(os.getpid()))
    job = python("import os; raise SystemExit(7 if os.environ['LISTEN_PID'] == str(os.getpid()) else 1)")
    job.wait(nothing)
    assert (job.exit_code, job.facts().argv[0]) == (7, sys.executable)
    monkeypatch.setenv("LISTEN_PID", "1")
    job = python("import os; raise SystemExit(7 if os.environ['LISTEN_PID'] == '1' else 1)")
    job.wait(nothing)
    assert job.exit_code == 7
