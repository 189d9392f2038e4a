"""The facts about one plug-in that only its import shows: its options, its summary, or why it can't be loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from msgspec import Struct

from telemetry.common.distribution import install_hint
from telemetry.common.formatting import printable
from telemetry.config.plugins.choice import Option, options_of
from telemetry.config.plugins.entry_points import Plugin, is_installed
from telemetry.errors import TelemetryError, error_text

_SUMMARY_CHARS: Final = 200


class PluginFacts(Struct, kw_only=True, frozen=True):
    """The facts about one plug-in."""

    problem: str = ""
    """The reason it can't be used; empty if it can be used."""
    remedy: str = ""
    is_missing: bool = False
    """True if it can't be used only because a library is not installed."""
    summary: str = ""
    """First line of its description."""
    options: list[Option] = []


def built_in(group: str) -> Mapping[str, str]:
    """Return the built-in plug-ins of a group: name → value."""
    if group == "backends":
        from telemetry.config.plugins.backends import BUILT_IN

        return {name: ours.value for name, ours in BUILT_IN.items()}
    if group == "collectors":
        from telemetry.collectors.registry import BUILT_IN as COLLECTORS

        return COLLECTORS
    if group == "feeds":
        from telemetry.integrations.feeds import BUILT_IN as FEEDS

        return FEEDS
    if group == "importers":
        from telemetry.compat.importers.registry import BUILT_IN as IMPORTERS

        return IMPORTERS
    from telemetry.integrations.capture.captures import BUILT_IN as CAPTURES

    return CAPTURES


def read_facts(plugin: Plugin, *, thorough: bool = False) -> PluginFacts:
    """Import a plug-in and return the facts. `thorough`: import the libraries of a built-in one, too."""
    needs, extra = _needs(plugin)
    try:
        implementation = _LOADERS[plugin.group](plugin)
    except TelemetryError as error:
        return PluginFacts(problem=error.message, remedy=error.hint)
    described = PluginFacts(
        summary=_summary(implementation),
        options=options_of(implementation.Options) if hasattr(implementation, "Options") else [],
    )
    missing = [module for module in needs if not is_installed(module)]
    if missing:
        return _with_problem(described, f"needs {' and '.join(missing)}", install_hint(extra), is_missing=True)
    for module in needs if thorough else ():
        try:
            import_module(module)
        except (Exception, SystemExit) as error:  # noqa: BLE001  the library of another project
            problem = f"{module} is broken: {printable(error_text(error))}"
            return _with_problem(described, problem, f"install {module} again: {install_hint(extra)}")
    return described


# --- helpers -----------------------------------------------------------------------------------------


def _needs(plugin: Plugin) -> tuple[tuple[str, ...], str]:
    """Return the modules that a built-in plug-in needs, and the extra that installs them."""
    if plugin.group == "backends" and plugin.is_built_in:
        from telemetry.config.plugins.backends import BUILT_IN

        ours = BUILT_IN[plugin.name]
        return ours.needs, ours.extra
    if plugin.group == "collectors" and plugin.name == "gpu":
        return ("pynvml",), "gpu"
    return (), ""


def _with_problem(facts: PluginFacts, problem: str, remedy: str, *, is_missing: bool = False) -> PluginFacts:
    return PluginFacts(
        problem=problem, remedy=remedy, is_missing=is_missing, summary=facts.summary, options=facts.options
    )


def _summary(implementation: Any) -> str:
    text = implementation.__doc__ if isinstance(getattr(implementation, "__doc__", None), str) else ""
    first = next(iter(text.strip().splitlines()), "")
    return printable(first.strip())[:_SUMMARY_CHARS]


def _load_backend(plugin: Plugin) -> Any:
    from telemetry.backends.choice import load

    return load(plugin.name)


def _load_collector(plugin: Plugin) -> Any:
    from telemetry.collectors.registry import load

    return load(plugin.name)


def _load_feed(plugin: Plugin) -> Any:
    from telemetry.integrations.feeds import load_feed

    return load_feed(plugin.name)


def _load_capture(plugin: Plugin) -> Any:
    from telemetry.integrations.capture.captures import load_capture

    return load_capture(plugin)


def _load_importer(plugin: Plugin) -> Any:
    from telemetry.compat.importers.registry import load

    return load(plugin.name)


_LOADERS: Final[Mapping[str, Callable[[Plugin], Any]]] = {
    "backends": _load_backend,
    "collectors": _load_collector,
    "feeds": _load_feed,
    "integrations": _load_capture,
    "importers": _load_importer,
}
"""Group → function that imports a plug-in and checks its form. Raises TelemetryError."""
