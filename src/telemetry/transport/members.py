"""A request for the producers of one node."""

from __future__ import annotations

from telemetry import limits
from telemetry.errors import ProtocolError
from telemetry.transport.client import ControlClient
from telemetry.wire.control import GetMembers, MemberFacts, Members


def ask_members(endpoint: str, node: str, timeout_s: float = limits.CONTROL_TIMEOUT_S) -> list[MemberFacts]:
    """Return the producers of a node, as its leaf knows them.

    `node` is the name of the node or the run id of its leaf. Raises EndpointError if the aggregator does not
    answer, ProtocolError if it does not know the node or the request.
    """
    with ControlClient(endpoint) as client:
        answer = client.request(GetMembers(node=node), timeout_s)
    if not isinstance(answer, Members):
        raise ProtocolError(f"{endpoint} answered members with {type(answer).__name__}")
    return answer.members
