"""The parts of W&B that need its server. Their use is refused with the way to do it here."""

from __future__ import annotations

from typing import Any, NoReturn

from telemetry.compat.wandb.errors import UnsupportedError


def refuse(what: str, instead: str) -> NoReturn:
    """Raise UnsupportedError for a part of W&B."""
    raise UnsupportedError(f"{what} needs W&B's server, which this interface does not use: {instead}")


class Api:
    """The interface of W&B's server. It is refused."""

    def __init__(self, *_args: Any, **_more: Any) -> None:
        refuse("wandb.Api", "read results with telemetry.load_report(DIRECTORY)")


def use_artifact(*_args: Any, **_more: Any) -> NoReturn:
    """Refuse: it needs W&B's server."""
    refuse("use_artifact", "pass the path of the file to your program")


def use_model(*_args: Any, **_more: Any) -> NoReturn:
    """Refuse: it needs W&B's server."""
    refuse("use_model", "pass the path of the file to your program")


def link_artifact(*_args: Any, **_more: Any) -> NoReturn:
    """Refuse: it needs W&B's server."""
    refuse("link_artifact", "log the file with log_artifact, and export it with --to wandb")


def link_model(*_args: Any, **_more: Any) -> NoReturn:
    """Refuse: it needs W&B's server."""
    refuse("link_model", "log the file with log_model, and export it with --to wandb")


def restore(*_args: Any, **_more: Any) -> NoReturn:
    """Refuse: it needs W&B's server."""
    refuse("restore", "open the file where it was saved")


def sweep(*_args: Any, **_more: Any) -> NoReturn:
    """Refuse: it needs W&B's server."""
    refuse(
        "wandb.sweep",
        "start one `telemetry run` for each set of parameters, and compare them with `telemetry compare`",
    )


def agent(*_args: Any, **_more: Any) -> NoReturn:
    """Refuse: it needs W&B's server."""
    refuse("wandb.agent", "start one `telemetry run` for each set of parameters")


def controller(*_args: Any, **_more: Any) -> NoReturn:
    """Refuse: it needs W&B's server."""
    refuse("wandb.controller", "start one `telemetry run` for each set of parameters")
