"""The version of the protocol, independent of the package's.

Minor versions add optional trailing fields, optional map keys and new message types: both sides ignore unknown
ones. Peers of different major versions can't talk to each other.
"""

from __future__ import annotations

Version = tuple[int, int]

PROTOCOL: Version = (1, 6)
SAYS_UNFINISHED: Version = (1, 3)
"""First version in which an `end` message tells whether the end of the run forced it."""
SCHEMA = 1  # `schema_version` of the files in a run directory


def may_talk(peer: Version) -> bool:
    """Return whether this version can talk to a peer of that version."""
    return peer[0] == PROTOCOL[0]
