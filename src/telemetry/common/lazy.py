"""Names of a package that load on first use."""

from __future__ import annotations

import os
import sys
import time
from _thread import get_ident
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

_LOADING: Final[list[int]] = []
"""Threads that load a name now."""
_LONGEST_S: Final = 10.0
_LOOK_AGAIN_S: Final = 0.001


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package. `homes` maps each name to the module that defines it."""

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        _LOADING.append(get_ident())
        try:
            value = getattr(import_module(homes[name]), name)
        finally:
            _LOADING.remove(get_ident())
        setattr(sys.modules[package], name, value)
        return value

    return load


def _wait_before_fork() -> None:
    """Wait until no other thread loads a name.

    A child has half of what such a thread has imported, and its locks, but not the thread: it would wait for ever.
    """
    deadline = time.monotonic() + _LONGEST_S
    while any(thread != get_ident() for thread in list(_LOADING)) and time.monotonic() < deadline:
        time.sleep(_LOOK_AGAIN_S)


def _forget_in_child() -> None:
    _LOADING[:] = [thread for thread in _LOADING if thread == get_ident()]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_wait_before_fork, after_in_child=_forget_in_child)
