"""The captures by name, and the machinery that each of them is made of."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from telemetry.config.plugins import entry_points
from telemetry.config.plugins.choice import unknown
from telemetry.config.plugins.entry_points import Plugin
from telemetry.errors import UsageError
from telemetry.integrations.capture.boot_module import BOOT, CAPTURES
from telemetry.integrations.capture.patching import Patch

BUILT_IN: Final = {name: f"telemetry.integrations.{name}" for name in CAPTURES}


class Capture:
    """Patches of one library, installed when the library is imported. Thread-safe."""

    def __init__(self, patches: Mapping[str, Callable[[ModuleType], Iterable[Patch]]], name: str = "") -> None:
        """`patches` maps the name of a module to the function that makes the patches for that module.

        A process leaves the sign `hooked` of a named capture once a module that triggers it is patched.
        """
        self._patches = patches
        self._name = name
        self._made: list[Patch] = []
        self._lock = threading.RLock()
        self._installed = False
        os.register_at_fork(after_in_child=self._renew_lock)

    def install(self) -> None:
        """Capture from now on, also in modules that are imported later. A second call has no effect."""
        with self._lock:
            self._installed = True
            for name in self._patches:
                BOOT.FINDER.add(name, self._apply)
                module = sys.modules.get(name)
                if module is not None and not _is_being_imported(module):
                    self._apply(module)

    def uninstall(self) -> None:
        """Restore the library. A second call has no effect."""
        with self._lock:
            self._installed = False
            for name in self._patches:
                BOOT.FINDER.discard(name, self._apply)
            for patch in reversed(self._made):
                patch.remove()

    @property
    def is_installed(self) -> bool:
        return self._installed

    def _apply(self, module: ModuleType) -> None:
        """Install the patches of a module that was executed, or executed again: its classes are new then."""
        with self._lock:
            if not self._installed:
                return
            count = 0
            before = list(self._made)
            for wanted in self._patches[module.__name__](module):
                patch = next((each for each in before if each.replaces_same(wanted)), wanted)
                if patch is wanted:
                    self._made.append(patch)
                else:
                    before.remove(patch)
                patch.install()
                count += 1
            if count and module.__name__ in CAPTURES.get(self._name, ()):
                BOOT.leave_hooked(self._name)
                self._name = ""  # one sign is enough

    def _renew_lock(self) -> None:
        """Replace the lock in a forked child. A thread of the parent may have held it."""
        self._lock = threading.RLock()


def _is_being_imported(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def check_captures(text: str) -> list[str]:
    """Return the names of a list separated by commas. Raises UsageError for an unknown name."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise UsageError("--capture needs a name", hint=f"one or more of {', '.join(known_captures())}")
    if not set(names) <= CAPTURES.keys():
        captures = known_captures()
        for name in names:
            if name not in captures:
                raise unknown(name, "capture", captures)
    return names


def known_captures() -> dict[str, Plugin]:
    """Return all captures by name. Plug-ins can't replace built-in captures."""
    return entry_points.plugins("integrations", BUILT_IN)


def load_capture(plugin: Plugin) -> Any:
    """Import the module of a capture. Raises PluginError with the package, the cause and the remedy."""
    module = entry_points.load(plugin)
    if not callable(getattr(module, "install", None)):
        raise entry_points.broken(plugin, "it lacks install")
    modules = CAPTURES.get(plugin.name) or getattr(module, "MODULES", ())
    if not modules or isinstance(modules, str) or not all(_is_module_name(name) for name in modules):
        raise entry_points.broken(plugin, "its MODULES are not the names of the modules that it captures")
    return module


def plugin_variable(names: Iterable[str]) -> str:
    """Return the variable that tells the boot about captures of other packages. Raises PluginError.

    This imports their modules, because the boot needs the names of the modules that they capture.
    """
    others = [name for name in names if name not in CAPTURES]
    if not others:
        return ""
    captures = known_captures()
    return ";".join(
        f"{name}={'|'.join([captures[name].value, *load_capture(captures[name]).MODULES])}" for name in others
    )


def _is_module_name(name: object) -> bool:
    return isinstance(name, str) and all(part.isidentifier() for part in name.split("."))


def install(name: str) -> None:
    """Install the capture of this name."""
    import_module(f"telemetry.integrations.{name}").install()
