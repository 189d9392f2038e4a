"""The module that starts captures, as the rest of the package sees it. Light to import."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Final

BOOT_FOLDER: Final = f"{__file__.rpartition('/')[0]}/boot"
"""Folder that `telemetry run --capture` puts first in PYTHONPATH."""
_NAME: Final = "_telemetry_boot"


def _load() -> Any:
    """Return the module that `sitecustomize` loaded, so that a process has a single finder. Else load it."""
    existing = sys.modules.get(_NAME)
    if existing is not None:
        return existing
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(_NAME, f"{BOOT_FOLDER}/{_NAME}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[_NAME] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BOOT: Final = _load()
CAPTURES: Final[Mapping[str, tuple[str, ...]]] = BOOT.TRIGGERS
"""Name of each capture, and the modules whose import installs it."""
