"""The entry points for Lightning, verl and pytest, as an installed package declares them."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

DECLARED = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]["entry-points"]
GROUPS = ("lightning.pytorch.callbacks_factory", "pytorch_lightning.callbacks_factory", "verl.plugins")
VALUES = [DECLARED[group]["telemetry"] for group in GROUPS]
PROGRAM = """
import sys
from importlib.metadata import EntryPoint
for value in sys.argv[1:]:
    factory = EntryPoint("telemetry", value, "group").load()
    print(factory(), "telemetry" in sys.modules)
finder = getattr(sys.modules.get("_telemetry_boot"), "FINDER", None)
print(sorted(finder.hooks) if finder else None)
"""


def load(folder: Path, capture: str) -> subprocess.CompletedProcess[str]:
    """Load all entry points in a program in this folder, and call them."""
    script = folder / "train.py"
    script.write_text(PROGRAM)
    environment = {key: text for key, text in os.environ.items() if not key.startswith("TELEMETRY_")}
    done = subprocess.run(
        [sys.executable, str(script), *VALUES],
        env=environment | {"TELEMETRY_CAPTURE": capture, "TELEMETRY_CAPTURE_LOG": str(folder / "capture.log")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("value", VALUES)
def test_they_point_out_of_the_package(value: str) -> None:
    """A program may have a module named telemetry, but none of this name."""
    assert EntryPoint("telemetry", value, "group").module == "telemetryd_plugins"


@pytest.mark.parametrize("capture", ["", "tensorboard", "lightningish"])
def test_they_load_nothing_unless_their_library_is_captured(tmp_path: Path, capture: str) -> None:
    """A program that is not captured pays for one small module."""
    done = load(tmp_path, capture)
    assert done.stdout.splitlines() == ["[] False", "[] False", "None False", "None"]
    assert done.stderr == ""


def test_they_prepare_the_captures(tmp_path: Path) -> None:
    """All that the environment names."""
    done = load(tmp_path, "verl,lightning")
    assert done.stdout.splitlines()[-1] == (
        "['lightning.pytorch.trainer.trainer', 'pytorch_lightning.trainer.trainer', 'verl.utils.tracking']"
    )
    assert done.stderr == ""


@pytest.mark.parametrize("place", ["telemetry.py", "telemetry/__init__.py"])
@pytest.mark.parametrize("capture", ["", "lightning,verl"])
def test_a_module_of_the_program_with_our_name_is_not_executed(tmp_path: Path, place: str, capture: str) -> None:
    """Lightning would raise the error of the entry point."""
    (tmp_path / "telemetry").mkdir()
    (tmp_path / place).write_text("raise SystemExit('was executed')\n")
    done = load(tmp_path, capture)
    assert done.stdout.splitlines() == ["[] False", "[] False", "None False", "None" if not capture else "[]"]
    if capture:
        said = f"the program has a module named telemetry ({tmp_path / place}), so nothing is captured; rename it"
        assert done.stderr == f"telemetry: {said}\n"
        signs = [line.partition(" ")[2] for line in (tmp_path / "capture.log").read_text().splitlines()]
        assert sorted(signs) == [f"hidden {name} {tmp_path / place}" for name in ("lightning", "verl")]
    else:
        assert done.stderr == ""


def test_a_fault_is_reported_and_never_raised(tmp_path: Path) -> None:
    """Lightning would end the program otherwise."""
    (tmp_path / "msgspec.py").write_text("raise ImportError('broken')\n")
    done = load(tmp_path, "lightning")
    assert done.stdout.splitlines()[0].startswith("[] ")
    assert "telemetry: lightning is not captured: ImportError: broken\n" in done.stderr


def test_the_plug_in_of_pytest_is_declared() -> None:
    """It is out of the package as well, for the same reason."""
    assert DECLARED["pytest11"] == {"telemetry": "telemetryd_pytest"}


@pytest.mark.parametrize("name", ["telemetry", "telemetryd_plugins", "telemetryd_pytest"])
def test_pytest_leaves_what_is_imported_before_it(name: str) -> None:
    """It warns otherwise that it can't rewrite their assertions, and a capture imports them early."""
    assert "PYTEST_DONT_REWRITE" in str(import_module(name).__doc__)
