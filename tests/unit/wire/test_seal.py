"""A check inside a JSON object: other readers see one more field, ours see whether a byte was changed."""

from __future__ import annotations

import json
from zlib import crc32

import pytest

from telemetry.wire.seal import BrokenSeal, check_seal, sealed

LINE = b'{"a":1,"crc":{"crc":"00000000"}}\n'
DOCUMENT = b'{\n  "a": 1,\n  "b": []\n}\n'


@pytest.mark.parametrize("data", [LINE, DOCUMENT, LINE.rstrip(), DOCUMENT.rstrip()])
def test_the_check_is_the_last_field(data: bytes) -> None:
    """The check is the last field. Any reader of JSON reads it, and one with zlib can compare it."""
    written = sealed(data)
    body = written[: written.rindex(b",")]
    assert data.startswith(body)
    assert json.loads(written) == json.loads(data) | {"crc": f"{crc32(body):08x}"}
    assert check_seal(written)
    assert not check_seal(data)
    assert written.count(b"\n") == data.count(b"\n") + (b"\n}" in data)


@pytest.mark.parametrize("data", [LINE, DOCUMENT])
def test_a_changed_byte_breaks_it(data: bytes) -> None:
    """Any one before the check."""
    written = sealed(data)
    for at in range(written.rindex(b",")):
        with pytest.raises(BrokenSeal, match="does not match its checksum"):
            check_seal(written[:at] + bytes([written[at] ^ 0x10]) + written[at + 1 :])


def test_only_an_object_is_sealed() -> None:
    """There is no last field in anything else."""
    with pytest.raises(ValueError, match="not a JSON object"):
        sealed(b"[]\n")
