"""Plugins: their base classes, and the manager that finds and runs them."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from collections.abc import Callable, ItemsView
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from graphlib import CycleError, TopologicalSorter
from importlib.metadata import entry_points
from inspect import getmembers, isclass
from pathlib import Path
from typing import Any, Final

from telemetry.client import user_warnings
from telemetry.compat.tracelet.core.interfaces import (
    BackendInterface,
    CollectorInterface,
    MetricData,
    MetricSink,
    call,
    deliver,
)
from telemetry.config.plugins.entry_points import is_installed
from telemetry.errors import error_text

__all__ = ["BackendPlugin", "CollectorPlugin", "FrameworkPlugin", "PluginBase", "PluginInfo", "PluginInterface"]
__all__ += ["PluginManager", "PluginMetadata", "PluginState", "PluginType"]
_GROUPS: Final = ("tracelet.plugins", "tracelet.backends")
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9_.]+")


class PluginType(Enum):
    """Kinds of plugins."""

    BACKEND = "backend"
    COLLECTOR = "collector"
    FRAMEWORK = "framework"
    PROCESSOR = "processor"


class PluginState(IntEnum):
    """Stages of a plugin's life."""

    DISCOVERED = 1
    LOADED = 2
    VALIDATED = 3
    INITIALIZED = 4
    ACTIVE = 5
    ERROR = 6
    STOPPED = 7


@dataclass
class PluginMetadata:
    """The description of a plugin by its author. `plugin_type` is another name of `type`."""

    name: str
    version: str
    type: PluginType | None = None
    description: str = ""
    author: str = ""
    dependencies: list[str] = field(default_factory=list)
    config_schema: dict[str, Any] | None = None
    capabilities: set[str] = field(default_factory=set)
    plugin_type: str = ""
    entry_point: str = ""

    def __post_init__(self) -> None:
        if self.type is None and self.plugin_type:
            self.type = PluginType(self.plugin_type)
        self.plugin_type = self.type.value if self.type is not None else ""


@dataclass
class PluginInfo:
    """A plugin that was found. It can be read as a dictionary too."""

    metadata: PluginMetadata
    module_path: str
    class_name: str
    state: PluginState = PluginState.DISCOVERED
    instance: Any = None
    error: str | None = None

    @property
    def name(self) -> str:
        return self.metadata.name

    def __getitem__(self, key: str) -> Any:
        return getattr(self, {"class": "instance"}.get(key, key))


class PluginBase:
    """The base of all plugins. `get_metadata` may be a class method or a method.

    `cleanup` releases what `initialize` took.
    """

    def __init__(self) -> None:
        self._config: dict[str, Any] = {}
        self._active = False

    @classmethod
    def get_metadata(cls) -> PluginMetadata:
        """Return what the plugin says of itself."""
        return PluginMetadata(cls.__name__.lower(), "0")

    def initialize(self, config: dict[str, Any]) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def cleanup(self) -> None: ...
    def get_status(self) -> dict[str, Any]:
        """Return the state of the plugin."""
        return {}


class BackendPlugin(PluginBase, BackendInterface, MetricSink):
    """A backend as a plugin.

    A subclass has `create_backend`, or `receive_metric`, or `handle_metric`, or `log_metric` and the like.
    """

    def get_sink_id(self) -> str:
        return f"backend_{self.get_metadata().name}"

    def receive_metric(self, metric: MetricData) -> None:
        deliver(self, metric)


class CollectorPlugin(PluginBase, CollectorInterface):  # type: ignore[misc]  # `initialize` takes a config here
    """A collector as a plugin."""

    def __init__(self) -> None:
        super().__init__()
        self._collection_interval = 60


class FrameworkPlugin(PluginBase):
    """An integration of a framework as a plugin."""

    def patch_framework(self, orchestrator: Any) -> None:
        """Hook into the framework. Pass its metrics to `orchestrator.route_metric`."""


PluginInterface = PluginBase
"""The same class under the name of the architecture document."""


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
            self.plugin_paths += filter(None, os.environ.get("TRACELET_PLUGIN_PATH", "").split(":"))

    def discover_plugins(self) -> _Discovered:
        """Find plugins and return them. A plugin that can't be loaded is reported and left out."""
        plugins = _Discovered()
        if self._use_default_paths:
            from telemetry.compat.tracelet.backends import classes

            plugins += map(_info, classes().values())
            for point in (point for group in _GROUPS for point in entry_points(group=group)):
                try:
                    plugins.append(_info(point.load(), point.value))
                except Exception as error:  # noqa: BLE001 – code of another package
                    user_warnings.warn(f"the plugin {point.name} can't be loaded: {error_text(error)}")
        for path in map(Path, self.plugin_paths):
            for file in [path] if path.suffix == ".py" else sorted(path.glob("[!_]*.py")):
                try:
                    plugins += _first_in(file)
                except Exception as error:  # noqa: BLE001 – code of the user
                    user_warnings.warn(f"the plugin file {file} can't be used: {error_text(error)}")
        for info in plugins:
            self.plugins.setdefault(info.name, info)
        return plugins

    def register_plugin(self, plugin: Any) -> PluginInfo:
        """Add an object or a class as a plugin."""
        info = _info(plugin, state=PluginState.LOADED)
        self.plugins[info.name] = info
        if info.instance is not plugin:
            self._instances[info.name] = plugin
        return info

    def load_plugin(self, plugin_name: str) -> bool:
        """Load the class of a plugin. Return whether it could be loaded."""
        return plugin_name in self.plugins and self._reach(plugin_name, PluginState.LOADED, lambda _: None)

    def validate_plugin(self, plugin_name: str) -> bool:
        """Return whether a plugin has the methods it needs, and whether its dependencies are there."""
        return self.load_plugin(plugin_name) and self._reach(plugin_name, PluginState.VALIDATED, self._check)

    def initialize_plugin(self, plugin_name: str, config: dict[str, Any] | None = None) -> bool:
        """Make the object of a plugin and initialize it."""

        def initialize(info: PluginInfo) -> None:
            call(self.instance(info), "initialize", config or {})

        return self.validate_plugin(plugin_name) and self._reach(plugin_name, PluginState.INITIALIZED, initialize)

    def start_plugin(self, plugin_name: str) -> bool:
        """Start an initialized plugin."""
        return plugin_name in self._instances and self._step(plugin_name, PluginState.ACTIVE, "start")

    def stop_plugin(self, plugin_name: str) -> bool:
        """Stop a plugin. A plugin that was never initialized counts as stopped."""
        return plugin_name not in self._instances or self._step(plugin_name, PluginState.STOPPED, "stop")

    def get_plugin_instance(self, plugin_name: str) -> Any:
        """Return the object of a plugin, or None."""
        return self._instances.get(plugin_name)

    def get_plugin_by_name(self, plugin_name: str) -> Any:
        """Return the class of a plugin, or None."""
        return self.plugins[plugin_name].instance if plugin_name in self.plugins else None

    def get_plugins_by_type(self, plugin_type: PluginType | str) -> list[PluginInfo]:
        """Return the plugins of a type."""
        return [info for info in self.plugins.values() if info.metadata.type is PluginType(plugin_type)]

    list_plugins = get_plugins_by_type

    def resolve_dependencies(self, plugin_names: list[str]) -> list[str]:
        """Return plugins so that each follows those it depends on. Raise ValueError for a circle."""
        plugins = self.plugins
        graph = {name: plugins[name].metadata.dependencies if name in plugins else [] for name in plugin_names}
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
        plugins: dict[str, dict[str, Any]] = {}
        for name, info in self.plugins.items():
            state, metadata = info.state.name.lower(), info.metadata
            plugins[name] = {"state": state, "type": metadata.plugin_type, "version": metadata.version}
            if info.error:
                plugins[name]["error"] = info.error
            if name in self._instances:
                try:
                    plugins[name]["status"] = self._instances[name].get_status()
                except Exception as error:  # noqa: BLE001 – code of the user
                    plugins[name]["status_error"] = str(error)
        return {
            "discovered": len(states),
            "loaded": sum(state >= PluginState.LOADED for state in states),
            "active": states.count(PluginState.ACTIVE),
            "errors": states.count(PluginState.ERROR),
            "plugins": plugins,
        }

    def instance(self, info: PluginInfo) -> Any:
        """Return the object of a plugin, made if necessary."""
        if info.name not in self._instances:
            self._instances[info.name] = info.instance()
        return self._instances[info.name]

    def _check(self, info: PluginInfo) -> None:
        if not hasattr(info.instance, "initialize"):
            raise ValueError("it lacks initialize")
        if not info.metadata.name or not info.metadata.version:
            raise ValueError("its metadata has no name or no version")
        for text in info.metadata.dependencies:
            name = (_REQUIREMENT.match(text) or [""])[0]
            if text not in self.plugins and not (name and is_installed(name.partition(".")[0])):
                raise ValueError(f"it needs {text}, which is no plugin and no installed package")

    def _reach(self, name: str, state: PluginState, act: Callable[[PluginInfo], None]) -> bool:
        info = self.plugins[name]
        if info.state >= state and info.state is not PluginState.ERROR:
            return True
        try:
            act(info)
        except Exception as error:  # noqa: BLE001 – code of the user
            info.state, info.error = PluginState.ERROR, str(error)
            user_warnings.warn(f"the plugin {name} can't be used: {error_text(error)}")
            return False
        info.state = state
        return True

    def _step(self, name: str, state: PluginState, method: str) -> bool:
        self.plugins[name].state = PluginState.INITIALIZED
        return self._reach(name, state, lambda info: getattr(self._instances[name], method)())


def _info(plugin: Any, module_path: str = "", state: PluginState = PluginState.DISCOVERED) -> PluginInfo:
    """Return the description of a plugin, which is an object or a class."""
    cls = plugin if isclass(plugin) else type(plugin)
    try:
        metadata = plugin.get_metadata()
    except TypeError:  # a class whose `get_metadata` is a plain method
        metadata = plugin().get_metadata()
    return PluginInfo(metadata, module_path or cls.__module__, cls.__name__, state, cls)


def _first_in(path: Path) -> list[PluginInfo]:
    """Execute a file and return its first plugin class by name, if it has one."""
    spec = importlib.util.spec_from_file_location(f"tracelet_plugin_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for _, cls in getmembers(module, isclass):
        if cls.__module__ == module.__name__ and issubclass(cls, PluginBase):
            return [_info(cls, str(path))]
    return []
