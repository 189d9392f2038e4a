"""Detection of secrets by their format: tokens of known providers, such as `ghp_…` of GitHub, and private keys.

One pattern finds prefixes such as `ghp_`. A second pattern, one for each prefix, checks the characters after the
prefix. The second pattern reads a bounded number of characters before it can fail, so the time grows only with the
length of the text.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from telemetry.redaction.named import MASK, Hit

PRIVATE_KEY: Final = "private-key"
JWT: Final = "jwt"

_KINDS_OF_KEY: Final = r"(?:proj|svcacct|admin|or)-"
_LONG_PIECE: Final = r"(?=[\w-]{0,64}[A-Za-z0-9]{16})|(?=[\w-]{80})"
"""Pattern of what tells a key from a name such as `sk-learn-baseline-v2`."""
_SHAPES: Final[dict[str, tuple[str, str]]] = {
    prefix: (rule, pattern)
    for prefix, rule, pattern in (
        ("sk-ant-", "anthropic", r"[\w-]{16,}"),
        ("sk-", "openai", rf"\w{{16,}}[\w-]*|(?=[\w-]{{0,64}}\d)(?:{_KINDS_OF_KEY}|{_LONG_PIECE})[\w-]{{16,}}"),
        ("github_pat_", "github", r"\w{20,}"),
        ("ghp_", "github", r"\w{20,}"),
        ("gho_", "github", r"\w{20,}"),
        ("ghu_", "github", r"\w{20,}"),
        ("ghs_", "github", r"\w{20,}"),
        ("ghr_", "github", r"\w{20,}"),
        ("glpat-", "gitlab", r"[\w-]{20,}"),
        ("gldt-", "gitlab", r"[\w-]{20,}"),
        ("glrt-", "gitlab", r"[\w-]{20,}"),
        ("glptt-", "gitlab", r"[\w-]{20,}"),
        ("hf_", "huggingface", r"[A-Za-z0-9]{30,}"),
        ("api_org_", "huggingface", r"[A-Za-z0-9]{30,}"),
        ("AKIA", "aws", r"[0-9A-Z]{16}(?![0-9A-Za-z])"),
        ("ASIA", "aws", r"[0-9A-Z]{16}(?![0-9A-Za-z])"),
        ("AIza", "google", r"[\w-]{35,}"),
        ("GOCSPX-", "google", r"[\w-]{20,}"),
        ("ya29.", "google", r"[\w-]{20,}"),
        ("hooks.slack.com/services/", "slack", r"\w{6,20}/\w{6,20}/\w{16,}"),
        ("discord.com/api/webhooks/", "discord", r"\d{15,22}/[\w-]{40,}"),
        ("discordapp.com/api/webhooks/", "discord", r"\d{15,22}/[\w-]{40,}"),
        ("api.telegram.org/bot", "telegram", r"\d{6,12}:[\w-]{30,}"),
        ("hvs.", "vault", r"[\w-]{20,}"),
        ("glsa_", "grafana", r"\w{32,}"),
        ("dop_v1_", "digitalocean", r"[0-9a-f]{40,}"),
        ("r8_", "replicate", r"[A-Za-z0-9]{32,}"),
        ("pplx-", "perplexity", r"[A-Za-z0-9]{32,}"),
        ("lin_api_", "linear", r"[A-Za-z0-9]{32,}"),
        ("AGE-SECRET-KEY-", "age", r"1[0-9A-Z]{50,}"),
        ("xoxa-", "slack", r"[\w-]{10,}"),
        ("xoxb-", "slack", r"[\w-]{10,}"),
        ("xoxe-", "slack", r"[\w-]{10,}"),
        ("xoxo-", "slack", r"[\w-]{10,}"),
        ("xoxp-", "slack", r"[\w-]{10,}"),
        ("xoxr-", "slack", r"[\w-]{10,}"),
        ("xoxs-", "slack", r"[\w-]{10,}"),
        ("xapp-", "slack", r"[\w-]{10,}"),
        ("sk_live_", "stripe", r"[A-Za-z0-9]{16,}"),
        ("sk_test_", "stripe", r"[A-Za-z0-9]{16,}"),
        ("rk_live_", "stripe", r"[A-Za-z0-9]{16,}"),
        ("rk_test_", "stripe", r"[A-Za-z0-9]{16,}"),
        ("whsec_", "stripe", r"[A-Za-z0-9]{16,}"),
        ("npm_", "npm", r"[A-Za-z0-9]{36,}"),
        ("pypi-", "pypi", r"A[\w-]{49,}"),
        ("wandb_v1_", "wandb", r"\w{20,}"),
        ("gsk_", "groq", r"[A-Za-z0-9]{32,}"),
        ("nvapi-", "nvidia", r"[\w-]{40,}"),
        ("xai-", "xai", r"[A-Za-z0-9]{40,}"),
        ("dapi", "databricks", r"[0-9a-f]{32}(?![0-9A-Za-z])"),
        ("SG.", "sendgrid", r"[\w-]{16,100}+\.[\w-]{16,}"),
        ("eyJ", JWT, r"[\w-]{10,2000}+\.[\w-]{10,}(?:\.[\w-]{16,}){0,3}"),
    )
}
"""Prefix → name of the rule, and what must follow."""
_AT_START: Final = (
    *("sk-ant-", "sk-", "sk_live_", "sk_test_", "rk_live_", "rk_test_", "xai-", "dapi", "SG."),
    *("ya29.", "hvs.", "r8_"),
)
"""Prefixes that ordinary words end with, such as `task-`. They count only at the start of a word, or after %20."""


def _starts() -> re.Pattern[str]:
    """Return the pattern that finds a prefix.

    The prefixes are grouped by their first letter, and the look behind comes after that letter. So the search skips
    at once to the next letter that begins a prefix.
    """
    groups: dict[str, tuple[list[str], list[str]]] = {}
    for prefix in _SHAPES:
        groups.setdefault(prefix[0], ([], []))[prefix in _AT_START].append(re.escape(prefix[1:]))
    branches: list[str] = []
    for first, (anywhere, at_start) in groups.items():
        begins = rf"(?:(?<![A-Za-z0-9]{first})|(?<=%[0-9A-Fa-f]{{2}}{first}))(?:{'|'.join(at_start)})"
        branches.append(f"{first}(?:{'|'.join([*anywhere, *([begins] if at_start else [])])})")
    return re.compile("|".join(branches))


_PREFIXES: Final = _starts()
_KEY_BEGINS: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_ENDS: Final = re.compile(r"-----END [A-Z0-9 ]{0,60}-----")
RULES: Final = tuple(dict.fromkeys([*(rule for rule, _ in _SHAPES.values()), PRIVATE_KEY]))


def mask_tokens(text: str, hit: Hit) -> str:
    """Mask tokens of known providers, such as `ghp_…` of GitHub."""
    pieces: list[str] = []
    at = 0
    for prefix in _PREFIXES.finditer(text):
        if prefix.start() < at:
            continue  # it is part of a masked token
        rest = _rest(prefix[0]).match(text, prefix.end())
        if rest is not None:
            hit(_SHAPES[prefix[0]][0])
            pieces += [text[at : prefix.start()], MASK]
            at = rest.end()
    return "".join([*pieces, text[at:]]) if pieces else text


@cache
def _rest(prefix: str) -> re.Pattern[str]:
    """Return the pattern of the characters after the prefix of a token, such as `ghp_`.

    Each pattern is compiled when its prefix first appears in a text, because most processes never see a token.
    """
    return re.compile(_SHAPES[prefix][1], re.ASCII)


def mask_private_keys(text: str, hit: Hit) -> str:
    """Mask private keys in PEM. A key without an end reaches to the end of the text."""
    pieces: list[str] = []
    at = 0
    while (begins := _KEY_BEGINS.search(text, at)) is not None:
        pieces += [text[at : begins.start()], MASK]
        hit(PRIVATE_KEY)
        ends = _KEY_ENDS.search(text, begins.end())
        at = ends.end() if ends is not None else len(text)
    return "".join([*pieces, text[at:]]) if pieces else text


def is_in_private_key(text: str) -> bool:
    """Return whether a private key begins in the text and does not end there."""
    starts = list(_KEY_BEGINS.finditer(text))
    return bool(starts) and _KEY_ENDS.search(text, starts[-1].end()) is None


def end_of_private_key(text: str) -> int:
    """Return the position after the end of a private key, or -1."""
    ends = _KEY_ENDS.search(text)
    return ends.end() if ends is not None else -1
