"""The configuration file of a Prometheus that the program names: scrape targets are written into it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import ProxyHandler, Request, build_opener

from telemetry.client import user_warnings
from telemetry.errors import ConfigError
from telemetry.integrations.rl_insight.targets import DEFAULT_JOB, groups_of
from telemetry.store.append_file import describe
from telemetry.store.atomic import write_atomic

_PORT: Final = 9090
_RELOAD_S: Final = 5.0
_READABLE: Final = 0o644
_NO_RELOAD: Final = "none"  # as a text; without a mode the file is read again


def write_targets(conf: Mapping[str, Any], job: Any, reload_mode: Any = None) -> None:
    """Replace a job in the file that `conf` names, and let its Prometheus read the file again. Never raises.

    The targets of the job are all that this process has given so far. Without a file there is nothing to do.
    """
    settings = conf.get("prometheus")
    settings = settings if isinstance(settings, Mapping) else {}
    if not settings.get("config_file"):
        return
    path, name = Path(str(settings["config_file"])).expanduser(), str(job or DEFAULT_JOB)
    try:
        _replace_job(path, name)
    except (ConfigError, OSError) as error:
        why = describe(error) if isinstance(error, OSError) else str(error)
        user_warnings.warn(f"the targets of {name!r} are not written to {path}: {why}")
        return
    by_conf = settings.get("reload")
    mode = reload_mode or (by_conf.get("mode") if isinstance(by_conf, Mapping) else "") or ""
    if str(mode).lower() != _NO_RELOAD:
        _reload(int(settings.get("prometheus_port") or _PORT))


def read_yaml(path: Path) -> dict[str, Any]:
    """Return the mapping in a file of YAML; an empty one for any other content. Raises ConfigError."""
    yaml = yaml_module(path)
    try:
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigError(f"can't read {path}: {describe(error)}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid YAML: {error}") from error
    return dict(document) if isinstance(document, Mapping) else {}


def yaml_module(path: Path) -> Any:
    """Return the package `yaml`. Raises ConfigError if it is not installed; `path` is for the message."""
    try:
        return import_module("yaml")
    except ImportError as error:
        raise ConfigError(
            f"{path} needs a reader of YAML",
            hint="`pip install pyyaml`, or give a TOML file; docs/STACK.md lists its keys",
        ) from error


def _replace_job(path: Path, job: str) -> None:
    """Write the targets of a job into a file, and keep its other jobs. Raises ConfigError and OSError."""
    document = read_yaml(path) if path.exists() else {}
    jobs = document.get("scrape_configs")
    others = [other for other in jobs or [] if not (isinstance(other, Mapping) and other.get("job_name") == job)]
    static = [{"targets": group.targets, "labels": dict(group.labels)} for group in groups_of(job)]
    document["scrape_configs"] = [*others, {"job_name": job, "static_configs": static}]
    text = yaml_module(path).safe_dump(document, sort_keys=False)
    mode = path.stat().st_mode & 0o777 if path.exists() else _READABLE
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text.encode(), durable=False, mode=mode)


def _reload(port: int) -> None:
    """Ask the Prometheus of this machine to read its configuration again."""
    url = f"http://127.0.0.1:{port}/-/reload"
    try:
        with build_opener(ProxyHandler({})).open(Request(url, method="POST"), timeout=_RELOAD_S):
            pass
    except HTTPError as error:
        with error:
            why = error.read(200).decode(errors="replace").strip() or f"HTTP {error.code}"
        user_warnings.warn(f"Prometheus did not read its configuration again ({url}): {why}")
    except OSError as error:
        reason = getattr(error, "reason", error)
        why = describe(reason) if isinstance(reason, OSError) else reason
        user_warnings.warn(f"no Prometheus answers at {url}, so it reads the targets when it starts: {why}")
