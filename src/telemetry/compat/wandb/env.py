"""Variables of the environment that set a project or an entity."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import Final

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
