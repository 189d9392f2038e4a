"""The plugins of `core.plugins` under a shorter path."""

from telemetry.compat.tracelet.core.plugins import *  # noqa: F403 – the same names
