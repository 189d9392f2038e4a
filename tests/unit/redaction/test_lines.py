"""Output that arrives in pieces: a secret is masked wherever the pieces end."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.redaction.samples import TOKENS

from telemetry.redaction import LineMasker, Redactor

_SECRETS = [secret for secrets in TOKENS.values() for secret in secrets]


def _all(masker: LineMasker, pieces: list[bytes]) -> bytes:
    return b"".join(map(masker.feed, pieces)) + masker.rest()


@given(
    st.lists(st.sampled_from([*_SECRETS, "ordinary", "", "é", "\x1b[31mred", "1 %\r2 %"]), max_size=6),
    st.lists(st.integers(0, 400), max_size=8),
)
def test_the_ends_of_pieces_change_nothing(lines: list[str], cuts: list[int]) -> None:
    """The output has no secret, wherever the pieces end. Lines without a secret stay as they are."""
    output = "".join(f"{line}\n" for line in lines).encode()
    edges = sorted({0, len(output), *(cut for cut in cuts if cut < len(output))})
    pieces = [output[start:end] for start, end in pairwise(edges)]
    masked = _all(LineMasker(Redactor()), pieces).decode()
    for secret in _SECRETS:
        assert not any(part in masked for part in secret.split("\n") if len(part) > 12 and "-----" not in part)
    if not set(lines) & set(_SECRETS):
        assert masked.encode() == output


def test_an_unfinished_line_is_held() -> None:
    """An unfinished line is held until its end or until the caller asks for the rest."""
    masker = LineMasker(Redactor())
    assert masker.feed(b"one\nna") == b"one\n"
    assert masker.holds_line
    assert masker.feed(b"me? ") == b""
    assert masker.rest() == b"name? "
    assert not masker.holds_line


def test_any_bytes_stay() -> None:
    """Output need not be text."""
    masker = LineMasker(Redactor())
    data = bytes(range(256)) * 4
    assert _all(masker, [data]) == data


@pytest.mark.parametrize("between", [b"x" * 100_000, b"word " * 20_000])
def test_a_line_without_end_costs_bounded_memory(between: bytes) -> None:
    """A line without an end is passed on in parts, so it costs bounded memory."""
    masker = LineMasker(Redactor())
    given = b"".join(masker.feed(between) for _ in range(10))
    assert len(given) > 9 * len(between)


def test_without_the_rules_for_secrets_a_private_key_stays() -> None:
    """A pattern of the user applies to each line."""
    masker = LineMasker(Redactor(secrets=False, patterns=["ticket=T-[0-9]+"]))
    lines = [b"-----BEGIN " + b"PRIVATE KEY-----\n", b"MIIE\n", b"T-12\n"]
    assert _all(masker, lines) == lines[0] + b"MIIE\n***\n"


def test_a_private_key_without_end_hides_a_bounded_part() -> None:
    """A private key without an end hides at most 16 KiB. What follows a damaged key is visible again."""
    masker = LineMasker(Redactor())
    given = _all(masker, [b"-----BEGIN " + b"PRIVATE KEY-----\n", *[b"line\n"] * 20_000])
    assert given.startswith(b"***\n")
    assert 0 < given.count(b"line\n") < 20_000
