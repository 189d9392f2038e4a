"""A program that uses W&B, for a child process. Writes what it saw of the library to `seen.json`."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import wandb
from wandb.sdk.lib import RunDisabled
from wandb.sdk.lib.config_util import ConfigError
from wandb.sdk.wandb_run import Run
from wandb.wandb_run import Run as OldRun

seen: dict[str, Any] = {}


def error(name: str, call: Callable[[], object]) -> None:
    try:
        call()
    except Exception as raised:  # noqa: BLE001 – every type is an answer
        seen[f"error {name}"] = [
            kind.__name__ for kind in type(raised).__mro__ if kind.__module__ != "builtins"
        ] or [type(raised).__name__]
    else:
        seen[f"error {name}"] = None


def misuse_without_run() -> None:
    error("log", lambda: wandb.log({"a": 1}))
    error("define_metric", lambda: wandb.define_metric("a"))
    error("config", lambda: wandb.config.update({"a": 1}))
    error("summary", lambda: wandb.summary["a"])
    seen["run before"] = wandb.run


def misuse(run: Any) -> None:
    error("list", lambda: run.log([1]))
    error("key", lambda: run.log({1: 2}))
    error("step", lambda: run.log({"a": 1}, step=99.5))
    error("changed", lambda: run.config.update({"lr": 0.2}))
    error("changed item", lambda: run.config.__setitem__("lr", 0.2))
    error("changed attribute", lambda: setattr(run.config, "lr", 0.2))
    error("allowed", lambda: run.config.update({"lr": 0.3}, allow_val_change=True))
    error("missing", lambda: run.config.nothing)
    error("missing item", lambda: run.config["nothing"])
    error("star", lambda: run.define_metric("a*b"))
    error("no name", lambda: run.define_metric(""))
    error("summary operation", lambda: run.define_metric("a", summary="median"))
    error("cells", lambda: wandb.Table(columns=["a"]).add_data(1, 2))
    error("bins", lambda: wandb.Histogram([1, 2], num_bins=600))
    error("edges", lambda: wandb.Histogram(np_histogram=([1, 2], [1, 2])))
    error("new attribute", lambda: setattr(run.config, "fresh", [1, (2, 3)]))


def rows(run: Any) -> None:
    wandb.define_metric("train/step")
    wandb.define_metric("train/*", step_metric="train/step")
    run.define_metric("best", summary="min,max,mean")
    run.define_metric("hidden", summary="none")
    for number in range(3):
        wandb.log({"train/loss": 1 / (number + 1), "train/step": 10 * number, "best": number, "hidden": 1})
    run.log({"a": 1}, step=10)
    run.log({"b": {"c": np.float32(0.5), "d": True}}, step=10)
    run.log({"x": 1, "none": None, "text": "hello"})
    wandb.log({"one": np.array([4.0]), "late": 1}, commit=False)
    wandb.log({"not a number": float("nan")})


def objects(run: Any) -> None:
    table = wandb.Table(columns=["a", "b"], data=[[1, "x"], [2, "y"]])
    table.add_data(3, "z")
    seen["table"] = [table.columns, table.data, table.get_column("b"), next(iter(table.iterrows()))[1]]
    histogram = wandb.Histogram(np_histogram=np.histogram([1, 2, 3, 3], bins=4))
    seen["histogram"] = [histogram.histogram, histogram.bins]
    picture = wandb.Image(np.full((4, 6, 3), 200, dtype=np.uint8), caption="grey")
    run.log({"table": table, "histogram": histogram, "numbers": np.arange(100.0), "picture": picture})
    with open("weights.bin", "wb") as file:
        file.write(b"w" * 10)
    artifact = wandb.Artifact("weights", type="model", metadata={"score": 1})
    artifact.add_file("weights.bin")
    wandb.log_artifact(artifact, aliases=["best"])
    run.log_artifact("weights.bin", name="whole", type="data")
    run.alert("watch out", "the loss is high")


def settings(run: Any) -> None:
    wandb.config.update({"z": 1, "tuple": (1, 2)})
    run.config["kind"] = np.float64(2.5)
    wandb.config.setdefaults({"z": 9, "y": 3})
    seen["config"] = dict(run.config)
    seen["config keys"] = list(wandb.config.keys())
    seen["config get"] = [wandb.config.get("z"), wandb.config.get("q", 5), "lr" in wandb.config, wandb.config.lr]


def main() -> None:
    misuse_without_run()
    config = {"lr": 0.1, "api_key": "swordfish", "model": {"depth": 2}}
    run = wandb.init(project="proj", id="one", name="first", config=config, tags=["t"], group="g")
    seen["run"] = [wandb.run is run, wandb.init() is run, run.name, run.project, run.group, run.url, run.step]
    seen["types"] = [isinstance(run, Run), Run is wandb.Run, OldRun is Run, isinstance(run, RunDisabled)]
    seen["errors"] = [issubclass(ConfigError, wandb.Error), issubclass(wandb.CommError, wandb.Error)]
    rows(run)
    seen["step"] = run.step
    settings(run)
    misuse(run)
    objects(run)
    wandb.run.summary["accuracy"] = 0.9
    run.summary.update({"notes": "good"})
    summary = run.summary
    seen["summary"] = [summary["a"], summary["accuracy"], summary["notes"], "hidden" in summary.keys()]  # noqa: SIM118
    seen["summary of metric"] = dict(summary["best"])
    run.finish()
    seen["run after"] = wandb.run
    error("finished", lambda: run.log({"a": 1}))
    error("log after", lambda: wandb.log({"a": 1}))
    with wandb.init(project="proj", id="second") as second:
        second.log({"again": 1})
    seen["second"] = [second.id, wandb.run]
    with open("seen.json", "w") as file:
        json.dump(seen, file)


main()
