"""Secrets stay out of what a run leaves on disk. When in doubt, a value is masked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, overload

MASK: Final = "***"

_SECRET_WORDS: Final = frozenset(
    {
        *("token", "secret", "password", "passwd", "pwd", "passphrase", "apikey", "credential", "credentials"),
        *("authorization", "auth", "bearer", "cookie"),
    }
)
_SECRET_PAIRS: Final = frozenset(
    {
        ("api", "key"),
        ("access", "key"),
        ("private", "key"),
        ("account", "key"),
        ("session", "key"),
        ("signing", "key"),
    }
)
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_OPTION: Final = re.compile(r"-{0,2}([A-Za-z_][\w.-]*)\s*[=:]\s*(?=.)", re.DOTALL)
_NAMED: Final = re.compile(r"""(?<![\w.-])([\w.-]+)(["']?\s*[=:]\s*["']?)([^\s"',;&]+)""")
_PARSERS_TOKEN: Final = re.compile(r"""(?:unrecognized|unexpected) token: ["']?\Z""")
"""`unrecognized token: "9bad"` is what a parser says; what follows is a secret only if it is as long as one."""
_SECRET_CHARS: Final = 16
_BEFORE_CHARS: Final = 32  # enough for what that looks at
_URL_PASSWORD: Final = re.compile(r"(\w://[^/@:\s]*):[^/@\s]+@")
_BEARER: Final = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}")
_KNOWN_SHAPES: Final = re.compile(
    r"\b(?:sk-[\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|hf_\w{20,}|xox[abposr]-[\w-]{10,}|AKIA[0-9A-Z]{16}"
    r"|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*)"
)


@overload
def mask_secrets(what: Sequence[str]) -> list[str]: ...
@overload
def mask_secrets(what: Mapping[str, Any]) -> dict[str, Any]: ...
def mask_secrets(what: Sequence[str] | Mapping[str, Any]) -> list[str] | dict[str, Any]:
    """A copy of a command line, or of a (nested) map of settings, with secret values replaced by `***`.

    A value is secret if its name says so (`--api-key V`, `--api-key=V`, `PASSWORD=V`, `{"auth_token": V}`), or if
    it looks like one: a password in a URL, a bearer token, the key formats of well-known services.
    """
    if isinstance(what, Mapping):
        return {str(key): _mask_value(str(key), value) for key, value in what.items()}
    return _mask_arguments(what)


def _mask_arguments(arguments: Sequence[str]) -> list[str]:
    masked: list[str] = []
    announced = False
    for argument in arguments:
        if announced and not argument.startswith("--"):
            masked.append(MASK)
            announced = False
            continue
        masked.append(_mask_text(argument))
        announced = argument.startswith("-") and "=" not in argument and _is_secret(argument)
    return masked


def _mask_value(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return mask_secrets(value)
    if isinstance(value, list | tuple):
        return [_mask_value(name, item) for item in value]
    if isinstance(value, str):
        return MASK if value and _is_secret(name) else _mask_text(value)
    return value


def _mask_text(text: str) -> str:
    option = _OPTION.match(text)
    if option and _is_secret(option[1]):
        return text[: option.end()] + MASK
    text = _NAMED.sub(_masked_pair, text)
    text = _URL_PASSWORD.sub(rf"\1:{MASK}@", text)
    text = _BEARER.sub(rf"\1 {MASK}", text)
    return _KNOWN_SHAPES.sub(MASK, text)


def _masked_pair(found: re.Match[str]) -> str:
    name, between, value = found.groups()
    if not _is_secret(name):
        return found[0]
    before = found.string[max(0, found.end(2) - _BEFORE_CHARS) : found.end(2)]
    if len(value) < _SECRET_CHARS and _PARSERS_TOKEN.search(before):
        return found[0]
    return f"{name}{between}{MASK}"


def _is_secret(name: str) -> bool:
    """`tokens`, `tokenizer` and `max-tokens` are not: only whole words count."""
    words = [word.lower() for word in _WORD.findall(name)]
    return not _SECRET_WORDS.isdisjoint(words) or any(pair in _SECRET_PAIRS for pair in pairwise(words))
