"""An offline session as ClearML leaves it when it has begun one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def begun(folder: Path) -> dict[str, Any]:
    """The state of a writer that goes on in it."""
    session = folder / "offline-1"
    session.mkdir()
    (session / "task.json").write_text(json.dumps({"id": "offline-1", "name": "n", "execution": {}}))
    return {"session": str(session)}


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]
