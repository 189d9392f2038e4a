"""Load of the machine: processor, memory, disk, network and GPUs. Threads that read collectors at intervals."""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from telemetry.client import user_warnings
from telemetry.compat.tracelet.core.interfaces import CollectorInterface, MetricData, MetricType, call, plain
from telemetry.compat.tracelet.core.orchestrator import Recorder
from telemetry.errors import error_text

_CPU_S: Final = 0.1
_JOIN_S: Final = 5.0
_MIB: Final = 1 << 20
_TEXT_CHARS: Final = 1_000


@dataclass(eq=False)
class CollectorThread:
    """The thread of a collector. Its numbers become gauges, its texts become parameters when they change."""

    read: Callable[[], Any]
    emit: Callable[[MetricData], object]
    interval_s: float
    name: str
    collector: Any = None
    """An object of the user, which the thread also initializes, starts and stops."""

    def __post_init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._has_failed = False
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=f"tracelet-collector-{self.name}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Report a collector that does not return in time."""
        self._ending.set()
        self._thread.join(_JOIN_S)
        if self._thread.is_alive():
            user_warnings.warn(f"the collector {self.name} did not end within {_JOIN_S:g} s")

    def _serve(self) -> None:
        own = self.collector
        if not (self._try(lambda: call(own, "initialize", {})) and self._try(lambda: call(own, "start"))):
            return
        while True:
            self._try(self._collect)
            if self._ending.wait(self.interval_s):
                break
        self._try(lambda: call(own, "stop"))

    def _collect(self) -> None:
        values = self.read()
        for metric in self._metrics("", values) if isinstance(values, Mapping) else values or ():
            self.emit(metric)

    def _metrics(self, path: str, values: Mapping[str, Any]) -> Iterator[MetricData]:
        for key, value in values.items():
            name = f"{path}{key}"
            if isinstance(value, Mapping):
                yield from self._metrics(f"{name}/", value)
            elif isinstance(value, (str, bool)):
                if self._texts.get(name) != str(value) and len(str(value)) <= _TEXT_CHARS:
                    self._texts[name] = str(value)
                    yield MetricData(f"{self.name}.{name.replace('/', '.')}", value, MetricType.PARAMETER)
            elif (figure := plain(value)) is not None:
                yield MetricData(f"{self.name}/{name}", figure, MetricType.SYSTEM)

    def _try(self, act: Callable[[], object]) -> bool:
        try:
            act()
        except Exception as error:  # noqa: BLE001 – code of the user
            if not self._has_failed:
                self._has_failed = True
                user_warnings.warn(
                    f"the collector {self.name} raised {error_text(error)}. "
                    "It goes on at its next turn; this warning appears once"
                )
            return False
        return True


class SystemMetricsCollector(CollectorInterface):
    """A reader of the machine's load. `start` records it as gauges `system/NAME` at intervals, until `stop`.

    It needs the package psutil, and nvidia-ml-py for GPUs. Without them these values are left out.
    """

    def __init__(
        self,
        collect_interval: float = 10.0,
        include_per_cpu: bool = False,
        include_processes: bool = False,
        process_limit: int = 5,
        *,
        cpu: bool = True,
        gpu: bool = True,
        disk: bool = False,
        network: bool = False,
    ) -> None:
        self.collect_interval = collect_interval
        if include_per_cpu or include_processes:
            user_warnings.warn("include_per_cpu and include_processes are refused: log such values with log_metric")
        self._cpu, self._gpu, self._disk, self._network = cpu, gpu, disk, network
        self.emit: Callable[[MetricData], object] = Recorder().record
        self._psutil: Any = None
        self._nvml: Any = None
        self._thread: CollectorThread | None = None

    def initialize(self) -> None:
        """Find psutil and the GPUs."""
        try:
            self._psutil = import_module("psutil")
            self._psutil.cpu_percent()  # the beginning of the first interval
        except ImportError:
            user_warnings.warn("system metrics need the package psutil: pip install psutil")
        try:
            self._nvml = import_module("pynvml") if self._gpu else None
            if self._nvml is not None:
                self._nvml.nvmlInit()
        except Exception:  # noqa: BLE001 – no library, no driver or no GPU
            self._nvml = None

    def collect(self) -> dict[str, Any]:
        """Return facts of the machine and its load now."""
        facts: dict[str, Any] = {
            "platform": platform.platform(),
            "python_version": platform.python_version(),
            "hostname": platform.node(),
            "cpu_count": os.cpu_count(),
        }
        if self._psutil is not None:
            facts["cpu_count_logical"] = facts["cpu_count"]
            facts["cpu_count_physical"] = self._psutil.cpu_count(logical=False)
            facts["memory_total"] = self._psutil.virtual_memory().total
        return facts | self.load(_CPU_S)

    def load(self, cpu_s: float | None = None) -> dict[str, Any]:
        """Return the load now. That of the processor is measured for `cpu_s` seconds, or since the last call."""
        values: dict[str, Any] = {"gpu": self._gpus()} if self._nvml is not None else {}
        if (tool := self._psutil) is None:
            return values
        memory = tool.virtual_memory()
        values |= {"memory_percent": memory.percent, "memory_available": memory.available}
        if self._cpu:
            values["cpu_percent"] = tool.cpu_percent(interval=cpu_s)
        if self._disk and (disk := tool.disk_io_counters()) is not None:
            values |= {"disk_read_mb": disk.read_bytes / _MIB, "disk_write_mb": disk.write_bytes / _MIB}
        if self._network:
            net = tool.net_io_counters()
            values |= {"network_sent_mb": net.bytes_sent / _MIB, "network_recv_mb": net.bytes_recv / _MIB}
        return values

    def start(self) -> None:
        """Record the load at intervals, on a thread. A second call has no effect."""
        if self._thread is None:
            is_own = type(self).collect is SystemMetricsCollector.collect
            collect = self.load if is_own else self.collect
            self._thread = CollectorThread(collect, self.emit, self.collect_interval, "system")

    def stop(self) -> None:
        """End it without waiting for the interval."""
        if self._thread is not None:
            self._thread.stop()
            self._thread = None

    def _gpus(self) -> dict[str, dict[str, float]]:
        nvml, gpus = self._nvml, {}
        for index in range(nvml.nvmlDeviceGetCount()):
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            memory = nvml.nvmlDeviceGetMemoryInfo(handle)
            sizes = {f"memory_{name}": getattr(memory, name) for name in ("total", "used", "free")}
            gpus[f"gpu_{index}"] = {**sizes, "utilization": nvml.nvmlDeviceGetUtilizationRates(handle).gpu}
        return gpus
