"""Addresses that a program wants Prometheus to scrape: engines, for example."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from telemetry.client import module_level as telemetry
from telemetry.client import user_warnings
from telemetry.store.append_file import describe
from telemetry.store.scrape_targets import ScrapeGroup, add_targets, default_folder, remove_targets

DEFAULT_JOB: Final = "trainer_metrics"
_LOCK: Final = threading.Lock()
_BY_JOB: Final[dict[str, dict[str, dict[str, str]]]] = {}
"""Job → address → labels: all that this process gave."""
_FILES: Final[set[Path]] = set()


def record_targets(
    addresses: Sequence[object],
    job: object,
    labels: Sequence[Mapping[str, Any] | None] | None,
    own: Mapping[str, Any] | None = None,
) -> None:
    """Record addresses as parameters of the run, with their labels as values, and let Prometheus find them.

    They are written to the folder of this user that `telemetry stack` reads. `own` are labels of all addresses.
    """
    given = labels if labels is not None else [None] * len(addresses)
    targets = {
        str(address): {str(key): str(value) for key, value in (target_labels or {}).items()}
        for address, target_labels in zip(addresses, given, strict=False)
    }
    name = str(job or DEFAULT_JOB)
    values = {
        address: ",".join(f"{key}={value}" for key, value in target_labels.items())
        for address, target_labels in targets.items()
    }
    telemetry.params({"rl_insight": {"scrape": {name: values}}})
    shared = {str(key): str(value) for key, value in (own or {}).items() if value is not None}
    _write(name, {address: {**shared, **target_labels} for address, target_labels in targets.items()})


def groups_of(job: str) -> list[ScrapeGroup]:
    """Return all addresses that this process has given for a job, in Prometheus's form."""
    with _LOCK:
        return [_group(job, address, labels) for address, labels in _BY_JOB.get(job, {}).items()]


def forget_targets() -> None:
    """Remove the addresses of this process from the folder. Those of the process that it was forked from stay."""
    with _LOCK:
        for path in _FILES:
            if path.stem.endswith(f"-{os.getpid()}"):
                remove_targets(path)
        _FILES.clear()
        _BY_JOB.clear()


def _write(job: str, targets: Mapping[str, dict[str, str]]) -> None:
    folder = default_folder()
    with _LOCK:
        job_targets = _BY_JOB.setdefault(job, {})
        job_targets.update(targets)
        if folder is None:
            return
        groups = [_group(job, address, labels) for address, labels in job_targets.items()]
        try:
            _FILES.add(add_targets(folder, f"rl_insight-{job}", groups))
        except OSError as error:
            user_warnings.warn(f"Prometheus does not find the targets of {job!r} by itself: {describe(error)}")


def _group(job: str, address: str, labels: Mapping[str, str]) -> ScrapeGroup:
    """Return an address in Prometheus's form. It may be a URL, whose scheme and path are kept."""
    more = {"job": job, **labels}
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
    except ValueError:  # half of an IPv6 address: Prometheus logs it and goes on
        return ScrapeGroup([address], more)
    if parts.scheme:
        more["__scheme__"] = parts.scheme
    if parts.path.strip("/"):
        more["__metrics_path__"] = parts.path
    return ScrapeGroup([parts.netloc], more)
