"""Reads an Aim repository as Aim does: indexed, then read-only. In a process of its own.

python -m tests.backends.reading_aim REPOSITORY
"""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.backends.written import Written

ROOT = Path(__file__).parents[2]
_FINAL = "final/"


@dataclass
class WrittenAim(Written):
    """The content of an Aim repository; texts, images, distributions and files are counted by kind."""

    told: dict[tuple[str, str], dict[str, float]] = field(default_factory=dict)
    """(axis, name) → what Aim says of a sequence without reading it."""
    texts: dict[str, dict[int, list[str]]] = field(default_factory=dict)
    """Name → step → all that is there."""
    about: dict[str, Any] = field(default_factory=dict)
    newest_s: float = 0.0


def read_back(folder: Path, where: str) -> WrittenAim:
    """`where` is the directory of the repository; it holds one run."""
    command = [sys.executable, "-m", "tests.backends.reading_aim", where or str(folder)]
    answer = subprocess.run(command, cwd=ROOT, check=True, timeout=100, capture_output=True).stdout
    found: WrittenAim = pickle.loads(answer)
    return found


def read(where: str) -> WrittenAim:
    from aim.sdk.repo import Repo

    repo = Repo.from_path(where)
    hashes = repo.list_all_runs()
    assert len(hashes) == 1, hashes
    return of_run(indexed(where, hashes[0]))


def indexed(where: str, name: str) -> Any:
    """The run, after what `aim up` does to let its readers see it."""
    from aim.sdk.index_manager import RepoIndexManager
    from aim.sdk.repo import Repo

    repo = Repo.from_path(where)
    RepoIndexManager.get_index_manager(repo).index(name)
    repo.container_pool.clear()
    return repo.get_run(name)


def of_run(run: Any) -> WrittenAim:
    found = WrittenAim(counts={"step": 0, "reading": 0})
    found.params = {name: str(value) for name, value in run.get("params", {}).items()}
    found.about = {
        "name": run.name,
        "experiment": run.experiment,
        "began": run.creation_time,
        "ended": not run.active,
    }
    readings: set[int] = set()
    for sequence in run.metrics():
        steps, (values, _, times) = sequence.data.items_list()
        axis = sequence.context.to_dict().get("axis")
        if axis is not None:
            found.counts["step"] += len(steps)
            found.newest_s = max(found.newest_s, *times)
            told = sequence._meta_tree.collect()
            found.told[axis, sequence.name] = {key: told[key] for key in _TOLD if key in told}
            for step, value in zip(steps, values, strict=True):
                found.steps.setdefault((axis, step), {})[sequence.name] = value
        elif sequence.name.startswith(_FINAL):
            found.finals[sequence.name.removeprefix(_FINAL)] = values[-1]
        else:
            readings.update(steps)
    found.counts["reading"] = len(readings)
    for kind in ("texts", "images", "distributions"):
        for name, context, _ in run.iter_sequence_info_by_type(_TYPES[kind]):
            sequence = run._get_sequence(kind, name, context)
            steps, (values, *_) = sequence.data.items_list()
            if kind == "texts":
                found.texts[name] = {at: [one.data for one in said] for at, said in zip(steps, values, strict=True)}
            found.counts[kind] = found.counts.get(kind, 0) + len(steps)
    found.counts["files"] = sum(len(keys) for keys in run.get("files", {}).values())
    return found


_TOLD = ("first", "last", "first_step", "last_step", "min", "max")
_TYPES = {
    "texts": ("aim.text", "list(aim.text)"),
    "images": ("aim.image", "list(aim.image)"),
    "distributions": ("aim.distribution",),
}

if __name__ == "__main__":
    gc.disable()  # it lives for seconds, and a quarter of them go into that
    from tests.backends.reading_aim import read as entry  # the answer is of that module's class

    sys.stdout.buffer.write(pickle.dumps(entry(sys.argv[1])))
