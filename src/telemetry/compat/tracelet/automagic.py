"""Automagic: captures of frameworks, switched on together. Variables of the program are never read."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Self

from telemetry.client import user_warnings
from telemetry.compat.tracelet.core.interfaces import plain
from telemetry.compat.tracelet.frameworks.lightning import Stop, hold, hold_integration
from telemetry.compat.tracelet.frameworks.pytorch import CHECKPOINTS, watch_learning_rates

__all__ = ["AutomagicConfig", "AutomagicInstrumentor", "automagic", "capture_hyperparams"]
_DEFAULT_FRAMEWORKS: Final = frozenset({"pytorch", "lightning", "sklearn", "keras", "xgboost"})
_CAPTURED: Final = {"pytorch": "tensorboard", "lightning": "lightning"}
_READERS: Final = ("detect_function_args", "detect_class_attributes", "detect_argparse", "detect_config_files")
_NEVER_READ: Final = (
    "automagic never reads variables of the program, which may hold passwords: call "
    "experiment.log_params({...}) with the hyperparameters"
)
_GUESSES: Final = ("monitor_training_loop", "monitor_loss_curves", "epoch_detection_threshold_seconds")


@dataclass
class AutomagicConfig:
    """Switches of automagic. docs/migrating/TRACELET.md says what each does here."""

    detect_function_args: bool = True
    detect_class_attributes: bool = True
    detect_argparse: bool = True
    detect_config_files: bool = True
    track_model_architecture: bool = True
    track_model_checkpoints: bool = True
    track_model_gradients: bool = False
    track_dataset_info: bool = True
    track_data_samples: bool = False
    monitor_training_loop: bool = True
    monitor_loss_curves: bool = True
    monitor_learning_rate: bool = True
    epoch_detection_threshold_seconds: float = 30.0
    monitor_gpu_memory: bool = True
    monitor_cpu_usage: bool = True
    track_git_info: bool = True
    track_file_hashes: bool = True
    frameworks: set[str] = field(default_factory=lambda: set(_DEFAULT_FRAMEWORKS))

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Remember which switches the call sets, which a dataclass does not."""
        instance = super().__new__(cls)
        vars(instance)["_asked"] = {*list(cls.__dataclass_fields__)[: len(values)], *named}
        return instance

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a switch: `__init__` does it first, the program later."""
        if name in vars(self):
            vars(self)["_asked"].add(name)
        super().__setattr__(name, value)

    def is_asked_for(self, name: str) -> bool:
        """Return whether the program itself has switched something on."""
        return name in vars(self)["_asked"] and bool(getattr(self, name))


class AutomagicInstrumentor:
    """The captures of automagic, one object for the process."""

    _instance: AutomagicInstrumentor | None = None

    def __init__(self, config: AutomagicConfig | None = None) -> None:
        self.config = config or AutomagicConfig()
        self._stops: dict[str, list[Stop]] = {}

    @classmethod
    def get_instance(cls, config: AutomagicConfig | None = None) -> AutomagicInstrumentor:
        """Return the object of the process, with a new configuration if one is given."""
        if cls._instance is None:
            cls._instance = cls(config)
        elif config is not None:
            cls._instance.config = config
        return cls._instance

    def attach_experiment(self, experiment: Any) -> Self:
        """Switch the captures on for an experiment that has started, and say what is not captured."""
        config = self.config
        self.detach_experiment(experiment.id)
        stops = self._stops[experiment.id] = []
        for framework in sorted(config.frameworks):
            if framework in _CAPTURED:
                stops.append(hold_integration(_CAPTURED[framework]))
            elif config.frameworks != _DEFAULT_FRAMEWORKS:
                user_warnings.warn(f"automagic has no capture for {framework}: call log_metric and log_params")
        if config.track_model_checkpoints:
            stops.append(hold(CHECKPOINTS))
        if config.monitor_learning_rate and "pytorch" in config.frameworks:
            stops.append(watch_learning_rates(experiment.log_metric))
        program = Path(sys.argv[0] if sys.argv else "")
        if config.track_file_hashes and program.is_file():
            experiment.log_params({"code.sha256": sha256(program.read_bytes()).hexdigest()})
        for name in ("track_model_gradients", "track_data_samples"):
            if getattr(config, name):
                user_warnings.warn(
                    f"{name} is refused: it would copy data of the model; log what you need with log_metric"
                )
        for name in filter(config.is_asked_for, _GUESSES):
            user_warnings.warn(f'{name} is refused: epochs are not guessed; call log_metric("epoch", epoch, step)')
        if any(getattr(config, name) for name in _READERS):
            user_warnings.warn(_NEVER_READ)
        return self

    def detach_experiment(self, experiment_id: str) -> None:
        """Switch the captures of an experiment off."""
        for stop in self._stops.pop(experiment_id, []):
            stop()

    def capture_hyperparameters(self, experiment: Any, frame_depth: int = 2) -> dict[str, Any]:
        """Report that variables are never read. Return an empty dictionary."""
        user_warnings.warn(_NEVER_READ)
        return {}

    def capture_model_info(self, model: Any, experiment: Any) -> dict[str, Any]:
        """Record facts about a model and return them."""
        facts: dict[str, Any] = {"type": type(model).__name__, "module": type(model).__module__}
        if callable(getattr(model, "parameters", None)):  # a model of torch
            sizes = [(plain(parameter.numel()) or 0, parameter.requires_grad) for parameter in model.parameters()]
            facts["parameter_count"] = total = int(sum(size for size, _ in sizes))
            facts["trainable_parameters"] = trainable = int(sum(size for size, is_trained in sizes if is_trained))
            facts["non_trainable_parameters"] = total - trainable
        if callable(getattr(model, "get_params", None)):
            facts["hyperparameters"] = model.get_params()
        experiment.log_params({"model": facts})
        if self.config.track_model_architecture:
            facts["architecture"] = str(model)
            experiment.recorder.log("model/architecture", facts["architecture"], 0)
        return facts

    def capture_dataset_info(self, dataset: Any, experiment: Any) -> dict[str, Any]:
        """Record facts about a dataset and return them. No sample is read."""
        if not self.config.track_dataset_info:
            return {}
        facts: dict[str, Any] = {"type": type(dataset).__name__, "module": type(dataset).__module__}
        if hasattr(dataset, "__len__"):
            facts["size"] = len(dataset)
        facts |= {name: str(getattr(dataset, name)) for name in ("shape", "dtype") if hasattr(dataset, name)}
        experiment.log_params({"dataset": facts})
        return facts

    def cleanup(self) -> None:
        """Switch all captures off."""
        for experiment_id in list(self._stops):
            self.detach_experiment(experiment_id)


def automagic(experiment: Any, config: AutomagicConfig | None = None) -> AutomagicInstrumentor:
    """Switch automagic on for an experiment that has started."""
    return AutomagicInstrumentor.get_instance(config).attach_experiment(experiment)


def capture_hyperparams(experiment: Any) -> dict[str, Any]:
    """Report that variables are never read. Return an empty dictionary."""
    return AutomagicInstrumentor.get_instance().capture_hyperparameters(experiment)
