"""Copies of artifacts in real runs: several processes, deleted originals, moved run directories."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

from tests.process.conftest import Ground

RECORDS = """
import os, sys, telemetry
from pathlib import Path

def record(name, data):
    path = Path(f"{name}.txt")
    path.write_text(data)
    telemetry.artifact(name, path, "sample", copy=True)
    path.unlink()

record("parent", "from the parent")
child = os.fork()
if child == 0:
    record("child", "from the child")
    record("same", "from the parent")
    sys.exit()
os.waitpid(child, 0)
telemetry.artifact("folder", ".", copy=True)
telemetry.artifact("folder", ".", copy=True)
Path("large.bin").write_bytes(b"x" * 1_500_000)
telemetry.artifact("large", "large.bin", copy=True)
telemetry.counter("steps").add()
"""


def items(ground: Ground, run: Path) -> dict[str, dict[str, Any]]:
    """Artifacts as a backend gets them."""
    code, _, err = ground.run("export", str(run), "--to", "jsonl:path=" + str(ground.folder / "items.jsonl"))
    assert code == 0, err
    found = map(json.loads, ground.folder.joinpath("items.jsonl").read_text().splitlines())
    return {one["name"]: one for one in found if one["item"] == "artifact"}


def test_copies_outlive_their_originals_and_move_with_the_run(ground: Ground) -> None:
    """Copies of a process and of its forked child outlive their originals, and move with the run.

    An artifact that can't be copied becomes a reference, is counted, and is reported once.
    """
    program = ground.program("records.py", RECORDS)
    limit = {"TELEMETRY_EMIT__ARTIFACT_COPY_MB": "1"}
    code, _, err = ground.run("run", "--strict", "--", sys.executable, program, environ=limit)
    assert code == 0, err
    final = ground.final()
    assert final["completeness"] == "complete"
    counts = {
        one["labels"]["reason"]: one["value"] for one in final["counters"] if one["name"] == "telemetry.not_copied"
    }
    assert counts == {"not_a_file": 2, "too_large": 1}
    assert err.count("artifact 'folder' is recorded by reference, not as a copy: it is a folder") == 1
    assert "artifact 'large' is recorded by reference, not as a copy: it has more than 1 MB" in err
    run = Path(os.path.realpath(ground.folder / "runs" / "latest"))
    moved = ground.folder / "moved"
    run.rename(moved)
    found = items(ground, moved)
    texts = {"parent": "from the parent", "child": "from the child", "same": "from the parent"}
    for name, text in texts.items():
        digest = hashlib.sha256(text.encode()).hexdigest()
        copy = moved / "artifacts" / "sha256" / digest[:2] / digest
        assert found[name]["uri"] == f"{copy.as_uri()}#{name}.txt"
        assert copy.read_text() == text
    assert found["folder"]["uri"] == str(ground.folder)
    assert found["large"]["uri"] == str(ground.folder / "large.bin")
    folder = moved / "artifacts"
    copies = [path for path in folder.rglob("*") if path.is_file()]
    assert len(copies) == 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in copies} == {0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.rglob("*")) if path.is_dir()} == {0o700}


def test_a_process_may_copy_before_it_has_met_the_aggregator(ground: Ground) -> None:
    """A process that copies before it has met the aggregator waits for the answer.

    The answer says where the run directory is.
    """
    code = "import telemetry\nopen('a.txt', 'w').write('a')\ntelemetry.artifact('a', 'a.txt', copy=True)\n"
    program = ground.program("early.py", code)
    result, _, err = ground.run("run", "--", sys.executable, program)
    assert result == 0, err
    assert "by reference" not in err
    assert "/artifacts/sha256/" in items(ground, ground.folder / "runs" / "latest")["a"]["uri"]


def test_a_run_of_its_own_has_copies_too(ground: Ground) -> None:
    """`telemetry.start` makes the run, and `image` copies as `artifact` does."""
    code = (
        "import os, telemetry\n"
        "with telemetry.start('job') as run:\n"
        "    open('a.png', 'wb').write(b'pixels')\n"
        "    run.image('plot', 'a.png', step=3, copy=True)\n"
        "    os.unlink('a.png')\n"
    )
    done = ground.popen(sys.executable, ground.program("own.py", code))
    assert done.wait(60) == 0
    found = items(ground, ground.folder / "runs" / "latest")["plot"]
    assert (found["kind"], found["step"], found["uri"].rpartition("#")[2]) == ("image", 3, "a.png")
