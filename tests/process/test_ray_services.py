"""Aggregators in the care of Ray's actors, without Ray: started, found again, resumed and ended."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from telemetry.client.instruments import Counter
from telemetry.client.process import Process
from telemetry.config import EmitConfig
from telemetry.errors import EndpointError, RunDirectoryError, UsageError
from telemetry.integrations.ray.driver import end_root, reachable_root
from telemetry.integrations.ray.keys import KEYS_VARIABLE, own_pair, take_pair
from telemetry.integrations.ray.service import RayService, remove_abandoned
from telemetry.supervise.run_files import RunFiles
from telemetry.transport.client import hello
from telemetry.transport.keys import KeyFolder

WaitUntil = Callable[..., object]
EMIT = EmitConfig(flush_ms=2, start_timeout_s=20, finish_timeout_s=20)


@pytest.fixture(autouse=True)
def place(short_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for sockets and private files, and another one for runs."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_dir))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("TELEMETRY_ENDPOINT", raising=False)
    monkeypatch.setenv(KEYS_VARIABLE, "")
    monkeypatch.chdir(tmp_path)
    return short_dir / "telemetry"


@pytest.fixture
def make(place: Path) -> Iterator[Callable[..., RayService]]:
    """Return services of one folder, as actors and their successors make them."""
    made: list[RayService] = []

    def service(owner_pid: int = 0, **flags: object) -> RayService:
        bound = {"transport.bind": f"ipc://{place}/ray-job-node", **flags}
        owner = owner_pid or os.getpid()
        made.append(RayService(place / "ray-x", "job", bound, owner_pid=owner, say=print))
        return made[-1]

    yield service
    for each in made:
        each.end(10.0)


def record(endpoint: str, amount: float) -> None:
    """Count in a process of its own, and end it."""
    process = Process()
    process.attach(endpoint, "worker", EMIT).wait_for_welcome(20)
    counter = process.instrument("counter", "done", "", {})
    assert isinstance(counter, Counter)
    counter.add(amount)
    assert process.finish(20).account is not None


def test_a_successor_finds_the_aggregator_and_resumes_its_run(make: Callable[..., RayService], place: Path) -> None:
    """The actor was killed, and its aggregator lives on: its successor ends it, and goes on with its numbers."""
    first = make()
    first.begin()
    assert first.aggregator is not None
    record(first.aggregator.endpoint, 3)
    assert stat.S_IMODE((place / "ray-x").stat().st_mode) == 0o700
    assert first.keeper is not None
    first.keeper.release()  # as the death of the actor does

    second = make()
    second.begin()
    assert second.aggregator is not None
    assert second.aggregator.pid != first.aggregator.pid
    assert second.aggregator.endpoint == first.aggregator.endpoint
    assert second.files == first.files
    record(second.aggregator.endpoint, 4)
    second.end(20.0)
    snapshot, problem = second.files.final()
    assert snapshot is not None, problem
    assert [counter.value for counter in snapshot.counters] == [7]
    assert snapshot.reason == "the job has ended"
    assert not any(place.iterdir())


def test_a_killed_aggregator_is_resumed(make: Callable[..., RayService], wait_until: WaitUntil) -> None:
    """The service watches it."""
    service = make()
    service.begin()
    first = service.aggregator
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: service.aggregator is not first, 30.0, "another aggregator")
    assert not service.over


def test_a_run_with_a_result_is_not_begun_again(make: Callable[..., RayService]) -> None:
    """The run ended while the actor was away."""
    first = make()
    first.begin()
    assert first.aggregator is not None
    end_root(first.aggregator.endpoint, first.files, 20.0)
    second = make()
    second.begin()
    assert second.over
    assert second.aggregator is None
    assert second.files.directory == first.files.directory


def test_errors_of_the_start_are_those_of_the_aggregator(make: Callable[..., RayService], tmp_path: Path) -> None:
    """The user learns what is wrong, not that an actor failed."""
    with pytest.raises(EndpointError, match="refresh_hz"):
        make(**{"run.refresh_hz": "often"}).begin()
    (tmp_path / "file").write_text("")
    with pytest.raises(RunDirectoryError):
        make(**{"run.dir": str(tmp_path / "file")}).begin()


def test_what_a_dead_node_leaves_behind_is_removed(make: Callable[..., RayService], place: Path) -> None:
    """The next leaf on this machine removes the keys and sockets of services whose owner is dead, and no others."""
    owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    service = make(owner.pid)
    service.begin()
    remove_abandoned(place)
    assert (place / "ray-x").exists()

    assert service.keeper is not None
    assert service.aggregator is not None
    service.keeper.release()
    os.kill(service.aggregator.pid, signal.SIGKILL)
    service.aggregator.process.wait()
    remove_abandoned(place)
    assert (place / "ray-x").exists()  # its owner may start another actor
    owner.communicate(b"\n")
    remove_abandoned(place)
    assert not any(place.iterdir())


def test_an_aggregator_outlives_its_actor_but_not_its_owner(make: Callable[..., RayService]) -> None:
    """The owner of a leaf is the raylet of its node, the owner of a root the driver."""
    owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    service = make(owner.pid)
    service.begin()
    assert service.aggregator is not None
    owner.communicate(b"\n")
    service.aggregator.process.wait(30)
    assert service.files.has_result()


def test_a_root_of_another_process_is_ended(make: Callable[..., RayService]) -> None:
    """The result comes from its final snapshot. A second call reads the file."""
    service = make()
    service.begin()
    assert service.aggregator is not None
    endpoint = service.aggregator.endpoint
    record(endpoint, 2)
    files = RunFiles(hello(endpoint).directory, service.aggregator.run_id, "job")
    report = end_root(endpoint, files, 20.0)
    assert (report.source, report.completeness) == ("pubsub", "complete")
    service.aggregator.process.wait(20)
    assert end_root(endpoint, files, 5.0).source == "file"


# --- keys and addresses --------------------------------------------------------------------------


def test_all_processes_of_a_job_have_one_pair(place: Path) -> None:
    """The root makes it once, and each leaf writes its copy. No other user can read them."""
    pair = own_pair(place / "root")
    assert own_pair(place / "root") == pair
    take_pair(place / "leaf", pair)
    take_pair(place / "leaf", pair)  # another actor of the same leaf
    assert os.environ[KEYS_VARIABLE] == str(place / "leaf" / "keys")
    assert KeyFolder(place / "leaf" / "keys").own() == pair
    for folder in ("root", "leaf"):
        assert stat.S_IMODE((place / folder / "keys").stat().st_mode) == 0o700
        assert stat.S_IMODE((place / folder / "keys" / "secret.key").stat().st_mode) == 0o600


def test_the_address_of_a_root_is_the_one_that_all_nodes_reach() -> None:
    """An address of this machine alone is refused if the cluster has other machines."""
    key = "a" * 40
    here, all_hosts = {"192.0.2.1"}, {"192.0.2.1", "192.0.2.2"}
    for endpoint in ("ipc:///x/ctl", f"tcp://127.0.0.1:9#{key}", f"tcp://192.0.2.1:9#{key}"):
        assert reachable_root(endpoint, "192.0.2.1", here) == endpoint
    assert reachable_root(f"tcp://192.0.2.1:9#{key}", "192.0.2.1", all_hosts) == f"tcp://192.0.2.1:9#{key}"
    for endpoint in ("ipc:///x/ctl", f"tcp://127.0.0.1:9#{key}"):
        with pytest.raises(UsageError, match="telemetry run --ray"):
            reachable_root(endpoint, "127.0.0.2", all_hosts)


def test_a_root_that_listens_everywhere_is_reached_by_the_nodes_address(make: Callable[..., RayService]) -> None:
    """`telemetry run --ray` tells its command the loopback address, and other machines need another one."""
    pair = own_pair(Path("keys-of-job").absolute())
    service = make(**{"transport.bind": "tcp://0.0.0.0:*", "security.curve": "always"})
    service.begin()
    assert service.aggregator is not None
    port = service.aggregator.endpoint.partition("#")[0].rpartition(":")[2]
    given = f"tcp://127.0.0.1:{port}#{pair.public.decode()}"
    address = "127.0.0.2"  # another address of this machine
    assert reachable_root(given, address, {address, "192.0.2.9"}) == given.replace("127.0.0.1", address)
