"""Addresses: the addresses of a run, and checks whether an address can be used.

A tcp address may name the key of its aggregator: `tcp://HOST:PORT#KEY`, with the aggregator's public key or the
name under which that key is trusted. All data sent to such an address is encrypted for that aggregator alone.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import tempfile
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from telemetry import limits
from telemetry.errors import EndpointError

_HIGHEST_PORT: Final = 65_535
_PORT_DIGITS: Final = 5
_HOST: Final = re.compile(r"[\w.:;%\[\]-]+", re.ASCII)
IPC: Final = "ipc://"
TCP: Final = "tcp://"
_ABSTRACT: Final = f"{IPC}@"
_KEY_MARK: Final = "#"  # a key may contain one itself, an address does not
_ANYWHERE: Final = ("*", "0.0.0.0", "[::]", "::")
_PROBE_S: Final = 0.2


@dataclass(frozen=True)
class Endpoints:
    """The four addresses of an aggregator."""

    control: str
    events: str
    snapshots: str
    records: str


def plan(bind: str | None, run_id: str) -> Endpoints:
    """Return the addresses to bind: in a private ipc directory, or derived from the control address in `bind`.

    With tcp, the system chooses all ports but that of control. Raises EndpointError.
    """
    if not bind:
        folder = runtime_directory() / run_id
        folder.mkdir(mode=0o700, exist_ok=True)
        return Endpoints(*(f"{IPC}{folder / leaf}" for leaf in ("ctl", "ev", "sn", "rec")))
    if bind.startswith(IPC) and len(bind) > len(IPC):
        return Endpoints(bind, f"{bind}.ev", f"{bind}.sn", f"{bind}.rec")
    if split_key(bind)[1]:
        raise EndpointError(
            f"{bind!r} contains a key, which only an address to connect to can have", hint="remove the key"
        )
    if is_tcp(bind):
        free = f"{TCP}{_tcp_parts(bind)[0]}:*"
        return Endpoints(bind, free, free, free)
    raise EndpointError(f"{bind!r} is not an address to listen on", hint="write ipc://PATH or tcp://HOST:PORT")


def runtime_directory() -> Path:
    """Return the private (0700) directory of this user's sockets; create it if missing. Raises EndpointError.

    It is `$XDG_RUNTIME_DIR/telemetry`, or `telemetry-<uid>` in the directory for temporary files.
    """
    base = os.environ.get("XDG_RUNTIME_DIR")
    path = Path(base) / "telemetry" if base else Path(tempfile.gettempdir()) / f"telemetry-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = path.lstat()
    except OSError as error:
        raise EndpointError(f"can't create {path}: {error.strerror}", hint="set XDG_RUNTIME_DIR") from error
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid():
        raise EndpointError(f"{path} belongs to another user", hint="remove it or set XDG_RUNTIME_DIR")
    if facts.st_mode & 0o077:
        path.chmod(0o700)
    return path


def ipc_path(endpoint: str) -> Path | None:
    """Return the file of an ipc address; None for tcp and for abstract names."""
    name = endpoint.removeprefix(IPC)
    return Path(name) if endpoint.startswith(IPC) and not name.startswith("@") else None


def split_key(endpoint: str) -> tuple[str, str]:
    """Return (address without its key, the key or its name); the latter is empty if there is none."""
    if not is_tcp(endpoint):
        return endpoint, ""
    address, _, key = endpoint.partition(_KEY_MARK)
    return address, key


def with_key(address: str, key: str) -> str:
    """Return the address with the key, for peers that connect."""
    return f"{address}{_KEY_MARK}{key}" if key and is_tcp(address) else address


def is_tcp(endpoint: str) -> bool:
    return endpoint.startswith(TCP)


def check_bindable(endpoint: str, *, insecure: bool, keyed: bool = False) -> None:
    """Raise EndpointError if binding is forbidden or can't work. `keyed`: only trusted peers are accepted."""
    if endpoint.startswith(IPC):
        if len(os.fsencode(endpoint.removeprefix(IPC))) > limits.IPC_PATH_BYTES:
            raise EndpointError(
                f"the path of {endpoint} is longer than {limits.IPC_PATH_BYTES} bytes",
                hint="use a shorter path, or set XDG_RUNTIME_DIR to a short directory",
            )
        if endpoint.startswith(_ABSTRACT) and not insecure:
            raise EndpointError(
                f"every user of this machine can connect to {endpoint}: an abstract address has no permissions",
                hint="use ipc://PATH in a directory of yours, or pass --insecure",
            )
        return
    if not insecure and not keyed and not is_loopback(endpoint):
        raise EndpointError(
            f"other machines can connect to {endpoint} without encryption or authentication",
            hint="create a key with `telemetry keys new`; or use tcp://127.0.0.1:PORT, or pass --insecure",
        )


def check_connectable(endpoint: str) -> None:
    """Raise EndpointError if the address can't be valid. Does not check whether a process listens there."""
    if endpoint.startswith(IPC):
        name = endpoint.removeprefix(IPC)
        fits = name not in ("", "@") and len(os.fsencode(name)) <= limits.IPC_PATH_BYTES
    else:
        host, port = _tcp_parts(endpoint) if is_tcp(endpoint) else ("", "")
        fits = bool(_HOST.fullmatch(host)) and port.isascii() and port.isdecimal() and int(port) > 0
    if not fits:
        raise EndpointError(
            f"{endpoint!r} is not an address to connect to", hint="write ipc://PATH or tcp://HOST:PORT"
        )


def is_loopback(endpoint: str) -> bool:
    """Return whether only this machine reaches a tcp address. Host names except `localhost` count as reachable."""
    host = _tcp_parts(endpoint)[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def leads_to(endpoint: str, bound: str) -> bool:
    """Return whether an address on this machine leads to a bound one, and names its key if it has one.

    Return False if that depends on more than the two addresses, as with a relative path or the name of a key.
    """
    path = ipc_path(endpoint)
    if path is not None and not path.is_absolute():
        return False
    if not (is_tcp(endpoint) and is_tcp(bound)):
        return endpoint == bound
    try:
        (host, port), (bound_host, bound_port) = _tcp_parts(endpoint), _tcp_parts(bound)
    except EndpointError:
        return False
    if (port, split_key(endpoint)[1]) != (bound_port, split_key(bound)[1]):
        return False
    if host == "localhost":
        host = "127.0.0.1"
    if bound_host == "0.0.0.0":
        return "[" not in host
    return host == bound_host or bound_host in _ANYWHERE


def seen_from(advertised: str, control: str) -> str:
    """Return an address given by the aggregator, as this peer reaches it.

    `tcp://0.0.0.0:5` becomes a port on the host of `control`. A key in the control address applies to this address
    too.
    """
    if not is_tcp(advertised) or not is_tcp(control):
        return advertised
    host, port = _tcp_parts(advertised)
    reached = f"{TCP}{_tcp_parts(control)[0]}:{port}" if host in _ANYWHERE else split_key(advertised)[0]
    return with_key(reached, split_key(control)[1])


def refuses(endpoint: str) -> bool:
    """Return whether the machine reports that no process listens there. Blocks for at most 0.2 s.

    A stopped process still listens. Return False for an address that can't be checked.
    """
    try:
        if is_tcp(endpoint):
            dial(endpoint, _PROBE_S).close()
            return False
        path = ipc_path(endpoint)
        if path is None:
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            probe.connect(os.fspath(path))
    except (ConnectionRefusedError, FileNotFoundError):
        return True
    except (OSError, ValueError):
        return False
    return False


def dial(endpoint: str, timeout_s: float) -> socket.socket:
    """Open a plain connection to a tcp address, below ZeroMQ. Raises OSError, ValueError or EndpointError."""
    host, port = _tcp_parts(endpoint)
    return socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s)


def _is_port(text: str) -> bool:
    return text.isdecimal() and len(text) <= _PORT_DIGITS and int(text) <= _HIGHEST_PORT


def _tcp_parts(endpoint: str) -> tuple[str, str]:
    """Return (host, port) of a tcp address. Raises EndpointError."""
    host, colon, port = split_key(endpoint)[0].removeprefix(TCP).rpartition(":")
    if not host or not colon or not (port == "*" or _is_port(port)):
        raise EndpointError(f"{endpoint!r} is not a tcp address", hint="write tcp://HOST:PORT")
    return host, port
