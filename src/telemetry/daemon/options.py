"""Start options of the aggregator process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from telemetry.config.schema import Config
from telemetry.wire.events import Scalar
from telemetry.wire.snapshot import BackendStat


@dataclass(frozen=True)
class DaemonOptions:
    """Options of one run, built once by the command line. Lower layers read no flags and no environment."""

    name: str
    run_id: str
    epoch: str
    root: Path
    config: Config
    owner_pid: int | None = None
    """Process that started the run. Its `finish()` or its death ends the run."""
    ready_fd: int | None = None
    """Descriptor that gets one JSON line once the sockets are bound."""
    command_line: tuple[str, ...] = ()
    resume: Path | None = None
    """Directory of a run to resume. It determines the name, id and addresses."""
    new_bind: str = ""
    """Control address at which a resumed run listens from now on. Empty: at its former addresses."""
    new_upstream: str = ""
    """Address at which a resumed leaf finds its root from now on. Empty: the former one."""
    params: Mapping[str, Scalar] = field(default_factory=dict)
    """Parameters of a new run. They are in its first checkpoint, so a resumed run has them from its journal."""
    backends: Sequence[BackendStat] = ()
    """Backends whose writers are about to start."""
    takes_name: bool = False
    """True if the first producer that has a name for the run may give it another one."""
