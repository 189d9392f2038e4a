"""Secrets don't get into files; ordinary settings do."""

from __future__ import annotations

import time

import pytest

from telemetry.redaction import MASK, mask_secrets, mask_text


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
        (["--db-pass", "abc"], ["--db-pass", MASK]),
        (["PGPASSWORD=abc", "psql"], [f"PGPASSWORD={MASK}", "psql"]),
        (["sh", "-c", "exec env PGPASSWORD='a b' psql"], ["sh", "-c", f"exec env PGPASSWORD='{MASK}' psql"]),
        (["--accesstoken", "abc"], ["--accesstoken", MASK]),
        (["--accessToken=abc"], [f"--accessToken={MASK}"]),
        (["SECRET_KEY_BASE=abc", "dbPassword=abc"], [f"SECRET_KEY_BASE={MASK}", f"dbPassword={MASK}"]),
        (["curl", "-u", "me:pw", "http://h"], ["curl", "-u", f"me:{MASK}", "http://h"]),
        (["curl", "-ume:pw", "--user=me:p:w"], ["curl", f"-ume:{MASK}", f"--user=me:{MASK}"]),
        (["curl", "--proxy-user", "me:pw"], ["curl", "--proxy-user", f"me:{MASK}"]),
        (["sh", "-c", "curl -u me:pw --token abc x"], ["sh", "-c", f"curl -u me:{MASK} --token {MASK} x"]),
        (["https://h/b?se=1&sig=a%2Fb&x=2"], [f"https://h/b?se=1&sig={MASK}&x=2"]),
        (["https://h/?X-Amz-Signature=abc"], [f"https://h/?X-Amz-Signature={MASK}"]),
        (["https://h/#access_token=abc"], [f"https://h/#access_token={MASK}"]),
        (["mysql", "-u", "root", "-ppw", "db"], ["mysql", "-u", "root", f"-p{MASK}", "db"]),
        (["/usr/bin/mysqldump", "-ppw"], ["/usr/bin/mysqldump", f"-p{MASK}"]),
        (["sshpass", "-p", "pw", "ssh", "-p", "22"], ["sshpass", "-p", MASK, "ssh", "-p", "22"]),
        (["sshpass", "-ppw", "ssh", "-p22"], ["sshpass", f"-p{MASK}", "ssh", "-p22"]),
        (["mkdir", "-p", "x"], ["mkdir", "-p", "x"]),
        (["python", "mysql_bench.py", "-p8"], ["python", "mysql_bench.py", "-p8"]),
        (["postgres://me:p@w@db/x"], [f"postgres://me:{MASK}@db/x"]),
        (["""["--token", "X", "-n"]"""], [f"""["--token", "{MASK}", "-n"]"""]),
        (["""['-u', 'me:pw']"""], [f"""['-u', 'me:{MASK}']"""]),
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
        "--passes",
        "--pass-rate",
        "passes=3",
        "--token-count",
        "token_count=3",
        "eos_token_id=2",
        "tokens",
        "--signal",
        "signal=9",
        "--bypass",
        "compass=north",
        "design=blue",
        "--user",
        "-u",
        "1000:1000",
        "time 12:30",
        "a 'quoted' word, and \"another\"",
    ],
)
def test_ordinary_arguments_stay(argument: str) -> None:
    """Ordinary arguments stay, because only whole words count. A benchmark's own settings can be read."""
    assert mask_secrets([argument, "value"]) == [argument, "value"]


def test_the_token_of_a_parser_is_no_secret() -> None:
    """A token that a parser could not understand stays. A long one is masked, because it may be a secret."""
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
    assert mask_secrets({"argv": ["--token", "X"], "user": "-u"}) == {"argv": ["--token", MASK], "user": "-u"}
    assert mask_secrets({"command": str(["--token", "X"])}) == {"command": str(["--token", MASK])}
    assert mask_secrets({"api_key": ["a", "b"]}) == {"api_key": [MASK, MASK]}


def test_a_user_and_a_group_are_no_login() -> None:
    """Nor is a login without a password."""
    for argv in (["docker", "run", "-u", "1000:1000"], ["ssh", "-u", "me"], ["git", "push", "-u", "origin", "a:b"]):
        assert mask_secrets(argv) == argv


def test_what_is_masked_stays_as_it_is() -> None:
    """Params pass two processes that mask."""
    for text in ("--token X", "a: PGPASSWORD='x y'", "['-u', 'me:pw']", "http://u:p@h?sig=2", "Bearer abcdefgh"):
        once = mask_secrets({"a": text})
        assert mask_secrets(once) == once != {"a": text}


@pytest.mark.parametrize("piece", ["a", "--a ", "a='", "'--a', ", "-u ", "a:", "://a:", '"', "-"])
def test_long_texts_take_no_time(piece: str) -> None:
    """Masking a long text takes little time, whatever is repeated in it."""
    started = time.process_time()
    mask_secrets([piece * 20_000])
    assert time.process_time() - started < 3.0


def test_long_arguments_take_no_time() -> None:
    """The time grows with the length, not with its square: a blob on a command line holds up no start."""
    blob = "a" * 100_000
    started = time.process_time()
    assert mask_secrets([blob]) == [blob]
    assert time.process_time() - started < 5.0


@pytest.mark.parametrize("max_chars", [12, 15, 20, 40])
def test_a_text_is_masked_before_it_is_cut(max_chars: int) -> None:
    """The cut text has no part of a password."""
    text = "at https://me:hunter2@host/path"
    assert mask_text(text, max_chars) == "at https://me:***@host/path"[:max_chars]


def test_a_long_text_is_cut_before_all_of_it_is_searched() -> None:
    """Time is bounded: a program may log megabytes."""
    assert mask_text("word " * 1_000_000, 10) == "word word "


@pytest.mark.parametrize("host", ["192.0.2.2", "[::1]", "node-7"])
def test_the_public_key_of_an_address_is_no_password(host: str) -> None:
    """A leaf reads the address of its root from its manifest. The key may contain any sign of Z85."""
    address = f"tcp://{host}:43343#5:c&#VqZh0rgtexinfOQ.}}iEJbX^/g5)@s(uBJPy"
    assert len(address.partition("#")[2]) == 40
    assert mask_text(f"refused by {address}: no", 400) == f"refused by {address}: no"


def test_a_password_before_an_address_with_a_key_is_masked() -> None:
    """The key excuses only the part after the host."""
    text = f"tcp://me:secret@host:43343#{'a' * 40}"
    assert mask_text(text, 400) == f"tcp://me:{MASK}@host:43343#{'a' * 40}"
