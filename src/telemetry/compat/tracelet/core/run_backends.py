"""Names of backends as texts for `to`, with the options and the environment variables of each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from telemetry.client import user_warnings
from telemetry.compat.tracelet.exceptions import ConfigurationError
from telemetry.compat.tracelet.settings import TraceletSettings
from telemetry.config.plugins import entry_points
from telemetry.config.plugins.backends import BUILT_IN
from telemetry.config.plugins.choice import Choice, parse, unknown
from telemetry.errors import UsageError
from telemetry.redaction import mask_secrets

_SERVICES: Final = ("mlflow", "wandb", "clearml", "aim")
_PACKAGES: Final = (*_SERVICES, "tensorboard", "trackio")
_ALWAYS_LOCAL: Final = ("tensorboard", "jsonl", "console")
_OFFLINE: Final = {"wandb": "WANDB_MODE", "clearml": "CLEARML_OFFLINE_MODE"}


def _pairs(tables: Mapping[str, str]) -> dict[str, dict[str, str]]:
    return {kind: dict(pair.split("=") for pair in pairs.split()) for kind, pairs in tables.items()}


_OPTIONS: Final = _pairs(
    {
        "mlflow": "uri=mlflow_tracking_uri|backend_url experiment=mlflow_experiment_name|project run_name=name",
        "wandb": "project=wandb_project|project entity=wandb_entity name=name tags=tags",
        "clearml": "project=clearml_project|project name=clearml_task_name|name tags=tags",
        "aim": "repo=aim_repo|backend_url experiment=aim_experiment|project run_name=name",
    }
)
"""Options of each kind of backend, and the settings that give them, the strongest first."""
_KEYS: Final = _pairs(
    {
        "mlflow": "tracking_uri=uri backend_url=uri uri=uri experiment_name=experiment experiment=experiment "
        "run_name=run_name artifact_location=artifacts",
        "wandb": "project=project project_name=project entity=entity name=name run_name=name group=group tags=tags "
        "mode=mode id=id dir=folder",
        "clearml": "project=project project_name=project task_name=name name=name run_name=name tags=tags "
        "mode=mode",
        "aim": "repo=repo repo_path=repo backend_url=repo experiment=experiment experiment_name=experiment "
        "run_name=run_name",
        "tensorboard": "logdir=logdir log_dir=logdir",
    }
)
"""Keys of `config` for each kind of backend, and the option of ours that each is."""
_URL_VARIABLES: Final = {"wandb": "WANDB_BASE_URL", "clearml": "CLEARML_API_HOST"}
_KEY_VARIABLES: Final = {"wandb": "WANDB_API_KEY", "mlflow": "MLFLOW_TRACKING_TOKEN"}


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
    return name in BUILT_IN and (name not in _PACKAGES or find_spec(name) is not None)


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
    needs, names = RunBackends(), list(dict.fromkeys(names))
    needs.plugins = [each for each in names if each in plugins and each not in BUILT_IN]
    for each in needs.plugins if settings.local_only else ():
        if "local" not in plugins[each].capabilities:
            raise ConfigurationError(
                f"local_only is set, and the backend {each} does not say that it is local",
                hint='add "local" to the capabilities in its metadata, if it sends nothing to other machines',
            )
    choices = {text: _choice(text, plugins) for text in names if text not in needs.plugins}
    services = [choice.kind for choice in choices.values() if choice.kind in _SERVICES]
    if len(services) > 1 and (settings.backend_url or settings.api_key):
        raise ConfigurationError(
            f"backend_url and api_key can't be shared by {' and '.join(services)}",
            hint="use mlflow_tracking_uri, wandb_api_key, aim_repo, or the variables of each service",
        )
    given = {**vars(settings), "name": name, "tags": tags}
    given["project"] = settings.project if "project" in settings.explicit else None
    taken: set[str] = set()
    for text, choice in choices.items():
        environment = {}
        if ":" not in text:
            choice.options.update(_options(choice.kind, given, config, taken))
            environment = _environment(choice.kind, settings)
        if settings.local_only:
            _check_local(choice, environment)
        needs.to.append(text if ":" in text else str(choice))
        needs.environment |= environment
    needs.settings = {key: value for key, value in config.items() if key not in taken and key not in choices}
    return needs


def _choice(text: str, plugins: Iterable[str]) -> Choice:
    """Parse a name, which may have options. Raise ConfigurationError if its backend can't be used here."""
    kind = text.partition(":")[0]
    usable = BUILT_IN if kind in BUILT_IN else {*BUILT_IN, *entry_points.plugins("backends", {})}
    if kind not in usable:
        hint = unknown(kind, "backend", {*usable, *plugins}).hint
        raise ConfigurationError(f"no backend is named {mask_secrets([text])[0]!r}", hint=hint)
    try:
        choice = parse(text, noun="backend", known=usable)
    except UsageError as error:
        raise ConfigurationError(error.message, hint=error.hint) from error
    if kind in _PACKAGES and find_spec(kind) is None:
        raise ConfigurationError(
            f"the backend {kind} needs the package {kind}, which is not installed",
            hint=f"pip install 'telemetryd[{kind}]'",
        )
    return choice


def _options(kind: str, given: Mapping[str, Any], config: Mapping[str, Any], taken: set[str]) -> dict[str, str]:
    """Return the options of one backend: from `config`, then from settings, then project and experiment name."""
    options: dict[str, Any] = {}
    for option, names in _OPTIONS.get(kind, {}).items():
        if value := next((value for name in names.split("|") if (value := given[name])), None):
            options[option] = value
    own = config.get(kind)
    for source in (config, own if isinstance(own, Mapping) else {}):
        for key, value in source.items():
            if (name := _KEYS.get(kind, {}).get(key)) and value is not None:
                taken.add(key)
                options[name] = value
    texts = {key: _joined(value) for key, value in options.items()}
    uri = texts.get("uri", "")
    if uri.startswith("file:") or (uri and ":" not in uri and uri != "databricks"):
        texts["uri"] = _database(uri)
    return texts


def _database(uri: str) -> str:
    """Return the database to use in place of a file store of MLflow, which can't hold all names of a run."""
    folder = Path(uri.removeprefix("file:").removeprefix("//")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    database = f"sqlite:///{folder}/mlflow.db"
    user_warnings.warn_once(uri, f"MLflow's file stores are not supported; this run goes to {database}")
    return database


def _environment(kind: str, settings: TraceletSettings) -> dict[str, str]:
    key = (settings.wandb_api_key if kind == "wandb" else None) or settings.api_key
    pairs = {_URL_VARIABLES.get(kind): settings.backend_url, _KEY_VARIABLES.get(kind): key}
    if kind == "clearml" and key:
        access, colon, secret = key.partition(":")
        if not colon:
            raise ConfigurationError("ClearML has two keys", hint='write api_key="ACCESS:SECRET"')
        pairs |= {"CLEARML_API_ACCESS_KEY": access, "CLEARML_API_SECRET_KEY": secret}
    return {name: value for name, value in pairs.items() if name and value}


def _check_local(choice: Choice, environment: Mapping[str, str]) -> None:
    """Raise ConfigurationError if a backend could send data to another machine."""
    kind, options, variables = choice.kind, choice.options, {**os.environ, **environment}
    if kind in _OFFLINE:
        mode = options.get("mode") or variables.get(_OFFLINE[kind], "")
        is_local = mode in ("offline", "disabled", "1", "true")
    else:
        uri = options.get("uri") or (variables.get("MLFLOW_TRACKING_URI", "") if kind == "mlflow" else "")
        addresses = (uri, options.get("repo", ""), options.get("artifacts", ""))
        is_local = kind in _ALWAYS_LOCAL or (kind in ("mlflow", "aim") and all(map(_is_local, addresses)))
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
        value = [f"{key}={each}" for key, each in value.items()]
    return ",".join(map(str, value)) if isinstance(value, (list, tuple, set)) else str(value)
