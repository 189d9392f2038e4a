"""The table of backends that come with the package."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from telemetry.backends.choice import load
from telemetry.backends.items import KINDS
from telemetry.config.plugins.backends import BUILT_IN
from telemetry.config.plugins.choice import options_of

PROJECT = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
LIBRARIES = {
    *(
        "aim",
        "apprise",
        "clearml",
        "grpc",
        "mlflow",
        "opentelemetry",
        "prometheus_client",
        "tensorboard",
        "trackio",
    ),
    "wandb",
    *("torch", "tensorflow"),
}


def test_entry_points_and_extras_are_the_same() -> None:
    """The entry points and extras that a package manager knows are those of the built-in backends."""
    assert PROJECT["entry-points"]["telemetry.backends"] == {name: one.value for name, one in BUILT_IN.items()}
    extras = PROJECT["optional-dependencies"]
    assert {one.extra for one in BUILT_IN.values() if one.extra} <= set(extras)
    (every,) = extras["backends"]
    assert set(every.removeprefix("telemetryd[").removesuffix("]").split(",")) == {
        one.extra for one in BUILT_IN.values() if one.extra
    }


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_each_has_the_form_of_a_backend(name: str) -> None:
    """The options of a backend have defaults, so that its bare name is enough."""
    cls = load(name)
    assert cls.takes
    assert set(cls.takes) <= set(KINDS)
    assert isinstance(cls.idempotent, bool)
    assert [option.name for option in options_of(cls.Options) if not option.default] == []


def test_none_imports_a_library_before_it_is_made() -> None:
    """Lists and checks of options stay fast, and work where nothing is installed."""
    code = (
        "import sys; from telemetry.backends.choice import load\n"
        "from telemetry.config.plugins.backends import BUILT_IN\n"
        "for name in BUILT_IN: load(name)\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert set(done.stdout.split()) & LIBRARIES == set()
