"""A run on machines that share no network, memory or clock: wrong clocks, a cut cable, a machine without power.

`python -m benchmarks.nodes.faults` has more faults, at random moments.
"""

from __future__ import annotations

import pytest
from benchmarks.nodes.faults import clock_skew, foreign_key, link_down_for_a_while, power_off, trial
from tests.namespaces import can_separate

pytestmark = pytest.mark.skipif(not can_separate(), reason="only root may make namespaces")


def test_wrong_clocks_of_nodes_change_nothing() -> None:
    """Count all at its time, with wall clocks that are two seconds wrong and other monotonic clocks."""
    trial(clock_skew, nodes=2)


def test_a_cut_cable_loses_nothing() -> None:
    """Events that a node records while its cable is cut arrive once the cable is mended.

    The percentiles are exact.
    """
    trial(link_down_for_a_while, nodes=2)


def test_a_machine_without_power_is_named() -> None:
    """The run ends in time, is incomplete, and says which node is missing."""
    trial(power_off, nodes=2)


def test_a_node_with_a_foreign_key_is_turned_away() -> None:
    """A node with a foreign key goes on by itself and says why. The run of the other nodes is complete."""
    trial(foreign_key, nodes=2)
