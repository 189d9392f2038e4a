"""Receivers of notifications from the command line or the settings, checked before a command starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Final

import msgspec

from telemetry import limits
from telemetry.common.distribution import install_hint
from telemetry.common.formatting import number_of
from telemetry.config.load import env_name
from telemetry.config.notify_urls import FLAG, KEY, joined, masked
from telemetry.errors import UsageError
from telemetry.supervise.spawn import environment
from telemetry.supervise.writers import NOTIFY, kind_of
from telemetry.wire.codec import BAD_INPUT

_LIBRARY: Final = "apprise"
_CHECK_S: Final = 30.0
_CHECK: Final = ("-P", "-m", "telemetry.backends.notify.check")


def checked_receivers(urls: Sequence[str], to: Sequence[str] = ()) -> list[str]:
    """Return the addresses once each. `to` may ask for notifications, too.

    Blocks for about a second: a process that ends at once checks them, since Apprise is large. Raises UsageError
    for an invalid address, without Apprise, and without an address for a `--to notify`.
    """
    addresses = list(dict.fromkeys(url.strip() for url in urls))
    if not addresses:
        if NOTIFY in map(kind_of, to):
            raise UsageError("--to notify has no receiver", hint=f"add {FLAG} URL, or set {KEY} or {env_name(KEY)}")
        return []
    if len(addresses) > limits.NOTIFY_URLS:
        raise UsageError(
            f"{number_of(len(addresses), 'receiver')} of notifications are too many",
            hint=f"the limit is {limits.NOTIFY_URLS}",
        )
    if any("://" not in url for url in addresses):
        raise UsageError(
            "a receiver of notifications is an address such as slack://… or mailto://…, and one has no ://",
            hint="docs/NOTIFICATIONS.md has examples",
        )
    if find_spec(_LIBRARY) is None:
        raise UsageError("notifications need Apprise, which is not installed", hint=install_hint(NOTIFY))
    for number, why in _problems(addresses):
        raise UsageError(
            f"can't send notifications to {masked(addresses[number])}: {why}",
            hint="docs/NOTIFICATIONS.md has examples",
        )
    return addresses


def variables(urls: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
    """Return the environment that hands the addresses to the writer: other users can't read it."""
    return {NOTIFY: {env_name(KEY): joined(urls)}} if urls else {}


def _problems(urls: Sequence[str]) -> list[tuple[int, str]]:
    """Return the numbers of invalid addresses, with the reason. Empty if the check fails: the writer repeats it."""
    try:
        done = subprocess.run(
            [sys.executable, *_CHECK],
            input=msgspec.json.encode(urls),
            capture_output=True,
            env=environment({}),
            timeout=_CHECK_S,
            check=True,
        )
        return msgspec.json.decode(done.stdout, type=list[tuple[int, str]])
    except (OSError, subprocess.SubprocessError, *BAD_INPUT):
        return []
