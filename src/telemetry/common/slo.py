"""Limits for a single request (SLO): their grammar, and the rule by which a request meets them. Pure.

Limits are pairs such as `ttft:200 tpot:50`, divided by blanks or commas. A number without a unit is milliseconds.
All arithmetic is in integers of nanoseconds, so a request exactly at its limit meets it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final

from telemetry.errors import UsageError

TTFT: Final = "ttft"
TPOT: Final = "tpot"
E2EL: Final = "e2el"
GAP: Final = "gap"
CORRECTED: Final = "corrected"
KEYS: Final = (TTFT, TPOT, E2EL, GAP, CORRECTED)
"""Keys of limits, in the order in which they are shown."""
EVERY_KIND: Final = ""
GOODPUT_VARIABLE: Final = "TELEMETRY_GOODPUT"
"""Environment variable with limits by kind of request."""

TPS: Final = "tps"
_ITL: Final = frozenset({"itl", "inter_chunk_latency"})
_ALIASES: Final = {
    "time_to_first_token": TTFT,
    "time_per_output_token": TPOT,
    "inter_token_latency": TPOT,
    "e2e": E2EL,
    "latency": E2EL,
    "request_latency": E2EL,
}
_UNITS: Final = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
_LONGEST_NS: Final = 86_400 * 10**9
_NUMBER: Final = re.compile(r"(\d{1,20}(?:\.\d{1,20})?|\.\d{1,20})([a-zµ]*)")
_FORM: Final = 'write KEY:LIMIT pairs such as "ttft:200 tpot:50", in ms or with a unit such as 2s'
_KEYS_HINT: Final = f"keys are {', '.join(KEYS)} and {TPS}"


def parse(text: str | Sequence[str]) -> dict[str, int]:
    """Return limits in nanoseconds by key, in the order of `KEYS`. Raises UsageError."""
    return _ordered(_pairs(",".join(_words(text)).split(",")))


def parse_by_kind(text: str | Sequence[str]) -> dict[str, dict[str, int]]:
    """Return limits by kind of request and key. Limits for every kind have the kind EVERY_KIND. Raises UsageError.

    `ttft:200 tpot:50` is for every kind, `chat=ttft:200,tpot:50` for the kind `chat`.
    """
    pairs: dict[str, list[str]] = {}
    for word in _words(text):
        kind, _, limits = word.rpartition("=")
        if kind in KEYS or kind in _ALIASES or kind == TPS:
            raise UsageError(f"{word!r} is not a limit", hint=_FORM)
        pairs.setdefault(kind, []).extend(limits.split(","))
    return {kind: _ordered(_pairs(of_kind)) for kind, of_kind in pairs.items()}


def for_kind(by_kind: Mapping[str, Mapping[str, int]], kind: str) -> dict[str, int]:
    """Return the limits of a kind: those of every kind, replaced key by key by its own."""
    return combined(by_kind.get(EVERY_KIND, {}), by_kind.get(kind, {}))


def combined(limits: Mapping[str, int], own: Mapping[str, int]) -> dict[str, int]:
    """Return limits, replaced key by key by `own`."""
    return _ordered({**limits, **own})


def to_text(limits: Mapping[str, int]) -> str:
    """Return limits in a form that `parse` reads back without loss, such as `ttft:200ms tpot:50ms`."""
    return " ".join(f"{key}:{_number(limit)}{_unit(limit)}" for key, limit in limits.items())


def by_kind_to_text(by_kind: Mapping[str, Mapping[str, int]]) -> str:
    """Return limits by kind in a form that `parse_by_kind` reads back without loss."""
    return " ".join(
        f"{kind}{'=' if kind else ''}{to_text(limits).replace(' ', ',')}" for kind, limits in by_kind.items()
    )


def describe(limits: Mapping[str, int]) -> str:
    """Return limits for people, such as `ttft 200 ms, tpot 50 ms`."""
    return ", ".join(
        f"{key} {round(limit / _UNITS[_unit(limit)], 2):.7g} {_unit(limit)}" for key, limit in limits.items()
    )


def met(
    limits: Mapping[str, int],
    *,
    issued_ns: int,
    ended_ns: int,
    planned_ns: int | None,
    first_ns: int | None,
    first_tokens: int | None,
    output_tokens: float | None,
    largest_gap_ns: int | None,
) -> dict[str, bool]:
    """Judge a completed request by each limit. Limits are met when equal.

    A request without output does not meet `ttft`. A request without a time per token meets `tpot`, because it has
    one piece or token at most; it does not if it has several pieces with an unknown number of tokens. A first
    piece of unknown tokens counts as one. A request without a second piece meets `gap`. `corrected` counts from
    the planned time if the request was issued after it, else from the issue.
    """
    verdicts: dict[str, bool] = {}
    if TTFT in limits:
        verdicts[TTFT] = first_ns is not None and first_ns - issued_ns <= limits[TTFT]
    if TPOT in limits:
        if first_ns is None:
            verdicts[TPOT] = True
        elif output_tokens is None:
            verdicts[TPOT] = largest_gap_ns is None
        else:
            verdicts[TPOT] = is_tpot_met(limits[TPOT], ended_ns - first_ns, first_tokens, output_tokens)
    if E2EL in limits:
        verdicts[E2EL] = ended_ns - issued_ns <= limits[E2EL]
    if GAP in limits:
        verdicts[GAP] = largest_gap_ns is None or largest_gap_ns <= limits[GAP]
    if CORRECTED in limits:
        due_ns = issued_ns if planned_ns is None else min(planned_ns, issued_ns)
        verdicts[CORRECTED] = ended_ns - due_ns <= limits[CORRECTED]
    return verdicts


def is_tpot_met(limit: int, span_ns: int, first_tokens: int | None, output_tokens: float) -> bool:
    """Return whether the time from the first piece to the end is short enough for the tokens after that piece.

    Without such tokens there is no time per token, and the limit is met.
    """
    tokens, parts = int(output_tokens), 1
    if tokens != output_tokens:
        tokens, parts = output_tokens.as_integer_ratio()
    later = tokens - (1 if first_tokens is None else first_tokens) * parts
    return later <= 0 or span_ns * parts <= limit * later


def _words(text: str | Sequence[str]) -> list[str]:
    """Return the words of limits. Pairs that are joined by a comma are one word."""
    texts = [text] if isinstance(text, str) else text
    if not isinstance(texts, Sequence) or not all(isinstance(part, str) for part in texts):
        raise UsageError(f"limits are text, not {type(text).__name__}", hint=_FORM)
    parts = re.sub(r"\s*,\s*", ",", " ".join(texts)).split()
    if not parts:
        raise UsageError("there are no limits", hint=_FORM)
    return parts


def _pairs(pairs: Iterable[str]) -> dict[str, int]:
    limits: dict[str, int] = {}
    for pair in filter(None, pairs):
        key, colon, value = pair.partition(":")
        if not colon or not key or not value:
            raise UsageError(f"{pair!r} is not a limit", hint=_FORM)
        word, limit = _limit(key.lower().replace("-", "_"), value.lower(), pair)
        if word in limits:
            raise UsageError(f"{word} has two limits", hint="give one limit for each key")
        limits[word] = limit
    if not limits:
        raise UsageError("there are no limits", hint=_FORM)
    return limits


def _limit(key: str, value: str, pair: str) -> tuple[str, int]:
    if key in _ITL:
        raise UsageError(
            f"{pair!r}: {key} has two meanings",
            hint=f"write {TPOT} for the mean time per token of a request, {GAP} for its largest gap between chunks",
        )
    word = _ALIASES.get(key, key)
    if word not in KEYS and word != TPS:
        from difflib import get_close_matches  # here, because a producer imports this module

        near = get_close_matches(key, [*KEYS, TPS, *_ALIASES], n=1, cutoff=0.6)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise UsageError(f"{key!r} is not the key of a limit", hint=f"{meant}{_KEYS_HINT}")
    match = _NUMBER.fullmatch(value)
    unit = match[2] if match else ""
    number = Fraction(match[1]) if match else Fraction(0)
    wrong_unit = unit and (word == TPS or unit not in _UNITS)
    if match is None or wrong_unit or (word == TPS and not number):
        example = "20, in tokens per second" if word == TPS else "200, in ms, or 200ms, 2s, 50us"
        raise UsageError(f"{pair!r}: {value!r} is not a limit", hint=f"write a number such as {example}")
    if word == TPS:
        word, exact = TPOT, 10**9 / number
    else:
        exact = number * _UNITS[unit or "ms"]
    if exact > _LONGEST_NS:
        raise UsageError(f"{pair!r} is longer than a day", hint="a number without a unit is milliseconds")
    return word, int(exact)


def _ordered(limits: Mapping[str, int]) -> dict[str, int]:
    return {key: limits[key] for key in KEYS if key in limits}


def _unit(limit_ns: int) -> str:
    """Return the largest unit in which the limit is at least 1. It is `ms` for 0."""
    return next((unit for unit in ("s", "ms", "us") if limit_ns >= _UNITS[unit]), "ns" if limit_ns else "ms")


def _number(limit_ns: int) -> str:
    """Return a limit in its unit, with all its digits."""
    whole, rest = divmod(limit_ns, _UNITS[_unit(limit_ns)])
    digits = len(str(_UNITS[_unit(limit_ns)])) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0") if rest else str(whole)
