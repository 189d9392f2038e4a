"""Secrets that a text names: `password=…`, `--token …`, headers, logins, and passwords in URLs."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Final

MASK: Final = "***"
NAMED: Final = "named"
"""Rule of values whose name says that they are secret."""
LOGIN: Final = "login"
BEARER: Final = "bearer"
URL_PASSWORD: Final = "url-password"
RULES: Final = (NAMED, LOGIN, BEARER, URL_PASSWORD)

Hit = Callable[[str], object]
"""Function that counts one masked value under the name of its rule."""

OPTION: Final = re.compile(r"-{0,2}([A-Za-z_][\w.-]*)\s*[=:]\s*(?=.)", re.DOTALL)
"""Pattern of a whole argument: its value may contain spaces."""
_NAMED: Final = re.compile(r"""(?<![\w.-])([\w.-]++)(?:\\*["'])?\s*((?:[=:]|%3[AaDd])\s*)(?=\\*["']?[^\s"',;&])""")
_VALUE: Final = re.compile(r"""\\*"[^"]*"|\\*'[^']*'|\\*["']?[^\s"',;&]+""")
_ENCODED_VALUE: Final = re.compile(r"""(?:(?!%2[06])[^\s"',;&])+""")
"""Pattern of a value in the encoded part of a URL, up to an encoded `&` or space."""
_QUERY: Final = re.compile(r"""([?&](?:key|code)=)([^\s"',;&#]{8,})""")
_SPOKEN: Final = re.compile(r"\b((?:password|passwd|passphrase|passcode) is:? +)(?=\S)", re.IGNORECASE)
_SAID_OF_PASSWORDS: Final = frozenset(
    {
        *("a", "an", "the", "in", "on", "of", "from", "for", "with", "too", "not", "no", "only", "still", "also"),
        *("already", "always", "never", "being", "set", "unset", "stored", "hashed", "encrypted", "masked"),
        *("hidden", "given", "read", "sent", "used", "needed", "required", "optional", "missing", "empty", "wrong"),
        *("invalid", "incorrect", "valid", "correct", "weak", "strong", "short", "long", "expired", "unknown"),
    }
)
"""Words after `password is` that are no password."""
_CREDENTIALS: Final = re.compile(
    r"""(?i:(?:basic|bearer|token|apikey|digest|negotiate)[ \t]+)?["']?[^\s"',;&]+["']?"""
)
_COOKIES: Final = re.compile(r"""[^\r\n"']+""")
# Patterns begin with a literal, and look behind after it: the search is then several times as fast.
_OPTION_VALUE: Final = re.compile(r"""(--(?<![\w-]--)[A-Za-z][\w-]*)(\s+)("[^"]*"|'[^']*'|(?!-)[^\s"']+)""")
_LISTED: Final = re.compile(r"""(["'])(--?[A-Za-z][\w-]*)\1(\s*,\s*)("[^"]*"|'[^']*')""")
LOGIN_OPTIONS: Final = ("-u", "--user", "--proxy-user")
_LOGIN: Final = re.compile(
    r"""(-(?<![^\s"'=]-)(?:u|-user|-proxy-user))(["']?[\s=,]*["']?)([^\s:/"'=,]+):([^\s"']+)"""
)
MYSQL: Final = r"(?:mysql(?:dump|admin|import|show|check)?|mariadb(?:-[a-z]{1,10})?)"
"""Pattern of programs whose option `-pX` has a password. After `-p` alone they ask for it."""
_MYSQL_PASSWORD: Final = re.compile(rf"((?<![\w-]){MYSQL}\s(?:[^\n|;&]{{0,200}}?\s)?-p)([\"']?[^\s\"',;&]+[\"']?)")
_SSHPASS: Final = re.compile(r"((?<![\w-])sshpass\s+-p\s*)([\"']?[^\s\"',;&]+[\"']?)")
_NETRC: Final = re.compile(r"(?i)\b(login[ \t\r\n]++\S++[ \t\r\n]++password[ \t\r\n]++)(\S++)")
_PARSERS_TOKEN: Final = re.compile(r"(?:unrecognized|unexpected) token: \Z")
"""Pattern of parser errors such as `unrecognized token: "9bad"`; the token is masked only if it is long."""
_SECRET_CHARS: Final = 16
_BEFORE_CHARS: Final = 32  # enough for the pattern above
_PUBLIC_KEY: Final = r"[\w.:+=^!/*?&<>()\[\]{}@%$#-]{40}"  # Z85
_URL_PASSWORD: Final = re.compile(rf"""(://(?<=\w://)(?![^/@\s]*:\d{{1,5}}#{_PUBLIC_KEY})[^/@:\s]*):([^/\s"']+)@""")
"""A password in a URL. An address `tcp://HOST:PORT#KEY` has none, though its public key may contain an `@`."""
_URL_PASSWORD_WITH_SLASH: Final = re.compile(
    r"""(://(?<=\w://)[^/@:\s"'\[]*):(?!\d{1,5}(?:[/?#]|\Z))([^@\s"']{1,200})@"""
)
_URL_TOKEN: Final = re.compile(r"""((?i:https?)://)(?=[^\s"'/@]{0,100}\d)([\w.~%+-]{16,200})@""")
_SCHEME: Final = re.compile(r"b(?:earer|asic)(?=\s)")
_BEARER: Final = re.compile(r"(bearer)(\s+)([\w.~+/=-]{6,})", re.IGNORECASE)
_BASIC: Final = re.compile(r"(basic)(\s+)([A-Za-z0-9+/_-]{6,}={0,2})", re.IGNORECASE)
_HEADERS: Final = {"authorization": _CREDENTIALS, "cookie": _COOKIES}


def mask_named(text: str, hit: Hit, *, is_name: bool = False) -> str:
    """Mask values that the text names: pairs, options of a command line, and logins.

    With `is_name`, a colon needs a space or a quote after it: `vllm:token:rate` is the name of a metric.
    """
    text = _mask_pairs(text, hit, is_name=is_name)
    if "--" in text:
        text = _OPTION_VALUE.sub(lambda match: _masked_option(match, hit), text)
    if "'-" in text or '"-' in text:
        text = _LISTED.sub(lambda match: _masked_listed(match, hit), text)
    lower = text.lower()
    if " is" in lower:
        text = _mask_spoken(text, hit)
    if "login" not in lower:
        return text
    return _NETRC.sub(lambda match: match[1] + mask_value(match[2], hit, NAMED), text)


def mask_login(text: str, hit: Hit) -> str:
    """Mask the password of `-u user:password` and keep the user; keep `1000:1000`, a user and a group."""

    def masked(match: re.Match[str]) -> str:
        option, between, user, password = match.groups()
        if (user.isdecimal() and password.isdecimal()) or password == MASK:
            return match[0]
        hit(LOGIN)
        return f"{option}{between}{user}:{MASK}"

    return _LOGIN.sub(masked, text)


def mask_short_options(text: str, hit: Hit) -> str:
    """Mask the passwords of `mysql -pX` and of `sshpass -p X`."""
    for pattern in (_MYSQL_PASSWORD, _SSHPASS):
        text = pattern.sub(lambda match: match[1] + mask_value(match[2], hit, LOGIN), text)
    return text


def mask_url_passwords(text: str, hit: Hit) -> str:
    """Mask the password of `scheme://user:password@host`, and a long user with a digit that is a token."""

    def masked(match: re.Match[str]) -> str:
        if match[2] != MASK:
            hit(URL_PASSWORD)
        return f"{match[1]}:{MASK}@"

    def masked_token(match: re.Match[str]) -> str:
        hit(URL_PASSWORD)
        return f"{match[1]}{MASK}@"

    for pattern in (_URL_PASSWORD, _URL_PASSWORD_WITH_SLASH):
        text = pattern.sub(masked, text)
    return _URL_TOKEN.sub(masked_token, text)


def mask_query(text: str, hit: Hit) -> str:
    """Mask the values of `?key=` and `?code=`, whose names are no secrets elsewhere."""
    return _QUERY.sub(lambda match: match[1] + mask_value(match[2], hit, NAMED), text)


def mask_bearer(text: str, hit: Hit) -> str:
    """Mask what follows the word `bearer`, and what follows `basic` if it is a login in base64."""
    pieces: list[str] = []
    at = 0
    for scheme in _SCHEME.finditer(lowered(text)):
        is_basic = scheme[0] == "basic"
        match = (_BASIC if is_basic else _BEARER).match(text, scheme.start())
        is_part = scheme.start() < at or text[scheme.start() - 1 : scheme.start()].isalnum()
        if match is not None and not is_part and (not is_basic or _is_login(match[3])):
            hit(BEARER)
            pieces += [text[at : match.start(3)], MASK]
            at = match.end()
    return "".join([*pieces, text[at:]]) if pieces else text


def mask_value(value: str, hit: Hit, rule: str) -> str:
    """Return the mask, with the quotes of the value if it has any."""
    bare = value.lstrip("\\")
    slashes = value[: len(value) - len(bare)]
    quote = bare[0] if bare[:1] in ('"', "'") else ""
    closing = f"{slashes}{quote}" if quote and len(bare) > 1 and bare[-1] == quote else ""
    masked = f"{slashes if quote else ''}{quote}{MASK}{closing}"
    if masked != value:
        hit(rule)
    return masked


def _mask_pairs(text: str, hit: Hit, *, is_name: bool) -> str:
    """Mask values of `name=value` and `name: value`. A value that is kept may itself contain such pairs."""
    pieces: list[str] = []
    at = 0
    for pair in _secret_pairs(text):
        if pair.start() < at:
            continue  # it is part of a masked value
        is_bare_colon = is_name and pair[2] == ":" and text[pair.end()] not in "\"'\\"
        pattern = _ENCODED_VALUE if pair[2][0] == "%" else _value_pattern(pair[1])
        value = None if is_bare_colon else pattern.match(text, pair.end())
        if value is not None and not _shows_nothing(text, pair[1], value):
            pieces += [text[at : pair.end()], mask_value(value[0], hit, NAMED)]
            at = value.end()
    return "".join([*pieces, text[at:]]) if pieces else text


def _mask_spoken(text: str, hit: Hit) -> str:
    """Mask the word after `password is`: `the password is abc123` becomes `the password is ***`.

    Keep a word that only describes the password, as in `the password is wrong`.
    """
    pieces: list[str] = []
    at = 0
    for match in _SPOKEN.finditer(text):
        value = _VALUE.match(text, match.end())
        if value is not None and value[0].strip("\\\"'.:!?").lower() not in _SAID_OF_PASSWORDS:
            pieces += [text[at : match.end()], mask_value(value[0], hit, NAMED)]
            at = value.end()
    return "".join([*pieces, text[at:]]) if pieces else text


def _secret_pairs(text: str) -> Iterator[re.Match[str]]:
    """Yield the pairs with a secret name. Only names around a word that each secret name contains are looked at."""
    checked = 0
    for hint in hints(lowered(text)):
        start = hint.start()
        if start < checked:
            continue
        while start > checked and (text[start - 1].isalnum() or text[start - 1] in "_.-"):
            start -= 1
        match = _NAMED.match(text, start)
        checked = hint.end() if match is None else match.end(1)
        if match is not None and is_secret(match[1]):
            yield match


def _value_pattern(name: str) -> re.Pattern[str]:
    """Return the pattern of the value. Headers that hold credentials have values of several words."""
    return _HEADERS.get(name.lower().rpartition("-")[2], _VALUE)


def _shows_nothing(text: str, name: str, value: re.Match[str]) -> bool:
    """Return whether the value is no secret: a word such as `none`, or a token that a parser quotes in an error."""
    bare = value[0].strip("\\\"'")
    if is_plain(name, bare):
        return True
    before = text[max(0, value.start() - _BEFORE_CHARS) : value.start()]
    return len(bare) < _SECRET_CHARS and bool(_PARSERS_TOKEN.search(before))


def _masked_option(match: re.Match[str], hit: Hit) -> str:
    name, between, value = match.groups()
    if not is_secret(name) or is_plain(name, value.strip("\"'")):
        return match[0]
    return f"{name}{between}{mask_value(value, hit, NAMED)}"


def _masked_listed(match: re.Match[str], hit: Hit) -> str:
    quote, name, between, value = match.groups()
    return f"{quote}{name}{quote}{between}{mask_value(value, hit, NAMED)}" if is_secret(name) else match[0]


def _is_login(text: str) -> bool:
    """Return whether a text is `user:password` in base64."""
    try:
        return b":" in binascii.a2b_base64(text + "=" * (-len(text) % 4))
    except binascii.Error:
        return False


_PASSWORDS: Final = frozenset(
    {
        *("password", "passwd", "pwd", "passphrase", "passcode"),
        *("dbpass", "pgpass", "mysqlpass", "sshpass", "rootpass", "userpass"),
    }
)
_SECRET_WORDS: Final = _PASSWORDS | {
    *("token", "secret", "apikey", "credential", "credentials"),
    *("authorization", "auth", "bearer", "cookie"),
}
_LAST_WORDS: Final = frozenset({"pass", "sig", "signature"})
"""Words that are secret at the end of a name: `db-pass` is secret, `pass-rate` is not."""
_GLUED_PASSWORDS: Final = ("password", "passwd", "passphrase")
_GLUED: Final = (*_GLUED_PASSWORDS, "token", "secret", "apikey", "accesskey", "secretkey", "privatekey")
"""Words that are secret at the end of a joined word, such as `accesstoken`."""
_AFTER_TOKEN: Final = frozenset(
    {
        *("count", "counts", "limit", "limits", "budget", "rate", "size", "length", "len", "id", "ids"),
        *("type", "usage", "per", "latency", "throughput", "number", "num", "time", "ms", "s", "total"),
        *("index", "position", "embedding", "embeddings", "loss", "logprob", "logprobs", "accuracy"),
        *("level", "mean", "sum", "weight", "weights", "reward", "entropy", "kl", "prob", "probs", "score"),
        *("dropout", "drop", "mixing", "mixer", "merge", "merging", "pruning", "shift", "mask", "gap", "ratio"),
        *("bucket", "healing", "emb", "dim", "pos", "parallel", "workers", "present", "stats"),
    }
)
"""Words after `token` that show that the name is about text tokens."""
_BEFORE_TOKEN: Final = frozenset(
    {
        *("bos", "eos", "pad", "unk", "sep", "cls", "mask", "special", "start", "stop", "end", "image", "audio"),
        *("video", "text", "next", "first", "last", "per", "each", "every", "prompt", "input", "output"),
        *("completion", "generated", "cached", "draft", "max", "min", "total", "num", "new", "word", "vocab"),
        *("boi", "eoi", "soi", "eot", "eom", "fim", "prefix", "suffix", "middle", "vision", "think", "sampled"),
        *("second", "one", "no", "single"),
    }
)
"""Words before `token` that show that the name is about text tokens."""
_BEFORE_PASS: Final = frozenset(
    {
        *("forward", "backward", "fwd", "bwd", "first", "second", "last", "next", "one", "two", "single", "multi"),
        *("per", "each", "every", "may", "must", "did", "not"),
    }
)
"""Words before `pass` that show that the name is about a pass over data, or about a check."""
_ABOUT: Final = frozenset(
    {
        *("env", "file", "path", "dir", "name", "enabled", "required", "expires", "expiry", "ttl", "timeout"),
        *("type", "method", "mode", "provider", "version", "algorithm", "class", "policy", "consent"),
        *("latency", "duration", "errors", "failures", "failed", "count", "rate", "ms"),
    }
)
"""Last words of names that say something about a secret and not the secret itself: `api_key_file`."""
_SECRET_PAIRS: Final = frozenset(
    {
        ("api", "key"),
        ("access", "key"),
        ("private", "key"),
        ("account", "key"),
        ("session", "key"),
        ("signing", "key"),
        ("encryption", "key"),
        ("master", "key"),
        ("license", "key"),
        ("subscription", "key"),
        ("deploy", "key"),
        ("ssh", "key"),
        *(("wandb", "key"), ("openai", "key"), ("anthropic", "key"), ("hf", "key"), ("comet", "key")),
        ("pass", "word"),
        ("pass", "phrase"),
        *(("notify", "url"), ("notify", "urls"), ("webhook", "url"), ("webhook", "urls")),
    }
)
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_HINT: Final = re.compile(r"token|secret|pass|pwd|key|credential|auth|cookie|sig|bearer|notify|webhook")
"""Pattern that each secret name in lower case contains."""
_PLAIN: Final = frozenset(
    {
        *("none", "null", "nil", "true", "false", "yes", "no", "on", "off", "unset", "empty"),
        *("str", "int", "bytes", "string", "basic", "bearer", "required", "optional"),
    }
)
"""Values that are no secret, whatever their name."""
_SMALL_NUMBER: Final = re.compile(r"[-+]?\d{1,6}(?:\.\d{1,20})?[a-z%]{0,2}")

has_hint: Final = _HINT.search
"""Function that searches a text in lower case for a word that each secret name contains."""
hints: Final = _HINT.finditer
"""Function that finds all such words."""


def lowered(text: str) -> str:
    """Return a text in lower case, with as many characters."""
    return text.replace("İ", "I").lower()  # the only letter that becomes two characters


@lru_cache(maxsize=8_192)
def is_secret(name: str) -> bool:
    """Return whether a name indicates a secret value. `tokens`, `tokenizer` and `max-tokens` do not."""
    if has_hint(name.lower()) is None:
        return False
    name_words = [word.lower() for word in _WORD.findall(name)]
    if name_words and name_words[-1] in _ABOUT:
        return False
    before = ""
    for word, following in pairwise([*name_words, ""]):
        if word in _LAST_WORDS and not following:
            return word != "pass" or before not in _BEFORE_PASS
        is_text_token = word == "token" and (before in _BEFORE_TOKEN or following in _AFTER_TOKEN)
        if (word in _SECRET_WORDS or word.endswith(_GLUED)) and not is_text_token:
            return True
        before = word
    return any(pair in _SECRET_PAIRS for pair in pairwise(name_words))


def is_password(name: str) -> bool:
    """Return whether a name indicates a password: any value of it is a secret, even a number."""
    name_words = [word.lower() for word in _WORD.findall(name)]
    has_word = any(word in _PASSWORDS or word.endswith(_GLUED_PASSWORDS) for word in name_words)
    return (has_word or ("pass", "word") in pairwise(name_words)) and is_secret(name)


def is_plain(name: str, value: str) -> bool:
    """Return whether the value of a secret name shows nothing: `auth: none`, `pass: 12`."""
    if not value or value.lower() in _PLAIN:
        return True
    return _SMALL_NUMBER.fullmatch(value) is not None and not is_password(name)
