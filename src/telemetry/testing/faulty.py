"""A backend that wraps another one and injects planned faults: `--to faulty:inner=…,folder=…`.

Faults are kept in a file, so that they survive the processes that they kill, and a test can change them while a
writer runs. `plug_in` creates a folder for PYTHONPATH that installs the backend.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, NoReturn

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from telemetry import limits
from telemetry.backends.backend import Backend, RunFacts, Unavailable
from telemetry.backends.choice import make, parse
from telemetry.backends.items import KINDS, Item
from telemetry.config.plugins.choice import Choice
from telemetry.config.plugins.entry_points import GROUPS
from telemetry.store.atomic import write_atomic

KIND: Final = "faulty"
AWAY: Final = "the tracker is away, as planned"
BROKEN: Final = "its library broke, as planned"

_SLOW_S: Final = 0.3
_HUNG_S: Final = 0.5  # until the writer ends its process
_FOREVER_S: Final = 3_600.0
_LEAST_FILE_BYTES: Final = 16 * limits.KIB  # of the writer's own small files
_BATCH_ITEMS: Final = 40
_RETRY_S, _RETRY_MOST_S = 0.03, 0.1
_STATUS_S: Final = 0.05


class Fault(Struct, frozen=True, kw_only=True):
    """A fault in one or more consecutive calls."""

    what: Literal["away", "breaks", "hangs", "dies", "slow", "full"]
    """Kind of fault.

    `away` raises Unavailable and `breaks` an unknown error, before the inner call. `hangs` never returns. `dies`
    sends SIGKILL in the middle of a `write`, or after a `flush`. `full` stops all files from growing, until another
    call of this kind.
    """
    call: Literal["open", "write", "flush"] = "write"
    skip: int = 0
    """Number of such calls that succeed before it."""
    times: int = 1
    """Number of such calls that fail; 0 for all until `mend`."""


class Faults:
    """The planned faults, in order: a fault waits for the earlier ones to end.

    Only one process may change them at a time.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "faults.json"

    def plan(self, *faults: Fault) -> None:
        """Replace the planned faults."""
        write_atomic(self._path, msgspec.json.encode(faults), durable=False)

    def mend(self) -> None:
        self.plan()

    def left(self) -> list[Fault]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[Fault])
        except FileNotFoundError:
            return []

    def due(self, call: str) -> Fault | None:
        """Return the fault of this call and record its use."""
        planned = self.left()
        if not planned or planned[0].call != call:
            return None
        head, *rest = planned
        if head.skip:
            self.plan(replace(head, skip=head.skip - 1), *rest)
            return None
        if head.times:
            self.plan(*[replace(head, times=head.times - 1)] * (head.times > 1), *rest)
        return head


class FaultyOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    inner: str
    """Inner backend, as after `--to`."""
    folder: str
    """Folder of the faults."""


def around(to: str, folder: Path) -> str:
    """Return the value of `--to` that wraps a backend and keeps its name."""
    inner = parse(to)
    return str(Choice(inner.name, KIND, {"inner": to, "folder": str(folder)}))


def plug_in(folder: Path) -> Path:
    """Create a folder for PYTHONPATH inside `folder` and return it."""
    facts = folder / "plug" / "telemetry_faulty-1.dist-info"
    facts.mkdir(parents=True, exist_ok=True)
    facts.joinpath("METADATA").write_text("Metadata-Version: 2.1\nName: telemetry-faulty\nVersion: 1\n")
    facts.joinpath("entry_points.txt").write_text(
        f"[{GROUPS['backends']}]\n{KIND} = {__name__}:{Faulty.__name__}\n"
    )
    return facts.parent


class Faulty:
    """The wrapping backend. It makes its writer fast, so that a small run shows the effects of a large one.

    Batches are small, waits are short, reports are frequent, and a call that is planned to hang has a short
    timeout. So a test takes a second instead of minutes.
    """

    Options: ClassVar[type[Struct]] = FaultyOptions
    takes: tuple[type[Item], ...] = KINDS
    idempotent: bool = True

    def __init__(self, options: FaultyOptions, place: Path) -> None:
        self._inner: Backend = make(parse(options.inner), place)
        self._faults = Faults(Path(options.folder))
        self._place = place
        self._room = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        self.takes = self._inner.takes
        self.idempotent = self._inner.idempotent
        limits.BACKEND_BATCH_ITEMS = _BATCH_ITEMS
        limits.BACKEND_RETRY_S, limits.BACKEND_RETRY_MOST_S = _RETRY_S, _RETRY_MOST_S
        limits.BACKEND_STATUS_S = _STATUS_S

    @property
    def left_out(self) -> dict[str, int]:
        return getattr(self._inner, "left_out", {})

    @property
    def close_s(self) -> float | None:
        return getattr(self._inner, "close_s", None)

    @property
    def say(self) -> Callable[[str], object]:
        return getattr(self._inner, "say", print)

    @say.setter
    def say(self, say: Callable[[str], object]) -> None:
        if hasattr(self._inner, "say"):
            self._inner.say = say

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        self._befall("open")
        self._inner.open(run, state)
        self._prepare()

    def write(self, items: Sequence[Item]) -> None:
        fault = self._befall("write")
        if fault is not None and fault.what == "dies":
            self._inner.write(items[: (len(items) + 1) // 2])
            _die()
        self._inner.write(items)

    def flush(self) -> None:
        fault = self._befall("flush")
        self._inner.flush()
        if fault is not None and fault.what == "dies":
            _die()
        self._prepare()

    def state(self) -> dict[str, Any]:
        return self._inner.state()

    def close(self, *, final: bool) -> None:
        self._inner.close(final=final)

    def where(self) -> str:
        return self._inner.where()

    def _befall(self, call: str) -> Fault | None:
        fault = self._faults.due(call)
        what = fault.what if fault is not None else ""
        if what == "full":
            sizes = [path.stat().st_size for path in self._place.rglob("*") if path.is_file()]
            self._limit(max([_LEAST_FILE_BYTES, *sizes]))
        elif call == "write":
            self._limit(self._room)
        if what == "away":
            raise Unavailable(AWAY)
        if what == "breaks":
            raise RuntimeError(BROKEN)
        if what in ("slow", "hangs"):
            time.sleep(_SLOW_S if what == "slow" else _FOREVER_S)
        return fault

    def _limit(self, size: int) -> None:
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

    def _prepare(self) -> None:
        """Shorten the timeout of calls if the next write is planned to hang."""
        head = next(iter(self._faults.left()), None)
        if head is not None and (head.what, head.skip) == ("hangs", 0):
            limits.BACKEND_CALL_S = _HUNG_S


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a process survived SIGKILL")
