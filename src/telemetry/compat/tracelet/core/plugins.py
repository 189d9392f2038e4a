"""The manager that finds plugins and runs them, and all names of plugins."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Callable, ItemsView, Mapping
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import entry_points
from inspect import getmembers, isclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from telemetry.client import notice
from telemetry.compat.tracelet.core.plugin_bases import (
    BASES,
    BackendPlugin,
    CollectorPlugin,
    FrameworkPlugin,
    PluginBase,
    PluginInfo,
    PluginInterface,
    PluginMetadata,
    PluginState,
    PluginType,
    metadata_of,
)
from telemetry.compat.tracelet.core.sinks import call

__all__ = [
    "BackendPlugin",
    "CollectorPlugin",
    "FrameworkPlugin",
    "PluginBase",
    "PluginInfo",
    "PluginInterface",
    "PluginManager",
    "PluginMetadata",
    "PluginState",
    "PluginType",
]

_GROUPS: Final = ("tracelet.plugins", "tracelet.backends")
_PATH: Final = "TRACELET_PLUGIN_PATH"
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9_.]+")
_METHODS: Final = ("get_metadata", "initialize")


class _Discovered(list[PluginInfo]):
    """A list of plugins that also iterates as a dictionary by name."""

    def items(self) -> ItemsView[str, PluginInfo]:
        return {info.name: info for info in self}.items()


class PluginManager:
    """A finder and keeper of plugins.

    It looks in installed packages (entry points `tracelet.plugins`, `tracelet.backends`), in `~/.tracelet/plugins`,
    and in the folders of TRACELET_PLUGIN_PATH. Python files there are executed.
    """

    def __init__(self, plugin_paths: list[str] | None = None, use_default_paths: bool = True) -> None:
        self.plugin_paths = list(plugin_paths or [])
        self.plugins: dict[str, PluginInfo] = {}
        self._use_default_paths = use_default_paths
        self._instances: dict[str, Any] = {}
        if use_default_paths:
            home = Path.home() / ".tracelet" / "plugins"
            self.plugin_paths += [str(home)] if home.is_dir() else []
            self.plugin_paths += [path for path in os.environ.get(_PATH, "").split(":") if path]

    def discover_plugins(self) -> _Discovered:
        """Find plugins and return them. A file that can't be executed is reported and left out."""
        found = _Discovered(self._built_in() if self._use_default_paths else [])
        for text in self.plugin_paths:
            path = Path(text)
            files = [path] if path.suffix == ".py" else sorted(path.glob("[!_]*.py"))
            found += [info for file in files if (info := _first_in(file)) is not None]
        for info in found:
            self.plugins.setdefault(info.name, info)
        return found

    def register_plugin(self, plugin: Any) -> PluginInfo:
        """Add an object or a class as a plugin."""
        metadata = metadata_of(plugin)
        cls = plugin if isclass(plugin) else type(plugin)
        info = PluginInfo(metadata, cls.__module__, cls.__name__, PluginState.LOADED, cls)
        self.plugins[metadata.name] = info
        if not isclass(plugin):
            self._instances[metadata.name] = plugin
        return info

    def load_plugin(self, plugin_name: str) -> bool:
        """Return whether the class of a plugin is there."""
        return plugin_name in self.plugins and self._reach(plugin_name, PluginState.LOADED, lambda info: None)

    def validate_plugin(self, plugin_name: str) -> bool:
        """Return whether a plugin has the methods it needs, and whether its dependencies are there."""
        return self.load_plugin(plugin_name) and self._reach(plugin_name, PluginState.VALIDATED, self._check)

    def initialize_plugin(self, plugin_name: str, config: dict[str, Any] | None = None) -> bool:
        """Make the object of a plugin and initialize it."""

        def initialize(info: PluginInfo) -> None:
            call(self.instance(info).initialize, config or {})

        return self.validate_plugin(plugin_name) and self._reach(plugin_name, PluginState.INITIALIZED, initialize)

    def start_plugin(self, plugin_name: str) -> bool:
        """Start an initialized plugin."""
        return self._step(plugin_name, PluginState.ACTIVE, "start", missing=False)

    def stop_plugin(self, plugin_name: str) -> bool:
        """Stop a plugin. A plugin that was never initialized counts as stopped."""
        return self._step(plugin_name, PluginState.STOPPED, "stop", missing=True)

    def get_plugin_instance(self, plugin_name: str) -> Any:
        """Return the object of a plugin, or None."""
        return self._instances.get(plugin_name)

    def get_plugin_by_name(self, plugin_name: str) -> Any:
        """Return the class of a plugin, or None."""
        info = self.plugins.get(plugin_name)
        return info.instance if info is not None else None

    def get_plugins_by_type(self, plugin_type: PluginType | str) -> list[PluginInfo]:
        """Return the plugins of a type."""
        return [info for info in self.plugins.values() if info.metadata.type is PluginType(plugin_type)]

    list_plugins = get_plugins_by_type

    def resolve_dependencies(self, plugin_names: list[str]) -> list[str]:
        """Return plugins so that each follows those it depends on. Raise ValueError for a circle."""
        known = {name: self.plugins[name].metadata.dependencies for name in plugin_names if name in self.plugins}
        graph: dict[str, list[str]] = {name: known.get(name, []) for name in plugin_names}
        try:
            return list(TopologicalSorter(graph).static_order())
        except CycleError as error:
            raise ValueError(f"plugins depend on each other in a circle: {' → '.join(error.args[1])}") from error

    def load_config(self, config_path: str) -> dict[str, Any]:
        """Return the configuration in a file of JSON."""
        loaded: dict[str, Any] = json.loads(Path(config_path).read_text())
        return loaded

    def get_status(self) -> dict[str, Any]:
        """Return the state of all plugins."""
        states = [info.state for info in self.plugins.values()]
        return {
            "discovered": len(states),
            "loaded": sum(state >= PluginState.LOADED for state in states),
            "active": states.count(PluginState.ACTIVE),
            "errors": states.count(PluginState.ERROR),
            "plugins": {name: self._status(name, info) for name, info in self.plugins.items()},
        }

    def instance(self, info: PluginInfo) -> Any:
        """Return the object of a plugin, made if necessary."""
        if info.name not in self._instances:
            self._instances[info.name] = info.instance()
        return self._instances[info.name]

    def _built_in(self) -> list[PluginInfo]:
        from telemetry.compat.tracelet.backends import classes

        found = [_info(cls, cls.__module__) for cls in classes().values()]
        for group in _GROUPS:
            for point in entry_points(group=group):
                try:
                    found.append(_info(point.load(), point.value))
                except Exception as error:  # noqa: BLE001 – code of another package
                    notice.warn(f"the plugin {point.name} can't be loaded: {type(error).__name__}: {error}")
        return found

    def _check(self, info: PluginInfo) -> None:
        lacking = [method for method in _METHODS if not hasattr(info.instance, method)]
        if lacking:
            raise ValueError(f"it lacks {', '.join(lacking)}")
        if not info.metadata.name or not info.metadata.version:
            raise ValueError("its metadata has no name or no version")
        for text in info.metadata.dependencies:
            name = (_REQUIREMENT.match(text) or [""])[0]
            if text not in self.plugins and not (name and importlib.util.find_spec(name.partition(".")[0])):
                raise ValueError(f"it needs {text}, which is no plugin and no installed package")

    def _reach(self, name: str, state: PluginState, act: Callable[[PluginInfo], None]) -> bool:
        info = self.plugins[name]
        if info.state >= state and info.state is not PluginState.ERROR:
            return True
        try:
            act(info)
        except Exception as error:  # noqa: BLE001 – code of the user
            info.state, info.error = PluginState.ERROR, str(error)
            notice.warn(f"the plugin {name} can't be used: {type(error).__name__}: {error}")
            return False
        info.state = state
        return True

    def _step(self, name: str, state: PluginState, method: str, *, missing: bool) -> bool:
        if name not in self._instances:
            return missing
        info = self.plugins[name]
        info.state = PluginState.INITIALIZED
        return self._reach(name, state, lambda info: getattr(self._instances[name], method)())

    def _status(self, name: str, info: PluginInfo) -> Mapping[str, Any]:
        kind = info.metadata.type
        status: dict[str, Any] = {
            "state": info.state.name.lower(),
            "type": kind.value if kind is not None else "",
            "version": info.metadata.version,
        }
        if info.error:
            status["error"] = info.error
        if name in self._instances:
            try:
                status["status"] = self._instances[name].get_status()
            except Exception as error:  # noqa: BLE001 – code of the user
                status["status_error"] = str(error)
        return status


def _info(cls: Any, module_path: str) -> PluginInfo:
    return PluginInfo(metadata_of(cls), module_path, cls.__name__, PluginState.DISCOVERED, cls)


def _first_in(path: Path) -> PluginInfo | None:
    """Return the first plugin class of a file, by name of the class."""
    try:
        module = _executed(path)
        for _, cls in getmembers(module, isclass):
            is_own = cls.__module__ == module.__name__
            if is_own and issubclass(cls, PluginBase) and cls not in BASES:
                return _info(cls, str(path))
    except Exception as error:  # noqa: BLE001 – code of the user
        notice.warn(f"the plugin file {path} can't be used: {type(error).__name__}: {error}")
    return None


def _executed(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tracelet_plugin_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
