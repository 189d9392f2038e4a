"""The identity of this process: its name, host and rank, as it introduces itself to an aggregator."""

from __future__ import annotations

import os
import sys
import time
from typing import Final

from telemetry.client.redaction import REDACTION
from telemetry.wire.codec import carriable
from telemetry.wire.control import Hello

_RANK_VARIABLES: Final = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


def program_name() -> str:
    """Return the name of this process when `start` gave none."""
    return os.path.basename(sys.argv[0] if sys.argv else "") or "python"


def make_hello(producer: str, name: str) -> Hello:
    """Return the first message of a producer of this process. Secrets are masked."""
    return Hello(
        producer=producer,
        name=REDACTION.redactor.name(carriable(name))[:200],
        host=REDACTION.redactor.name(carriable(os.uname().nodename))[:200],
        pid=os.getpid(),
        rank=_rank(),
        mono_ns=time.monotonic_ns(),
    )


def _rank() -> int | None:
    """Return the rank that a launcher gave this process."""
    for variable in _RANK_VARIABLES:
        text = os.environ.get(variable, "")
        if text.isdecimal():
            return int(text)
    return None
