"""The keys of a job: one pair, which the root makes and hands to the leaves."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from telemetry.transport.endpoints import split_key
from telemetry.transport.keys import KeyFolder, KeyPair, of_user

KEYS_VARIABLE: Final = "TELEMETRY_SECURITY__KEYS_DIR"
_FOLDER: Final = "keys"


def own_pair(folder: Path) -> KeyPair:
    """Return the pair in a private folder. Make one if there is none. This process uses it from now on.

    Raises KeysError.
    """
    keys = KeyFolder(folder / _FOLDER)
    pair = keys.own() if keys.has_pair else keys.make_pair()
    os.environ[KEYS_VARIABLE] = str(keys.path)
    return pair


def pair_for(endpoint: str, folder: str) -> KeyPair | None:
    """Return the pair with which the driver reaches a root, or None if its address needs no keys.

    `folder` is the driver's setting. This process uses it from now on. Raises KeysError.
    """
    if not split_key(endpoint)[1]:
        return None
    keys = of_user(folder)
    os.environ[KEYS_VARIABLE] = str(keys.path)
    return keys.own()


def take_pair(folder: Path, pair: KeyPair) -> None:
    """Write the pair of the job to a private folder. This process uses it from now on. Raises KeysError."""
    keys = KeyFolder(folder / _FOLDER)
    keys.put_pair(pair)
    os.environ[KEYS_VARIABLE] = str(keys.path)
