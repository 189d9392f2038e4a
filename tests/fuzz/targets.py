"""All fuzz targets, by name."""

from __future__ import annotations

from typing import Final

from tests.fuzz import (
    backend_targets,
    calibration_targets,
    control_targets,
    feed_targets,
    file_targets,
    gate_targets,
    leaf_targets,
    numbers_targets,
    page_targets,
    peer_targets,
    redaction_targets,
    request_log_targets,
    ring_targets,
    wire_targets,
)
from tests.fuzz.target import Target

_MODULES: Final = (
    *(wire_targets, file_targets, numbers_targets, control_targets, calibration_targets, feed_targets),
    *(gate_targets, backend_targets, peer_targets, leaf_targets, request_log_targets, page_targets),
    *(redaction_targets, ring_targets),
)

TARGETS: Final[dict[str, Target]] = {target.name: target for module in _MODULES for target in module.TARGETS}
