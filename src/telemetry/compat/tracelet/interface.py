"""The module-level calls: start_logging, stop_logging and get_active_experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from telemetry.client import user_warnings
from telemetry.compat.tracelet.core.experiment import Experiment
from telemetry.compat.tracelet.core.run_backends import installed
from telemetry.compat.tracelet.settings import TraceletSettings, current, options_of


class _Active:
    experiment: Experiment | None = None


def start_logging(  # noqa: PLR0917 – Tracelet's order
    exp_name: str | None = None,
    project: str | None = None,
    backend: str | Sequence[str] | None = None,
    api_key: str | None = None,
    backend_url: str | None = None,
    config: Mapping[str, Any] | None = None,
    settings: TraceletSettings | None = None,
) -> Experiment:
    """Stop the active experiment, start another one and return it. Raise ConfigurationError for a wrong setting.

    Example:
        experiment = start_logging("digits", project="vision", backend="mlflow")

    `config` has options of TraceletSettings, and options of backends: `run_name`, `tags`, `entity`, or a dictionary
    of its own for a backend, as in `{"wandb": {"group": "night"}}`. Other keys become parameters.
    """
    stop_logging()
    options, others = options_of(config or {})
    if exp_name is not None and "experiment_name" in options:  # then it names the experiment of MLflow and Aim
        others["experiment_name"] = options.pop("experiment_name")
    names = ("experiment_name", "project", "backend", "api_key", "backend_url")
    arguments = zip(names, (exp_name, project, backend, api_key, backend_url), strict=True)
    options |= {name: value for name, value in arguments if value is not None}
    chosen = (settings or current()).copy(**options)
    backends = chosen.backend
    if "backend" not in chosen.explicit:
        backends = [name for name in backends if installed(name)]
        if not backends:
            user_warnings.warn(
                "no backend is named and mlflow is not installed: the run is in its own directory alone"
            )
    name = chosen.experiment_name or "default_experiment"
    experiment = Experiment(name, backend=backends, settings=chosen, backend_config=others)
    experiment.start()
    _Active.experiment = experiment
    return experiment


def stop_logging() -> None:
    """Stop the active experiment. Without one it has no effect."""
    experiment, _Active.experiment = _Active.experiment, None
    if experiment is not None:
        experiment.stop()


def get_active_experiment() -> Experiment | None:
    """Return the experiment of the last `start_logging`, or None if it has ended."""
    experiment = _Active.experiment
    return experiment if experiment is not None and experiment.is_running else None


def get_active_backends() -> list[str]:
    """Return the names of the active experiment's backends."""
    experiment = get_active_experiment()
    return experiment.active_backends if experiment is not None else []
