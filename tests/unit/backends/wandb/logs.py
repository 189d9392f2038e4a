"""Transaction logs of W&B, as its own process makes them."""

from __future__ import annotations

import json
import zlib
from typing import Any

BLOCK = 32_768


def row(messages: Any, number: int, **values: Any) -> bytes:
    record = messages.Record()
    record.history.step.num = number
    for name, value in values.items():
        record.history.item.add(nested_key=name.split("."), value_json=json.dumps(value))
    return bytes(record.SerializeToString())


def log(*records: bytes) -> bytes:
    """Return the records as LevelDB writes its logs, behind the seven bytes of W&B."""
    data = bytearray(b":W&B\xe1\xbe\x01")
    for record in records:
        left, first = record, True
        while left or first:
            room = BLOCK - len(data) % BLOCK
            if room < 7:
                data += bytes(room)
                continue
            part, left = left[: room - 7], left[room - 7 :]
            kind = bytes([(1 if first else 4) if not left else (2 if first else 3)])
            data += zlib.crc32(kind + part).to_bytes(4, "little") + len(part).to_bytes(2, "little") + kind + part
            first = False
    return bytes(data)
