"""The doctor's checks find what they look for."""

from __future__ import annotations

import os
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from telemetry import limits
from telemetry.cli.commands import doctor
from telemetry.client import native_module
from telemetry.config import Config, JournalConfig, RunConfig, TransportConfig
from telemetry.transport import ring_directory
from telemetry.transport.keys import KeyFolder
from telemetry.transport.sockets import ZmqFacts


@pytest.fixture(autouse=True)
def in_a_directory_of_its_own(root: Path) -> None:
    """Hide the settings and the runs of this machine from each test."""


def test_a_long_socket_path_fails(monkeypatch: pytest.MonkeyPatch, root: Path) -> None:
    """A runtime directory in which no socket path fits is found before a run fails on it."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(root / ("x" * 100)))
    status, _, advice = doctor.check_runtime_directory(Config())
    assert status == "fail"
    assert "XDG_RUNTIME_DIR" in advice


@pytest.mark.parametrize(
    ("free", "status"), [(10 * limits.MIB, "fail"), (limits.GIB, "warn"), (100 * limits.GIB, "ok")]
)
def test_disk_space(monkeypatch: pytest.MonkeyPatch, free: int, status: str) -> None:
    """Too little room for a run fails; less than the journal may take warns."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _path: usage(0, 0, free))
    assert doctor.check_run_directory(Config())[0] == status


def test_no_journal_needs_less_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cap of the journal is no concern of a run that has no journal."""
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _path: usage(0, 0, limits.GIB))
    assert doctor.check_run_directory(Config(journal=JournalConfig(enabled=False)))[0] == "ok"


def test_a_file_in_the_place_of_the_run_directory_fails(root: Path) -> None:
    """Runs can't be made below a file."""
    root.write_text("")
    assert doctor.check_run_directory(Config(run=RunConfig(dir="runs/deeper")))[0] == "fail"


def test_few_descriptors_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    """A low limit on open files is told with the command that raises it."""
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda _which: (64, 4_096))
    status, _, advice = doctor.check_open_files(Config())
    assert status == "warn"
    assert "ulimit -n 4096" in advice


def test_compiled_modules_are_told(compiled: object) -> None:
    """Each module in C has its name in the finding."""
    assert doctor.check_compiled(Config()) == ("ok", "recorder compiled, ingest compiled")


def test_a_module_that_is_not_compiled_is_told_with_the_remedy(
    compiled: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package works without; the advice names the packages to install."""
    monkeypatch.setitem(sys.modules, "telemetry.client._recorder", None)
    monkeypatch.setattr(sys, "platform", "linux")
    status, found, *advice = doctor.check_compiled(Config())
    assert (status, found) == ("ok", "recorder not compiled, ingest compiled: recording and ingest take more time")
    assert "apt-get install gcc python3-dev" in advice[0]
    monkeypatch.setattr(sys, "platform", "darwin")
    assert "xcode-select --install" in "".join(doctor.check_compiled(Config())[2:])


def test_a_free_threaded_interpreter_needs_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler would not help there, so none is advised."""
    monkeypatch.setattr(native_module, "IS_FREE_THREADED", True)
    found = "recorder in Python: the compiled one needs the lock that a free-threaded Python does without"
    assert doctor.check_compiled(Config()) == ("ok", found)


def test_a_module_of_other_sources_is_a_warning(compiled: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """An old module is not used after the C code was edited without a new installation."""
    monkeypatch.setattr("telemetry.aggregator.compiled.SOURCE_CRC", 1)
    status, found, *advice = doctor.check_compiled(Config())
    assert (status, found) == ("warn", "recorder compiled, ingest compiled from other sources, not used")
    assert "install telemetry again" in advice[0]


def test_a_recorder_that_is_switched_off_is_told(compiled: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable that switches it off is named, because it may come from a parent process."""
    monkeypatch.setattr("telemetry.client.native_module.RECORDER", None)
    found = "recorder switched off by TELEMETRY_NATIVE, ingest compiled"
    assert doctor.check_compiled(Config()) == ("ok", found)


def test_a_stale_endpoint_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exported address at which nobody answers would make every `start` fail."""
    monkeypatch.setenv("TELEMETRY_ENDPOINT", f"ipc://{os.getcwd()}/nobody")
    monkeypatch.setattr(doctor, "_HELLO_TIMEOUT_S", 0.1)
    status, found, advice = doctor.check_endpoint(Config())
    assert status == "fail"
    assert "nobody" in found
    assert "unset TELEMETRY_ENDPOINT" in advice


def test_keys_are_no_matter_without_any() -> None:
    """Missing keys are no failure as long as the run can only be reached from this machine."""
    status, found, *_ = doctor.check_keys(Config())
    assert (status, found.startswith("none in ")) == ("ok", True)
    reachable = Config(transport=TransportConfig(bind="tcp://0.0.0.0:*"))
    status, found, *advice = doctor.check_keys(reachable)
    assert (status, "contains no keys" in found) == ("fail", True)
    assert "telemetry keys new" in advice[0]


def test_keys_are_looked_at(root: Path) -> None:
    """Fit for use; a file that is not believed; a secret that others can read, with what mends it."""
    folder = KeyFolder(root.parent / "telemetry" / "keys")
    folder.make_pair()
    folder.trust("ann", folder.own().public.decode())
    status, found, *_ = doctor.check_keys(Config())
    assert (status, "1 other trusted" in found) == ("ok", True)
    (folder.trusted_path / "bob").write_text("nonsense")
    status, found, *_ = doctor.check_keys(Config())
    assert (status, "bob contains no public key" in found) == ("warn", True)
    folder.secret.chmod(0o644)
    assert doctor.check_keys(Config())[0::2] == ("fail", f"chmod 600 {folder.secret}")


def test_a_library_that_cannot_encrypt_is_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ZeroMQ library that can't encrypt is a failure only if there are keys."""
    facts = ZmqFacts("27", "4.3.5", ipc=True, curve=False)
    monkeypatch.setattr("telemetry.transport.sockets.zmq_facts", lambda: facts)
    assert doctor.check_keys(Config())[0] == "ok"
    KeyFolder(root.parent / "telemetry" / "keys").make_pair()
    assert doctor.check_keys(Config())[0] == "fail"


def test_an_endpoint_whose_key_is_unknown_says_what_helps(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice for an endpoint with an unknown key is to create keys.

    The endpoint is alive, so the advice to unset the variable would be wrong.
    """
    monkeypatch.setenv("TELEMETRY_ENDPOINT", "tcp://127.0.0.1:1#somebody")
    status, found, *advice = doctor.check_endpoint(Config())
    assert (status, "no keys in" in found) == ("fail", True)
    assert advice == ["create them with `telemetry keys new`"]


def test_another_project_of_the_same_name_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of the other project overwrites files of this one. The advice repairs that."""
    monkeypatch.setattr(doctor, "version", lambda package: "1.0")
    status, found, *advice = doctor.check_versions(Config())
    assert status == "fail"
    assert "`telemetry` is also installed, a different project" in found
    assert advice == ["pip uninstall telemetry, then pip install --force-reinstall telemetryd"]


def test_where_the_events_of_a_killed_program_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The events of a killed program end with it if they have no place, or no compiled recorder."""
    monkeypatch.setattr(native_module, "RECORDER", object())
    monkeypatch.setattr(ring_directory, "ring_directory", lambda: tmp_path)
    assert doctor.check_salvage(Config()) == ("ok", f"the last events of a killed program are in {tmp_path}")
    monkeypatch.setattr(ring_directory, "ring_directory", lambda: None)
    status, found, advice = doctor.check_salvage(Config())
    assert (status, "loses its last events" in found, "tmpfs" in advice) == ("warn", True, True)
    monkeypatch.setattr(native_module, "RECORDER", None)
    status, found = doctor.check_salvage(Config())
    assert (status, "not compiled" in found) == ("ok", True)
