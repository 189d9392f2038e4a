"""Base classes and metadata of plugins."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Any, Final

from telemetry.compat.tracelet.core.interfaces import BackendInterface, CollectorInterface, MetricSink
from telemetry.compat.tracelet.core.metrics import MetricData
from telemetry.compat.tracelet.core.sinks import deliver_by_type


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
    """The base of all plugins. `get_metadata` may be a class method or a method."""

    @classmethod
    def get_metadata(cls) -> PluginMetadata:
        """Return what the plugin says of itself."""
        return PluginMetadata(cls.__name__.lower(), "0")

    def initialize(self, config: dict[str, Any]) -> None:
        """Prepare the plugin."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""

    def cleanup(self) -> None:
        """Release what `initialize` took."""

    def get_status(self) -> dict[str, Any]:
        """Return the state of the plugin."""
        return {}


class BackendPlugin(PluginBase, BackendInterface, MetricSink):
    """A backend as a plugin.

    A subclass has `create_backend`, or `receive_metric`, or `handle_metric`, or `log_metric` and the like.
    """

    def __init__(self) -> None:
        self._config: dict[str, Any] = {}
        self._active = False

    def get_sink_id(self) -> str:
        return f"backend_{metadata_of(self).name}"

    def receive_metric(self, metric: MetricData) -> None:
        handle = getattr(self, "handle_metric", None)
        if callable(handle):
            handle(metric)
        else:
            deliver_by_type(self, metric)


class CollectorPlugin(PluginBase, CollectorInterface):  # type: ignore[misc]  # `initialize` takes a config here
    """A collector as a plugin."""

    def __init__(self) -> None:
        self._config: dict[str, Any] = {}
        self._active = False
        self._collection_interval = 60


class FrameworkPlugin(PluginBase):
    """An integration of a framework as a plugin."""

    def patch_framework(self, orchestrator: Any) -> None:
        """Hook into the framework. Pass its metrics to `orchestrator.route_metric`."""


PluginInterface = PluginBase
"""The same class under the name of the architecture document."""
BASES: Final = (PluginBase, BackendPlugin, CollectorPlugin, FrameworkPlugin)


def metadata_of(plugin: Any) -> PluginMetadata:
    """Return the metadata of a plugin or of its class."""
    try:
        made: PluginMetadata = plugin.get_metadata()
    except TypeError:  # a class whose `get_metadata` is a plain method
        made = plugin().get_metadata()
    return made
