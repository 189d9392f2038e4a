"""Fuzz targets for files of `telemetry calibrate`, and for what a comparison makes of them."""

from __future__ import annotations

from typing import Final

import msgspec
from tests.fuzz.file_forms import Json
from tests.fuzz.memory_files import folder
from tests.fuzz.target import MIB, Target, refused

from telemetry.errors import RunDirectoryError
from telemetry.judge.compare import noise
from telemetry.judge.compare.figures import FigureKey
from telemetry.report import calibration
from telemetry.store import calibrations
from telemetry.store.calibrations import Calibration, MetricNoise


def run_calibration(data: bytes) -> int:
    """Check that a calibration that can be read can be shown, and held against a difference."""
    try:
        found = calibrations._decoded(folder({"f": data}) / "f")
    except RunDirectoryError as error:
        refused(error)
        return 1
    shown = calibration.calibration_text(found, 100)
    assert all(line.isprintable() for line in shown.split("\n"))
    for metric in found.metrics:
        figure = FigureKey(metric.of, metric.name, tuple(sorted(metric.labels.items())), metric.statistic)
        noise.noises(found, [(figure, 0.1)], (1, 10), 0.05)
    return 1


def _seed() -> bytes:
    metric = MetricNoise(
        of="series",
        statistic="p99",
        name="s",
        labels={"op": "read"},
        unit="ms",
        values=[1.0, 2.0],
        mean=1.5,
        cv=0.4,
        detectable={"5": 0.5},
    )
    return msgspec.json.encode(Calibration(name="x", argv=["a"], runs=2, directories=["d"], metrics=[metric]))


TARGETS: Final = (
    Target(
        name="calibration",
        run=run_calibration,
        form=Json(),
        seeds=lambda: [_seed()],
        covers=(calibrations, calibration, noise.noises),
        head=b'{"name":"x","metrics":[{"of":"series","statistic":"p99",',
        base_bytes=8 * MIB,
        bytes_each=2_000,
        share=0.1,
    ),
)
