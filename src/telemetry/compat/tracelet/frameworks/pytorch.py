"""PyTorch: what `SummaryWriter` gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, Final

from telemetry.client.process import PROCESS
from telemetry.compat.tracelet.core.interfaces import MetricData, MetricType
from telemetry.compat.tracelet.frameworks.lightning import CapturedFramework
from telemetry.integrations.capture.captures import Capture
from telemetry.integrations.capture.patching import Observers, Patch

_OBSERVERS: Final = Observers("tracelet")
_METHODS: Final[Mapping[str, tuple[MetricType, tuple[str, ...]]]] = {
    "add_scalar": (MetricType.SCALAR, ("tag", "scalar_value", "global_step")),
    "add_scalars": (MetricType.SCALAR, ("main_tag", "tag_scalar_dict", "global_step")),
    "add_histogram": (MetricType.HISTOGRAM, ("tag", "values", "global_step")),
    "add_image": (MetricType.IMAGE, ("tag", "img_tensor", "global_step")),
    "add_text": (MetricType.TEXT, ("tag", "text_string", "global_step")),
    "add_figure": (MetricType.FIGURE, ("tag", "figure", "global_step")),
    "add_video": (MetricType.VIDEO, ("tag", "vid_tensor", "global_step")),
    "add_audio": (MetricType.AUDIO, ("tag", "snd_tensor", "global_step")),
    "add_mesh": (MetricType.MESH, ("tag", "vertices", "colors", "faces", "config_dict", "global_step")),
    "add_embedding": (MetricType.EMBEDDING, ("mat", "metadata", "label_img", "global_step", "tag")),
    "add_hparams": (MetricType.HPARAMS, ("hparam_dict", "metric_dict")),
}
"""Methods of SummaryWriter, the type of metric each makes, and its arguments by position."""


class PyTorchFramework(CapturedFramework):
    """The integration of PyTorch's SummaryWriter. Backends of the user get the same metrics as the run."""

    name = "pytorch"
    capture = "tensorboard"

    def __init__(self, patch_tensorboard: bool = True) -> None:
        super().__init__()
        self._patch_tensorboard = patch_tensorboard
        self._capture: Capture | None = None

    def start_tracking(self) -> None:
        """Begin to record what writers get, unless patching is switched off. A second call has no effect."""
        if not self._patch_tensorboard:
            return
        super().start_tracking()
        experiment = self._experiment
        is_first = experiment is not None and experiment.frameworks.setdefault(self.name, self) is self
        if self._capture is None and is_first:
            self._capture = Capture({"torch.utils.tensorboard.writer": self._patches})
            self._capture.install()

    def stop_tracking(self) -> None:
        """Restore SummaryWriter."""
        if self._capture is not None:
            self._capture.uninstall()
            self._capture = None
        super().stop_tracking()

    def log_enhanced_metric(
        self,
        name: str,
        value: Any,
        metric_type: MetricType | str,
        iteration: int | None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """Log a value of any type. Any other word for a type, such as "accuracy", means a number."""
        if self._experiment is None:
            return
        if isinstance(metric_type, str) and metric_type not in [kind.value for kind in MetricType]:
            self._experiment.log_metric(name, value, iteration)
            if metadata:
                self._experiment.log_params({f"{name}.{key}": entry for key, entry in metadata.items()})
            return
        source = self._experiment.get_source_id()
        metric = MetricData(name, value, MetricType(metric_type), iteration, source=source, metadata=metadata)
        self._experiment.emit_metric(metric)

    def _patches(self, module: ModuleType) -> Iterable[Patch]:
        writer = module.SummaryWriter
        return [
            Patch(writer, method, _OBSERVERS.after(self._observer(kind, names), f"SummaryWriter.{method}"))
            for method, (kind, names) in _METHODS.items()
            if hasattr(writer, method)
        ]

    def _observer(self, kind: MetricType, names: tuple[str, ...]) -> Callable[..., None]:
        """Return the function that passes the arguments of a method on to backends of the user."""
        tag_name = next((name for name in names if name in ("tag", "main_tag")), "")
        value_name = next(name for name in names if name not in ("tag", "main_tag"))

        def observe(_: Any, __: Any, *args: Any, **kwargs: Any) -> None:
            experiment = self._experiment
            if experiment is None or not experiment.has_sinks or PROCESS.state == "finished":
                return
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            tag, value, step = given.get(tag_name, "default"), given[value_name], given.get("global_step")
            parts = value.items() if isinstance(value, dict) and kind is MetricType.SCALAR else [("", value)]
            for part, part_value in parts:
                name = "hparams" if kind is MetricType.HPARAMS else f"{tag}/{part}" if part else tag
                experiment.route(MetricData(name, part_value, kind, step))

        return observe
