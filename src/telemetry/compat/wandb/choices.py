"""Settings of W&B, from arguments and from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

_VARIABLES: Final = {
    "mode": "WANDB_MODE",
    "project": "WANDB_PROJECT",
    "entity": "WANDB_ENTITY",
    "run_name": "WANDB_NAME",
    "run_id": "WANDB_RUN_ID",
    "run_group": "WANDB_RUN_GROUP",
    "run_job_type": "WANDB_JOB_TYPE",
    "run_notes": "WANDB_NOTES",
    "run_tags": "WANDB_TAGS",
    "root_dir": "WANDB_DIR",
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
    found: dict[str, Any] = {
        name: os.environ[variable] for name, variable in _VARIABLES.items() if os.environ.get(variable)
    }
    if isinstance(found.get("run_tags"), str):
        found["run_tags"] = [tag.strip() for tag in found["run_tags"].split(",")]
    if given is not None:
        more = vars(given) if isinstance(given, Settings) else given
        found.update((name, value) for name, value in more.items() if value is not None)
    found.update((name, value) for name, value in arguments.items() if value is not None)
    return Settings(**found)
