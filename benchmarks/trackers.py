"""What logging a step costs with the trackers' own libraries: each called directly, by the loop that trains.

The environment says where each keeps its files: `environment`. Nothing goes over a network.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.worker import Measure, timed

SCALARS: Final = 20
Log = Callable[[dict[str, float], int], object]


def values(count: int) -> dict[str, float]:
    return {f"train/metric_{number}": 0.37 * number for number in range(count)}


def measured(log: Log, settle: Callable[[], object] = lambda: None) -> Measure:
    """Nanoseconds for one step; `settle` writes what the library still holds."""
    steps = itertools.count()
    given = values(SCALARS)

    def operation(n: int) -> None:
        for step in itertools.islice(steps, n):
            log(given, step)

    def settled() -> None:
        settle()

    return lambda n: timed(operation, n, settle=settled)


def environment(folder: Path) -> dict[str, str]:
    """For a process that uses any of the trackers: its files go below the folder, and nobody is asked or told."""
    settings = folder / "clearml.conf"
    settings.write_text("sdk { development { report_use_subprocess: false } }\n")
    return {
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "TRACKERS_FOLDER": str(folder),
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(folder),
        "WANDB_CONSOLE": "off",
        "WANDB_SILENT": "true",
        "WANDB_ERROR_REPORTING": "false",
        "CLEARML_CONFIG_FILE": str(settings),
        "CLEARML_OFFLINE_MODE": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db",
        "AIM_UI_TELEMETRY_ENABLED": "0",
        "TRACKIO_DIR": str(folder / "trackio"),
        "HF_HUB_OFFLINE": "1",
    }


def _folder() -> str:
    return os.environ["TRACKERS_FOLDER"]


# --- the trackers --------------------------------------------------------------------------------


def tensorboard() -> Measure:
    """As a SummaryWriter does: an event for each scalar."""
    import time

    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(_folder())

    def log(given: dict[str, float], step: int) -> None:
        for tag, value in given.items():
            summary = Summary(value=[Summary.Value(tag=tag, simple_value=value)])
            writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))

    return measured(log, writer.flush)


def wandb() -> Measure:
    """Its own process writes the file: that one's time is in no figure."""
    import wandb

    run = wandb.init(project="bench", settings=wandb.Settings(x_disable_stats=True, disable_git=True))
    return measured(lambda given, step: run.log(given, step=step))


def clearml() -> Measure:
    from clearml import Task

    Task.set_offline(True)
    task = Task.init("bench", "bench", auto_connect_frameworks=False, auto_resource_monitoring=False)
    logger = task.get_logger()

    def log(given: dict[str, float], step: int) -> None:
        for title, value in given.items():
            logger.report_scalar(title, "train", value, step)

    return measured(log, lambda: logger.flush(wait=True))


def mlflow() -> Measure:
    import mlflow

    mlflow.set_experiment("bench")
    mlflow.start_run()
    return measured(lambda given, step: mlflow.log_metrics(given, step=step))


def aim() -> Measure:
    from aim import Run

    run = Run(repo=_folder(), system_tracking_interval=None, capture_terminal_logs=False)
    return measured(lambda given, step: run.track(given, step=step))


def trackio() -> Measure:
    """Its thread writes the database twice a second; what is left of that is in the next round's figures."""
    import trackio

    trackio.init(project="bench", embed=False, auto_log_gpu=False, auto_log_cpu=False)
    return measured(lambda given, step: trackio.log(given, step=step))


ALTERNATIVES: Final[dict[str, Callable[[], Measure]]] = {
    "tensorboard EventFileWriter.add_event": tensorboard,
    "wandb run.log, offline": wandb,
    "clearml report_scalar, offline": clearml,
    "mlflow.log_metrics, sqlite": mlflow,
    "aim run.track": aim,
    "trackio.log": trackio,
}
