"""The module that programs get for `import wandb` under `telemetry run --stand-in wandb`.

It replaces itself with `telemetry.compat.wandb`, also under the names of W&B's submodules, so each class exists
once.
"""

import sys
from importlib import import_module

_SUBMODULES = {
    "env": "env",
    "util": "util",
    "errors": "errors",
    "errors.errors": "errors",
    "errors.term": "term",
    "data_types": "media",
    "wandb_run": "wandb_run",
    "sdk": "sdk",
    "sdk.lib": "sdk.lib",
    "sdk.lib.config_util": "sdk.lib.config_util",
    "sdk.lib.disabled": "sdk.lib",
    "sdk.lib.runid": "util",
    "sdk.data_types": "media",
    "sdk.wandb_artifacts": "artifacts",
    "sdk.wandb_config": "configs",
    "sdk.wandb_run": "sdk.wandb_run",
    "sdk.wandb_settings": "env",
    "sdk.wandb_summary": "configs",
}
"""Submodules of W&B, and the modules here that stand in for them."""

for _name, _module in _SUBMODULES.items():
    sys.modules[f"wandb.{_name}"] = import_module(f"telemetry.compat.wandb.{_module}")
sys.modules["wandb"] = import_module("telemetry.compat.wandb")
