"""Modules of upper layers for lower ones. Only the root of the package, which knows all layers, names them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

_MODULES: Final[dict[str, str]] = {}


def provide(**modules: str) -> None:
    """Name a module for each purpose."""
    _MODULES.update(modules)


def provided(purpose: str) -> Any:
    """Return the module for a purpose. It loads on first use."""
    return import_module(_MODULES[purpose])
