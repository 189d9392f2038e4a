"""The command `rl-insight`: its `server start`, `stop` and `status` are `telemetry stack up`, `down` and `status`.

It is also `python -m telemetry.compat.rl_insight`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

from telemetry.common.distribution import NAME
from telemetry.compat.rl_insight.prometheus_file import read_yaml
from telemetry.errors import ConfigError, TelemetryError
from telemetry.store.append_file import describe
from telemetry.store.atomic import OWNER_ONLY, write_atomic
from telemetry.store.scrape_targets import state_directory
from telemetry.supervise.spawn import telemetry_command

_COMMAND: Final = "rl-insight"
_ACTIONS: Final = {"stop": "down", "status": "status"}
_LEVELS: Final = {"critical": "error", "warn": "warning"}
"""Level of RL-Insight → ours, where they differ."""
_KEYS: Final = {
    "prometheus.prometheus_port": "prometheus.port",
    "prometheus.port": "prometheus.port",
    "prometheus.binary_path": "prometheus.program",
    "prometheus.enable": "prometheus.enabled",
    "tempo.query_port": "tempo.port",
    "tempo.binary_path": "tempo.program",
    "tempo.enable": "tempo.enabled",
    "grafana.port": "grafana.port",
    "grafana.binary_path": "grafana.program",
    "grafana.enable": "grafana.enabled",
}
"""Key of RL-Insight's configuration → that of the stack."""


def command() -> int:
    """Run `rl-insight`: that of RL-Insight itself if it is installed beside this package, else `main`."""
    for point in entry_points(group="console_scripts", name=_COMMAND):
        if point.dist is not None and point.dist.name != NAME:
            result: int = point.load()()
            return result
    return main()


def main(arguments: Sequence[str] | None = None) -> int:
    """Replace this process by `telemetry stack`. Returns the exit code of a usage error."""
    args = _parser().parse_args(arguments)
    if args.action in _ACTIONS:
        stack_arguments = [_ACTIONS[args.action], *(["--json"] if getattr(args, "json", False) else [])]
    else:
        level = str(args.level_here or args.level or "info").lower()
        stack_arguments = ["up", "--log-level", _LEVELS.get(level, level)]
        stack_arguments += ["--detach"] if args.detach else []
        stack_arguments += ["--attach-logs"] if args.attach_logs else []
        try:
            stack_arguments += ["--config", str(settings_file(args.config))] if args.config else []
        except TelemetryError as error:
            sys.stderr.write(f"telemetry: {error}\n")
            return error.exit_code
    line = [*telemetry_command(), "stack", *stack_arguments]
    os.execv(line[0], line)  # so that signals and the exit code are those of the stack
    raise AssertionError("execv does not return")


def settings_file(path: Path) -> Path:
    """Return a file of settings for the stack: the TOML file, or one made of a YAML file. Raises ConfigError."""
    if path.suffix == ".toml":
        return path
    state = state_directory()
    if state is None:
        raise ConfigError("this user has no home for the settings of the stack", hint="give a TOML file")
    tables, ignored = translated(read_yaml(path))
    lines = [line for name, table in tables.items() for line in (f"[{name}]", *table)]
    toml_path = state / "rl_insight.toml"
    try:
        toml_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomic(toml_path, "".join(f"{line}\n" for line in lines).encode(), durable=False, mode=OWNER_ONLY)
    except OSError as error:
        raise ConfigError(f"can't write {toml_path}: {describe(error)}") from error
    if ignored:
        sys.stderr.write(f"telemetry: {path}: no effect here: {', '.join(ignored)}\n")
    return toml_path


def translated(document: Mapping[str, Any]) -> tuple[dict[str, list[str]], list[str]]:
    """Return (table → lines of TOML, names of keys without effect)."""
    tables: dict[str, list[str]] = {}
    ignored = []
    for section, content in document.items():
        for key, value in (content if isinstance(content, Mapping) else {"": content}).items():
            name = f"{section}.{key}".rstrip(".")
            wanted = _KEYS.get(name)
            if wanted is None:
                ignored.append(name)
            elif value is not None:
                table, _, own = wanted.partition(".")
                tables.setdefault(table, []).append(f"{own} = {_toml(value)}")
    return tables, ignored


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=_COMMAND, description="Start, end and show Prometheus, Tempo and Grafana."
    )
    parser.add_argument("--log-level", dest="level", default=None, help="lowest level that the servers log")
    commands = parser.add_subparsers(dest="command", required=True)
    server = commands.add_parser("server", help="start, end or show the servers")
    actions = server.add_subparsers(dest="action", required=True)
    start = actions.add_parser("start", help="start them: `telemetry stack up`")
    start.add_argument("--config", type=Path, default=None, help="settings: TOML, or the YAML of RL-Insight")
    start.add_argument("--log-level", dest="level_here", default=None, help="lowest level that the servers log")
    stay = start.add_mutually_exclusive_group()
    stay.add_argument("--detach", action="store_true", help="return once they are ready")
    stay.add_argument("--attach-logs", action="store_true", help="print what they log")
    actions.add_parser("stop", help="end them: `telemetry stack down`")
    status = actions.add_parser("status", help="show what runs: `telemetry stack status`")
    status.add_argument("--json", action="store_true", help="print an object")
    return parser


if __name__ == "__main__":
    sys.exit(main())
