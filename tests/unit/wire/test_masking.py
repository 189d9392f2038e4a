"""Secrets don't get into files; ordinary settings do."""

from __future__ import annotations

import time

import pytest

from telemetry.wire.masking import MASK, mask_secrets


@pytest.mark.parametrize(
    ("argv", "masked"),
    [
        (["--api-key", "abc"], ["--api-key", MASK]),
        (["--api-key=abc"], [f"--api-key={MASK}"]),
        (["--apiKey=abc"], [f"--apiKey={MASK}"]),
        (["env", "DB_PASSWORD=a b c", "x"], ["env", f"DB_PASSWORD={MASK}", "x"]),
        (["--token", "-starts-with-a-dash"], ["--token", MASK]),
        (["--use-auth", "--verbose"], ["--use-auth", "--verbose"]),
        (["-H", "Authorization: Bearer abcdefgh"], ["-H", f"Authorization: {MASK}"]),
        (["-H", "X: Bearer abcdefgh"], ["-H", f"X: Bearer {MASK}"]),
        (["postgres://me:pw@db/x"], [f"postgres://me:{MASK}@db/x"]),
        (["redis://:pw@db"], [f"redis://:{MASK}@db"]),
        (["http://h/?a=1&api_key=abc&b=2"], [f"http://h/?a=1&api_key={MASK}&b=2"]),
        (['{"secret": "abc", "n": 1}'], [f'{{"secret": "{MASK}", "n": 1}}']),
        (["1PASSWORD=abc", "x --db-password=abc"], [f"1PASSWORD={MASK}", f"x --db-password={MASK}"]),
        (["sk-" + "a" * 20, "hf_" + "b" * 30], [MASK, MASK]),
    ],
)
def test_secret_arguments_are_masked(argv: list[str], masked: list[str]) -> None:
    """Named secrets, passwords in URLs, bearer tokens and well-known key formats."""
    assert mask_secrets(argv) == masked


@pytest.mark.parametrize(
    "argument",
    [
        "--max-tokens",
        "512",
        "--tokenizer=gpt2",
        "--author=me",
        "tokens=5",
        "http://host:80/x",
        "-k",
        "a.py",
        "C:\\x",
    ],
)
def test_ordinary_arguments_stay(argument: str) -> None:
    """Only whole words count, so that a benchmark's own settings can be read."""
    assert mask_secrets([argument, "value"]) == [argument, "value"]


def test_the_token_of_a_parser_is_no_secret() -> None:
    """Where an error says which it did not understand; a long one may be one that somebody showed."""
    for text in ('(sqlite3.OperationalError) unrecognized token: "9bad"', "unexpected token: ')'"):
        assert mask_secrets([text]) == [text]
    for text in (f"unexpected token: {'a1' * 8}", "invalid token: 9bad", "x unexpected token=9bad"):
        assert mask_secrets([text])[0].endswith(MASK)


def test_nested_settings() -> None:
    """Maps are masked by key at every depth; what is no text stays; the original is untouched."""
    settings = {
        "auth_token": "x",
        "db": {"password": "y", "port": 1},
        "urls": ["http://u:p@h"],
        "secrets": 5,
        "n": None,
    }
    assert mask_secrets(settings) == {
        "auth_token": MASK,
        "db": {"password": MASK, "port": 1},
        "urls": [f"http://u:{MASK}@h"],
        "secrets": 5,
        "n": None,
    }
    assert settings["auth_token"] == "x"
    assert mask_secrets({"password": ""}) == {"password": ""}
    assert mask_secrets({"api_key": ["a", "b"]}) == {"api_key": [MASK, MASK]}


def test_long_arguments_take_no_time() -> None:
    """The time grows with the length, not with its square: a blob on a command line holds up no start."""
    blob = "a" * 100_000
    started = time.process_time()
    assert mask_secrets([blob]) == [blob]
    assert time.process_time() - started < 5.0
