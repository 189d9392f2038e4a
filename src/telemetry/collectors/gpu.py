"""The collector `gpu`: NVIDIA's GPUs by NVML, the library of its driver. AMD's are not supported."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from telemetry.collectors.collector import NotAvailable, NotConfigured, Target
from telemetry.common.distribution import install_hint

if TYPE_CHECKING:
    from telemetry.client.run import Run

UNITS: Final = {
    "gpu.utilization": "%",
    "gpu.memory_utilization": "%",
    "gpu.memory": "B",
    "gpu.memory_percent": "%",
    "gpu.power": "W",
    "gpu.power_limit": "W",
    "gpu.temperature": "°C",
    "gpu.clock": "MHz",
    "gpu.memory_clock": "MHz",
    "gpu.throttled": "",
}
"""Gauges and their units. `docs/COLLECTORS.md` explains each."""
ECC: Final = "gpu.ecc_errors"
LABEL: Final = "gpu"
REASON: Final = "reason"
_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"
_NVML: Final = "pynvml"
_REASONS: Final = {
    0x4: "power_cap",
    0x8: "hardware",
    0x10: "sync_boost",
    0x20: "software_thermal",
    0x40: "hardware_thermal",
    0x80: "power_brake",
}
"""Bits of NVML for reasons that make a GPU slower than it could be. An idle GPU is none of them."""
_SM: Final = 1
_MEMORY_CLOCK: Final = 2
_CORE_TEMPERATURE: Final = 0
_ECC_KINDS: Final = {"corrected": 0, "uncorrected": 1}
_VOLATILE: Final = 0
"""Counts since the driver was loaded."""


class GpuCollector:
    """A collector of the GPUs that the job may use."""

    class Options(Struct, frozen=True, forbid_unknown_fields=True):
        interval_s: Annotated[float, Meta(ge=0.2, le=3_600)] = 0.0
        """Pause between two readings; 0 for that of the setting `collect.interval_s`."""

    def __init__(
        self,
        options: Options,
        target: Target,
        *,
        nvml: Any = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Load NVML and find the GPUs. `nvml` is the module `pynvml`."""
        self.interval_s = options.interval_s
        self._labels = dict(target.labels)
        self._nvml = nvml if nvml is not None else _imported()
        self._throttled: dict[str, set[str]] = {}
        """Reasons of each GPU that it was ever slowed down by."""
        self._ecc: dict[tuple[str, str], int] = {}
        try:
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            raise NotAvailable(f"NVIDIA's driver can't be used: {error}", "try nvidia-smi") from error
        self._handles = dict(self._visible(environ))
        if not self._handles:
            self.close()
            raise NotAvailable("there is no NVIDIA GPU for this job", f"see nvidia-smi, and {_VISIBLE}")

    def sample(self, run: Run) -> None:
        """Set the gauges of each GPU. What a GPU does not have is left out."""
        for index, handle in self._handles.items():
            labels = self._labels | {LABEL: index}
            for name, read in self._figures(handle):
                value = self._known(read)
                if value is not None:
                    run.gauge(name, unit=UNITS[name], labels=labels).set(value)
            self._sample_throttling(run, index, handle)
            self._sample_ecc(run, index, handle)

    def close(self) -> None:
        with suppress(self._nvml.NVMLError):
            self._nvml.nvmlShutdown()

    def _figures(self, handle: Any) -> Iterator[tuple[str, Callable[[], float]]]:
        nvml = self._nvml
        used = self._known(lambda: nvml.nvmlDeviceGetUtilizationRates(handle))
        if used is not None:
            yield "gpu.utilization", lambda: used.gpu
            yield "gpu.memory_utilization", lambda: used.memory
        memory = self._known(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        if memory is not None and memory.total:
            yield "gpu.memory", lambda: memory.used
            yield "gpu.memory_percent", lambda: 100.0 * memory.used / memory.total
        yield "gpu.power", lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1_000
        yield "gpu.power_limit", lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1_000
        yield "gpu.temperature", lambda: nvml.nvmlDeviceGetTemperature(handle, _CORE_TEMPERATURE)
        yield "gpu.clock", lambda: nvml.nvmlDeviceGetClockInfo(handle, _SM)
        yield "gpu.memory_clock", lambda: nvml.nvmlDeviceGetClockInfo(handle, _MEMORY_CLOCK)

    def _sample_throttling(self, run: Run, index: str, handle: Any) -> None:
        """Set 1 for each reason that slows the GPU down now, and 0 for those that did so before."""
        bits = self._known(lambda: self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
        if bits is None:
            return
        now = {word for bit, word in _REASONS.items() if bits & bit}
        ever = self._throttled.setdefault(index, set())
        ever |= now
        labels = self._labels | {LABEL: index}
        run.gauge("gpu.throttled", labels=labels).set(len(now))
        for word in sorted(ever):
            run.gauge("gpu.throttled", labels=labels | {REASON: word}).set(word in now)

    def _sample_ecc(self, run: Run, index: str, handle: Any) -> None:
        """Count memory errors since the first sample. A GPU without them has no counter."""
        nvml = self._nvml
        for kind, code in _ECC_KINDS.items():
            total = self._known(partial(nvml.nvmlDeviceGetTotalEccErrors, handle, code, _VOLATILE))
            if total is None:
                continue
            before = self._ecc.get((index, kind), total)
            self._ecc[index, kind] = total
            if total > before:
                run.counter(ECC, labels=self._labels | {LABEL: index, "kind": kind}).add(total - before)

    def _known(self, read: Callable[[], Any]) -> Any:
        """Return the result of a call; None if this GPU does not support it. Raises NVMLError for a lost GPU."""
        nvml = self._nvml
        try:
            return read()
        except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound, nvml.NVMLError_NoPermission):
            return None

    def _visible(self, environ: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
        """Yield index and handle of the GPUs that the job may use: all, or those in CUDA_VISIBLE_DEVICES.

        CUDA ignores everything after the first entry that names no GPU.
        """
        nvml = self._nvml
        handles = {str(index): nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())}
        if _VISIBLE not in environ:
            yield from handles.items()
            return
        ids = {index: _text(nvml.nvmlDeviceGetUUID(handle)) for index, handle in handles.items()}
        for word in environ[_VISIBLE].split(","):
            entry = word.strip()
            named = (index for index, uuid in ids.items() if entry and (entry == index or uuid.startswith(entry)))
            if (gpu_index := next(named, None)) is None:
                return
            yield gpu_index, handles[gpu_index]


def _imported() -> Any:
    """Import NVML. Raises NotAvailable without the package, NotConfigured for one that does not work."""
    try:
        return import_module(_NVML)
    except ModuleNotFoundError as error:
        raise NotAvailable("nvidia-ml-py is not installed", install_hint("gpu")) from error
    except ImportError as error:
        raise NotConfigured(f"can't import {_NVML}: {error}", hint=install_hint("gpu")) from error


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
