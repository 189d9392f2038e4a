"""Names by which peers tell the collectors of a run, and their figures, from those of the user's job."""

from __future__ import annotations

import re
from typing import Final

COLLECTORS: Final = "telemetry.collectors."
"""Beginning of the id of a producer of collectors."""
COLLECTORS_NAME: Final = "collectors"
PROCESS_LABEL: Final = "process"
"""Label of the largest programs of the command's tree."""
_PREFIXES: Final = ("host.", "gpu.", "container.")
_SURROUNDINGS: Final = re.compile(r"(?:git|machine|python|packages)\..+|env\.[A-Z_][A-Z0-9_]*", re.DOTALL)
"""Parameters of the collectors `git` and `environment`. A user's own `env.name` is none of them."""
_OF_PROCESSES: Final = frozenset(
    f"process.{word}" for word in ("cpu", "memory", "count", "threads", "open_files", "read", "written")
)


def is_of_machine(name: str) -> bool:
    """Return whether a gauge or counter of this name describes the machine, a GPU, or the command's processes."""
    return name.startswith(_PREFIXES) or name in _OF_PROCESSES


def is_of_surroundings(name: str) -> bool:
    """Return whether a parameter of this name describes the code, the machine or its software."""
    return _SURROUNDINGS.fullmatch(name) is not None
