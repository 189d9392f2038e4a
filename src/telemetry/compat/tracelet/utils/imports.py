"""Optional packages: which are there, and how to load them."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Final

from telemetry.compat.tracelet.core.run_backends import SERVICES, installed
from telemetry.config.plugins.entry_points import is_installed

_MODULES: Final = {"gitpython": "git", "pytorch": "torch"}
_FRAMEWORKS: Final = (
    *("torch", "pytorch_lightning", "lightning", "tensorflow", "jax", "numpy", "sklearn", "xgboost"),
    *(*SERVICES, "neptune", "tensorboard", "pynvml", "psutil", "git", "GPUtil"),
)


def is_available(framework: str) -> bool:
    """Return whether a package is installed, without importing it."""
    return is_installed(_MODULES.get(framework, framework))


def require(framework: str, feature: str | None = None) -> Any:
    """Import and return a package. Raise ImportError that says what needs it."""
    if not is_available(framework):
        raise ImportError(f"{feature or 'this program'} needs the package {framework}: pip install {framework}")
    return import_module(_MODULES.get(framework, framework))


def try_import(framework: str, default: Any = None) -> Any:
    """Import and return a package, or return `default`. Raise ImportError if TRACELET_STRICT_IMPORTS is true."""
    is_strict = os.environ.get("TRACELET_STRICT_IMPORTS", "").lower() == "true"
    return require(framework) if is_strict or is_available(framework) else default


def get_available_backends() -> list[str]:
    """Return the trackers of Tracelet that can be used here."""
    return list(filter(installed, SERVICES))


def get_available_frameworks() -> dict[str, bool]:
    """Return the packages that Tracelet knows, and whether each is installed."""
    return {name: is_available(name) for name in _FRAMEWORKS}
