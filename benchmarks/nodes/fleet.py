"""A root, leaves and producers on machines that share nothing but a disk, with what they recorded."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.namespaces import Machine, Network

PORT: Final = 5757
DEADLINE_S: Final = 180.0
_TELEMETRY: Final = (sys.executable, "-m", "telemetry")
_FAKE_CLOCK: Final = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"

RECORDING: Final = """
import json, os, random, select, sys, telemetry
seed, stop, rate = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
values = random.Random(seed)
run = telemetry.start(f"rank{seed}")
n, level, value = run.counter("n"), run.gauge("level"), run.series("value", unit="ms")
print("up", flush=True)
made = 0
while not os.path.exists(stop):
    for _ in range(20):
        n.add(1)
        value.record(values.lognormvariate(2, 1))
        level.set(made)
        made += 1
    if made % 200 == 0:
        run.mark(f"{seed} {made}")
    select.select([], [], [], 20 / rate)  # time.sleep fails with a faked clock
run.finish()
print(json.dumps({"seed": seed, "made": made}), flush=True)
"""
"""Records values until a file exists. Its values follow from its seed."""


class Fleet:
    """Machine 0 has the root, every other one a leaf and some producers."""

    def __init__(self, folder: Path, nodes: int, producers: int, *, rate: float = 2_000) -> None:
        self.folder = folder
        self.producers = producers
        self.network = Network(nodes + 1, folder)
        self.seeds: dict[int, int] = {}
        """Seed of each producer that has finished → how many values it recorded."""
        self._rate = rate
        self._stop = folder / "stop"
        self._recording: dict[int, tuple[Machine, subprocess.Popen[str]]] = {}
        self._undo = ExitStack()
        self.root: Served
        self.leaves: dict[str, Served] = {}

    def __enter__(self) -> Self:
        with self._undo:
            self._undo.enter_context(self.network)
            self.key = self._new_key("keys")
            self._undo = self._undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    @property
    def machines(self) -> Sequence[Machine]:
        """The machines of the nodes, without that of the root."""
        return self.network.machines[1:]

    def start_root(self, *words: str, port: int = PORT, name: str = "fleet") -> Served:
        machine = self.network.machines[0]
        bind = f"tcp://{machine.address}:{port}"
        served = self.serve(machine, "--name", name, "--bind", bind, *words)
        served.address = f"{bind}#{self.key}"
        return served

    def start_leaf(
        self, machine: Machine, root: Served | None = None, environment: Mapping[str, str] | None = None
    ) -> Served:
        address = (root or self.root).address
        words = ("--name", machine.name, "--node", machine.name, "--upstream", address)
        return self.serve(machine, *words, environment=environment)

    def start(self, *words: str) -> None:
        """Start the root and a leaf on every node, with their producers."""
        self.root = self.start_root("--nodes", ",".join(machine.name for machine in self.machines), *words)
        for machine in self.machines:
            self.join(machine)

    def join(self, machine: Machine, environment: Mapping[str, str] | None = None) -> None:
        """Start a leaf and its producers."""
        self.leaves[machine.name] = self.start_leaf(machine, environment=environment)
        for _ in range(self.producers):
            self.record(machine, self.leaves[machine.name], environment)

    def serve(self, machine: Machine, *words: str, environment: Mapping[str, str] | None = None) -> Served:
        ready, tell = os.pipe()
        command = [*_TELEMETRY, "serve", "--dir", str(machine.folder), "--ready-fd", str(tell), *words]
        process = machine.start(command, self.environment(environment), pass_fds=[tell], stderr=subprocess.PIPE)
        os.close(tell)
        with os.fdopen(ready) as pipe:
            line = pipe.readline()
        if not line:
            raise RuntimeError(process.communicate()[1].decode())
        return Served(machine, process, json.loads(line))

    def resume(self, dead: Served) -> Served:
        served = self.serve(dead.machine, "--resume", str(dead.folder))
        served.address = dead.address
        return served

    def record(self, machine: Machine, leaf: Served, environment: Mapping[str, str] | None = None) -> None:
        seed = len(self._recording) + len(self.seeds) + 1
        words = [sys.executable, "-c", RECORDING, str(seed), str(self._stop), str(self._rate)]
        process = machine.start(
            words,
            self.environment({"TELEMETRY_ENDPOINT": leaf.facts["endpoint"], **(environment or {})}),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        self._recording[seed] = machine, process

    def finish(self) -> None:
        """Let all producers finish, and note what they recorded."""
        self._stop.touch()
        for seed, (_, process) in self._recording.items():
            out, _ = process.communicate(timeout=DEADLINE_S)
            if process.returncode == 0:
                self.seeds[seed] = json.loads(out)["made"]
        self._recording.clear()

    def kill_a_producer(self) -> Machine:
        seed = random.choice(list(self._recording))
        machine, process = self._recording.pop(seed)
        process.kill()
        process.communicate()
        return machine

    @property
    def made(self) -> int:
        return sum(self.seeds.values())

    def percentiles(self, wanted: Sequence[str]) -> dict[str, float]:
        """Return the order statistics of all that was recorded."""
        values = sorted(
            value
            for seed, made in self.seeds.items()
            for source in [random.Random(seed)]
            for value in (source.lognormvariate(2, 1) for _ in range(made))
        )
        found = {}
        for key in wanted:
            whole, _, part = key.partition(".")
            scale = 100 * 10 ** len(part)
            found[key] = values[-(-int(whole + part) * len(values) // scale) - 1]
        return found

    def stop(self, served: Served) -> dict[str, Any]:
        """End a run, and return its result."""
        command = [*_TELEMETRY, "stop", served.facts["endpoint"]]
        entered = self._entered(served.machine, command)
        subprocess.run(entered, env=self.environment(), check=True, timeout=120, capture_output=True)
        served.process.communicate(timeout=DEADLINE_S)
        return served.result()

    def status(self, served: Served) -> dict[str, Any]:
        command = [*_TELEMETRY, "status", served.facts["endpoint"], "--json"]
        done = subprocess.run(
            self._entered(served.machine, command),
            env=self.environment(),
            capture_output=True,
            check=False,
            timeout=60,
        )
        return dict(json.loads(done.stdout)) if done.stdout else {}

    def wait_for(self, condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
        until = time.monotonic() + deadline_s
        while not condition():
            if time.monotonic() > until:
                raise TimeoutError(what)
            time.sleep(0.05)

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        keys = {"TELEMETRY_SECURITY__KEYS_DIR": str(self.folder / "keys")}
        return {**os.environ, **keys, "XDG_RUNTIME_DIR": "/run/user", **(more or {})}

    def _new_key(self, folder: str) -> str:
        environment = {**os.environ, "TELEMETRY_SECURITY__KEYS_DIR": str(self.folder / folder)}
        made = subprocess.run(
            [*_TELEMETRY, "keys", "new"], env=environment, capture_output=True, text=True, check=True
        )
        return made.stdout.strip()

    def foreign_key(self) -> dict[str, str]:
        """Return the environment of a user whom the root does not trust."""
        self._new_key("foreign")
        return {"TELEMETRY_SECURITY__KEYS_DIR": str(self.folder / "foreign")}

    @staticmethod
    def _entered(machine: Machine, command: Sequence[str]) -> list[str]:
        return ["nsenter", "-t", str(machine.pid), "-n", "-m", "-i", "-u", "-T", *command]


class Served:
    """An aggregator on a machine."""

    def __init__(self, machine: Machine, process: subprocess.Popen[bytes], facts: dict[str, Any]) -> None:
        self.machine = machine
        self.process = process
        self.facts = facts
        self.folder = Path(facts["dir"])
        self.address = ""

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def result(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "final_snapshot.json").read_text()))


def wrong_clock(seconds: float) -> dict[str, str]:
    """Return the environment of a program whose wall clock is wrong by so much. Its monotonic clock is right."""
    return {"LD_PRELOAD": _FAKE_CLOCK, "FAKETIME": f"{seconds:+g}s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
