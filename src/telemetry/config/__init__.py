"""Settings: one schema, read once at the edge, handed down as frozen data."""

from telemetry.config.load import Loaded, load
from telemetry.config.schema import (
    Config,
    EmitConfig,
    GatesConfig,
    HistoryConfig,
    JournalConfig,
    LimitsConfig,
    RunConfig,
    SecurityConfig,
    TransportConfig,
    TuiConfig,
)

__all__ = [
    "Config",
    "EmitConfig",
    "GatesConfig",
    "HistoryConfig",
    "JournalConfig",
    "LimitsConfig",
    "Loaded",
    "RunConfig",
    "SecurityConfig",
    "TransportConfig",
    "TuiConfig",
    "load",
]
