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
_SCRIPTS: Final = (".py", ".pyw", ".pyz")
_NO_SCRIPT: Final = ("", "-", "-c", "-m")


def program_name() -> str:
    """Return the name of this process when `start` gave none: that of its script or module, as a run has it.

    It is `python` for code without a script.
    """
    path = sys.argv[0] if sys.argv else ""
    stem, suffix = os.path.splitext(os.path.basename(path))
    if stem == "__main__":  # `python -m package`
        stem = os.path.basename(os.path.dirname(path))
    name = stem if suffix in _SCRIPTS else stem + suffix
    return "python" if name in _NO_SCRIPT else name


def make_hello(producer: str, name: str, *, names_run: bool = False) -> Hello:
    """Return the first message of a producer of this process. Secrets are masked.

    `names_run` is True for a name that the program gave to `start`.
    """
    return Hello(
        producer=producer,
        name=shown_name(name),
        host=host_name(),
        pid=os.getpid(),
        rank=process_rank(),
        mono_ns=time.monotonic_ns(),
        names_run=names_run,
    )


def shown_name(name: str) -> str:
    """Return a name as a hello has it."""
    return REDACTION.redactor.name(carriable(name))[:200]


def host_name() -> str:
    """Return the name of this machine as a hello has it."""
    return REDACTION.redactor.name(carriable(os.uname().nodename))[:200]


def process_rank() -> int | None:
    """Return the rank that a launcher gave this process."""
    for variable in _RANK_VARIABLES:
        text = os.environ.get(variable, "")
        if text.isdecimal():
            return int(text)
    return None
