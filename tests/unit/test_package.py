"""The public face: lazy, complete, typed."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

import telemetry

SOURCE = Path(telemetry.__file__).parent
PACKAGES = sorted(f"telemetry.{path.parent.name}" for path in SOURCE.glob("*/__init__.py"))


def test_public_names_are_listed_once_and_sorted() -> None:
    """`__all__` is what a reader of the documentation finds."""
    assert sorted(set(telemetry.__all__)) == sorted(telemetry.__all__)
    assert set(telemetry.__all__) == {*telemetry._HOME, "__version__"}
    assert set(telemetry.__all__) <= set(dir(telemetry))


@pytest.mark.parametrize("name", sorted(telemetry._HOME))
def test_every_public_name_loads(name: str) -> None:
    """The lazy name is the object of its home, and stays loaded."""
    value = getattr(telemetry, name)
    assert value is getattr(import_module(telemetry._HOME[name]), name)
    assert vars(telemetry)[name] is value


def test_an_unknown_name_is_an_attribute_error() -> None:
    """An unknown name of the package raises `AttributeError`, as with any module."""
    with pytest.raises(AttributeError, match="no attribute 'histogram2'"):
        telemetry.histogram2  # noqa: B018


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_a_package_offers_loads(package: str) -> None:
    """Lazy or not, what `__all__` lists is there, and nothing else is promised."""
    module = import_module(package)
    for name in getattr(module, "__all__", ()):
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError):
        module.no_such_name  # noqa: B018


def test_the_package_says_that_it_is_typed() -> None:
    """Type checkers of our users read our annotations."""
    assert (SOURCE / "py.typed").exists()
