"""The stack with a real Prometheus: start, end, faults, targets of runs. Grafana and Tempo are stand-ins."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.ports import free_port
from tests.process.conftest import Ground
from tests.process.stack_servers import DIES, DOCKER, SILENT, TEMPO, install, install_grafana
from tests.process.stacks import SOON_S, Stack, WaitUntil, line_of, ports

from telemetry.store.processes import process_lives, start_of

pytestmark = pytest.mark.slow
SCRAPED_S = 15.0
"""Promise for a new run: it is scraped by then."""
KEYS = ("prometheus", "tempo", "grafana")
RL_INSIGHT = """
import sys, telemetry.compat.rl_insight as rl_insight
rl_insight.init(project="p", experiment_name="e", config={"prometheus": {"enable": False}})
rl_insight.update_prometheus_config([sys.argv[1]], "vllm", [{"replica": 0}])
print("given", flush=True)
sys.stdin.read()
rl_insight.finish()
"""


@pytest.fixture
def stack(ground: Ground, require_tool: Callable[[str], str]) -> Iterator[Stack]:
    require_tool("prometheus")
    made = Stack(ground)
    yield made
    made.down()


def test_up_detached_and_down_from_another_shell(stack: Stack) -> None:
    """The state file is for this user alone. The second start says that the first one is there."""
    code, out, err = stack.up()
    assert code == 0, err
    assert f"http://127.0.0.1:{stack.port}" in out
    assert str(stack.targets) in out
    assert "skipped: it is switched off" in out
    assert (stack.folder / "state.json").stat().st_mode & 0o777 == 0o600
    status, part = stack.status(), stack.part()
    assert part["state"] == "ready"
    assert process_lives(part["pid"])
    code, _, err = stack.up()
    assert code == 2
    assert "is up already" in err
    code, text, err = stack.ground.run("stack", "status")
    assert code == 0
    assert f"pid {part['pid']}" in text
    code, _, err = stack.down()
    assert (code, "the stack is down" in err) == (0, True)
    assert not process_lives(part["pid"])
    assert not process_lives(status["keeper"])
    assert not (stack.folder / "state.json").exists()
    code, _, err = stack.down()
    assert (code, "no stack is up" in err) == (0, True)
    code, _, err = stack.ground.run("stack", "status")
    assert (code, "no stack is up" in err) == (1, True)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_everything(stack: Stack, number: signal.Signals, wait_until: WaitUntil) -> None:
    """SIGINT, SIGTERM and SIGHUP end the whole stack, as Ctrl-C does in the foreground."""
    process = stack.start()
    line_of(process, "targets")
    pid = stack.part()["pid"]
    process.send_signal(number)
    _, err = process.communicate(timeout=SOON_S)
    assert process.returncode == 0, err
    assert "ending the stack" in err
    wait_until(lambda: not process_lives(pid), SOON_S, "the end of Prometheus")
    assert not (stack.folder / "state.json").exists()


def test_ctrl_c_before_it_is_ready_ends_everything(stack: Stack, wait_until: WaitUntil) -> None:
    """The command that Ctrl-C stops before it is ready ends with the exit code of a stopped command.

    All its processes are ended.
    """
    stack.settings["tempo"] = {"program": str(install(stack.bin, "tempo", SILENT))} | ports(
        "port", "otlp_http_port"
    )
    process = stack.start()
    wait_until((stack.folder / "state.json").exists, SOON_S, "the state")
    wait_until(
        lambda: all(part["pid"] for part in stack.status()["parts"] if part["how"]), SOON_S, "both processes"
    )
    pids = [part["pid"] for part in stack.status()["parts"] if part["how"]]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SOON_S)
    assert process.returncode == 130
    assert not any(map(process_lives, pids))


def test_attached_logs_are_printed_with_their_server(stack: Stack) -> None:
    """Attached logs have the level that the user asked for, and each line names its server."""
    process = stack.start("--attach-logs", "--log-level", "debug")
    assert "level=debug" in line_of(process, "level=debug")
    assert line_of(process, "Server is ready to receive web requests").startswith("prometheus | ")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SOON_S)
    assert "Server is ready" in (stack.folder / "logs" / "prometheus.log").read_text()


def test_a_taken_port_is_named_with_its_holder(stack: Stack) -> None:
    """A taken port is reported with its holder, and nothing is started.

    The flag `--auto-port` takes another port and reports it.
    """
    stack.settings["prometheus"]["port"] = stack.port = free_port(count=2)
    with socket.create_server(("127.0.0.1", stack.port)):
        code, _, err = stack.up()
        assert code == 1
        assert f"port {stack.port} of Prometheus (prometheus.port) is held by" in err
        assert f"pid {os.getpid()}" in err
        assert "--auto-port" in err
        assert not (stack.folder / "state.json").exists()
        code, out, err = stack.up("--auto-port")
        assert code == 0, err
        assert f"port {stack.port} is held by" in err
        assert f"http://127.0.0.1:{stack.port}\n" not in out
        assert stack.part()["state"] == "ready"
        assert stack.part()["address"] in out


def test_a_killed_prometheus_is_started_again(stack: Stack, wait_until: WaitUntil) -> None:
    """A killed Prometheus is started again, and the status has the number of restarts.

    The data of Prometheus is kept.
    """
    assert stack.up()[0] == 0
    pid = stack.part()["pid"]
    os.kill(pid, signal.SIGKILL)
    part = wait_until(lambda: (found := stack.part())["restarts"] and found["state"] == "ready" and found, SOON_S)
    assert part["restarts"] == 1
    assert part["pid"] != pid
    assert "was killed by signal 9; it is started again" in (stack.folder / "logs" / "stack.log").read_text()


def test_a_server_that_dies_for_good_is_named(stack: Stack, wait_until: WaitUntil) -> None:
    """The others go on."""
    stack.settings["grafana"] = {"program": str(install_grafana(stack.bin / "grafana")), "port": free_port()}
    assert stack.up()[0] == 0
    install(stack.bin / "grafana" / "bin", "grafana-server", DIES)
    os.kill(stack.part("grafana")["pid"], signal.SIGKILL)
    wait_until(lambda: stack.part("grafana")["why"] == "it exited with code 3", SOON_S, "the reason")
    code, out, _ = stack.ground.run("stack", "status")
    assert code == 1
    assert "dead" in next(line for line in out.splitlines() if line.startswith("Grafana"))
    assert stack.part()["state"] == "ready"


def test_a_killed_keeper_leaves_nothing_that_down_does_not_end(stack: Stack) -> None:
    """The status says what runs without it, and a new start says what to do."""
    assert stack.up()[0] == 0
    status, pid = stack.status(), stack.part()["pid"]
    os.kill(status["keeper"], signal.SIGKILL)
    code, out, err = stack.ground.run("stack", "status")
    assert code == 1
    assert "nothing restarts it" in out
    assert "has ended; run `telemetry stack down`" in err
    code, _, err = stack.up()
    assert code == 2
    assert "run `telemetry stack down` first" in err
    code, _, err = stack.down()
    assert code == 0, err
    assert not process_lives(pid)
    assert stack.up()[0] == 0


def test_down_spares_a_later_process_with_the_same_pid(stack: Stack) -> None:
    """A pid alone says nothing: the start of the process has to be the same."""
    other = stack.ground.popen("sleep", "600")
    part = {"name": "prometheus", "title": "Prometheus", "how": "native", "pid": other.pid}
    state = {"keeper_pid": other.pid, "targets": "", "log": ""}
    stack.folder.mkdir(parents=True)
    path = stack.folder / "state.json"
    started = start_of(other.pid)
    path.write_text(json.dumps(state | {"keeper_started": 1, "parts": [part | {"process_started": started - 1}]}))
    code, _, err = stack.down()
    assert (code, "the stack is down" in err) == (0, True)
    assert other.poll() is None


def test_a_damaged_state_is_an_error(stack: Stack) -> None:
    """A damaged state is an error that names the file."""
    stack.folder.mkdir(parents=True)
    path = stack.folder / "state.json"
    path.write_text("{")
    code, _, err = stack.down()
    path.unlink()
    assert code == 1
    assert f"{path} is damaged" in err


# --- targets -------------------------------------------------------------------------------------


def test_a_new_run_is_scraped_within_15_seconds_and_leaves_at_its_end(stack: Stack, wait_until: WaitUntil) -> None:
    """Prometheus has the labels of a new run, and its last values, though nobody tells it of the run."""
    assert stack.up()[0] == 0
    run = stack.ground.telemetry(
        *("run", "--dir", "runs", "--name", "job", "--quiet", "--no-collect", "--to", "prometheus:port=0"),
        *("--", sys.executable, stack.ground.program("job.py", "import sys; sys.stdin.read()")),
        stdin=subprocess.PIPE,
    )
    wait_until(lambda: list(stack.targets.glob("*.json")), SOON_S, "the file of the writer")
    begun = time.monotonic()
    (found,) = wait_until(lambda: stack.values('telemetry_run_info{name="job"}'), SOON_S, "the first scrape")
    assert time.monotonic() - begun < SCRAPED_S
    assert found["run"] == found["run_id"]
    assert found["host"] == socket.gethostname()
    assert found["job"] == "telemetry"
    assert [labels["run"] for labels in stack.scraped()] == [found["run"]]
    run.communicate("", timeout=SOON_S)
    assert list(stack.targets.glob("*.json")) == []
    wait_until(lambda: not stack.scraped(), SOON_S, "the end of the target")
    final = f'last_over_time(telemetry_run_state{{state="COMPLETE",run="{found["run"]}"}}[10m]) == 1'
    assert len(stack.values(final)) == 1


@pytest.mark.parametrize("cleaner", ["ls", "status"])
def test_the_target_of_a_killed_writer_leaves(stack: Stack, cleaner: str, wait_until: WaitUntil) -> None:
    """The target of a killed writer leaves with the next list of runs or status of the stack."""
    assert stack.up()[0] == 0
    run = stack.ground.telemetry(
        *("run", "--dir", "runs", "--quiet", "--no-collect", "--to", "prometheus:port=0", "--", "sleep", "600"),
    )
    wait_until(stack.scraped, SOON_S, "the target")
    (file,) = stack.targets.glob("*.json")
    owner = json.loads(file.read_text())[0]["labels"]["__telemetry_owner"]
    run.kill()
    writer = int(owner.split("/")[2])
    os.kill(writer, signal.SIGKILL)
    wait_until(lambda: not process_lives(writer), SOON_S, "the end of the writer")
    words = ["ls", "--dir", "runs"] if cleaner == "ls" else ["stack", "status"]
    assert stack.ground.run(*words)[0] == 0
    assert not file.exists()
    wait_until(lambda: not stack.scraped(), SOON_S, "the end of the target")


def test_targets_and_data_survive_a_restart(stack: Stack, wait_until: WaitUntil) -> None:
    """Targets and data survive a restart, those of RL-Insight's call too.

    No file of Prometheus is written anew for them.
    """
    assert stack.up()[0] == 0
    engine = f"127.0.0.1:{stack.port}"  # Prometheus serves metrics itself
    program = stack.ground.popen(
        sys.executable, stack.ground.program("train.py", RL_INSIGHT), engine, stdin=subprocess.PIPE
    )
    config = (stack.folder / "prometheus.yml").read_bytes()
    line_of(program, "given")
    (labels,) = wait_until(stack.scraped, SOON_S, "the target")
    given = {"job": "vllm", "replica": "0", "project": "p", "experiment_name": "e"}
    assert labels == given | {"instance": engine}
    first = wait_until(lambda: stack.ask("/api/v1/query", query='up{job="vllm"}')["result"], SOON_S, "a value")
    assert stack.down()[0] == 0
    assert stack.up()[0] == 0
    assert (stack.folder / "prometheus.yml").read_bytes() == config
    assert wait_until(stack.scraped, SOON_S, "the target after the restart") == [labels]
    (matrix,) = stack.ask("/api/v1/query", query='up{job="vllm"}[10m]')["result"]
    assert first[0]["value"][0] >= matrix["values"][0][0], "values of before the restart"
    program.communicate("", timeout=SOON_S)
    assert list(stack.targets.glob("*.json")) == []


# --- stand-ins -----------------------------------------------------------------------------------


def test_all_three_are_found_in_path_and_waited_for(stack: Stack, wait_until: WaitUntil) -> None:
    """Tempo is not ready at first. Its stand-in gets the spans of a run at the address that was printed."""
    install_grafana(stack.ground.folder)  # beside the folder of programs, whose parent is Grafana's
    install(stack.bin, "tempo", TEMPO)
    stack.settings["tempo"] = ports("port", "otlp_http_port", "otlp_grpc_port", "grpc_port")
    stack.settings["grafana"] = ports("port")
    code, out, err = stack.up()
    assert code == 0, err
    assert [part["state"] for part in stack.status()["parts"]] == ["ready"] * 3
    assert "stand-in of Grafana on stdout" in (stack.folder / "logs" / "grafana.log").read_text()
    to = next(line.split()[-1] for line in out.splitlines() if line.startswith("spans"))
    program = "import telemetry\nwith telemetry.start('job') as run:\n    with run.span('work'):\n        pass\n"
    code, _, err = stack.ground.run(
        *("run", "--dir", "runs", "--quiet", "--no-collect", "--to", to),
        *("--", sys.executable, stack.ground.program("job.py", program)),
    )
    assert code == 0, err
    assert "/v1/traces" in (stack.folder / "logs" / "tempo.log").read_text()
    assert "/v1/metrics" not in (stack.folder / "logs" / "tempo.log").read_text()
    pids = [part["pid"] for part in stack.status()["parts"]]
    assert stack.down()[0] == 0
    assert not any(map(process_lives, pids))


def test_a_server_that_cant_start_ends_the_start(stack: Stack) -> None:
    """The start ends with the last words of the server that cannot start, and nothing stays."""
    stack.settings["grafana"] = {"program": str(install_grafana(stack.bin / "g", DIES)), "port": free_port()}
    code, out, err = stack.up()
    assert code == 1
    assert "Grafana ended with exit code 3 before it was ready" in err
    assert "can't open its database" in err
    assert out == ""
    assert not (stack.folder / "state.json").exists()


def test_a_server_that_never_answers_is_given_up(stack: Stack) -> None:
    """A server that never answers is given up after the time in the settings."""
    stack.general["ready_timeout_s"] = 5.0
    stack.settings["tempo"] = {"program": str(install(stack.bin, "tempo", SILENT))} | ports(
        "port", "otlp_http_port"
    )
    code, _, err = stack.up()
    assert code == 1
    assert "Tempo did not answer http://127.0.0.1:" in err
    assert "within 5 s" in err
    assert not (stack.folder / "state.json").exists()


def test_containers_are_started_and_ended_by_compose(stack: Stack, wait_until: WaitUntil) -> None:
    """A stand-in of Docker starts the real Prometheus with the command of the compose file."""
    install(stack.bin, "docker", DOCKER)
    (stack.bin / "image-prometheus").symlink_to("/usr/bin/prometheus")
    code, out, err = stack.up("--only", "compose")
    assert code == 0, err
    assert f"http://127.0.0.1:{stack.port} in a container" in out
    assert "starting containers of prometheus" in err
    assert stack.part()["state"] == "ready"
    log = stack.folder / "logs" / "containers.log"
    wait_until(lambda: log.exists() and "a line of a container" in log.read_text(), SOON_S, "its log")
    pid = int((stack.bin / "containers").read_text())
    assert stack.down()[0] == 0
    wait_until(lambda: not process_lives(pid), SOON_S, "the end of the container")
    verbs = [line.split()[3] for line in (stack.bin / "docker.log").read_text().splitlines() if "--file" in line]
    assert sorted(verbs) == ["down", "logs", "up"]


def test_containers_that_cant_be_started_end_the_start(stack: Stack) -> None:
    """A start whose containers cannot be started ends with the message of compose.

    The parts that were started are ended.
    """
    install(stack.bin, "docker", "import sys\nif sys.argv[-1] != 'version':\n    sys.exit('no such image')\n")
    code, _, err = stack.up("--only", "compose")
    assert code == 1
    assert "up` failed: no such image" in err
    assert not (stack.folder / "state.json").exists()


def test_ctrl_c_ends_a_long_pull(stack: Stack, wait_until: WaitUntil) -> None:
    """Images may take minutes."""
    text = "import sys, time\nif sys.argv[-1] not in ('version', 'down'):\n    open('pulls', 'w')\n"
    install(stack.bin, "docker", text + "    while True: time.sleep(0.05)\n")
    process = stack.start("--only", "compose")
    wait_until((stack.ground.folder / "pulls").exists, SOON_S, "the pull")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=SOON_S)
    assert process.returncode == 130, err


# --- the words of others -------------------------------------------------------------------------


def test_the_words_of_rl_insight_start_and_end_it(stack: Stack) -> None:
    """The words of RL-Insight start and end the stack, with a configuration in its form.

    The level may stand at both places.
    """
    text = f"server:\n  backend: local\nprometheus:\n  prometheus_port: {stack.port}\n"
    text += "tempo:\n  enable: false\ngrafana:\n  enable: false\n"
    config = stack.ground.program("server.yaml", text)
    command = (sys.executable, "-m", "telemetry.compat.rl_insight")
    start = stack.ground.popen(
        *(
            *command,
            "--log-level",
            "INFO",
            "server",
            "start",
            "--config",
            config,
            "--detach",
            "--log-level",
            "DEBUG",
        ),
        environ=stack.environ,
    )
    out, err = start.communicate(timeout=SOON_S)
    assert start.returncode == 0, err
    assert f"http://127.0.0.1:{stack.port}" in out
    assert "no effect here: server.backend" in err
    assert "level=debug" in (stack.folder / "logs" / "prometheus.log").read_text()
    stop = stack.ground.popen(*command, "server", "stop")
    _, err = stop.communicate(timeout=SOON_S)
    assert (stop.returncode, "the stack is down" in err) == (0, True)


def test_write_only_writes(stack: Stack) -> None:
    """Names of the files go to stdout."""
    code, out, err = stack.ground.run("stack", "write", "files", "--config", stack.config())
    assert code == 0, err
    paths = [Path(line) for line in out.splitlines()]
    assert {path.name for path in paths} >= {
        "compose.yaml",
        "prometheus.yml",
        "rules.yml",
        "tempo.yaml",
        "grafana.ini",
    }
    assert all(path.is_file() for path in paths)
    assert not stack.folder.exists()
    assert f"{stack.port}" in (stack.ground.folder / "files" / "compose.yaml").read_text()
