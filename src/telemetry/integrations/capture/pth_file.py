"""The `.pth` file that starts captures in every Python process of an environment. It is opt-in and removable."""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Final

from telemetry.errors import UsageError
from telemetry.integrations.capture.boot_module import BOOT

_NAME: Final = "telemetry_capture.pth"
_LINE: Final = (
    f"import os; os.environ.get({BOOT.VARIABLE!r}) and __import__('telemetryd_plugins').start_captures()\n"
)


def pth_file() -> Path:
    """Return the path of the file in the environment of this interpreter."""
    return Path(sysconfig.get_path("purelib")) / _NAME


def enable() -> Path:
    """Write the file and return its path. Raises UsageError if the folder can't be written."""
    path = pth_file()
    try:
        path.write_text(_LINE)
    except OSError as error:
        raise UsageError(
            f"can't write {path}: {error.strerror}", hint="use a virtual environment that you may write"
        ) from error
    return path


def disable() -> bool:
    """Remove the file. Return False if there was none. Raises UsageError if it can't be removed."""
    path = pth_file()
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UsageError(f"can't remove {path}: {error.strerror}", hint="remove the file as its owner") from error
    return True
