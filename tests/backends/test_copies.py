"""Images of copied artifacts, in trackers that show images."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.backends import handing

PROGRAM = """
import sys, telemetry
from pathlib import Path
with telemetry.start("job", dir="runs", quiet=True) as run:
    path = Path("plot.png")
    path.write_bytes(bytes.fromhex(sys.argv[1]))
    run.image("plot", path, step=3, copy=True)
    path.unlink()
"""


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a copied image whose original is gone, and whose directory was moved."""
    folder = tmp_path_factory.mktemp("run")
    subprocess.run([sys.executable, "-c", PROGRAM, handing.PNG.hex()], cwd=folder, check=True, timeout=100)
    run = folder / "moved"
    Path(os.path.realpath(folder / "runs" / "latest")).rename(run)
    return run


def pictures(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*.png") if not path.is_symlink()]


def events(folder: Path) -> list[bytes]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = []
    for place in {path.parent for path in folder.rglob("*tfevents*")}:
        events = EventAccumulator(str(place)).Reload()
        for tag in events.Tags()["images"]:
            found += [image.encoded_image_string for image in events.Images(tag)]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "read"),
    [
        ("tensorboard", events),
        ("wandb:mode=offline", pictures),
        ("mlflow", pictures),
        ("clearml:mode=offline", pictures),
        ("trackio", pictures),
    ],
    ids=lambda value: value.partition(":")[0] if isinstance(value, str) else "",
)
def test_an_image_is_exported_from_its_copy(moved: Path, backend: str, read: Callable[[Path], list[bytes]]) -> None:
    """Byte for byte, with the ending that its original had."""
    command = [sys.executable, "-m", "telemetry", "export", str(moved), "--to", backend]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert read(moved / "backends" / backend.partition(":")[0] / "data") == [handing.PNG]
