"""All rules for secrets in texts, command lines and settings. When in doubt, a value is masked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, overload

from telemetry.redaction import named, tokens
from telemetry.redaction.named import (
    LOGIN,
    LOGIN_OPTIONS,
    MASK,
    MYSQL,
    NAMED,
    OPTION,
    Hit,
    has_hint,
    is_plain,
    is_secret,
    mask_login,
    mask_value,
)

_CLIENT: Final = re.compile(f"{MYSQL}|sshpass")
"""Pattern of programs whose option `-p` has a password."""
LONGEST_SECRET: Final = 2_000
"""Number of characters that are searched beyond those that are kept."""


@overload
def mask_secrets(what: Sequence[str]) -> list[str]: ...
@overload
def mask_secrets(what: Mapping[str, Any]) -> dict[str, Any]: ...
def mask_secrets(what: Sequence[str] | Mapping[str, Any]) -> list[str] | dict[str, Any]:
    """Return a copy of a command line, or of a (nested) map of settings, with secret values replaced by `***`.

    A value is secret if its name indicates it (`--api-key V`, `--api-key=V`, `PASSWORD=V`, `{"auth_token": V}`), or
    if it looks secret: a password in a URL, a bearer token, the token of a well-known service.
    """
    if isinstance(what, Mapping):
        return {str(key): _mask_setting(str(key), value) for key, value in what.items()}
    return mask_arguments(what, _uncounted)


def mask_text(text: str, max_chars: int) -> str:
    """Return the first characters of a text with secrets replaced by `***`.

    The text is masked before it is cut, because half a secret does not look like one.
    """
    return cut_masked(text, max_chars, lambda head: mask_argument(head, _uncounted))


def cut_masked(text: str, max_chars: int, mask: Callable[[str], str]) -> str:
    """Return the first characters of a masked text. Only a head of it is searched.

    Masking may make the head so short that its end is returned too, so the head must not end in half a secret.
    """
    head = text[: max_chars + LONGEST_SECRET]
    if len(head) == len(text):
        return mask(text)[:max_chars]
    end = max(head.rfind(space) for space in " \n\t")
    if end >= max_chars:
        return mask(head[:end])[:max_chars]
    masked = mask(head)
    return masked[: max(0, min(max_chars, len(masked) - LONGEST_SECRET))]


def mask_arguments(arguments: Sequence[str], hit: Hit) -> list[str]:
    """Return a command line without secrets. A word after `--password` is its value."""
    masked: list[str] = []
    announced = ""
    before = ""
    client = ""
    for word in arguments:
        if announced and not word.startswith("--"):
            masked.append(word if is_plain(announced, word) else mask_value(word, hit, NAMED))
            announced = ""
            continue
        shown = mask_argument(word, hit)
        if before in LOGIN_OPTIONS:
            shown = mask_login(f"{before} {shown}", hit).removeprefix(f"{before} ")
        announced = word if word.startswith("-") and "=" not in word and is_secret(word) else ""
        if client and word.startswith("-p"):
            if word != "-p":
                shown = f"-p{mask_value(word[2:], hit, LOGIN)}"
            elif client == "sshpass":
                announced = "password"
            client = ""
        masked.append(shown)
        program = word.rpartition("/")[2]
        client = program if _CLIENT.fullmatch(program) else client
        before = word
    return masked


def mask_argument(text: str, hit: Hit) -> str:
    """Return a word of a command line without secrets. What follows `PASSWORD=` is its value, up to the end."""
    option = OPTION.match(text)
    if option and is_secret(option[1]) and not is_plain(option[1], text[option.end() :]):
        return text[: option.end()] + _whole(text[option.end() :], hit)
    return mask_secret_text(text, hit)


def rule_of(value: str) -> str:
    """Return the rule under which a value with a secret name is counted: that of its own shape, if it has one."""
    rules: list[str] = []
    mask_secret_text(value, rules.append)
    return rules[0] if rules else NAMED


def _whole(value: str, hit: Hit) -> str:
    if value != MASK:
        hit(rule_of(value))
    return MASK


def _mask_setting(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return mask_secrets(value)
    if isinstance(value, list | tuple):
        if all(isinstance(item, str) for item in value) and not is_secret(name):
            return mask_arguments(value, _uncounted)
        return [_mask_setting(name, item) for item in value]
    if isinstance(value, str):
        is_whole = is_secret(name) and not is_plain(name, value)
        return MASK if is_whole else mask_argument(value, _uncounted)
    return value


def _uncounted(rule: str) -> None:
    """Count nothing: these functions are for a second look at what was masked before."""


def mask_secret_text(text: str, hit: Hit, *, is_name: bool = False) -> str:
    """Return a text without secrets. `is_name` is for names of metrics, as in `named.mask_named`."""
    if "-----BEGIN" in text:
        text = tokens.mask_private_keys(text, hit)
    text = tokens.mask_tokens(text, hit)
    if "@" in text and "://" in text:
        text = named.mask_url_passwords(text, hit)
    lower = text.lower()
    if has_hint(lower) is not None:
        text = named.mask_named(text, hit, is_name=is_name)
    if "key=" in lower or "code=" in lower:
        text = named.mask_query(text, hit)
    if "-p" in lower and ("mysql" in lower or "mariadb" in lower or "sshpass" in lower):
        text = named.mask_short_options(text, hit)
    if "-u" in lower:
        text = named.mask_login(text, hit)
    if "bearer" in lower or "basic" in lower:
        text = named.mask_bearer(text, hit)
    return text
