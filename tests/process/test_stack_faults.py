"""The stack when something is in its way: other processes, other machines, a full disk, files of the user."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.ports import free_port
from tests.process.conftest import Ground
from tests.process.stack_servers import DOCKER, GRAFANA, install, install_grafana
from tests.process.stacks import SOON_S, Stack, WaitUntil, await_ready, line_of

from telemetry.store.processes import process_lives, start_of

pytestmark = pytest.mark.slow
WAITS = """
import sys, time
words = dict(word.lstrip("-").partition("=")[::2] for word in sys.argv[1:])
go = words["config"] + ".go"
while True:
    try:
        open(go).close()
        break
    except FileNotFoundError:
        time.sleep(0.02)
"""
"""The start of a Grafana that looks for its port only once a file says so."""
LATE = WAITS + 'print("address already in use", flush=True)\nsys.exit(1)\n'


@pytest.fixture
def stack(ground: Ground, require_tool: Callable[[str], str]) -> Iterator[Stack]:
    require_tool("prometheus")
    made = Stack(ground)
    yield made
    made.down()


def log_of(stack: Stack, name: str) -> str:
    path = stack.folder / "logs" / f"{name}.log"
    return path.read_text() if path.exists() else ""


def test_a_second_start_keeps_the_log_of_the_first(stack: Stack, wait_until: WaitUntil) -> None:
    """A second start is refused, and the log of the keeper stays."""
    assert stack.up()[0] == 0
    os.kill(stack.part()["pid"], signal.SIGKILL)
    wait_until(lambda: "it is started again" in log_of(stack, "stack"), SOON_S, "the restart")
    assert stack.up()[0] == 2
    assert "it is started again" in log_of(stack, "stack")


def test_a_reader_of_logs_that_leaves_ends_nothing(stack: Stack, wait_until: WaitUntil) -> None:
    """A reader of logs that leaves, as `| head` does, ends nothing. The log files go on."""
    process = stack.start("--attach-logs", "--log-level", "debug")
    line_of(process, "level=")
    assert process.stdout is not None
    process.stdout.close()
    await_ready(process)
    pid = stack.part()["pid"]
    for number in (1, 2):
        os.kill(pid, signal.SIGHUP)
        loaded = number + 1
        wait_until(
            lambda loaded=loaded: log_of(stack, "prometheus").count("Completed loading") >= loaded, SOON_S, "a line"
        )
    assert process.poll() is None
    assert stack.part()["pid"] == pid
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert "Traceback" not in process.stderr.read()
    assert process.wait(SOON_S) == 0


def test_a_stack_without_a_reader_of_stdout_becomes_ready(stack: Stack) -> None:
    """A stack whose stdout has lost its reader becomes ready.

    The line that says so may be the first one written after the reader has left.
    """
    process = stack.start()
    assert process.stdout is not None
    process.stdout.close()
    await_ready(process)
    process.send_signal(signal.SIGINT)
    assert process.wait(SOON_S) == 0


def test_the_server_of_another_is_not_taken_for_ours(stack: Stack, wait_until: WaitUntil) -> None:
    """The start fails with the words of our server if another server took the port after the check."""
    port = free_port()
    stack.settings["grafana"] = {"program": str(install_grafana(stack.bin / "g", LATE)), "port": port}
    process = stack.start()
    wait_until(lambda: (stack.folder / "state.json").exists() and stack.part("grafana")["pid"], SOON_S, "its start")

    class Other(BaseHTTPRequestHandler):
        asked = threading.Event()

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.asked.set()

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", port), Other) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        wait_until(lambda: stack.part()["state"] == "ready", SOON_S, "Prometheus")
        Other.asked.clear()
        assert Other.asked.wait(SOON_S)
        (stack.folder / "grafana.ini.go").touch()
        out, err = process.communicate(timeout=SOON_S)
        server.shutdown()
    assert process.returncode == 1, (out, err)
    assert "Grafana ended with exit code 1 before it was ready; its last words: address already in use" in err
    assert "Grafana" not in out


def test_auto_port_chooses_again_if_a_port_is_taken_after_the_check(stack: Stack, wait_until: WaitUntil) -> None:
    """With `--auto-port`, a port that is taken between the check and the start of its server is given up."""
    port = free_port(count=2)
    stack.settings["grafana"] = {"program": str(install_grafana(stack.bin / "g", WAITS + GRAFANA)), "port": port}
    process = stack.start("--auto-port")
    wait_until(lambda: (stack.folder / "state.json").exists() and stack.part("grafana")["pid"], SOON_S, "its start")
    with socket.create_server(("127.0.0.1", port)):
        (stack.folder / "grafana.ini.go").touch()
        messages = await_ready(process)
        assert any("trying other ports" in line for line in messages)
        assert any(f"port {port} is held by" in line for line in messages)
        assert stack.part("grafana")["state"] == "ready"
        assert stack.part("grafana")["address"] == f"http://127.0.0.1:{port + 1}"
        assert stack.part()["state"] == "ready"


def test_the_state_of_a_machine_that_was_switched_off_is_no_obstacle(stack: Stack) -> None:
    """The state of a machine that was switched off is no obstacle.

    There is nothing to end first, because no process of the state lives.
    """
    other = stack.ground.popen("sleep", "600")
    started = start_of(other.pid) + 1
    part = {"name": "prometheus", "title": "Prometheus", "how": "native", "pid": other.pid}
    stack.folder.mkdir(parents=True)
    state = {"keeper_pid": other.pid, "keeper_started": started, "targets": "", "log": ""}
    (stack.folder / "state.json").write_text(json.dumps(state | {"parts": [part | {"process_started": started}]}))
    code, _, err = stack.up()
    assert code == 0, err
    assert stack.part()["state"] == "ready"
    assert stack.down()[0] == 0
    assert other.poll() is None


def test_a_stack_on_another_machine_is_left_alone(stack: Stack) -> None:
    """The folder may be in a home folder on the network. Pids say nothing there."""
    assert stack.up()[0] == 0
    path = stack.folder / "state.json"
    own = path.read_text()
    assert json.loads(own)["host"] == socket.gethostname()
    pid, keeper = stack.part()["pid"], stack.status()["keeper"]
    path.write_text(json.dumps(json.loads(own) | {"host": "gpu-7"}))
    for words in (["down"], ["status"]):
        code, _, err = stack.ground.run("stack", *words)
        assert code == 2
        assert "was started on gpu-7" in err
    assert path.exists()
    path.write_text(own)
    assert process_lives(pid)
    assert process_lives(keeper)


def test_servers_outlive_a_killed_keeper_until_their_next_line(stack: Stack, wait_until: WaitUntil) -> None:
    """Servers outlive a killed keeper until their next line, which nobody reads.

    A new start needs no `down` once the servers have ended.
    """
    assert stack.up()[0] == 0
    status, pid = stack.status(), stack.part()["pid"]
    os.kill(status["keeper"], signal.SIGKILL)
    wait_until(lambda: not process_lives(status["keeper"]), SOON_S, "the end of the keeper")
    assert stack.part()["state"] == "ready"
    os.kill(pid, signal.SIGHUP)
    wait_until(lambda: not process_lives(pid), SOON_S, "the end of Prometheus")
    assert stack.part()["state"] == "dead"
    code, _, err = stack.up()
    assert code == 0, err


def test_down_ends_a_stack_that_has_only_begun_to_start(stack: Stack, wait_until: WaitUntil) -> None:
    """The command `down` ends a stack that still looks for Docker and has no server yet.

    The command that started it fails and says why.
    """
    begun, go = stack.ground.folder / "begun", stack.ground.folder / "go"
    text = f"import pathlib, sys, time\nopen({str(begun)!r}, 'w')\n"
    text += f"while not pathlib.Path({str(go)!r}).exists():\n    time.sleep(0.02)\nsys.exit(1)\n"
    install(stack.bin, "docker", text)
    stack.settings["tempo"] = {}
    process = stack.start("--detach")
    wait_until(begun.exists, SOON_S, "the search for Docker")
    down = stack.ground.telemetry("stack", "down")
    assert down.stderr is not None
    assert "waits for a start" in down.stderr.readline()
    go.touch()
    _, err = process.communicate(timeout=SOON_S)
    assert (process.returncode, "was ended before it was ready" in err) == (130, True), err
    assert down.wait(SOON_S) == 0
    assert "the stack is down" in down.stderr.read()
    assert not (stack.folder / "state.json").exists()


def test_a_state_that_cant_be_written_ends_nothing(stack: Stack, wait_until: WaitUntil) -> None:
    """A state that cannot be written, as on a full disk, ends nothing.

    The state is written once that is possible.
    """
    assert stack.up()[0] == 0
    path, pid = stack.folder / "state.json", stack.part()["pid"]
    path.unlink()
    (path / "in the way").mkdir(parents=True)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: "it is started again" in log_of(stack, "stack"), SOON_S, "the restart")
    wait_until(lambda: stack.ask("/api/v1/targets") is not None, SOON_S, "Prometheus")
    shutil.rmtree(path)
    part = wait_until(lambda: path.exists() and stack.part(), SOON_S, "the state")
    assert (part["restarts"], part["state"]) == (1, "ready")
    assert part["pid"] != pid


@pytest.mark.parametrize("keeper", ["lives", "killed"])
def test_containers_that_cant_be_ended_are_not_forgotten(stack: Stack, keeper: str, wait_until: WaitUntil) -> None:
    """`down` fails then, and can be repeated."""
    install(stack.bin, "docker", DOCKER)
    (stack.bin / "image-prometheus").symlink_to("/usr/bin/prometheus")
    code, _, err = stack.up("--only", "compose")
    assert code == 0, err
    pid, own = int((stack.bin / "containers").read_text()), stack.status()["keeper"]
    if keeper == "killed":
        os.kill(own, signal.SIGKILL)
        wait_until(lambda: not process_lives(own), SOON_S, "the end of the keeper")
    install(stack.bin, "docker", "import sys\nsys.exit('no daemon')\n")
    code, _, err = stack.ground.run("stack", "down", environ=stack.environ)
    assert code == 1
    assert "down` failed: no daemon" in err
    assert "the stack is down" not in err
    assert process_lives(pid)
    install(stack.bin, "docker", DOCKER)
    code, _, err = stack.ground.run("stack", "down", environ=stack.environ)
    assert (code, "the stack is down" in err) == (0, True)
    wait_until(lambda: not process_lives(pid), SOON_S, "the end of the container")


def test_folders_with_the_characters_of_patterns(stack: Stack, wait_until: WaitUntil) -> None:
    """Prometheus takes paths of rules and targets for patterns."""
    folder, targets = stack.ground.folder / "a[1] b?{c}\\d", stack.ground.folder / "t[x]*y"
    targets.mkdir()
    (targets / "own.json").write_text(json.dumps([{"targets": [f"127.0.0.1:{stack.port}"]}]))
    stack.general["targets"] = str(targets)
    try:
        code, _, err = stack.up("--dir", str(folder))
        assert code == 0, err
        assert len(stack.ask("/api/v1/rules")["groups"]) == 2
        wait_until(stack.scraped, SOON_S, "the target")
    finally:
        code, _, err = stack.ground.run("stack", "down", "--dir", str(folder))
    assert code == 0, err


@pytest.mark.parametrize("name", ["compose.yaml", "rules.yml", "dashboards/run.json"])
def test_files_of_the_user_are_not_replaced(stack: Stack, name: str) -> None:
    """The command writes nothing if it would replace a file of the user.

    Files that the command itself wrote are written again.
    """
    folder = stack.ground.folder / "project"
    file = folder / name
    file.parent.mkdir(parents=True)
    file.write_text("mine\n")
    code, out, err = stack.ground.run("stack", "write", "project")
    assert (code, out) == (2, "")
    assert f"{file} was not written by `telemetry stack`" in err
    assert [path for path in folder.rglob("*") if path.is_file()] == [file]
    assert file.read_text() == "mine\n"
    file.unlink()
    for _ in range(2):
        code, _, err = stack.ground.run("stack", "write", "project")
        assert code == 0, err


def test_write_says_how_to_start_with_the_same_settings(stack: Stack) -> None:
    """The command that it prints writes the same files again."""
    code, _, err = stack.ground.run("stack", "write", "my files", "--config", stack.config())
    assert code == 0, err
    assert f"`telemetry stack up --dir 'my files' --config {stack.ground.folder / 'stack.toml'}`" in err


def test_no_home_is_needed_with_a_folder(stack: Stack) -> None:
    """A stack with a folder needs no home, as in a container without `HOME`."""
    folder = stack.ground.folder / "own"
    stack.environ |= {"HOME": "", "XDG_STATE_HOME": ""}
    code, out, err = stack.up("--dir", str(folder))
    assert code == 0, err
    assert f"{folder}/targets" in out
    down = stack.ground.run("stack", "down", "--dir", str(folder))
    assert down[0] == 0, down
