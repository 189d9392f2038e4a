"""Pictures by reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.backends.pictures import local, png, read

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (3).to_bytes(4, "big") + (2).to_bytes(4, "big") + b"\x08\x06\0\0\0"


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("/a b/c.png", "/a b/c.png"),
        ("file:///a%20b/c.png", "/a b/c.png"),
        ("file://localhost/c.png", "/c.png"),
        ("file://elsewhere/c.png", None),
        ("s3://bucket/c.png", None),
        ("c.png", None),
    ],
)
def test_what_is_a_file_of_this_machine(uri: str, path: str | None) -> None:
    """Paths and `file:` addresses without another host."""
    assert local(uri) == (Path(path) if path is not None else None)


def test_reads_what_is_there(tmp_path: Path) -> None:
    """A picture is read by path and by address, also with a space in it."""
    path = tmp_path / "a b.png"
    path.write_bytes(b"data")
    assert (read(str(path)), read(path.as_uri())) == (b"data", b"data")


@pytest.mark.parametrize("uri", ["/nowhere/x.png", "/", "/a\0b", "http://[half", "s3://bucket/x.png", ""])
def test_what_can_not_be_read_is_none(uri: str) -> None:
    """A picture that can't be read is None and raises nothing, as a producer may name anything."""
    assert read(uri) is None


def test_what_is_too_large_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is one of the limits, and a file of just that size is read."""
    monkeypatch.setattr("telemetry.limits.BACKEND_PICTURE_BYTES", 4)
    path = tmp_path / "x.png"
    path.write_bytes(b"1234")
    assert read(str(path)) == b"1234"
    path.write_bytes(b"12345")
    assert read(str(path)) is None


def test_the_size_of_a_png() -> None:
    """Width, height and channels are in its first bytes."""
    assert png(PNG) == (3, 2, 4, PNG)


@pytest.mark.parametrize(
    "data", [b"", PNG[:25], b"GIF89a" + PNG[6:], PNG[:12] + b"tEXt" + PNG[16:], PNG[:25] + b"\x09"]
)
def test_what_is_no_png(data: bytes) -> None:
    """Cut, of another kind, damaged, or of a colour type that nobody knows."""
    assert png(data) is None
