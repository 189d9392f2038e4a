"""Names that say whether their value is a secret, such as `db-password` and `OPENAI_API_KEY`."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final

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
"""Words before `token` that show the same."""
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
