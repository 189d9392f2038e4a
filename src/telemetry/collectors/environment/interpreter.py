"""The Python interpreter of a command and the packages it has, found from outside: nothing is run or imported.

The interpreter is that of the first Python process among the command and its descendants. Packages are the names of
folders in its `site-packages`. So packages that come from PYTHONPATH or `.pth` files alone are not found.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from telemetry import limits

_PYTHON: Final = re.compile(r"python(\d+(?:\.\d+)?)?t?")
_LIBRARY: Final = re.compile(r"python(\d+\.\d+)t?")
_INSTALLED: Final = re.compile(r"(.+?)-([^-]+)(?:-py[\d.]+.*)?\.(?:dist|egg)-info")
_VERSION: Final = re.compile(r"^version(?:_info)?\s*=\s*(\d+\.\d+(?:\.\d+)?)", re.MULTILINE)
_SHARED: Final = re.compile(r"^include-system-site-packages\s*=\s*true", re.MULTILINE | re.IGNORECASE)
_MOST_PROCESSES: Final = 64
_MOST_ENTRIES: Final = 20_000


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter: the path it was started by, its version, and its folders of packages."""

    path: Path
    version: str
    folders: tuple[Path, ...]


def interpreter_of(pid: int) -> Interpreter | None:
    """Return the interpreter of a process or of its first descendant that is Python, or None."""
    for one in _family(pid):
        try:
            executable = Path(os.readlink(f"/proc/{one}/exe"))
            if not _PYTHON.fullmatch(executable.name) or not _has_our_files(one):
                continue
            started_as = _started_as(one, executable)
        except OSError:
            continue
        return described(started_as, executable)
    return None


def described(path: Path, executable: Path) -> Interpreter:
    """Return an interpreter by the path it is started by, which may be in a virtual environment, and its file."""
    settings = _text(path.parent.parent / "pyvenv.cfg")
    stated = _VERSION.search(settings)
    named = _LIBRARY.fullmatch(executable.name)
    version = stated[1] if stated else named[1] if named else ""
    roots = [path.parent.parent] if settings else []
    if not settings or _SHARED.search(settings):
        roots.append(executable.parent.parent)
    minor = ".".join(version.split(".")[:2])
    folders = list(dict.fromkeys(folder for root in roots for folder in _folders(root, minor)))
    if version.count(".") < 2 and executable == Path(sys.executable).resolve():
        version = platform.python_version()
    return Interpreter(path, version or _version_of(folders), tuple(folders))


def packages(interpreter: Interpreter) -> dict[str, str]:
    """Return the version of each package by its name. The first folder wins, as for imports."""
    found: dict[str, str] = {}
    for folder in interpreter.folders:
        try:
            with os.scandir(folder) as entries:
                for _, entry in zip(range(_MOST_ENTRIES), entries, strict=False):
                    installed = _INSTALLED.fullmatch(entry.name)
                    if installed is not None:
                        name = re.sub(r"[-_.]+", "-", installed[1]).lower()
                        found.setdefault(name[: limits.NAME_CHARS // 2], installed[2])
        except OSError:
            continue
    return found


def _family(pid: int) -> Iterator[int]:
    """Yield a process and its descendants, parents first."""
    waiting = [pid]
    for _ in range(_MOST_PROCESSES):
        if not waiting:
            return
        one = waiting.pop(0)
        yield one
        children = _text(Path(f"/proc/{one}/task/{one}/children"))
        waiting += [int(word) for word in children.split()]


def _started_as(pid: int, executable: Path) -> Path:
    """Return the path that a process was started by: it tells the virtual environment. Raises OSError."""
    word = os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0])
    if "/" in word:
        path = Path(os.readlink(f"/proc/{pid}/cwd"), word)
    else:
        entries = os.fsdecode(Path(f"/proc/{pid}/environ").read_bytes()).split("\0")
        search = next((entry.partition("=")[2] for entry in entries if entry.startswith("PATH=")), None)
        path = Path(shutil.which(word, path=search) or executable)
    return path if path.exists() and path.resolve() == executable.resolve() else executable


def _has_our_files(pid: int) -> bool:
    """Return whether a path means the same to a process as here: not in a container of its own. Raises OSError."""
    return os.path.samefile(f"/proc/{pid}/root", "/")


def _folders(root: Path, minor: str) -> Iterator[Path]:
    """Yield the existing folders of packages below a prefix, among them those of Debian.

    `minor`: version such as 3.11, or an empty string for all versions.
    """
    for library in sorted((root / "lib").glob("python3*")):
        if minor and library.name not in ("python3", f"python{minor}", f"python{minor}t"):
            continue
        for name in ("site-packages", "dist-packages"):
            if (library / name).is_dir():
                yield library / name
    if root == Path("/usr"):
        yield from _folders(Path("/usr/local"), minor)


def _version_of(folders: list[Path]) -> str:
    """Return the version in the name of a folder of packages, such as 3.11."""
    names = (_LIBRARY.fullmatch(folder.parent.name) for folder in folders)
    return next((found[1] for found in names if found), "")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
