"""SIGKILL of those that only talk to the aggregator, at random moments: producers, commands, wrappers, readers."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

from telemetry.transport import subscribe

RATE = 20_000  # a second, of each sender
READER = """
import sys, telemetry
for snapshot in telemetry.subscribe(sys.argv[1], conflate=False):
    print(snapshot.seq, snapshot.state, flush=True)
"""


def kill_soon(crew: Any, faults: Any, sender: Any, chance: random.Random) -> int:
    """Kills a sender at a random moment; returns what it had sent so long before that it must be in the result."""
    crew.progress(sender, chance.randint(RATE * 3, RATE * 4))
    sender.kill()
    return int(sender.sent_before(faults.SLACK_S))


def check(faults: Any, final: dict[str, Any], sender: Any, kept: int, recorder: str) -> None:
    """Check what is left of a killed sender. What its ring held is in the result."""
    if recorder == "compiled":
        faults.check_salvaged(final, sender)
        assert final["completeness"] == "complete"
    else:
        faults.check_killed(final, sender, kept)
        assert final["completeness"] == "incomplete"


def test_killed_producers_lose_nothing_that_they_committed(
    ground: Any, crew: Any, faults: Any, chance: random.Random, recorder: str
) -> None:
    """Two of four are killed at random moments: all their values are kept, or with the recorder in Python the first
    ones without a hole. The others are complete."""
    aggregator, endpoint = ground.serve()
    senders = [crew.send(who, endpoint, rate=RATE) for who in "abcd"]
    victims = chance.sample(senders, 2)
    kept = {victim.who: kill_soon(crew, faults, victim, chance) for victim in victims}
    survivors = [sender for sender in senders if sender not in victims]
    for survivor in survivors:
        survivor.end()
        survivor.done()
    faults.stop(endpoint, aggregator)
    final = ground.final()
    faults.check_books(final)
    assert final["state"] == "COMPLETE"
    for victim in victims:
        check(faults, final, victim, kept[victim.who], recorder)
    for survivor in survivors:
        assert faults.first_values(final, survivor.who) == survivor.sent
        assert faults.account_of(final, survivor)["completeness"] == "complete"


def test_a_killed_command_leaves_a_result_and_its_code(
    ground: Any, crew: Any, faults: Any, chance: random.Random, recorder: str
) -> None:
    """`telemetry run` ends with 137, the result says by which signal, and holds what the command had committed."""
    command, sender = crew.words("job", rate=RATE)
    wrapper = ground.telemetry("run", "--quiet", "--name", "job", "--", *command)
    crew.wait_until(lambda: sender.sent, 30.0, "the command sends")
    kept = kill_soon(crew, faults, sender, chance)
    wrapper.communicate(timeout=60)
    assert wrapper.returncode == 128 + signal.SIGKILL
    final = ground.final()
    faults.check_books(final)
    check(faults, final, sender, kept, recorder)
    assert (final["state"], final["command"]["signal"]) == ("COMPLETE", "SIGKILL")


def test_a_killed_wrapper_ends_no_run(ground: Any, crew: Any, faults: Any, chance: random.Random) -> None:
    """`telemetry run` is killed: the command and its aggregator go on, and the run is complete when it ends."""
    command, sender = crew.words("job", rate=RATE)
    wrapper = ground.telemetry("run", "--quiet", "--name", "job", "--", *command)
    crew.wait_until(lambda: sender.sent, 30.0, "the command sends")
    crew.progress(sender, chance.randint(1, RATE))
    wrapper.kill()
    wrapper.wait()
    crew.progress(sender, chance.randint(1, RATE))
    sender.end()
    file = ground.folder / "runs" / "latest" / "final_snapshot.json"
    crew.wait_until(file.exists, 30.0, "the final file")
    final = ground.final()
    faults.check_books(final)
    assert faults.first_values(final, "job") == sender.sent
    assert (final["state"], final["completeness"]) == ("COMPLETE", "complete")


def test_a_killed_program_leaves_the_result_of_its_own_run(
    ground: Any, crew: Any, faults: Any, chance: random.Random, recorder: str
) -> None:
    """The aggregator that a program started writes the result when the program is killed, and says that it is."""
    sender = crew.send("own", rate=RATE)
    directory = Path(ground.live()[0]["dir"])
    kept = kill_soon(crew, faults, sender, chance)
    crew.wait_until((directory / "final_snapshot.json").exists, 30.0, "the final file")
    final = ground.final()
    faults.check_books(final)
    check(faults, final, sender, kept, recorder)
    assert f"process {sender.pid}" in final["reason"]


def test_a_killed_subscriber_is_nobodys_loss(ground: Any, crew: Any, faults: Any, chance: random.Random) -> None:
    """Readers are killed at random moments: the run is complete, and another reader misses no snapshot."""
    aggregator, endpoint = ground.serve()
    reader = ground.program("reader.py", READER)
    readers = [ground.popen(sys.executable, reader, endpoint) for _ in range(3)]
    for one in readers:
        one.stdout.readline()
    sender = crew.send("job", endpoint, rate=RATE)
    for victim in readers[:2]:
        crew.progress(sender, chance.randint(1, RATE // 2))
        os.kill(victim.pid, signal.SIGKILL)
    with subscribe(endpoint) as snapshots:
        begun = next(snapshots).seq
        crew.wait_until(lambda: next(snapshots).seq > begun + 3)
    sender.end()
    assert sender.done()["completeness"] == "incomplete", "the run goes on"
    faults.stop(endpoint, aggregator)
    said, _ = readers[2].communicate(timeout=30)
    final = ground.final()
    faults.check_books(final)
    assert (final["completeness"], faults.first_values(final, "job")) == ("complete", sender.sent)
    seen = [(int(number), state) for number, state in (line.split() for line in said.splitlines())]
    numbers = [number for number, _ in seen]
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert seen[-1][1] == "COMPLETE"
