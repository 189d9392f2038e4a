"""Tests of what each rule masks and what it leaves alone, and that no text makes it slow."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.redaction.samples import NAMED, NOT_PERSONAL, ORDINARY, PERSONAL, TOKENS

from telemetry.redaction import MASK, Redactor
from telemetry.redaction.patterns import BUILT_IN

_TOKENS = [(rule, secret) for rule, secrets in TOKENS.items() for secret in secrets]


@pytest.mark.parametrize(("rule", "secret"), _TOKENS)
@pytest.mark.parametrize("form", ["{}", "key {} used", '"{}"', "a={};b", "(%20{})", "say:{}.", "x\n{}\ny", "é{}é"])
def test_the_token_of_a_provider_is_found_wherever_it_stands(rule: str, secret: str, form: str) -> None:
    """The token of a provider is masked wherever it stands and counted under that rule.

    The text around it stays.
    """
    redactor = Redactor()
    assert redactor.text(form.format(secret)) == form.format(MASK)
    assert redactor.take_counts() == {rule: 1}


@pytest.mark.parametrize(("before", "secret", "after"), NAMED)
def test_a_secret_that_is_named_is_masked(before: str, secret: str, after: str) -> None:
    """The name and what follows the secret stay."""
    redactor = Redactor()
    masked = redactor.text(f"{before}{secret}{after}")
    assert secret not in masked
    assert masked.endswith(f"{MASK}{after}")
    assert before.startswith(masked.partition(MASK)[0])
    assert sum(redactor.take_counts().values()) == 1


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_texts_stay(text: str) -> None:
    """Counts of tokens, hashes, paths, names of metrics, words in which a secret word hides."""
    redactor = Redactor()
    assert redactor.text(text) == text
    assert redactor.name(text) == text
    assert not redactor.has_counts


@pytest.mark.parametrize(
    ("rule", "value"), [(rule, value) for rule, values in PERSONAL.items() for value in values]
)
def test_personal_data_is_masked_on_request(rule: str, value: str) -> None:
    """Personal data is masked on request and stays by default."""
    text = f"from {value}, today"
    assert Redactor().text(text) == text
    redactor = Redactor(personal=True)
    assert redactor.text(text) == f"from {MASK}, today"
    assert redactor.take_counts() == {rule: 1}


@pytest.mark.parametrize("text", [*NOT_PERSONAL, *ORDINARY])
def test_what_resembles_personal_data_stays(text: str) -> None:
    """Numbers without the check digit, times in nanoseconds, addresses of repositories."""
    assert Redactor(personal=True).text(text) == text


def test_every_rule_has_a_sample() -> None:
    """A rule without one is not tested above."""
    assert {*TOKENS, *PERSONAL, "named", "login", "bearer", "url-password"} == BUILT_IN


@given(st.sampled_from(_TOKENS), st.text(max_size=30), st.text(max_size=30))
def test_no_text_around_it_hides_a_token(sample: tuple[str, str], before: str, after: str) -> None:
    """Except a letter or digit that makes it another word."""
    secret = sample[1]
    before = before if not before[-1:].isalnum() else f"{before} "
    after = after if not after[:1].isalnum() else f" {after}"
    assert secret not in Redactor().text(f"{before}{secret}{after}")


@given(st.sampled_from(NAMED), st.text(max_size=30))
def test_what_is_masked_once_stays(sample: tuple[str, str, str], more: str) -> None:
    """A text may pass two processes that mask."""
    masked = Redactor().text("".join(sample) + more)
    again = Redactor()
    assert again.text(masked) == masked


_PIECES = (
    *(secret[:length] for _, secret in _TOKENS for length in (3, 4, 9)),
    *("eyJ-", "SG.", "AKIA-", "a", "1", " ", "\n", "=", "%", "\\", '"', "İ"),
    *("token", "tokena", "token\\", 'token="', "token='", "token: ", "password ", "login ", "login a password "),
    *("://a:", "a://", "-u ", "-ua:", "--a ", "'--a', ", '"-a', "bearer ", "basic ", "authorization: bearer "),
    *("Cookie:a", "-----BEGIN PRIVATE KEY-----", "-----BEGIN "),
    *("mysql ", "mysql -", "sshpass -p ", "password is ", "password%3D", "?key=", "://a:1", "http://1a"),
    *("@", "a@", "a@b", "a.", "a@a.", "4111 ", "4111-"),
)


@pytest.mark.slow
@pytest.mark.parametrize("piece", dict.fromkeys(_PIECES))
@pytest.mark.parametrize("method", ["text", "argument"])
def test_time_grows_with_the_length_and_not_with_its_square(piece: str, method: str) -> None:
    """Sixteen times the text takes about sixteen times as long; with the square it would be 256 times."""
    redactor = Redactor(personal=True)
    mask: Callable[[str], object] = redactor.text if method == "text" else lambda text: redactor.arguments([text])
    short_s, long_s = (_seconds(mask, (piece * size)[:size]) for size in (8_192, 131_072))
    assert long_s < 80 * short_s + 0.05


def _seconds(mask: Callable[[str], object], text: str) -> float:
    """Return the shortest time of some attempts: others use the machine too."""
    times: list[float] = []
    for _ in range(3):
        began = time.process_time()
        mask(text)
        times.append(time.process_time() - began)
    return min(times)
