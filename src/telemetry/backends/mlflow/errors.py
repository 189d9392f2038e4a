"""The translation of MLflow errors: temporary, permanent, or rejected data."""

from __future__ import annotations

from typing import Any, Final

from telemetry.backends.backend import NotConfigured, Unavailable

_WORDS_CHARS: Final = 300
_WRAPPED: Final = " with exception "  # the text after it repeats the reason several times
_PASSING: Final = (408, 409, 429, 499)  # of a server; also all errors from 500 on


def kinds(remote: bool) -> tuple[type[Any], ...]:
    """Return MLflow's error class, then those of its database. Imports MLflow."""
    from mlflow.exceptions import MlflowException

    if remote:
        return (MlflowException,)
    from sqlalchemy.exc import SQLAlchemyError

    return MlflowException, SQLAlchemyError


def meant(error: Any, *, remote: bool, opening: bool) -> Exception:
    """Translate an error: Unavailable, NotConfigured, or ValueError for rejected data."""
    text = _words(error)
    code: str = getattr(error, "error_code", "")
    if not code:
        from sqlalchemy.exc import OperationalError

        return Unavailable(text) if isinstance(error, OperationalError) else NotConfigured(f"mlflow: {text}")
    status: int = error.get_http_status_code()
    if remote and status in (401, 403):  # a key that worked before may work again
        return NotConfigured(f"mlflow: {text}") if opening else Unavailable(text)
    if code == "TEMPORARILY_UNAVAILABLE" or (remote and (status >= 500 or status in _PASSING)):
        return Unavailable(text)
    if opening or code == "RESOURCE_DOES_NOT_EXIST" or "'active' state" in text:
        return NotConfigured(f"mlflow: {text}")
    return ValueError(text)


def _words(error: BaseException) -> str:
    """Return the text of an error. For a failed request: the request, and the innermost reason."""
    text = " ".join(str(error).split())
    request, wrapped, _ = text.partition(_WRAPPED)
    if wrapped:
        inner = error
        while (below := inner.__cause__ or inner.__context__) is not None:
            inner = below
        reason = " ".join(str(inner).split()) or type(inner).__name__
        text = text if inner is error else f"{request[: _WORDS_CHARS // 2]}: {reason}"
    return text[:_WORDS_CHARS]
