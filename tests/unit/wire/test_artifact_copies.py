"""References to copies of artifacts."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.backends.pictures import local
from telemetry.redaction import Redactor
from telemetry.wire.artifact_copies import digest_of, original_name, path_of, uri_of

DIGEST = hashlib.sha256(b"x").hexdigest()
TEXT = st.text(st.characters(exclude_characters="\0/", codec="utf-8"), min_size=1, max_size=30)


@given(TEXT, TEXT)
def test_a_reference_has_the_place_the_digest_and_the_name(folder: str, name: str) -> None:
    """A reference has the place, the digest and the name, whatever folder and file are called."""
    uri = uri_of(f"/runs/{folder}", DIGEST, name)
    assert (digest_of(uri), original_name(uri)) == (DIGEST, name)
    assert unquote(urlsplit(uri).path) == f"/runs/{folder}/{path_of(DIGEST)}"


def test_a_reference_is_an_address_that_any_program_can_open() -> None:
    """A reference is an address that any program can open, and its end tells the type of the file."""
    uri = uri_of("/runs/my run", DIGEST, "plot 1.png")
    assert uri == f"file:///runs/my%20run/artifacts/sha256/{DIGEST[:2]}/{DIGEST}#plot%201.png"
    assert Path(uri).suffix == ".png"
    assert uri_of("/r", DIGEST, "") == f"file:///r/artifacts/sha256/{DIGEST[:2]}/{DIGEST}"


def test_a_name_that_is_not_utf_8(tmp_path: Path) -> None:
    """The address has its bytes; where a text is needed, what is no text is replaced."""
    path = tmp_path / os.fsdecode(b"caf\xe9")
    uri = uri_of(str(path), DIGEST, path.name)
    assert "/caf%E9/artifacts/" in uri
    assert uri.endswith("#caf%E9")
    assert uri.isascii()
    assert (digest_of(uri), original_name(uri)) == (DIGEST, "caf\ufffd")
    assert local(uri) == path / path_of(DIGEST)


def test_personal_data_in_a_name_is_still_found() -> None:
    """The rules that mask it don't look behind escapes. The copy is found all the same."""
    uri = uri_of("/runs/me@example.com", DIGEST, "you@example.com.png")
    masked = Redactor(personal=True).text(uri)
    assert "example" not in masked
    assert digest_of(masked) == DIGEST


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "/runs/a",
        f"/runs/artifacts/sha256/{DIGEST[:2]}/{DIGEST}",
        f"s3://b/artifacts/sha256/{DIGEST[:2]}/{DIGEST}",
        f"file:///r/artifacts/sha256/00/{DIGEST}",
        f"file:///r/artifacts/sha256/{DIGEST[:2]}/{DIGEST}0",
        f"file:///r/artifacts/sha256/{DIGEST[:2]}/{DIGEST[:-1]}",
        f"file:///r/other/{DIGEST[:2]}/{DIGEST}#a",
        "file:///[",
    ],
)
def test_other_references_are_none_to_a_copy(uri: str) -> None:
    """Other references have no digest and name of a copy, and stay as they are."""
    assert (digest_of(uri), original_name(uri)) == ("", "")
