"""Settings of W&B, from arguments and from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from typing import Any, Final

PROJECT: Final = "WANDB_PROJECT"
ENTITY: Final = "WANDB_ENTITY"
NAME: Final = "WANDB_NAME"
NOTES: Final = "WANDB_NOTES"
RUN_ID: Final = "WANDB_RUN_ID"
RUN_GROUP: Final = "WANDB_RUN_GROUP"
JOB_TYPE: Final = "WANDB_JOB_TYPE"
TAGS: Final = "WANDB_TAGS"
MODE: Final = "WANDB_MODE"
DIR: Final = "WANDB_DIR"
DISABLED: Final = "WANDB_DISABLED"

_Environment = MutableMapping[str, str]


def get_project(default: str | None = None, env: _Environment | None = None) -> str | None:
    """Return the project of the environment."""
    return (os.environ if env is None else env).get(PROJECT, default)


def set_project(value: str, env: _Environment | None = None) -> None:
    """Set the project of later runs."""
    (os.environ if env is None else env)[PROJECT] = value or "uncategorized"


def get_entity(default: str | None = None, env: _Environment | None = None) -> str | None:
    """Return the entity of the environment."""
    return (os.environ if env is None else env).get(ENTITY, default)


def set_entity(value: str, env: _Environment | None = None) -> None:
    """Set the entity of later runs."""
    (os.environ if env is None else env)[ENTITY] = value


_VARIABLES: Final = {
    "mode": MODE,
    "project": PROJECT,
    "entity": ENTITY,
    "run_name": NAME,
    "run_id": RUN_ID,
    "run_group": RUN_GROUP,
    "run_job_type": JOB_TYPE,
    "run_notes": NOTES,
    "run_tags": TAGS,
    "root_dir": DIR,
}


class Settings:
    """Settings by name. A setting without a value is None."""

    def __init__(self, **settings: Any) -> None:
        self.__dict__.update(settings)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def merged(given: Settings | Mapping[str, Any] | None, **arguments: Any) -> Settings:
    """Return the settings of a run: an argument comes before `given`, which comes before the environment."""
    settings: dict[str, Any] = {
        name: os.environ[variable] for name, variable in _VARIABLES.items() if os.environ.get(variable)
    }
    if isinstance(settings.get("run_tags"), str):
        settings["run_tags"] = [tag.strip() for tag in settings["run_tags"].split(",")]
    if given is not None:
        more = vars(given) if isinstance(given, Settings) else given
        settings.update((name, value) for name, value in more.items() if value is not None)
    settings.update((name, value) for name, value in arguments.items() if value is not None)
    return Settings(**settings)
