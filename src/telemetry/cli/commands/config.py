"""`telemetry config`: the settings in force, their schema, and the files they may come from."""

from __future__ import annotations

import argparse

from telemetry.cli import console
from telemetry.wire.exit_codes import Exit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=("show", "schema", "path"),
        nargs="?",
        default="show",
        help="show: all settings and where each comes from, as TOML; schema: the JSON Schema of "
        "telemetry.toml; path: the configuration files, highest priority last",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    {"show": _show, "schema": _schema, "path": _path}[args.what](args.json)
    return Exit.OK


def _show(as_json: bool) -> None:
    from telemetry.config import describe, load

    loaded = load()
    if as_json:
        console.write_json(describe.settings(loaded))
    else:
        console.write(describe.to_toml(loaded) + "\n")


def _schema(_as_json: bool) -> None:
    from telemetry.config.describe import json_schema

    console.write_json(json_schema())


def _path(as_json: bool) -> None:
    from telemetry.config.load import places

    files = [
        {"path": str(source.path), "table": source.table, "exists": source.path.is_file()} for source in places()
    ]
    if as_json:
        console.write_json(files)
        return
    for file in files:
        table = f" [{file['table']}]" if file["table"] else ""
        console.write(f"{file['path']}{table}{'' if file['exists'] else '  (not found)'}\n")
