"""What people install: the wheel alone, in an environment with nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | environment
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_wheel_alone_runs_the_demo(tmp_path: Path, short_dir: Path, compiled: object) -> None:
    """Wheel and sdist build; an environment that has the wheel and no checkout reaches a complete report."""
    run(sys.executable, "-m", "build", "--outdir", str(tmp_path), str(ROOT), cwd=short_dir)
    (wheel,) = tmp_path.glob("*.whl")
    (sdist,) = tmp_path.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    assert "telemetry/py.typed" in names
    top = {name.partition("/")[0] for name in names if "dist-info" not in name}
    assert top == {"telemetry", "telemetryd_plugins.py"}
    assert [name for name in names if name.endswith(".so")]
    with tarfile.open(sdist) as packed:
        assert any(name.endswith("/tests/conftest.py") for name in packed.getnames())
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    run(str(home / "bin" / "pip"), "install", "--quiet", str(wheel), cwd=short_dir)
    loaded = "from importlib.metadata import entry_points as found; print([e.load()() for e in found(group={!r})])"
    for group, told in (("lightning.pytorch.callbacks_factory", "[[]]"), ("verl.plugins", "[None]")):
        assert run(str(home / "bin" / "python"), "-c", loaded.format(group), cwd=short_dir).stdout == f"{told}\n"
    demo = run(str(home / "bin" / "telemetry"), "demo", "--requests", "300", "--dir", "runs", cwd=short_dir)
    headline = r"^complete: demo, (\d+) of \1 events applied, 0 lost$"
    assert re.search(headline, demo.stderr, re.MULTILINE), demo.stderr
    assert "percentiles exact" in demo.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_compiler_is_needed(tmp_path: Path) -> None:
    """The wheel is one for every machine then, has all but what is compiled, and says so."""
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "*.so", "tests", "docs", "benchmarks"))
    done = run(sys.executable, "-m", "build", "--wheel", str(source), cwd=tmp_path, LDSHARED="no-such-compiler")
    (wheel,) = source.glob("dist/*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "telemetry/aggregator/compiled.py" in names
    assert not [name for name in names if name.endswith(".so")]
    assert "Nothing is compiled" in done.stdout + done.stderr
