"""Authentication of connections (ZAP, RFC 27): ZeroMQ asks for each connection, the folder of trusted keys answers.

Without an answer ZeroMQ accepts every peer that knows the aggregator's public key. So the domain is enforced as
well: without an answer, the peer is refused.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import zmq
from zmq.utils import z85

from telemetry import limits
from telemetry.errors import KeysError
from telemetry.transport.endpoints import Endpoints, is_loopback, is_tcp
from telemetry.transport.keys import KeyFolder, KeyPair, of_user
from telemetry.transport.sockets import ZmqContext, ZmqSocket

if TYPE_CHECKING:
    from telemetry.config import Config

_LOG: Final = logging.getLogger("telemetry.transport")
_ADDRESS: Final = "inproc://zeromq.zap.01"
_DOMAIN: Final = b"telemetry"
_LOOK_EVERY_S: Final = 1.0
_STRANGERS_NAMED: Final = 100  # in the log, so that endless attempts can't fill the disk
_OWN: Final = "own"


def keys_for(endpoints: Endpoints, config: Config) -> KeyFolder | None:
    """Return the keys that an aggregator needs to bind there, or None if every peer may connect.

    Raises KeysError if it needs a pair and there is none.
    """
    if config.transport.insecure:
        return None
    reachable = [address for address in vars(endpoints).values() if is_tcp(address) and not is_loopback(address)]
    demanding = reachable or [address for address in vars(endpoints).values() if is_tcp(address)]
    if not demanding or not (reachable or config.security.curve == "always"):
        return None
    folder = of_user(config.security.keys_dir)
    if not folder.has_pair:
        why = (
            "is reachable from other machines"
            if reachable
            else "requires keys because of the setting security.curve"
        )
        raise KeysError(
            f"{demanding[0]} {why}, but {folder.path} contains no keys",
            hint="create keys with `telemetry keys new`; or use tcp://127.0.0.1:PORT, or pass --insecure",
        )
    return folder


class Authenticator:
    """The responder to authentication requests.

    Runs in the context and on the thread of the sockets it protects.
    """

    def __init__(self, context: ZmqContext, folder: KeyFolder) -> None:
        """Read the keys. Raises KeysError if there is no pair, or if others could read it or add trusted keys."""
        self.own: KeyPair = folder.own()
        self.refused = 0
        """Number of connections with an unknown key."""
        self._folder = folder
        self._state: tuple[object, ...] | None = None
        self._names: dict[bytes, str] = {}
        """Public key → the name under which it is trusted."""
        self._inside: set[bytes] = set()
        """Keys accepted since connections were last cut."""
        self._strangers: set[tuple[str, bytes]] = set()
        self._problems: set[str] = set()
        self._look_at = 0.0
        try:
            self._look()
        except OSError as error:
            raise KeysError(f"can't read {folder.trusted_path}: {error.strerror}") from error
        self.socket: ZmqSocket = context.socket(zmq.REP)
        self.socket.bind(_ADDRESS)

    @property
    def trusted(self) -> int:
        """Number of trusted keys besides this user's own."""
        return len(self._names.keys() - {self.own.public})

    def protect(self, socket: ZmqSocket) -> None:
        """Protect a socket. Call this before the socket is bound."""
        socket.setsockopt(zmq.CURVE_SERVER, 1)
        socket.setsockopt(zmq.CURVE_SECRETKEY, self.own.secret)
        socket.setsockopt(zmq.ZAP_DOMAIN, _DOMAIN)
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)

    def answer(self) -> None:
        """Decide on waiting connections, a bounded number. Never blocks."""
        self._look_again()
        with suppress(zmq.Again):
            for _ in range(limits.HANDSHAKES_A_TURN):
                self.socket.send_multipart(self._reply(self.socket.recv_multipart(zmq.NOBLOCK)), zmq.NOBLOCK)

    def must_cut(self) -> bool:
        """Return whether an accepted key is no longer trusted. Looks once a second; returns True once."""
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + _LOOK_EVERY_S
            self._look_again()
        if self._inside <= self._names.keys():
            return False
        self._inside.clear()
        return True

    def _reply(self, request: list[bytes]) -> list[bytes]:
        version, number, _domain, address, _identity, mechanism, *credentials = request
        key = z85.encode(credentials[0]) if mechanism == b"CURVE" and len(credentials) == 1 else b""
        name = self._names.get(key)
        if name is None:
            self._refuse(address.decode("ascii", "replace"), key)
            return [version, number, b"400", b"unknown key", b"", b""]
        self._inside.add(key)
        return [version, number, b"200", b"", name.encode(), b""]

    def _refuse(self, address: str, key: bytes) -> None:
        self.refused += 1
        if (address, key) in self._strangers or len(self._strangers) >= _STRANGERS_NAMED:
            return
        self._strangers.add((address, key))
        _LOG.warning("refused %s: unknown key '%s' (add it with `telemetry keys trust`)", address, key.decode())
        if len(self._strangers) == _STRANGERS_NAMED:
            _LOG.warning("refused %d keys: the others are not listed", _STRANGERS_NAMED)

    def _look_again(self) -> None:
        """Read the folder again. Keep the current keys if it can't be read, or if others could have changed it."""
        try:
            self._look()
        except (OSError, KeysError) as error:
            self._complain([f"the trusted keys stay unchanged: {error}"])

    def _look(self) -> None:
        state = self._folder.state()
        if state == self._state:
            return
        trusted = self._folder.trusted()
        names = {key: name for name, key in trusted.keys.items()}
        with suppress(KeysError):  # pair replaced during the run: other processes of this user have the new one
            names[self._folder.own().public] = _OWN
        names[self.own.public] = _OWN
        self._names, self._state = names, state
        self._complain(trusted.problems)

    def _complain(self, problems: list[str]) -> None:
        """Log each problem once."""
        for problem in problems:
            if problem not in self._problems:
                self._problems.add(problem)
                _LOG.warning("%s", problem)
