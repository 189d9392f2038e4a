"""The file with which a writer tells Prometheus where to scrape it."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from telemetry.backends.backend import RunFacts
from telemetry.store.scrape_targets import TargetGroup, add_targets, default_folder

NONE: Final = "none"
"""Value of the option `targets` for a writer that adds itself to no folder."""
_ANYWHERE: Final = ("", "0.0.0.0", "::")
_ELSEWHERE: Final = ("192.0.2.1", 9)  # an address for documentation: no packet is sent to it


def announce(option: str, host: str, port: int, run: RunFacts) -> Path | None:
    """Write the file of the writer that listens at `host` and `port`. Returns its path, None if there is no folder.

    `option`: the folder, `none` or empty for that of this user. Raises OSError.
    """
    folder = Path(option).expanduser() if option else default_folder()
    if option == NONE or folder is None:
        return None
    labels = {"run": run.run_id, "name": run.name, "host": run.host or socket.gethostname()}
    group = TargetGroup([reached_at(host, port)], labels)
    return add_targets(folder, f"run-{run.run_id}-{port}", [group])


def reached_at(host: str, port: int) -> str:
    """Return the address at which others reach a listener: that of this machine if it listens everywhere."""
    name = _own_address() if host in _ANYWHERE else host
    return f"[{name}]:{port}" if ":" in name else f"{name}:{port}"


def _own_address() -> str:
    """Return the address that this machine uses for others; its name if it has none but loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
            address = str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()
    return socket.gethostname() if ip_address(address).is_loopback else address
