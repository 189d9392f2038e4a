"""Stand-ins for modules that a benchmark's file imports and that its figures do not need."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import io
import sys
from collections.abc import Callable
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

_LARGE = 8
"""Smallest number of keys of a dictionary that is a result."""


class _Anything:
    """A class with any attribute, which may be called, subclassed and subscripted."""

    def __init__(self, *args: Any, **options: Any) -> None: ...

    def __init_subclass__(cls, **options: Any) -> None: ...

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything


class _Stub(ModuleType):
    __path__ = ()  # a package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything


class _Finder(MetaPathFinder, Loader):
    """A last finder, for modules below some packages that are not installed."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self._packages = packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.partition(".")[0] in self._packages:
            return importlib.util.spec_from_loader(name, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None: ...


def stub(*packages: str) -> None:
    """Let modules of these packages be imported, as far as they are missing."""
    sys.meta_path.append(_Finder(packages))


def quiet(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function without its output."""
    with contextlib.redirect_stdout(io.StringIO()):
        return function(*args)


def dict_keys(file: str) -> list[str]:
    """Return the names in the large dictionaries of a source file, and those put into a result one by one."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(Path(file).read_text())):
        if isinstance(node, ast.Dict) and len(node.keys) >= _LARGE:
            found |= {
                key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)
            }
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
                    found.add(str(target.slice.value))
    return sorted(found)
