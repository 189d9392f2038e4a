"""Machines that share nothing: network, mount, ipc, host name and clock namespaces on one host. Needs root.

Each machine has an address on a common bridge, its own /dev/shm and runtime directory, and a monotonic clock that
began at another time. Disks and process numbers are those of the host.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

_SETUP: Final = """
set -e
hostname {name}
mount --make-rprivate /
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
mkdir -m 0700 /run/user
echo ready
exec sleep infinity
"""


def can_separate() -> bool:
    """Return whether this process may make namespaces."""
    return os.geteuid() == 0 and all(shutil.which(tool) for tool in ("ip", "unshare", "nsenter"))


class Machine:
    """One machine: start programs in it, and cut its cable."""

    def __init__(self, network: Network, number: int, monotonic_offset_s: int) -> None:
        self.name = f"node{number}"
        self.address = f"10.77.0.{10 + number}"
        self._port = f"{network.tag}p{number}"
        self._namespace = f"{network.tag}n{number}"
        self._network = network
        self.folder = network.folder / self.name
        """A folder of its own, visible from outside under the same path."""
        self.folder.mkdir(parents=True)
        self._programs: list[subprocess.Popen[Any]] = []
        _ip("netns", "add", self._namespace)
        _ip(
            "-n",
            network.bridge,
            "link",
            "add",
            self._port,
            "type",
            "veth",
            "peer",
            "eth0",
            "netns",
            self._namespace,
        )
        _ip("-n", network.bridge, "link", "set", self._port, "master", "br0", "up")
        _ip("-n", self._namespace, "addr", "add", f"{self.address}/24", "dev", "eth0")
        _ip("-n", self._namespace, "link", "set", "eth0", "up")
        _ip("-n", self._namespace, "link", "set", "lo", "up")
        self._holder = subprocess.Popen(
            [
                *(
                    "ip",
                    "netns",
                    "exec",
                    self._namespace,
                    "unshare",
                    "-m",
                    "-i",
                    "-u",
                    "-T",
                    "--fork",
                    "--kill-child",
                ),
                *("--monotonic", str(monotonic_offset_s), "--boottime", str(monotonic_offset_s)),
                *("sh", "-c", _SETUP.format(name=self.name)),
            ],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            raise RuntimeError(f"no namespace for {self.name}")
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read_text().split()
        self.pid = int(children[0])

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "XDG_RUNTIME_DIR": "/run/user", "TMPDIR": "/dev/shm", "HOME": str(self.folder)}

    def start(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[Any]:
        """Start a program on this machine, in its folder."""
        entered = ["nsenter", "-t", str(self.pid), "-n", "-m", "-i", "-u", "-T", f"--wd={self.folder}", *command]
        program = subprocess.Popen(
            entered, env={**self.environment, **(environment or {})}, start_new_session=True, **options
        )
        self._programs.append(program)
        return program

    def cut(self) -> None:
        """Cut the cable."""
        _ip("-n", self._network.bridge, "link", "set", self._port, "down")

    def mend(self) -> None:
        _ip("-n", self._network.bridge, "link", "set", self._port, "up")

    def pids(self) -> list[int]:
        """Return the processes of this machine, except the one that holds it."""
        found = subprocess.run(
            ["ip", "netns", "pids", self._namespace], capture_output=True, text=True, check=False
        )
        return [int(pid) for pid in found.stdout.split() if int(pid) not in {self.pid, self._holder.pid}]

    def power_off(self) -> None:
        """Kill everything on this machine at once. Its folder stays."""
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for program in self._programs:
            program.wait(10)
            for pipe in (program.stdout, program.stderr):
                if pipe is not None:
                    pipe.close()

    def close(self) -> None:
        """Remove the machine."""
        self.power_off()
        with suppress(ProcessLookupError):
            os.killpg(self._holder.pid, signal.SIGKILL)
        self._holder.wait(10)
        if self._holder.stdout is not None:
            self._holder.stdout.close()
        _ip("netns", "del", self._namespace)


class Network:
    """A few machines on one bridge. Machine 0 is meant for the root."""

    def __init__(self, machines: int, folder: Path) -> None:
        self.tag = f"t{secrets.token_hex(2)}"
        self.bridge = f"{self.tag}br"
        self.folder = folder
        self.machines: list[Machine] = []
        self._wanted = machines
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        with self._undo:
            _ip("netns", "add", self.bridge)
            self._undo.callback(lambda: _ip("netns", "del", self.bridge))
            _ip("-n", self.bridge, "link", "add", "br0", "type", "bridge")
            _ip("-n", self.bridge, "link", "set", "br0", "up")
            for number in range(self._wanted):
                self.add(number)
            self._undo = self._undo.pop_all()
        return self

    def add(self, number: int) -> Machine:
        """Add a machine. Its monotonic clock is hours ahead of the host's."""
        machine = Machine(self, number, 10_000 * (number + 1))
        self._undo.callback(machine.close)
        self.machines.append(machine)
        return machine

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()


def _ip(*words: str) -> None:
    for _ in range(50):
        done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return
        if "busy" not in done.stderr.lower():
            break
        time.sleep(0.05)
    raise RuntimeError(f"ip {' '.join(words)}: {done.stderr.strip()}")
