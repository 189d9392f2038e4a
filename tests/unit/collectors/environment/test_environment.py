"""The collector `environment`: variables, machine, interpreter and packages of real processes."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from telemetry import limits
from telemetry.collectors.collector import ONCE_S, Target
from telemetry.collectors.environment import collector
from telemetry.collectors.environment.collector import Environment, Interpreter, described, interpreter_of, packages
from telemetry.testing.collectors import MemoryRun

SLEEP = "import time; time.sleep(600)"
WaitUntil = Callable[..., object]


@contextmanager
def running(*command: str, **variables: str) -> Iterator[int]:
    """Provide the id of a process whose environment can be read: for a moment of its start it is empty."""
    process = subprocess.Popen(command, env=os.environ | variables, start_new_session=True)
    try:
        deadline = time.monotonic() + 10.0
        while not Path(f"/proc/{process.pid}/environ").read_bytes() and time.monotonic() < deadline:
            time.sleep(0.001)
        yield process.pid
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def collected(pid: int, *, samples: int = 1, node: str = "", **options: str) -> MemoryRun:
    run = MemoryRun()
    labels = {"node": node} if node else {}
    made = Environment(Environment.Options(**options), Target(pid=pid, labels=labels))
    for _ in range(samples):
        made.sample(run)
    made.close()
    return run


def test_variables_are_those_on_the_list() -> None:
    """Others stay out, whatever they hold; what looks secret is masked."""
    variables = {
        "CUDA_VISIBLE_DEVICES": "0,1",
        "NCCL_DEBUG": "INFO",
        "VLLM_API_KEY": "s3cret-value",
        "HF_TOKEN": "hf_secretsecretsecret",
        "MY_SECRET": "s3cret-value",
        "MY_MODE": "fast\x1b[0m",
        "OMP_NUM_THREADS": "",
    }
    with running(sys.executable, "-c", SLEEP, **variables) as pid:
        params = collected(pid, variables="MY_MODE | OTHER_*").all_params
    assert params["env.CUDA_VISIBLE_DEVICES"] == "0,1"
    assert params["env.NCCL_DEBUG"] == "INFO"
    assert params["env.VLLM_API_KEY"] == "***"
    assert "\x1b" not in str(params["env.MY_MODE"])
    assert not {"env.HF_TOKEN", "env.MY_SECRET", "env.HOME", "env.OMP_NUM_THREADS"} & set(params)
    assert "s3cret-value" not in str(params)


def test_without_a_command_the_variables_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """`telemetry serve` has none. There is no interpreter to look for then."""
    monkeypatch.setenv("NCCL_DEBUG", "WARN")
    params = collected(0, samples=3).all_params
    assert params["env.NCCL_DEBUG"] == "WARN"
    assert not [name for name in params if name.startswith(("python.", "packages."))]


def test_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's facts are those of the kernel. The names say which node of several it is."""
    facts = collector.machine_facts()
    assert facts["host"]
    assert facts["kernel"].startswith(platform.system())
    assert int(facts["cpus"]) == len(os.sched_getaffinity(0))
    assert facts["memory"].endswith("GiB")
    monkeypatch.setattr(collector, "_text", lambda path: "")
    assert set(collector.machine_facts()) >= {"host", "os", "kernel", "cpus"}
    assert "machine.host (n0)" in collected(0, node="n0").all_params


def test_the_interpreter_of_a_command(tmp_path: Path) -> None:
    """The interpreter of a command is observed from outside, with the packages of its environment."""
    with running(sys.executable, "-c", SLEEP) as pid:
        params = collected(pid, samples=3, packages="numpy|msgspec|NO-such*").all_params
    from importlib.metadata import version

    assert params["python.version"] == platform.python_version()
    assert params["python.path"] == sys.executable
    found = {name: value for name, value in params.items() if name.startswith("packages.")}
    assert found == {"packages.numpy": version("numpy"), "packages.msgspec": version("msgspec")}


def test_an_interpreter_that_is_gone_has_the_version_of_its_name() -> None:
    """An interpreter whose file was replaced, as by an upgrade, has the version of its name."""
    gone = Path("/no/such/bin/python3.11")
    assert (described(gone, gone).version, described(gone, gone).folders) == ("3.11", ())


def test_the_interpreter_below_a_shell(wait_until: WaitUntil) -> None:
    """The interpreter is looked for again, because the shell starts it later."""
    run, made = MemoryRun(), None
    with running("/bin/sh", "-c", f'sleep 0.2; "{sys.executable}" -c "{SLEEP}"; true') as pid:
        made = Environment(Environment.Options(), Target(pid=pid))
        made.sample(run)
        assert made.interval_s == 1.0
        wait_until(lambda: interpreter_of(pid) is not None, 30.0, "the interpreter")
        made.sample(run)
    assert run.all_params["python.path"] == sys.executable
    assert made.interval_s == ONCE_S


def test_a_command_without_python_is_looked_at_ten_times() -> None:
    """The collector looks ten times at a command without Python. Then it rests."""
    with running("/bin/sleep", "600") as pid:
        made = Environment(Environment.Options(), Target(pid=pid))
        for _ in range(10):
            assert made.interval_s == 1.0
            made.sample(MemoryRun())
    assert made.interval_s == ONCE_S
    assert interpreter_of(1 << 22) is None


def tree(root: Path, *folders: str) -> None:
    for folder in folders:
        (root / folder).mkdir(parents=True)


def test_packages_of_a_virtual_environment(tmp_path: Path) -> None:
    """A virtual environment has only its own packages, unless it includes the base. The first folder wins."""
    base, home = tmp_path / "base", tmp_path / "venv"
    tree(
        base,
        "bin",
        "lib/python3.12/site-packages/torch-2.5.0.dist-info",
        "lib/python3.12/site-packages/base_only-1.dist-info",
    )
    tree(base, "lib/python3.11/site-packages/other-9.dist-info")
    tree(
        home,
        "bin",
        "lib/python3.12/site-packages/torch-2.6.0+cu124.dist-info",
        "lib/python3.12/site-packages/torch",
    )
    tree(home, "lib/python3.12/site-packages/Flash_Attn-1.0-py3.12.egg-info")
    executable = base / "bin" / "python3.12"
    executable.touch()
    settings = home / "pyvenv.cfg"
    settings.write_text("home = /x\nversion_info = 3.12.4.final.0\ninclude-system-site-packages = false\n")
    own = described(home / "bin" / "python", executable)
    assert own.version == "3.12.4"
    assert packages(own) == {"torch": "2.6.0+cu124", "flash-attn": "1.0"}
    settings.write_text("version = 3.12.4\ninclude-system-site-packages = TRUE\n")
    assert packages(described(home / "bin" / "python", executable)) == {
        "torch": "2.6.0+cu124",
        "flash-attn": "1.0",
        "base-only": "1",
    }
    bare = described(executable, executable)
    assert bare.version == "3.12"
    assert packages(bare) == {"torch": "2.5.0", "base-only": "1"}


def test_numbers_of_parameters_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every snapshot repeats them."""
    monkeypatch.setattr(limits, "ENVIRONMENT_PACKAGES", 3)
    monkeypatch.setattr(limits, "ENVIRONMENT_VARIABLES", 2)
    with running(sys.executable, "-c", SLEEP, **{f"NCCL_X{at}": "1" for at in range(9)}) as pid:
        params = collected(pid, packages="*").all_params
    assert sum(name.startswith("packages.") for name in params) == 3
    assert sum(name.startswith("env.") for name in params) == 2


def test_folders_that_are_gone_have_no_packages(tmp_path: Path) -> None:
    """An environment may be removed while the command runs."""
    assert packages(Interpreter(tmp_path / "python", "3.12", (tmp_path / "gone",))) == {}
