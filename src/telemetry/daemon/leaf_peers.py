"""Leaves of this root as peers of the control channel: searches go to them, and their answers to the search."""

from __future__ import annotations

from collections.abc import Callable

from telemetry.daemon.search_channel import SearchChannel
from telemetry.wire.control import Error, Noted, Response
from telemetry.wire.search import Found, Search
from telemetry.wire.snapshot import State


class LeafPeers:
    """Peers of the leaves that said hello. They stay peers after their end. For the thread of the loop."""

    def __init__(self, wake: Callable[[], object], send: Callable[[bytes, Search], object]) -> None:
        """Prepare the searches. `wake` makes the loop call `push_searches`, which sends with `send`."""
        self.searches = SearchChannel(wake)
        """Searches for exact values in the journals of nodes."""
        self._send = send
        self._peers: dict[str, bytes] = {}

    def has(self, leaf: str) -> bool:
        """Return whether a leaf has said hello to this aggregator. Any thread may call it."""
        return leaf in self._peers

    def meet(self, leaf: str, peer: bytes) -> None:
        """Register the peer of a leaf. A new one needs the search once more."""
        if self._peers.get(leaf) != peer:
            self._peers[leaf] = peer
            self.searches.returned(leaf)

    def push_searches(self) -> None:
        """Send the messages of searches. A message to a leaf that is away is lost."""
        for leaf, search in self.searches.outgoing():
            if (peer := self._peers.get(leaf)) is not None:
                self._send(peer, search)

    def answer(self, peer: bytes, found: Found, state: State) -> Response:
        """Hand an answer of a leaf to the search. Return the response to the leaf."""
        if self._peers.get(found.producer) != peer:
            return Error(code="refused", message="only a leaf that said hello may answer a search")
        if self.searches.deliver(found):
            return Noted(state=state)
        return Error(code="unavailable", message="too many answers are waiting: send it again")
