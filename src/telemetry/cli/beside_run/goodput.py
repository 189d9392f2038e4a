"""Limits for requests from the command line, for all processes that belong to a run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from telemetry.common import slo
from telemetry.errors import UsageError


def checked(given: Sequence[str] | None) -> str:
    """Return the limits of `--goodput`, or of the environment without that option. Raises UsageError."""
    if given is not None:
        return _checked(given, "--goodput", "; the limits end with `--`")
    text = os.environ.get(slo.GOODPUT_VARIABLE, "").strip()
    return _checked(text, slo.GOODPUT_VARIABLE) if text else ""


def _checked(given: str | Sequence[str], source: str, more: str = "") -> str:
    try:
        return slo.by_kind_to_text(slo.parse_by_kind(given))
    except UsageError as error:
        raise UsageError(f"{source}: {error.message}", hint=error.hint + more) from None


@contextmanager
def in_environment(limits: str) -> Iterator[None]:
    """Give limits to the processes that are started inside the block."""
    before = os.environ.get(slo.GOODPUT_VARIABLE)
    if limits:
        os.environ[slo.GOODPUT_VARIABLE] = limits
    try:
        yield
    finally:
        if before is not None:
            os.environ[slo.GOODPUT_VARIABLE] = before
        elif limits:
            del os.environ[slo.GOODPUT_VARIABLE]
