"""Names of backends as texts for `to`, with the options and the environment variables of each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from telemetry.client import notice
from telemetry.compat.tracelet.exceptions import ConfigurationError
from telemetry.compat.tracelet.settings import TraceletSettings
from telemetry.plugins.choice import Choice
from telemetry.redaction import mask_secrets
from telemetry.supervise.writers import OURS, check_kinds

_PACKAGES: Final = ("mlflow", "wandb", "clearml", "aim", "tensorboard", "trackio")
_ALWAYS_LOCAL: Final = ("tensorboard", "jsonl", "console")
_OFFLINE: Final = {"wandb": "WANDB_MODE", "clearml": "CLEARML_OFFLINE_MODE"}
_KEYS: Final[Mapping[str, Mapping[str, str]]] = {
    kind: dict(pair.split("=") for pair in pairs.split())
    for kind, pairs in {
        "mlflow": "tracking_uri=uri backend_url=uri uri=uri experiment_name=experiment experiment=experiment "
        "run_name=run_name artifact_location=artifacts",
        "wandb": "project=project project_name=project entity=entity name=name run_name=name group=group tags=tags "
        "mode=mode id=id dir=folder",
        "clearml": "project=project project_name=project task_name=name name=name run_name=name tags=tags "
        "mode=mode",
        "aim": "repo=repo repo_path=repo backend_url=repo experiment=experiment experiment_name=experiment "
        "run_name=run_name",
        "tensorboard": "logdir=logdir log_dir=logdir",
    }.items()
}
"""Keys of `config` for each kind of backend, and the option of ours that each is."""
_URL_VARIABLES: Final = {"wandb": "WANDB_BASE_URL", "clearml": "CLEARML_API_HOST"}
_KEY_VARIABLES: Final = {"wandb": "WANDB_API_KEY", "mlflow": "MLFLOW_TRACKING_TOKEN"}
_PAIRS: Final = re.compile(r"(?:\\.|[^\\,])+", re.DOTALL)
"""Pattern of the options in a text of `--to`."""
_told: Final[set[str]] = set()
"""File stores that were reported."""


@dataclass
class RunBackends:
    """The texts for `to` and the environment variables of an experiment's backends."""

    to: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    plugins: list[str] = field(default_factory=list)
    """Names that belong to plugins of the user."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Keys of `config` that no backend takes. They are recorded as parameters."""


def installed(name: str) -> bool:
    """Return whether a backend can be used here, as far as a look at its package shows."""
    return name in OURS and (name not in _PACKAGES or find_spec(name) is not None)


def run_backends(
    names: Iterable[str],
    settings: TraceletSettings,
    *,
    name: str,
    tags: list[str],
    config: Mapping[str, Any],
    plugins: Mapping[str, Any],
) -> RunBackends:
    """Return what the backends of an experiment need. Raise ConfigurationError if one can't be used.

    A name may also be a whole text of `--to`, such as `jsonl:path=out.jsonl`. `plugins` maps names of the user's
    backends to their metadata.
    """
    made, names = RunBackends(), list(dict.fromkeys(names))
    made.plugins = [one for one in names if one in plugins and one not in OURS]
    kinds = [one for one in names if one not in made.plugins]
    for one in made.plugins if settings.local_only else ():
        if "local" not in plugins[one].capabilities:
            raise ConfigurationError(
                f"local_only is set, and the backend {one} does not say that it is local",
                hint='add "local" to the capabilities in its metadata, if it sends nothing to other machines',
            )
    _check(kinds, [*OURS, *plugins])
    _check_shared(kinds, settings)
    taken: set[str] = set()
    for text in kinds:
        kind, colon, _ = text.partition(":")
        options = {} if colon else _options(kind, settings, name=name, tags=tags, config=config, taken=taken)
        environment = {} if colon else _environment(kind, settings)
        if settings.local_only:
            _check_local(kind, options, environment, whole=text)
        made.to.append(text if colon else str(Choice(kind, kind, options)))
        made.environment |= environment
    made.settings = {key: value for key, value in config.items() if key not in taken and key not in kinds}
    return made


def _check(kinds: list[str], known: list[str]) -> None:
    try:
        check_kinds(kinds)
    except Exception as error:
        wrong = next((text for text in kinds if text.partition(":")[0] not in known), kinds[0])
        close = get_close_matches(wrong, known, n=1)
        hint = f"did you mean {close[0]}?" if close else f"one of {', '.join(sorted(set(known)))}"
        raise ConfigurationError(f"no backend is named {mask_secrets([wrong])[0]!r}", hint=hint) from error
    for text in kinds:
        kind = text.partition(":")[0]
        if kind in _PACKAGES and find_spec(kind) is None:
            raise ConfigurationError(
                f"the backend {kind} needs the package {kind}, which is not installed",
                hint=f"pip install 'telemetryd[{kind}]'",
            )


def _check_shared(kinds: list[str], settings: TraceletSettings) -> None:
    """Raise ConfigurationError if one address or key could go to several services."""
    services = [kind for kind in kinds if kind in _PACKAGES[:4]]
    if len(services) > 1 and (settings.backend_url or settings.api_key):
        raise ConfigurationError(
            f"backend_url and api_key can't be shared by {' and '.join(services)}",
            hint="use mlflow_tracking_uri, wandb_api_key, aim_repo, or the variables of each service",
        )


def _options(
    kind: str, settings: TraceletSettings, *, name: str, tags: list[str], config: Mapping[str, Any], taken: set[str]
) -> dict[str, str]:
    """Return the options of one backend: from `config`, then from settings, then project and experiment name."""
    project = settings.project if "project" in settings.explicit else None
    by_setting: Mapping[str, Mapping[str, Any]] = {
        "mlflow": {
            "uri": settings.mlflow_tracking_uri or settings.backend_url,
            "experiment": settings.mlflow_experiment_name or project,
            "run_name": name,
        },
        "wandb": {
            "project": settings.wandb_project or project,
            "entity": settings.wandb_entity,
            "name": name,
            "tags": tags,
        },
        "clearml": {
            "project": settings.clearml_project or project,
            "name": settings.clearml_task_name or name,
            "tags": tags,
        },
        "aim": {
            "repo": settings.aim_repo or settings.backend_url,
            "experiment": settings.aim_experiment or project,
            "run_name": name,
        },
    }
    options = {key: value for key, value in by_setting.get(kind, {}).items() if value}
    own = config.get(kind)
    for source in (config, own if isinstance(own, Mapping) else {}):
        for key, value in source.items():
            option = _KEYS.get(kind, {}).get(key)
            if option and value is not None:
                taken.add(key)
                options[option] = list(value) if isinstance(value, (list, tuple, set)) else value
    words = {key: _joined(value) for key, value in options.items()}
    uri = words.get("uri", "")
    if uri.startswith("file:") or (uri and ":" not in uri and uri != "databricks"):
        words["uri"] = _database(uri)
    return words


def _database(uri: str) -> str:
    """Return the database to use in place of a file store of MLflow, which can't hold all names of a run."""
    folder = Path(uri.removeprefix("file:").removeprefix("//")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    database = f"sqlite:///{folder}/mlflow.db"
    if uri not in _told:
        _told.add(uri)
        notice.warn(f"MLflow's file stores are not supported; this run goes to {database}")
    return database


def _environment(kind: str, settings: TraceletSettings) -> dict[str, str]:
    key = (settings.wandb_api_key if kind == "wandb" else None) or settings.api_key
    pairs = {_URL_VARIABLES.get(kind): settings.backend_url, _KEY_VARIABLES.get(kind): key}
    if kind == "clearml" and settings.api_key:
        access, colon, secret = settings.api_key.partition(":")
        if not colon:
            raise ConfigurationError("ClearML has two keys", hint='write api_key="ACCESS:SECRET"')
        pairs |= {"CLEARML_API_ACCESS_KEY": access, "CLEARML_API_SECRET_KEY": secret}
    return {name: value for name, value in pairs.items() if name and value}


def _check_local(kind: str, options: Mapping[str, str], environment: Mapping[str, str], whole: str) -> None:
    """Raise ConfigurationError if a backend could send data to another machine."""
    variables = {**os.environ, **environment}
    if kind in _ALWAYS_LOCAL:
        return
    pairs = (pair.partition("=") for pair in _PAIRS.findall(whole.partition(":")[2]))
    given = {**{key.strip(): value.strip() for key, _, value in pairs}, **options}
    if kind in _OFFLINE:
        mode = given.get("mode") or variables.get(_OFFLINE[kind], "")
        is_local = mode in ("offline", "disabled", "1", "true")
    else:
        uri = given.get("uri") or (variables.get("MLFLOW_TRACKING_URI", "") if kind == "mlflow" else "")
        places = (uri, given.get("repo", ""), given.get("artifacts", ""))
        is_local = kind in ("mlflow", "aim") and all(map(_is_local, places))
    if not is_local:
        raise ConfigurationError(
            f"local_only is set, and the backend {kind} may send data to another machine",
            hint="use tensorboard, jsonl, mlflow with sqlite, aim with a folder, or wandb or clearml offline",
        )


def _is_local(uri: str) -> bool:
    """Return whether a URI is empty, a path, a file or a database in a file."""
    is_service = uri.startswith("databricks")  # for MLflow, without any scheme
    is_path = uri.startswith(("/", ".", "~")) or (":" not in uri and not is_service)
    return is_path or uri.startswith(("sqlite:", "file:"))


def _joined(value: Any) -> str:
    if isinstance(value, Mapping):
        value = [f"{key}={one}" for key, one in value.items()]
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)
