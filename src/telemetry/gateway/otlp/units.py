"""Units of OpenTelemetry, which are written in UCUM, as units of instruments."""

from __future__ import annotations

import re
from typing import Final

from telemetry import limits
from telemetry.client.records import clean
from telemetry.wire.units import WHOLE

_UCUM: Final = {
    "1": "",
    "By": "B",
    "kBy": "kB",
    "MBy": "MB",
    "GBy": "GB",
    "KiBy": "KiB",
    "MiBy": "MiB",
    "GiBy": "GiB",
    "Cel": "°C",
}
_NOTE: Final = re.compile(r"\{([^{}]*)\}")
_PER: Final = re.compile(r"/(?![^{]*\})")  # not within braces, which hold free text


def unit_of(ucum: str) -> str:
    """Return the unit of an instrument: `By/s` as `B/s`, `{request}` as `requests`, `1` as no unit."""
    ucum = ucum.strip()
    above, *below = _PER.split(ucum)
    return clean(
        "/".join([_part(above, plural=True), *(_part(each, plural=False) for each in below)]), limits.UNIT_CHARS
    )


def _part(part: str, *, plural: bool) -> str:
    note = _NOTE.fullmatch(part)
    if note is None:
        return _UCUM.get(part, part)
    word = note[1].strip()
    return f"{word}s" if plural and f"{word}s" in WHOLE else word
