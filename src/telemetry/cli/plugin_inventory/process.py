"""The import of a plug-in in a process of its own, so that one that is broken or hangs harms no other process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from typing import Final

import msgspec

from telemetry.cli.plugin_inventory.facts import PluginFacts, built_in, read_facts
from telemetry.common.formatting import number_of
from telemetry.config.plugins.entry_points import Plugin, broken, plugins
from telemetry.errors import TelemetryError, UsageError
from telemetry.supervise.spawn import telemetry_command

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
