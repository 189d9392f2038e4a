"""The collector `gpu` against a stand-in for NVML, and against the library without a driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.collectors.conftest import Recorded

from telemetry.collectors.collector import NotAvailable, Target
from telemetry.collectors.gpu import UNITS, GpuCollector

GIB = 1 << 30


class NVMLError(Exception):
    """An error of the stand-in."""


class NotSupported(NVMLError):
    """A figure that this GPU does not have."""


@dataclass
class Gpu:
    uuid: str
    utilization: int = 50
    used: int = 20 * GIB
    power_mw: int = 300_000
    reasons: int = 1
    ecc: dict[int, int] = field(default_factory=lambda: {0: 7, 1: 0})
    lacks: frozenset[str] = frozenset()


class Nvml:
    """The calls of NVML that the collector makes, for made-up GPUs."""

    NVMLError = NVMLError
    NVMLError_NotSupported = NotSupported
    NVMLError_FunctionNotFound = NotSupported
    NVMLError_NoPermission = NotSupported

    def __init__(self, *gpus: Gpu) -> None:
        self.gpus = gpus
        self.is_open = False

    def nvmlInit(self) -> None:
        self.is_open = True

    def nvmlShutdown(self) -> None:
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Gpu:
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, gpu: Gpu) -> bytes:
        return gpu.uuid.encode()

    def nvmlDeviceGetUtilizationRates(self, gpu: Gpu) -> Any:
        return SimpleNamespace(gpu=gpu.utilization, memory=10)

    def nvmlDeviceGetMemoryInfo(self, gpu: Gpu) -> Any:
        return SimpleNamespace(used=gpu.used, total=80 * GIB)

    def nvmlDeviceGetPowerUsage(self, gpu: Gpu) -> int:
        if "power" in gpu.lacks:
            raise NotSupported
        return gpu.power_mw

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: Gpu) -> int:
        return 700_000

    def nvmlDeviceGetTemperature(self, gpu: Gpu, sensor: int) -> int:
        assert sensor == 0
        return 61

    def nvmlDeviceGetClockInfo(self, gpu: Gpu, kind: int) -> int:
        return {1: 1_980, 2: 2_619}[kind]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, gpu: Gpu) -> int:
        return gpu.reasons

    def nvmlDeviceGetTotalEccErrors(self, gpu: Gpu, kind: int, counter: int) -> int:
        assert counter == 0
        if "ecc" in gpu.lacks:
            raise NotSupported
        return gpu.ecc[kind]


def collector(nvml: Nvml, environ: Mapping[str, str] | None = None) -> GpuCollector:
    return GpuCollector(GpuCollector.Options(), Target(), nvml=nvml, environ=environ or {})


def test_each_gpu_has_all_figures(recorded: Recorded) -> None:
    """Each GPU has all figures by its index, with units."""
    made = collector(nvml := Nvml(Gpu("GPU-aa"), Gpu("GPU-bb", utilization=90)))
    made.sample(recorded.run)
    assert {name: value for name, value in recorded.last.items() if "gpu=1" in name} == {
        "gpu.utilization{gpu=1}": 90.0,
        "gpu.memory_utilization{gpu=1}": 10.0,
        "gpu.memory{gpu=1}": 20.0 * GIB,
        "gpu.memory_percent{gpu=1}": 25.0,
        "gpu.power{gpu=1}": 300.0,
        "gpu.power_limit{gpu=1}": 700.0,
        "gpu.temperature{gpu=1}": 61.0,
        "gpu.clock{gpu=1}": 1_980.0,
        "gpu.memory_clock{gpu=1}": 2_619.0,
        "gpu.throttled{gpu=1}": 0.0,
    }
    assert recorded.units == UNITS
    made.close()
    assert not nvml.is_open


def test_figures_that_a_gpu_lacks_are_left_out(recorded: Recorded) -> None:
    """A GPU for games has no error correction, and one of a laptop may not tell its power."""
    collector(Nvml(Gpu("GPU-aa", lacks=frozenset({"power", "ecc"})))).sample(recorded.run)
    assert "gpu.power{gpu=0}" not in recorded.last
    assert recorded.last["gpu.utilization{gpu=0}"] == 50.0


def test_reasons_to_be_slow_are_shown_from_the_first_time_on(recorded: Recorded) -> None:
    """Each is a gauge of 1 while it lasts, then of 0."""
    gpu = Gpu("GPU-aa")
    made = collector(Nvml(gpu))
    for reasons in (0x1, 0x4 | 0x40, 0x4):
        gpu.reasons = reasons
        made.sample(recorded.run)
    assert recorded.values["gpu.throttled{gpu=0}"] == [0.0, 2.0, 1.0]
    assert recorded.values["gpu.throttled{gpu=0,reason=power_cap}"] == [1.0, 1.0]
    assert recorded.values["gpu.throttled{gpu=0,reason=hardware_thermal}"] == [1.0, 0.0]


def test_memory_errors_are_those_of_this_run(recorded: Recorded) -> None:
    """NVML counts since the driver was loaded."""
    gpu = Gpu("GPU-aa")
    made = collector(Nvml(gpu))
    made.sample(recorded.run)
    gpu.ecc = {0: 9, 1: 1}
    made.sample(recorded.run)
    made.sample(recorded.run)
    found = {name: values for name, values in recorded.values.items() if name.startswith("gpu.ecc")}
    assert found == {
        "gpu.ecc_errors{gpu=0,kind=corrected}": [2.0],
        "gpu.ecc_errors{gpu=0,kind=uncorrected}": [1.0],
    }


@pytest.mark.parametrize(
    ("visible", "indices"),
    [("2,0", ["2", "0"]), ("GPU-bb", ["1"]), ("1,-1,0", ["1"]), ("1,9,0", ["1"]), (" 0 ", ["0"])],
)
def test_only_gpus_of_the_job_are_recorded(visible: str, indices: list[str], recorded: Recorded) -> None:
    """The job's GPUs are listed by index or by the beginning of the id.

    CUDA stops reading at the first entry that is no GPU.
    """
    gpus = Nvml(Gpu("GPU-aa"), Gpu("GPU-bb"), Gpu("GPU-cc"))
    collector(gpus, {"CUDA_VISIBLE_DEVICES": visible}).sample(recorded.run)
    shown = [name for name in recorded.last if name.startswith("gpu.power{")]
    assert shown == [f"gpu.power{{gpu={index}}}" for index in indices]


def test_a_job_without_gpus_has_no_collector() -> None:
    """NVML is closed again."""
    nvml = Nvml(Gpu("GPU-aa"))
    with pytest.raises(NotAvailable, match="no NVIDIA GPU for this job"):
        collector(nvml, {"CUDA_VISIBLE_DEVICES": ""})
    assert not nvml.is_open


def test_a_lost_gpu_is_an_error_of_the_sample(recorded: Recorded) -> None:
    """A lost GPU is counted as an error and tried again, since a driver may be reset."""
    made = collector(nvml := Nvml(Gpu("GPU-aa")))

    def lost(_gpu: Gpu) -> int:
        raise NVMLError("GPU is lost")

    nvml.nvmlDeviceGetUtilizationRates = lost  # type: ignore[method-assign]
    with pytest.raises(NVMLError, match="GPU is lost"):
        made.sample(recorded.run)


def test_the_library_without_a_driver_is_not_available(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real package, told to look for NVIDIA's library where none is."""
    import pynvml

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", _no_library)
    with pytest.raises(NotAvailable, match="NVIDIA's driver can't be used") as raised:
        GpuCollector(GpuCollector.Options(), Target())
    assert isinstance(raised.value.__cause__, pynvml.NVMLError_LibraryNotFound)


def _no_library(name: str) -> None:
    raise OSError(f"{name}: cannot open shared object file")


def test_without_the_package_the_remedy_is_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """`pip install 'telemetryd[gpu]'`."""
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    with pytest.raises(NotAvailable, match="nvidia-ml-py is not installed") as raised:
        GpuCollector(GpuCollector.Options(), Target())
    assert "[gpu]" in raised.value.hint
