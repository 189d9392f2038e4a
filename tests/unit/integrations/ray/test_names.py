"""Names of a job on Ray, and the environment of its workers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from telemetry import limits
from telemetry.errors import UsageError
from telemetry.integrations.ray import env, names

HOOK = "telemetry.integrations.ray.worker.attach_worker"
NODE = "1ceefd3a5999" + "0" * 44


def test_without_ray_the_error_names_the_extra() -> None:
    """A program without Ray gets the command that installs it."""
    program = "import sys; sys.modules['ray'] = None; from telemetry.integrations.ray import run; run('job')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "UsageError" in done.stderr
    assert "telemetryd[ray]" in done.stderr


def test_importing_the_package_does_not_import_ray() -> None:
    """A program that only names the package loads neither Ray nor numpy."""
    program = (
        "import sys, telemetry.integrations.ray as r; r.env('job'); assert not {'ray', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("job", ["job", "a", "Run_1.2-3", "x" * 40])
def test_a_name_that_fits_into_an_address_is_valid(job: str) -> None:
    """The address of a leaf has the name of its job."""
    assert names.check_job(job) == job


@pytest.mark.parametrize("job", ["", "a b", "a/b", ".a", "-a", "x" * 41, "job\n"])
def test_other_names_are_refused(job: str) -> None:
    """The error says which names are valid."""
    with pytest.raises(UsageError, match="letters, digits"):
        names.check_job(job)


@pytest.mark.parametrize("text", ["my run", "/a/b", "...", "", "ä" * 99, "run-1"])
def test_any_text_has_a_valid_name_close_to_it(text: str) -> None:
    """The name of a run may be any text."""
    assert names.check_job(names.job_of(text))


def test_the_environment_has_the_hook_and_the_job() -> None:
    """The runtime environment gets the hook and the name of the job. The program's own entries stay."""
    given = {"pip": ["einops"], "env_vars": {"A": "1"}}
    assert env("job", given) == {
        "pip": ["einops"],
        "env_vars": {"A": "1", "TELEMETRY_RAY_JOB": "job"},
        "worker_process_setup_hook": HOOK,
    }
    assert given == {"pip": ["einops"], "env_vars": {"A": "1"}}
    assert env("job", env("job")) == env("job")


def test_another_hook_is_refused() -> None:
    """Ray calls only one hook, so the error says how to call ours in it."""
    with pytest.raises(UsageError, match="attach_worker"):
        env("job", {"worker_process_setup_hook": "mine.hook"})


def test_addresses_differ_by_job_and_node(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes may share a machine, and jobs a node. The path is short enough for a socket."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_dir))
    address = names.leaf_address("job", NODE)
    assert address == f"ipc://{short_dir}/telemetry/ray-job-1ceefd3a5999"
    assert len({address, names.leaf_address("job2", NODE), names.leaf_address("job", "a" * 56)}) == 3
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/1000")
    monkeypatch.setattr(names, "runtime_directory", lambda: Path("/run/user/1000/telemetry"))
    longest = names.leaf_address("x" * 40, NODE).removeprefix("ipc://") + ".rec.lock"
    assert len(longest) <= limits.IPC_PATH_BYTES


def test_settings_of_the_driver_apply_elsewhere_but_its_addresses_do_not() -> None:
    """Sections that belong to one process stay there, and other variables are no settings."""
    environ = {
        "TELEMETRY_RUN__DRAIN_TIMEOUT_S": "4",
        "TELEMETRY_JOURNAL__CAP_BYTES": "9",
        "TELEMETRY_RUN__DIR": "/x",
        "TELEMETRY_TRANSPORT__BIND": "tcp://h:1",
        "TELEMETRY_SECURITY__KEYS_DIR": "/k",
        "TELEMETRY_UPSTREAM__ADDRESS": "tcp://h:2",
        "TELEMETRY_ENDPOINT": "ipc:///e",
        "PATH": "/bin",
    }
    assert names.settings_of(environ) == {"run.drain_timeout_s": "4", "journal.cap_bytes": "9"}
