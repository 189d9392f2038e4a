"""Personal data: e-mail addresses and card numbers."""

from __future__ import annotations

import re
from typing import Final

from telemetry.redaction.named import MASK, Hit

EMAIL: Final = "email"
CARD: Final = "card"
RULES: Final = (EMAIL, CARD)

_EMAIL: Final = re.compile(
    r"(?<![\w.+%-])(?!git@)[\w.+%-]{1,64}+@(?:[^\W_](?:[^\W_]|-){0,62}+\.){1,8}[^\W\d_]{2,24}(?![\w@])"
)
"""`git@host` is the address of a repository. Only the start of a word is tried, so time is linear."""
_CARD: Final = re.compile(
    r"(?<![\w.-])(?:\d{13,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{1,7}|\d{4}([ -])\d{6}\2\d{5})(?![\w-]|\.\d)"
)
_FEWEST, _MOST = 10**12, 10**19
"""Bounds of numbers that can be those of a card."""


def mask_personal(text: str, hit: Hit) -> str:
    """Mask e-mail addresses and card numbers."""

    def masked(match: re.Match[str]) -> str:
        hit(EMAIL)
        return MASK

    def masked_card(match: re.Match[str]) -> str:
        if not _is_card(match[0].replace(" ", "").replace("-", "")):
            return match[0]
        hit(CARD)
        return MASK

    if "@" in text:
        text = _EMAIL.sub(masked, text)
    return _CARD.sub(masked_card, text)


def is_card(number: int) -> bool:
    """Return whether a number is that of a card."""
    return _FEWEST <= number < _MOST and _is_card(str(number))


def _is_card(digits: str) -> bool:
    """Return whether digits begin as those of a payment card and have its check digit (Luhn)."""
    if digits[0] not in "23456" or not digits.isascii():
        return False
    doubled = (sum(divmod(2 * int(digit), 10)) for digit in digits[-2::-2])
    return (sum(map(int, digits[-1::-2])) + sum(doubled)) % 10 == 0
