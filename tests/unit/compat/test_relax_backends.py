"""Options of a Relax program as texts for `--to`."""

from __future__ import annotations

import os
import time
from argparse import Namespace
from typing import Any

import pytest

from telemetry.compat.relax import backends_of
from telemetry.compat.relax.tracking_utils import environment_of
from telemetry.supervise.writers import check_kinds

NOON = time.strptime("2026-11-25 12:00:00", "%Y-%m-%d %H:%M:%S")


@pytest.mark.parametrize(
    ("options", "environment", "texts"),
    [
        ({}, {}, []),
        ({"use_tensorboard": False, "use_wandb": False, "use_clearml": None, "timeline_dump_dir": ""}, {}, []),
        ({"use_tensorboard": True}, {}, ["tensorboard:logdir=tensorboard_log/relax/20261125_120000"]),
        (
            {"use_tensorboard": True, "tb_project_name": "vision", "tb_experiment_name": "a"},
            {},
            ["tensorboard:logdir=tensorboard_log/vision/a"],
        ),
        (
            {"use_tensorboard": True, "save": "/out", "tb_project_name": "vision"},
            {},
            ["tensorboard:logdir=/out/tensorboard_log"],
        ),
        (
            {"use_tensorboard": True, "save": "/out"},
            {"TENSORBOARD_DIR": "/tb"},
            ["tensorboard:logdir=/tb"],
        ),
        ({"use_wandb": True}, {}, ["wandb"]),
        (
            {
                "use_wandb": True,
                "wandb_project": "mine",
                "wandb_team": "us",
                "wandb_group": "night",
                "wandb_mode": "offline",
                "wandb_dir": "/w",
                "wandb_key": "secret",
                "wandb_host": "https://w.example",
            },
            {},
            ["wandb:project=mine,entity=us,name=night,group=night,mode=offline,folder=/w"],
        ),
        (
            {"use_wandb": True, "tb_project_name": "vision", "tb_experiment_name": "a,b", "wandb_mode": "shared"},
            {},
            ["wandb:project=vision,name=a\\,b,mode=online"],
        ),
        ({"use_wandb": True, "wandb_mode": "disabled"}, {}, []),
        ({"use_wandb": True}, {"WANDB_MODE": "offline"}, ["wandb:mode=offline"]),
        ({"use_clearml": True}, {}, ["clearml"]),
        (
            {"use_clearml": True},
            {"CLEARML_PROJECT": "p", "CLEARML_TASK": "t", "CLEARML_TAGS": "a,b"},
            ["clearml:project=p,name=t,tags=a\\,b"],
        ),
        (
            {"use_clearml": True, "tb_project_name": "vision", "tb_experiment_name": "a"},
            {"CLEARML_PROJECT": "p"},
            ["clearml:project=vision,name=a"],
        ),
        ({"timeline_dump_dir": "traces"}, {}, ["timeline:dir=traces"]),
    ],
)
def test_options_become_backends(
    options: dict[str, Any], environment: dict[str, str], texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A namespace and a dictionary give the same texts, which `--to` takes."""
    at_noon = time.strftime("%Y%m%d_%H%M%S", NOON)
    monkeypatch.setattr(time, "strftime", {"%Y%m%d_%H%M%S": at_noon}.__getitem__)
    monkeypatch.setattr(os, "environ", environment)
    assert backends_of(Namespace(**options)) == texts
    assert backends_of(options) == texts
    check_kinds(texts)


def test_secrets_go_through_the_environment() -> None:
    """The key of W&B goes through the environment, so no text of a backend has it."""
    args = Namespace(use_wandb=True, wandb_key="secret", wandb_host="https://w.example")
    assert environment_of(args) == {"WANDB_API_KEY": "secret", "WANDB_BASE_URL": "https://w.example"}
    assert environment_of(Namespace(use_wandb=False, wandb_key="secret")) == {}
    assert environment_of(Namespace(use_wandb=True)) == {}


@pytest.mark.parametrize(
    ("given", "urls"),
    [
        ("ntfy://a,json://h/?x=1,2", ["ntfy://a", "json://h/?x=1,2"]),
        (["ntfy://a?freq=10", "json://h?freq=5&x=1", "json://h?x=1&freq=5&y=2"], None),
        ("", []),
        (None, []),
    ],
    ids=["commas", "freq", "empty", "none"],
)
def test_receivers_of_notifications_travel_by_environment(given: object, urls: list[str] | None) -> None:
    """Addresses of receivers travel without `freq`, which is no part of an address."""
    wanted = ["ntfy://a", "json://h?x=1", "json://h?x=1&y=2"] if urls is None else urls
    found = environment_of(Namespace(notify_urls=given))
    assert found == ({"TELEMETRY_NOTIFY__URLS": "\n".join(wanted)} if wanted else {})
