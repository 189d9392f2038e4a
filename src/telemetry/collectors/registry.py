"""The collectors by name: built-in ones and those of other packages."""

from __future__ import annotations

from typing import Any, Final, cast

from msgspec import Struct

from telemetry.collectors.collector import Collector, NotConfigured
from telemetry.config.plugins import choice as choices
from telemetry.config.plugins import entry_points
from telemetry.config.plugins.choice import Choice
from telemetry.errors import UsageError

GROUP: Final = "collectors"
NOUN: Final = "collector"
BUILT_IN: Final[dict[str, str]] = {
    "environment": "telemetry.collectors.environment.collector:Environment",
    "git": "telemetry.collectors.git:Git",
    "gpu": "telemetry.collectors.gpu:GpuCollector",
    "host": "telemetry.collectors.host.collector:HostCollector",
    "scrape": "telemetry.collectors.scrape.collector:Scrape",
}
"""Name in `--collect` → class."""
_HAS: Final = ("Options", "sample", "close")


def parse(text: str) -> Choice:
    """Parse the value of `--collect` without importing a collector. Raises UsageError."""
    kind = text.partition(":")[0]
    plugins = BUILT_IN if kind in BUILT_IN else entry_points.plugins(GROUP, BUILT_IN)
    return choices.parse(text, noun=NOUN, known=plugins)


def parse_all(texts: list[str]) -> list[Choice]:
    """Parse several texts and check their options. Raises UsageError, also for equal names.

    Imports the collectors that have options, those of other packages too: in this process, like a feed.
    """
    collectors = [parse(text) for text in texts]
    names = [choice.name for choice in collectors]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two collectors are named {twice}", hint=f"rename one of them: {twice}:as=other")
    for choice in collectors:
        if choice.options:  # without options, there is nothing to import it for
            choices.convert(choice, load(choice.kind).Options, noun=NOUN)
    return collectors


def load(kind: str) -> type[Collector]:
    """Import the class of a known collector. Raises PluginError."""
    plugin = entry_points.find(GROUP, kind, BUILT_IN)
    cls = entry_points.load(plugin)
    missing = [name for name in _HAS if not hasattr(cls, name)]
    if missing:
        raise entry_points.broken(plugin, f"its class lacks {', '.join(missing)}")
    return cast(type[Collector], cls)


def options_of(choice: Choice, cls: type[Collector]) -> Struct:
    """Return the options in their types. Raises NotConfigured that names the option."""
    try:
        return choices.convert(choice, cls.Options, noun=NOUN)
    except UsageError as error:
        raise NotConfigured(error.message, hint=error.hint) from error


def make(choice: Choice, target: Any) -> Collector:
    """Create a collector. Raises PluginError, NotConfigured, NotAvailable and whatever its class raises."""
    cls = load(choice.kind)
    return cls(options_of(choice, cls), target)
