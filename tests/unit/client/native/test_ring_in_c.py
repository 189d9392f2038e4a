"""The ring in C, under the sanitizers of gcc: no data race, no wrong access, no undefined behaviour."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("ring_threads.c")


@pytest.mark.slow
@pytest.mark.parametrize("sanitizers", ["thread", "address,undefined"])
def test_two_threads_share_a_ring(tmp_path: Path, require_tool: Callable[[str], str], sanitizers: str) -> None:
    """All rows come out, each once and in order, and no sanitizer says anything."""
    made = tmp_path / "ring"
    flags = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", f"-fsanitize={sanitizers}"]
    flags += ["-fno-sanitize-recover=all", "-Wno-tsan"]  # which does not know fences; the lock orders all it sees
    subprocess.run([require_tool("gcc"), *flags, PROGRAM, "-o", made], check=True, timeout=120)
    done = subprocess.run([made], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.split(",")[0], done.stderr) == (0, "right", "")
