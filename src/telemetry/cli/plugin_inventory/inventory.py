"""The list of all plug-ins: which offer is used, and whether it can be loaded in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, Literal

import msgspec
from msgspec import Struct

from telemetry.cli.plugin_inventory.facts import PluginFacts, built_in, read_facts
from telemetry.common.formatting import number_of
from telemetry.config.plugins.choice import Option, unknown
from telemetry.config.plugins.entry_points import GROUPS, Plugin, broken, offered, plugins
from telemetry.errors import TelemetryError, UsageError
from telemetry.supervise.spawn import telemetry_command

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
    for offers in offered(group, built_in(group)).values():
        yield from ((plugin, offers[0]) for plugin in offers)


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


_FACTS_BYTES: Final = 1 << 20


def facts_of(plugin: Plugin, timeout_s: float, *, thorough: bool = False) -> PluginFacts:
    """Return the facts about a plug-in, from a process that is ended after `timeout_s` seconds."""
    flags = ["--thorough"] if thorough else []
    command = [*telemetry_command(), "plugins", "inspect", f"{plugin.group}:{plugin.name}", *flags]
    with tempfile.TemporaryFile() as output:  # a pipe would stay open in a child of the plug-in
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
        output.seek(0)
        answer = output.read(_FACTS_BYTES)
    if code is None:
        return _slow(plugin, timeout_s)
    try:
        return msgspec.json.decode(answer, type=PluginFacts)
    except msgspec.DecodeError:
        return _broken(plugin, f"its import ended the process {_ending(code)}")


def inspect(text: str, *, thorough: bool) -> None:
    """Print the facts about the plug-in `GROUP:NAME` and end this process at once. Raises UsageError."""
    group, _, name = text.partition(":")
    plugin = plugins(group, built_in(group)).get(name)
    if plugin is None:
        raise UsageError(f"no plug-in {text}")
    answer = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a plug-in may print when it is imported
    facts = read_facts(plugin, thorough=thorough)
    os.write(answer, msgspec.json.encode(facts))
    os._exit(0)  # a plug-in may have started threads that do not end


def _broken(plugin: Plugin, cause: str) -> PluginFacts:
    error: TelemetryError = broken(plugin, cause)
    return PluginFacts(problem=error.message, remedy=error.hint)


def _slow(plugin: Plugin, timeout_s: float) -> PluginFacts:
    limit = number_of(timeout_s, "second")
    problem = f"can't load the {plugin.noun}: {plugin.origin}: its import takes more than {limit}"
    return PluginFacts(problem=problem, remedy="if it is only slow, give it longer with --timeout SECONDS")


def _ending(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"with {signal.Signals(-code).name}"
    except ValueError:
        return f"with signal {-code}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and those that it started, unless they left its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
