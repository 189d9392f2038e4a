"""Functions that Lightning, verl and a `.pth` file call wherever telemetry is installed.

They are in a module of their own, because a program may have a module named `telemetry`, which hides the package.
Lightning does not catch the error of an entry point that can't be loaded. Without TELEMETRY_CAPTURE, this module
has no effect.

A `.pth` file imports it before pytest does: PYTEST_DONT_REWRITE
"""

from __future__ import annotations

import os
import sys
from typing import Any

_BOOT = "_telemetry_boot"


def lightning_callbacks() -> list[object]:
    """Prepare the captures that TELEMETRY_CAPTURE names, if lightning is one of them. Never raises.

    Return no callbacks. Lightning calls this for each new Trainer.
    """
    _call("lightning", "callbacks", "lightning")
    return []


def register_verl() -> None:
    """Prepare the captures that TELEMETRY_CAPTURE names, if verl or rl_insight is one of them. Never raises."""
    _call("verl", "register", "verl", "rl_insight")


def start_captures() -> None:
    """Prepare the captures that TELEMETRY_CAPTURE names, for the `.pth` file of `telemetry capture enable`."""
    _boot().boot()


def _call(plugin: str, function: str, *captures: str) -> None:
    """Call a function of a module of `telemetry.integrations.plugins` if one of these captures is wanted."""
    named = os.environ.get("TELEMETRY_CAPTURE", "").split(",")
    wanted = [name for name in captures if name in named]
    if not wanted:
        return
    try:
        if not _boot().is_hidden(wanted[0]):
            from importlib import import_module

            getattr(import_module(f"telemetry.integrations.plugins.{plugin}"), function)()
    except Exception as error:  # noqa: BLE001 – a fault of the capture must not reach the program
        if sys.stderr is not None:
            sys.stderr.write(f"telemetry: {wanted[0]} is not captured: {type(error).__name__}: {error}\n")


def _boot() -> Any:
    """Return the module that starts captures. Load it by its path, which executes no module named `telemetry`."""
    known = sys.modules.get(_BOOT)
    if known is not None:
        return known
    from importlib.util import module_from_spec, spec_from_file_location

    folder = os.path.join(os.path.dirname(__file__), "telemetry", "integrations", "capture", "boot")
    spec = spec_from_file_location(_BOOT, os.path.join(folder, f"{_BOOT}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[_BOOT] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


register_verl()  # verl imports this module and calls no function of it
