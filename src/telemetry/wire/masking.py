"""Masking of secrets in files that a run leaves on disk. When in doubt, a value is masked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, overload

MASK: Final = "***"

_SECRET_WORDS: Final = frozenset(
    {
        *("token", "secret", "password", "passwd", "pwd", "passphrase", "apikey", "credential", "credentials"),
        *("authorization", "auth", "bearer", "cookie", "passcode"),
        *("dbpass", "pgpass", "mysqlpass", "sshpass", "rootpass", "userpass"),
    }
)
_LAST_WORDS: Final = frozenset({"pass", "sig", "signature"})
"""Words that are secret at the end of a name: `db-pass` is secret, `pass-rate` is not."""
_GLUED: Final = (
    *("password", "passwd", "passphrase", "token", "secret"),
    *("apikey", "accesskey", "secretkey", "privatekey"),
)
"""Words that are secret at the end of a joined word, such as `accesstoken`."""
_ABOUT_TOKENS: Final = frozenset(
    {
        *("count", "counts", "limit", "limits", "budget", "rate", "size", "length", "len", "id", "ids"),
        *("type", "usage", "per", "latency", "throughput", "number", "num"),
    }
)
"""Words after `token` that show that the name is about text tokens."""
_SECRET_PAIRS: Final = frozenset(
    {
        ("api", "key"),
        ("access", "key"),
        ("private", "key"),
        ("account", "key"),
        ("session", "key"),
        ("signing", "key"),
        ("pass", "word"),
        ("pass", "phrase"),
    }
)
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_OPTION: Final = re.compile(r"-{0,2}([A-Za-z_][\w.-]*)\s*[=:]\s*(?=.)", re.DOTALL)
_NAMED: Final = re.compile(r"""(?<![\w.-])([\w.-]+)["']?\s*[=:]\s*(?=["']?[^\s"',;&])""")
_VALUE: Final = re.compile(r""""[^"]*"|'[^']*'|["']?[^\s"',;&]+""")
_OPTION_VALUE: Final = re.compile(r"""(?<![\w-])(--[A-Za-z][\w-]*)(\s+)("[^"]*"|'[^']*'|(?!-)[^\s"']+)""")
_LISTED: Final = re.compile(r"""(["'])(--?[A-Za-z][\w-]*)\1(\s*,\s*)("[^"]*"|'[^']*')""")
_LOGIN_OPTIONS: Final = ("-u", "--user", "--proxy-user")
_LOGIN: Final = re.compile(r"""(?<![\w-])(-u|--user|--proxy-user)(["']?[\s=,]*["']?)([^\s:/"'=,]+):([^\s"']+)""")
_PARSERS_TOKEN: Final = re.compile(r"(?:unrecognized|unexpected) token: \Z")
"""Pattern of parser errors such as `unrecognized token: "9bad"`; the token is masked only if it is long."""
_LONGEST_SECRET: Final = 2_000
_SECRET_CHARS: Final = 16
_BEFORE_CHARS: Final = 32  # enough for the pattern above
_PUBLIC_KEY: Final = r"[\w.:+=^!/*?&<>()\[\]{}@%$#-]{40}"  # Z85
_URL_PASSWORD: Final = re.compile(rf"""(\w://(?![^/@\s]*:\d{{1,5}}#{_PUBLIC_KEY})[^/@:\s]*):[^/\s"']+@""")
"""A password in a URL. An address `tcp://HOST:PORT#KEY` has none, though its public key may contain an `@`."""
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
    """Return a copy of a command line, or of a (nested) map of settings, with secret values replaced by `***`.

    A value is secret if its name indicates it (`--api-key V`, `--api-key=V`, `PASSWORD=V`, `{"auth_token": V}`), or
    if it looks secret: a password in a URL, a bearer token, the key formats of well-known services.
    """
    if isinstance(what, Mapping):
        return {str(key): _mask_value(str(key), value) for key, value in what.items()}
    return _mask_arguments(what)


def mask_text(text: str, max_chars: int) -> str:
    """Return the first characters of a text with secrets replaced by `***`.

    The text is masked before it is cut, because half a secret does not look like one.
    """
    return _mask_text(text[: max_chars + _LONGEST_SECRET])[:max_chars]


def _mask_arguments(arguments: Sequence[str]) -> list[str]:
    masked: list[str] = []
    announced = False
    before = ""
    for argument in arguments:
        if announced and not argument.startswith("--"):
            masked.append(MASK)
            announced = False
            continue
        shown = _mask_text(argument)
        if before in _LOGIN_OPTIONS:
            shown = _LOGIN.sub(_masked_login, f"{before} {shown}").removeprefix(f"{before} ")
        masked.append(shown)
        announced = argument.startswith("-") and "=" not in argument and _is_secret(argument)
        before = argument
    return masked


def _mask_value(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return mask_secrets(value)
    if isinstance(value, list | tuple):
        if all(isinstance(item, str) for item in value) and not _is_secret(name):
            return _mask_arguments(value)
        return [_mask_value(name, item) for item in value]
    if isinstance(value, str):
        return MASK if value and _is_secret(name) else _mask_text(value)
    return value


def _mask_text(text: str) -> str:
    option = _OPTION.match(text)
    if option and _is_secret(option[1]):
        return text[: option.end()] + MASK
    text = _mask_pairs(text)
    text = _OPTION_VALUE.sub(_masked_option, text)
    text = _LISTED.sub(_masked_listed, text)
    text = _LOGIN.sub(_masked_login, text)
    text = _URL_PASSWORD.sub(rf"\1:{MASK}@", text)
    text = _BEARER.sub(rf"\1 {MASK}", text)
    return _KNOWN_SHAPES.sub(MASK, text)


def _mask_pairs(text: str) -> str:
    """Mask values of `name=value` and `name: value`. A value that is kept may itself contain such pairs."""
    pieces: list[str] = []
    at = 0
    while (found := _NAMED.search(text, at)) is not None:
        pieces.append(text[at : found.end()])
        at = found.end()
        value = _VALUE.match(text, at) if _is_secret(found[1]) else None
        if value is not None and not _is_of_parser(text, value):
            pieces.append(_masked(value[0]))
            at = value.end()
    return "".join([*pieces, text[at:]])


def _is_of_parser(text: str, value: re.Match[str]) -> bool:
    """Return whether the value is a token that a parser quotes in an error message."""
    before = text[max(0, value.start() - _BEFORE_CHARS) : value.start()]
    return len(value[0].strip("\"'")) < _SECRET_CHARS and bool(_PARSERS_TOKEN.search(before))


def _masked_option(found: re.Match[str]) -> str:
    name, between, value = found.groups()
    return f"{name}{between}{_masked(value)}" if _is_secret(name) else found[0]


def _masked_listed(found: re.Match[str]) -> str:
    quote, name, between, value = found.groups()
    return f"{quote}{name}{quote}{between}{_masked(value)}" if _is_secret(name) else found[0]


def _masked_login(found: re.Match[str]) -> str:
    """Mask the password of `user:password` and keep the user; keep `1000:1000`, a user and a group."""
    option, between, user, password = found.groups()
    if user.isdecimal() and password.isdecimal():
        return found[0]
    return f"{option}{between}{user}:{MASK}"


def _masked(value: str) -> str:
    """Return the mask, with the quotes of the value if it has any."""
    opening = value[0] if value[0] in "\"'" else ""
    closing = opening if len(value) > 1 and value[-1] == opening else ""
    return f"{opening}{MASK}{closing}"


def _is_secret(name: str) -> bool:
    """Return whether a name indicates a secret value. `tokens`, `tokenizer` and `max-tokens` do not."""
    words = [word.lower() for word in _WORD.findall(name)]
    for number, word in enumerate(words):
        following = words[number + 1] if number + 1 < len(words) else ""
        if word in _LAST_WORDS and not following:
            return True
        if (word in _SECRET_WORDS or word.endswith(_GLUED)) and not (
            word.endswith("token") and following in _ABOUT_TOKENS
        ):
            return True
    return any(pair in _SECRET_PAIRS for pair in pairwise(words))
