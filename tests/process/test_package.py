"""What people install: the wheel alone, in an environment with nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_wheel_alone_runs_the_demo(tmp_path: Path, short_dir: Path) -> None:
    """Wheel and sdist build; an environment that has the wheel and no checkout reaches a complete report."""
    run(sys.executable, "-m", "build", "--outdir", str(tmp_path), str(ROOT), cwd=short_dir)
    (wheel,) = tmp_path.glob("*.whl")
    (sdist,) = tmp_path.glob("*.tar.gz")
    assert "telemetry/py.typed" in zipfile.ZipFile(wheel).namelist()
    with tarfile.open(sdist) as packed:
        assert any(name.endswith("/tests/conftest.py") for name in packed.getnames())
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    run(str(home / "bin" / "pip"), "install", "--quiet", str(wheel), cwd=short_dir)
    demo = run(str(home / "bin" / "telemetry"), "demo", "--requests", "300", "--dir", "runs", cwd=short_dir)
    headline = r"^complete: demo, (\d+) of \1 events applied, 0 lost$"
    assert re.search(headline, demo.stderr, re.MULTILINE), demo.stderr
    assert "percentiles exact" in demo.stderr
