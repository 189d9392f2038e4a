"""The protocol's own version, independent of the package's.

Minor versions add optional trailing fields, optional map keys and new message types: both sides ignore what
they don't know. A different major can't be talked to.
"""

from __future__ import annotations

Version = tuple[int, int]

PROTOCOL: Version = (1, 3)
SAYS_UNFINISHED: Version = (1, 3)
"""From this version on, an `end` says whether the end of the run forced it."""
SCHEMA = 1  # `schema_version` of the files in a run directory


def may_talk(peer: Version) -> bool:
    """Whether a peer of this version is understood."""
    return peer[0] == PROTOCOL[0]
