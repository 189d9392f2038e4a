"""Tests of the meaning of errors, by what MLflow says of them."""

from __future__ import annotations

from typing import Any

import pytest

from telemetry.backends.backend import NotConfigured, Unavailable
from telemetry.backends.mlflow import backend


class Failure(Exception):
    """An error like MLflow's own."""

    def __init__(self, code: str, status: int, text: str = "words") -> None:
        super().__init__(text)
        self.error_code = code
        self.status = status

    def get_http_status_code(self) -> int:
        return self.status


@pytest.mark.parametrize(
    ("failure", "remote", "opening", "meaning"),
    [
        (Failure("INTERNAL_ERROR", 500), True, False, Unavailable),
        (Failure("INTERNAL_ERROR", 500), False, False, ValueError),
        (Failure("INTERNAL_ERROR", 500), False, True, NotConfigured),
        (Failure("TEMPORARILY_UNAVAILABLE", 503), False, False, Unavailable),
        (Failure("REQUEST_LIMIT_EXCEEDED", 429), True, True, Unavailable),
        (Failure("PERMISSION_DENIED", 403), True, True, NotConfigured),
        (Failure("PERMISSION_DENIED", 403), True, False, Unavailable),
        (Failure("INVALID_PARAMETER_VALUE", 400), True, False, ValueError),
        (Failure("RESOURCE_DOES_NOT_EXIST", 404), True, False, NotConfigured),
        (Failure("INVALID_PARAMETER_VALUE", 400, "must be in the 'active' state"), True, False, NotConfigured),
    ],
)
def test_what_errors_mean(failure: Any, remote: bool, opening: bool, meaning: type[Exception]) -> None:
    """An error of a server or of a database has the expected meaning, at the beginning and later."""
    assert type(backend.meant(failure, remote=remote, opening=opening)) is meaning


def test_a_request_that_does_not_get_through_says_why() -> None:
    """However much is wrapped around it, several hundred characters of addresses."""
    refused = ConnectionRefusedError(111, "Connection refused")
    pool = OSError(f"HTTPConnectionPool(host='{'h' * 300}'): Max retries exceeded (Caused by {refused})")
    pool.__context__ = refused
    failure = Failure("INTERNAL_ERROR", 500, f"API request to http://h/api failed with exception {pool}")
    failure.__cause__ = pool
    meant = backend.meant(failure, remote=True, opening=True)
    assert str(meant) == "API request to http://h/api failed: [Errno 111] Connection refused"
    alone = Failure("INTERNAL_ERROR", 500, "a failed with exception b")
    assert str(backend.meant(alone, remote=True, opening=True)) == "a failed with exception b"
