"""Access to the gateway: the token, and the names under which it may be addressed."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from telemetry.errors import UsageError
from telemetry.gateway.endpoint import Problem
from telemetry.gateway.options import TOKEN_VARIABLE

_OWN_NAMES: Final = ("localhost",)
_LEAST_TOKEN_CHARS: Final = 16


class Access:
    """The check of a request's headers."""

    def __init__(self, token: str, names: Iterable[str]) -> None:
        """Demand `token`, unless it is empty. Allow IP addresses, this machine's name, and `names` as hosts."""
        self.token = token
        self._names = frozenset(name.lower() for name in (*_OWN_NAMES, socket.gethostname(), *names))

    def check(self, host: str, authorization: str) -> None:
        """Raise Problem for a request from another web site, or without the token."""
        if not self._is_ours(host):
            raise Problem(
                421,
                f"the Host header names another machine, {host[:80]!r}: ask by address, or allow the name with "
                "--host-name",
            )
        self.authorize(authorization)

    def authorize(self, authorization: str) -> None:
        """Raise Problem for a request without the token."""
        scheme, _, token = authorization.partition(" ")
        is_right = hmac.compare_digest(token.lstrip(" ").encode(errors="replace"), self.token.encode())
        if self.token and not (is_right and scheme.lower() == "bearer"):
            raise Problem(
                401,
                "the token is missing or wrong: send the header `Authorization: Bearer TOKEN`",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _is_ours(self, host: str) -> bool:
        """Check the Host header.

        This keeps other web sites out: their pages send their own name, even if that name resolves to this machine.
        """
        asked = host.strip().lower()
        name = asked[1:].partition("]")[0] if asked.startswith("[") else asked.partition(":")[0]
        if not asked or "*" in self._names or name in self._names:
            return True
        try:
            ip_address(name)
        except ValueError:
            return False
        return True


def is_loopback(host: str) -> bool:
    """Check whether only this machine can reach an address."""
    if host.lower() in _OWN_NAMES:
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_token(host: str, token: str) -> None:
    """Raise UsageError if other machines can reach `host` and there is no good token."""
    remedy = f"use at least {_LEAST_TOKEN_CHARS} letters and digits, as `openssl rand -hex 16` makes"
    if token and len(token) < _LEAST_TOKEN_CHARS:
        raise UsageError(f"the token of the gateway is too weak: it has {len(token)} characters", hint=remedy)
    if not token.isascii() or not token.isprintable() or " " in token:
        raise UsageError("the token of the gateway has spaces or characters that no header can carry", hint=remedy)
    if not token and not is_loopback(host):
        raise UsageError(
            f"other machines can reach {host}, so the gateway needs a token",
            hint=f"set {TOKEN_VARIABLE}, or listen on 127.0.0.1",
        )
