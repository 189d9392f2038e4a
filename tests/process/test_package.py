"""Tests of what people install: the wheel alone, in an environment with nothing else.

Tests of how the wheel is built.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
import zlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILED = ("telemetry.aggregator._compiled", "telemetry.client._recorder")
FILES = {f"{name.replace('.', '/')}{sysconfig.get_config_var('EXT_SUFFIX')}" for name in COMPILED}
WARNINGS_ARE_ERRORS = "-Wall -Wextra -Werror"
EDITABLE = "import scikit_build_core.build as backend; backend.build_editable({!r})"


def run(*command: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | environment
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def build(*options: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build with the backend of this environment: to download another one takes longer than the build."""
    return run(sys.executable, "-m", "build", "--no-isolation", *options, cwd=cwd, **environment)


def compiled_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.so")}


def compiled_state(code: Path, folder: Path) -> str:
    """Return what the doctor finds about compiled modules of the package in a folder."""
    command = (sys.executable, "-m", "telemetry", "doctor", "--quick", "--json", "--dir", "runs")
    checks = json.loads(run(*command, cwd=folder, PYTHONPATH=str(code)).stdout)
    (found,) = [check["found"] for check in checks if check["name"] == "compiled"]
    return str(found)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of what the package is built from, in which nothing is compiled."""
    folder = tmp_path / "source"
    left_out = (".*", "*.so", "__pycache__", "tests", "docs", "benchmarks", "examples", "build", "dist")
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(*left_out))
    return folder


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_wheel_alone_runs_the_demo(tmp_path: Path, short_dir: Path, compiled: object) -> None:
    """Wheel and sdist build; an environment that has the wheel and no checkout reaches a complete report."""
    build("--outdir", str(tmp_path), str(ROOT), cwd=short_dir, CFLAGS=WARNINGS_ARE_ERRORS)
    (wheel,) = tmp_path.glob("*.whl")
    (sdist,) = tmp_path.glob("*.tar.gz")
    names = zipfile.ZipFile(wheel).namelist()
    assert {f"telemetry/{name}" for name in ("py.typed", "stack/rules.yml", "stack/dashboards/run.json")} <= {
        *names
    }
    top = {name.partition("/")[0] for name in names if "dist-info" not in name}
    assert top == {"telemetry", "telemetryd_plugins.py", "telemetryd_pytest.py"}
    assert {name for name in names if name.endswith((".so", ".c", ".h"))} == FILES
    with tarfile.open(sdist) as packed:
        inside = {name.partition("/")[2] for name in packed.getnames()}
    sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.[ch]")}
    assert inside >= {"CMakeLists.txt", "tests/conftest.py"} | sources
    assert not {name for name in inside if name.endswith((".so", ".pyc"))}
    home = tmp_path / "venv"
    venv.create(home, with_pip=True)
    run(str(home / "bin" / "pip"), "install", "--quiet", str(wheel), cwd=short_dir)
    loaded = "from importlib.metadata import entry_points as found; print([e.load()() for e in found(group={!r})])"
    for group, told in (("lightning.pytorch.callbacks_factory", "[[]]"), ("verl.plugins", "[None]")):
        assert run(str(home / "bin" / "python"), "-c", loaded.format(group), cwd=short_dir).stdout == f"{told}\n"
    told = run(str(home / "bin" / "telemetry"), "doctor", "--quick", "--dir", "runs", cwd=short_dir).stdout
    assert "compiled: recorder compiled, ingest compiled" in told
    demo = run(str(home / "bin" / "telemetry"), "demo", "--requests", "300", "--dir", "runs", cwd=short_dir)
    headline = r"^complete: demo, (\d+) of \1 events applied, 0 lost$"
    assert re.search(headline, demo.stderr, re.MULTILINE), demo.stderr
    assert "percentiles exact" in demo.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_compiler_is_needed(source: Path, tmp_path: Path, short_dir: Path) -> None:
    """The wheel is one for every machine then, has all but what is compiled, records, and says what is missing."""
    done = build("--wheel", str(source), cwd=tmp_path, CC="no-such-compiler")
    (wheel,) = source.glob("dist/*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "Nothing is compiled" in done.stdout + done.stderr
    code = tmp_path / "code"
    zipfile.ZipFile(wheel).extractall(code)
    assert compiled_in(code) == set()
    command = (sys.executable, "-m", "telemetry", "doctor", "--dir", "runs")
    told = run(*command, cwd=short_dir, PYTHONPATH=str(code)).stdout
    assert "recorder not compiled, ingest not compiled" in told
    assert "install a compiler and Python's headers" in told
    assert re.search(r"^ok .*round trip: 20,000 of 20,000 events", told, re.MULTILINE), told


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_editable_installation_compiles_in_place(
    source: Path, tmp_path: Path, short_dir: Path, compiled: object
) -> None:
    """A .pth file names the sources. After an edit of C, the old module is unused until the next installation."""
    code = source / "src"
    run(sys.executable, "-c", EDITABLE.format(str(tmp_path)), cwd=source)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        (paths,) = [name for name in packed.namelist() if name.endswith(".pth")]
        assert str(code) in packed.read(paths).decode().splitlines()
        assert not [name for name in packed.namelist() if name.startswith("telemetry/")]
    assert compiled_in(code) == FILES
    assert compiled_state(code, short_dir) == "recorder compiled, ingest compiled"

    edited = code / "telemetry" / "aggregator" / "_compiled.c"
    edited.write_text(f"{edited.read_text()}\n/* An edit. */\n")
    holder = edited.with_name("compiled.py")
    crc = zlib.crc32(b"".join(path.read_bytes() for path in sorted(edited.parent.glob("*.[ch]"))))
    holder.write_text(re.sub(r"(?<=^SOURCE_CRC: Final = )\w+", hex(crc), holder.read_text(), flags=re.MULTILINE))
    assert compiled_state(code, short_dir) == "recorder compiled, ingest compiled from other sources, not used"
    run(sys.executable, "-c", EDITABLE.format(str(tmp_path)), cwd=source)
    assert compiled_state(code, short_dir) == "recorder compiled, ingest compiled"
