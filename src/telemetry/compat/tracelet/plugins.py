"""The plugins of `core.plugins` under a shorter path."""

from telemetry.compat.tracelet.core.plugins import (
    BackendPlugin,
    CollectorPlugin,
    FrameworkPlugin,
    PluginBase,
    PluginManager,
    PluginMetadata,
    PluginState,
    PluginType,
)

__all__ = [
    "BackendPlugin",
    "CollectorPlugin",
    "FrameworkPlugin",
    "PluginBase",
    "PluginManager",
    "PluginMetadata",
    "PluginState",
    "PluginType",
]
