"""`telemetry plugins`: the backends, collectors, feeds and captures of all installed packages."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from telemetry.cli import console
from telemetry.cli.parser import CommandParser
from telemetry.common.formatting import number_of, printable
from telemetry.wire.exit_codes import Exit

if TYPE_CHECKING:
    from telemetry.cli.plugin_inventory.inventory import ListedPlugin

_TIMEOUT_S: Final = 20.0
_LABELS: Final = {"ready": "ready", "missing": "not installed", "broken": "BROKEN", "hidden": "hidden"}


def add_arguments(parser: CommandParser) -> None:
    actions = parser.add_actions("list")
    listing = actions.add_parser(
        "list", help="show what is installed, and whether it can be loaded", allow_abbrev=False
    )
    listing.add_argument("--full", action="store_true", help="show descriptions and options, too")
    check = actions.add_parser(
        "check",
        help="import each plug-in and the libraries that it needs, each in a process of its own",
        allow_abbrev=False,
    )
    check.add_argument("plugins", nargs="*", metavar="NAME", help="plug-in to check (default: all)")
    for each in (listing, check):
        each.add_argument("--json", action="store_true", help="print a JSON list of objects")
        each.add_argument(
            "--timeout",
            type=_seconds,
            default=_TIMEOUT_S,
            metavar="SECONDS",
            help=f"longest time for the import of a plug-in (default: {_TIMEOUT_S:g})",
        )
    inspect = actions.add_parser("inspect", allow_abbrev=False)  # one plug-in, for the other actions
    inspect.add_argument("plugin", help=argparse.SUPPRESS)
    inspect.add_argument("--thorough", action="store_true", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if args.action == "inspect":
        from telemetry.cli.plugin_inventory.inventory import inspect

        inspect(args.plugin, thorough=args.thorough)
    from telemetry.cli.plugin_inventory.inventory import inventory

    if args.action == "list":
        _show(inventory(args.timeout), as_json=args.json, full=args.full)
        return Exit.OK
    checked = inventory(args.timeout, args.plugins, thorough=True)
    _show(checked, as_json=args.json, full=False)
    unusable = [
        plugin
        for plugin in checked
        if plugin.state in ("broken", "missing") and (args.plugins or not plugin.built_in)
    ]
    if unusable:
        console.say(f"{number_of(len(unusable), 'plug-in')} can't be used")
    return Exit.ERROR if unusable else Exit.OK


def _show(plugins: list[ListedPlugin], *, as_json: bool, full: bool) -> None:
    if as_json:
        console.write_json(plugins)
        return
    rows = [("GROUP", "NAME", "PACKAGE", "STATE"), *(_row(plugin) for plugin in plugins)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row, plugin in zip(rows, [None, *plugins], strict=True):
        cells = [f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)]
        console.write(f"{'  '.join(cells)}  {row[3]}\n")
        for line in _details(plugin, full=full) if plugin else ():
            console.write(f"    {line}\n")


def _row(plugin: ListedPlugin) -> tuple[str, str, str, str]:
    package = "built in" if plugin.built_in else f"{plugin.package} {plugin.version}".strip() or "no name"
    return plugin.group, printable(plugin.name), printable(package), _LABELS[plugin.state]


def _details(plugin: ListedPlugin, *, full: bool) -> list[str]:
    lines = [line for line in (plugin.problem, plugin.remedy) if line]
    if not full:
        return lines
    if plugin.summary:
        lines.append(plugin.summary)
    for option in plugin.options:
        lines.append(f"{option.name}: {option.type}{f' = {option.default}' if option.default else ' (required)'}")
    return lines


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 3_600:
        raise argparse.ArgumentTypeError(f"{text} is not a number of seconds from above 0 to 3600")
    return value
