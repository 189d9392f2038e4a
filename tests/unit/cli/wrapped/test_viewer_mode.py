"""A command in a terminal of its own beside a stand-in for the viewer, at a desk of the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.unit.cli.terminals import DEADLINE_S, Desk, desk, wait_until

from telemetry.cli.wrapped.command import Job
from telemetry.cli.wrapped.terminal import Terminal
from telemetry.cli.wrapped.viewer_mode import ViewerMode
from telemetry.store.output_log import OUTPUT, OutputLog

pytestmark = pytest.mark.slow

HANDLED = (
    signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD,
    signal.SIGWINCH,
)  # fmt: skip
VIEWER = """
import os, tty
tty.setraw(0)
os.write(2, b"viewing")
os.read(0, 1)
"""
ECHOES = """
import os, sys
print("up", os.get_terminal_size(), flush=True)
for line in sys.stdin:
    print("got", line.strip(), flush=True)
    if line.strip() == "end": break
raise SystemExit(7)
"""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """A job and its stage take the process's signal handlers; here they are given back whatever happens."""
    before = {number: signal.getsignal(number) for number in HANDLED}
    wakeup = signal.set_wakeup_fd(-1)
    yield
    signal.set_wakeup_fd(wakeup)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def user() -> Iterator[Desk]:
    with desk() as made:
        termios.tcsetwinsize(made.far, (24, 77))
        yield made


def stage_at(user: Desk, viewer: str = VIEWER) -> ViewerMode:
    return ViewerMode(
        Terminal(user.near, user.near), (0, 1, 2), lambda directory, pid: [sys.executable, "-c", viewer]
    )


def python(stage: ViewerMode, text: str) -> Job:
    return Job([sys.executable, "-c", text], {}, stage.launch)


class Hand:
    """Does one thing after the other while the main thread waits for a command."""

    def __init__(self, *deeds: Callable[[], object]) -> None:
        self.failure: BaseException | None = None
        self._deeds = deeds
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            for deed in self._deeds:
                deed()
        except BaseException as error:  # noqa: BLE001 – raised again by `join`
            self.failure = error

    def join(self) -> None:
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        if self.failure is not None:
            raise self.failure


def nothing() -> None:
    """Do nothing in each second of the wait."""


def test_the_viewer_first_and_then_the_command(
    user: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys go to whoever has the terminal; all output is in the log, and from the change on it is seen."""
    before = termios.tcgetattr(user.near)
    with stage_at(user) as stage:
        job = python(stage, ECHOES)
        stage.begin(str(tmp_path), os.environ)
        user.wait_for(b"viewing")
        stage.say("held back")
        stage.pass_by("out of date\n")
        hand = Hand(
            lambda: user.type(b"q"),
            lambda: wait_until(lambda: lent(user) and b"up" in log_of(tmp_path)),
            lambda: user.type(b"hello\r"),
            lambda: user.wait_for(b"got hello"),
            lambda: user.type(b"end\r"),
        )
        job.wait(nothing)
        hand.join()
        stage.over()
        assert b"got end" in user.look()
        stage.await_leave(patient=True)
        assert termios.tcgetattr(user.near) == before
    assert job.exit_code == 7
    assert b"up os.terminal_size(columns=77, lines=24)\r\n" in log_of(tmp_path)
    assert log_of(tmp_path).endswith(b"got end\r\n")
    said = capsys.readouterr().err
    assert "telemetry: held back\n" in said
    assert "out of date" not in said
    assert "the viewer" not in said


def lent(user: Desk) -> bool:
    """Return whether keys go to the command.

    Then keys are raw and output is not, while both are raw for a viewer.
    """
    modes = termios.tcgetattr(user.near)
    return not modes[3] & termios.ICANON and bool(modes[1] & termios.OPOST)


def log_of(folder: Path) -> bytes:
    path = folder / OUTPUT
    return path.read_bytes() if path.exists() else b""


def test_a_viewer_that_stays_is_waited_for(user: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The viewer goes on after the command has ended. Then the command's output is only in the log."""
    before = termios.tcgetattr(user.near)
    with stage_at(user) as stage:
        job = python(stage, "print('only words')")
        stage.begin(str(tmp_path), os.environ)
        job.wait(nothing)
        stage.over()
        user.wait_for(b"viewing")
        hand = Hand(lambda: user.type(b"q"))
        stage.await_leave(patient=True)
        hand.join()
        assert termios.tcgetattr(user.near) == before
    assert b"only words" not in user.look()
    assert log_of(tmp_path) == b"only words\r\n"
    assert f"the output of the command is in {tmp_path / OUTPUT}" in capsys.readouterr().err


def test_without_patience_the_viewer_is_ended(user: Desk, tmp_path: Path) -> None:
    """The viewer is ended without patience if the command was asked to end."""
    with stage_at(user) as stage:
        job = python(stage, "import os, signal; os.kill(os.getppid(), signal.SIGTERM); signal.pause()")
        stage.begin(str(tmp_path), os.environ)
        user.wait_for(b"viewing")
        job.wait(nothing)
        stage.over()
        stage.await_leave(patient=not job.told_to_end)
    assert job.facts().signal == "SIGTERM"


def test_a_viewer_that_falls_leaves_the_command_alone(
    user: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The failure of the viewer is reported, and the command has the terminal from then on."""
    with stage_at(user, "raise SystemExit(9)") as stage:
        job = python(stage, ECHOES)
        stage.begin(str(tmp_path), os.environ)
        hand = Hand(lambda: wait_until(lambda: lent(user)), lambda: user.type(b"end\r"))
        job.wait(nothing)
        hand.join()
        stage.over()
        stage.await_leave(patient=True)
    assert job.exit_code == 7
    assert "telemetry: the viewer exited with code 9; the command continues\n" in capsys.readouterr().err


def test_a_viewer_that_cannot_be_started_is_said(
    user: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command has been, and goes on."""
    terminal = Terminal(user.near, user.near)
    with ViewerMode(terminal, (0, 1, 2), lambda *_: ["no-such-viewer"]) as stage:
        job = python(stage, "raise SystemExit(3)")
        stage.begin(str(tmp_path), os.environ)
        job.wait(nothing)
        stage.over()
        stage.await_leave(patient=True)
    assert job.exit_code == 3
    assert "can't start the viewer: No such file or directory" in capsys.readouterr().err


def test_ctrl_c_is_the_command_s(user: Desk, tmp_path: Path) -> None:
    """Ctrl-C goes to the command once the viewer has left.

    An interrupt sent to this process goes to the command's whole group.
    """
    ignores = "import signal; signal.signal(2, lambda *_: print('no', flush=True)); print('up', flush=True)\n"
    with stage_at(user, "") as stage:
        job = python(stage, ignores + "while True: signal.pause()")
        stage.begin(str(tmp_path), os.environ)
        hand = Hand(
            lambda: wait_until(lambda: lent(user) and b"up" in log_of(tmp_path)),
            lambda: user.type(b"\x03"),
            lambda: wait_until(lambda: log_of(tmp_path).count(b"no") == 1),
            lambda: os.kill(os.getpid(), signal.SIGINT),
            lambda: wait_until(lambda: log_of(tmp_path).count(b"no") == 2),
            lambda: user.type(b"\x1c"),
        )
        job.wait(nothing)
        hand.join()
        stage.over()
        stage.await_leave(patient=True)
    assert job.facts().signal == "SIGQUIT"


def test_talk_does_not_go_on_after_a_question(
    user: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message begins a line of its own, and adds a line break only where one is needed."""
    with stage_at(user, "") as stage:
        job = python(stage, "input('name? ')")
        stage.begin(str(tmp_path), os.environ)
        hand = Hand(
            lambda: user.wait_for(b"name? "),
            lambda: stage.pass_by("12 s\n"),
            lambda: stage.pass_by("13 s\n"),
            lambda: user.type(b"me\r"),
        )
        job.wait(nothing)
        hand.join()
        stage.over()
        stage.await_leave(patient=True)
    assert "\n\n12 s\n13 s\n" in "\n" + capsys.readouterr().err, "where the log is has been said, or not yet"


def test_another_size_of_the_terminal_is_the_command_s_too(user: Desk, tmp_path: Path) -> None:
    """The command learns of another terminal size, whoever has the screen."""
    waits = "import os, signal\nsignal.pthread_sigmask(0, [signal.SIGWINCH])\nprint('up', flush=True)\n"
    with stage_at(user) as stage:
        job = python(stage, waits + "signal.sigwait([signal.SIGWINCH])\nprint(os.get_terminal_size())")
        stage.begin(str(tmp_path), os.environ)
        user.wait_for(b"viewing")
        hand = Hand(
            lambda: wait_until(lambda: b"up" in log_of(tmp_path)),
            lambda: termios.tcsetwinsize(user.far, (50, 132)),
            lambda: os.kill(os.getpid(), signal.SIGWINCH),  # as the kernel does for those in the foreground
        )
        job.wait(nothing)
        hand.join()
        stage.over()
        stage.await_leave(patient=False)
    assert b"columns=132, lines=50" in log_of(tmp_path)


def test_a_signal_while_the_viewer_is_waited_for_ends_the_wait(user: Desk, tmp_path: Path) -> None:
    """The result is there already; it is still told."""
    with stage_at(user) as stage:
        job = python(stage, "")
        stage.begin(str(tmp_path), os.environ)
        job.wait(nothing)
        stage.over()
        user.wait_for(b"viewing")
        hand = Hand(lambda: wait_until(lambda: stage._waiting), lambda: os.kill(os.getpid(), signal.SIGTERM))
        stage.await_leave(patient=True)
        hand.join()


def test_a_signal_before_the_result_leaves_no_viewer_behind(user: Desk, tmp_path: Path) -> None:
    """A signal ends the wait for a result and leaves the terminal as it was."""
    before = termios.tcgetattr(user.near)
    program = (
        "import os, signal, sys\n"
        "from telemetry.cli.wrapped.terminal import Terminal\n"
        "from telemetry.cli.wrapped.viewer_mode import ViewerMode\n"
        f"viewer = [sys.executable, '-c', {VIEWER!r}]\n"
        "with ViewerMode(Terminal(0, 2), (0, 1, 2), lambda *_: viewer) as stage:\n"
        f"    stage.begin({str(tmp_path)!r}, os.environ)\n"
        "    print('waits', flush=True)\n"
        "    while True: signal.pause()\n"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=user.near, stdout=subprocess.PIPE, stderr=user.near) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == b"waits\n"
        user.wait_for(b"viewing")
        waiting.terminate()
        assert waiting.wait(DEADLINE_S) == -signal.SIGTERM
        assert waiting.stdout.read() == b""
    assert termios.tcgetattr(user.near) == before


def test_an_exception_leaves_no_viewer_behind(user: Desk, tmp_path: Path) -> None:
    """Ctrl-C while the result is waited for, for example."""
    before = termios.tcgetattr(user.near), signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGWINCH)
    with suppress(KeyboardInterrupt), stage_at(user) as stage:
        job = python(stage, "")
        stage.begin(str(tmp_path), os.environ)
        job.wait(nothing)
        stage.over()
        user.wait_for(b"viewing")
        raise KeyboardInterrupt
    after = termios.tcgetattr(user.near), signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGWINCH)
    assert after == before


def test_a_command_that_was_not_started_needs_no_viewer(user: Desk) -> None:
    """The stage waits for no viewer if the command was not started."""
    with stage_at(user) as stage:
        assert not Job(["no-such-command"], {}, stage.launch).started
        stage.over()
        stage.await_leave(patient=True)


def test_output_that_could_not_be_kept_is_said(
    user: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message tells how much output is missing in the log, and why."""

    def lose(log: OutputLog, data: bytes) -> None:
        log.lost_bytes += len(data)
        log.failure = "the disk is full"

    monkeypatch.setattr(OutputLog, "append", lose)
    with stage_at(user, "") as stage:
        job = python(stage, "print('x' * 98)")
        stage.begin(str(tmp_path), os.environ)
        job.wait(nothing)
        stage.over()
        stage.await_leave(patient=True)
    words = f"telemetry: 100 B of the command's output are missing in {tmp_path / OUTPUT}: the disk is full\n"
    assert capsys.readouterr().err.count(words) == 1


def test_nothing_is_left(user: Desk, tmp_path: Path) -> None:
    """The stage leaves no descriptor and no thread."""
    before = len(os.listdir("/proc/self/fd")), threading.active_count()
    with stage_at(user, "") as stage:
        job = python(stage, "")
        stage.begin(str(tmp_path), os.environ)
        job.wait(nothing)
        stage.over()
        stage.await_leave(patient=True)
    wait_until(lambda: threading.active_count() == before[1])
    assert len(os.listdir("/proc/self/fd")) == before[0]
