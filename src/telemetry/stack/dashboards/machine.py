"""The dashboard of the machine: the host, its container, the command, and the GPUs, by the collectors of a run."""

from __future__ import annotations

from typing import Final

from telemetry.stack.dashboards.model import Dashboard, Row, Target, TimeSeries, own


def _lines(*names: tuple[str, str]) -> tuple[Target, ...]:
    """Return a target for each (gauge, name of its line)."""
    return tuple(Target(own(gauge), f"{line} {{{{node}}}}") for gauge, line in names)


def _shares(title: str, question: str, *names: tuple[str, str], width: int = 8) -> TimeSeries:
    return TimeSeries(title=title, question=question, targets=_lines(*names), unit="percentunit", width=width)


def _bytes(title: str, question: str, *names: tuple[str, str], unit: str = "bytes", width: int = 8) -> TimeSeries:
    return TimeSeries(title=title, question=question, targets=_lines(*names), unit=unit, width=width)


def _gpu(title: str, question: str, unit: str, *targets: tuple[str, str]) -> TimeSeries:
    return TimeSeries(
        title=title,
        question=question,
        targets=tuple(Target(own(name), f"GPU {{{{gpu}}}} {line} {{{{node}}}}") for name, line in targets),
        unit=unit,
        width=8,
    )


_HOST: Final = Row(
    "Host",
    (
        _shares(
            "CPU",
            "Are all cores busy, or does the machine wait for a disk or for another machine?",
            ("host_cpu_ratio", "busy"),
            ("host_cpu_iowait_ratio", "waits for a disk"),
            ("host_cpu_steal_ratio", "stolen"),
        ),
        _bytes(
            "Memory",
            "How much memory is in use?",
            ("host_memory_bytes", "used"),
            ("host_memory_available_bytes", "available"),
            ("host_swap_bytes", "swap used"),
        ),
        _shares("Memory in use", "How near is the machine to its end?", ("host_memory_percent_ratio", "used")),
        TimeSeries(
            title="Load",
            question="How many processes run or wait?",
            targets=_lines(("host_load", "mean of a minute")),
            width=8,
        ),
        _shares(
            "Pressure",
            "Which resource do processes wait for?",
            ("host_pressure_cpu_ratio", "CPU"),
            ("host_pressure_memory_ratio", "memory"),
            ("host_pressure_io_ratio", "I/O"),
        ),
        _shares("Busiest disk", "Is a disk the limit?", ("host_disk_busy_ratio", "busy")),
        _bytes(
            "Disks",
            "How much is read and written?",
            ("host_disk_read_bytes_per_second", "read"),
            ("host_disk_written_bytes_per_second", "written"),
            unit="Bps",
            width=12,
        ),
        _bytes(
            "Network",
            "How much is received and sent?",
            ("host_net_received_bytes_per_second", "received"),
            ("host_net_sent_bytes_per_second", "sent"),
            unit="Bps",
            width=12,
        ),
    ),
)

_COMMAND: Final = Row(
    "Command",
    (
        TimeSeries(
            title="CPU of the command",
            question="How many cores does the job use? 100 % is one core.",
            targets=(
                Target(own("process_cpu_ratio", 'process=""'), "all processes {{node}}"),
                Target(own("process_cpu_ratio", 'process!=""'), "{{process}} {{node}}"),
            ),
            unit="percentunit",
            width=8,
        ),
        TimeSeries(
            title="Memory of the command",
            question="Does the job's memory grow?",
            targets=(
                Target(own("process_memory_bytes", 'process=""'), "all processes {{node}}"),
                Target(own("process_memory_bytes", 'process!=""'), "{{process}} {{node}}"),
            ),
            unit="bytes",
            width=8,
        ),
        TimeSeries(
            title="Processes, threads, files",
            question="Does the job leak processes, threads or open files?",
            targets=_lines(
                ("process_count", "processes"),
                ("process_threads", "threads"),
                ("process_open_files", "open files"),
            ),
            width=8,
        ),
        _bytes(
            "Storage of the command",
            "How much does the job read and write?",
            ("process_read_bytes_per_second", "read"),
            ("process_written_bytes_per_second", "written"),
            unit="Bps",
        ),
        _shares(
            "CPU of the container",
            "Does the limit of the container slow the job down?",
            ("container_cpu_ratio", "used"),
            ("container_cpu_throttled_ratio", "throttled"),
        ),
        _shares(
            "Memory of the container",
            "How near is the container to its limit?",
            ("container_memory_percent_ratio", "used"),
        ),
    ),
)

_GPUS: Final = Row(
    "GPUs",
    (
        _gpu("GPU utilization", "Do the GPUs have work?", "percentunit", ("gpu_utilization_ratio", "")),
        _gpu(
            "GPU memory",
            "How full is the memory?",
            "percentunit",
            ("gpu_memory_percent_ratio", "used"),
            ("gpu_memory_utilization_ratio", "time with access"),
        ),
        _gpu("GPU memory in use", "How much memory is in use?", "bytes", ("gpu_memory_bytes", "")),
        _gpu(
            "GPU power",
            "Are the GPUs at their limit?",
            "watt",
            ("gpu_power_watts", "drawn"),
            ("gpu_power_limit_watts", "limit"),
        ),
        _gpu("GPU temperature", "Do the GPUs become too hot?", "celsius", ("gpu_temperature_celsius", "")),
        _gpu(
            "GPU clocks in MHz",
            "Do the clocks fall under load?",
            "none",
            ("gpu_clock_MHz", "processors"),
            ("gpu_memory_clock_MHz", "memory"),
        ),
        TimeSeries(
            title="GPU throttled",
            question="What slows the GPUs down?",
            targets=(
                Target(own("gpu_throttled", 'reason=""'), "GPU {{gpu}} number of reasons {{node}}"),
                Target(own("gpu_throttled", 'reason!=""'), "GPU {{gpu}} {{reason}} {{node}}"),
            ),
            unit="none",
            width=12,
        ),
        TimeSeries(
            title="GPU memory errors",
            question="Is a GPU about to fail?",
            targets=(Target(own("gpu_ecc_errors_total"), "GPU {{gpu}} {{kind}} {{node}}"),),
            width=12,
        ),
    ),
)

MACHINE: Final = Dashboard(
    name="machine",
    title="telemetry / Host and GPU",
    question="Does the machine, or a GPU, slow the job down?",
    rows=(_HOST, _COMMAND, _GPUS),
)
