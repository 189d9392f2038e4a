"""The list of all plug-ins: what packages offer, which offer is used, and whether it can be loaded."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Literal

from msgspec import Struct

from telemetry.cli.plugin_inventory.facts import PluginFacts, built_in, read_facts
from telemetry.cli.plugin_inventory.process import facts_of
from telemetry.config.plugins.choice import Option, unknown
from telemetry.config.plugins.entry_points import GROUPS, Plugin, offered

State = Literal["ready", "missing", "broken", "hidden"]
"""ready: can be used · missing: needs a library that is not installed · broken: can't be loaded · hidden: not used,
because another one has its name."""
_AT_ONCE: Final = min(4, os.cpu_count() or 1)


class ListedPlugin(Struct, kw_only=True, frozen=True):
    """A plug-in of the list."""

    group: str
    name: str
    package: str
    version: str
    value: str
    """Where it is: `module:name`, or `module`."""
    built_in: bool
    state: State
    problem: str
    """The reason it can't be used; empty if it can be used."""
    remedy: str
    summary: str
    options: list[Option]


def inventory(timeout_s: float, names: Collection[str] = (), *, thorough: bool = False) -> list[ListedPlugin]:
    """Return all plug-ins, or those with these names, by group and name.

    Plug-ins of other packages are imported in processes of their own, each for at most `timeout_s` seconds.
    `thorough`: built-in plug-ins as well, and with the libraries that they need. Raises UsageError for an unknown
    name.
    """
    offers = [offer for group in GROUPS for offer in _offers(group)]
    all_names = {plugin.name for plugin, _ in offers}
    for name in names:
        if name not in all_names:
            raise unknown(name, "plug-in", all_names)

    def listed(offer: tuple[Plugin, Plugin]) -> ListedPlugin:
        plugin, used = offer
        if plugin is not used:
            return _hidden(plugin, used)
        if plugin.is_built_in and not thorough:
            return _listed(plugin, read_facts(plugin))
        return _listed(plugin, facts_of(plugin, timeout_s, thorough=thorough))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(listed, [offer for offer in offers if not names or offer[0].name in names]))


def _offers(group: str) -> Iterator[tuple[Plugin, Plugin]]:
    """Yield each plug-in of a group, with the one that is used under its name."""
    for plugins in offered(group, built_in(group)).values():
        yield from ((plugin, plugins[0]) for plugin in plugins)


def _listed(plugin: Plugin, facts: PluginFacts) -> ListedPlugin:
    state: State = "missing" if facts.is_missing else "broken" if facts.problem else "ready"
    return _entry(plugin, state, facts)


def _hidden(plugin: Plugin, used: Plugin) -> ListedPlugin:
    problem = f"not used: {'a built-in one' if used.is_built_in else used.origin} has the same name"
    remedy = f"ask the authors of {plugin.origin} for another name" if used.is_built_in else "uninstall one of them"
    return _entry(plugin, "hidden", PluginFacts(problem=problem, remedy=remedy))


def _entry(plugin: Plugin, state: State, facts: PluginFacts) -> ListedPlugin:
    return ListedPlugin(
        group=plugin.group,
        name=plugin.name,
        package=plugin.package,
        version=plugin.version,
        value=plugin.value,
        built_in=plugin.is_built_in,
        state=state,
        problem=facts.problem,
        remedy=facts.remedy,
        summary=facts.summary,
        options=facts.options,
    )
