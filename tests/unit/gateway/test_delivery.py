"""The answer to a report while the aggregator goes away."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from telemetry.gateway.endpoint import Problem
from telemetry.gateway.routes.delivery import Waits, report
from telemetry.gateway.run_link import RunLink
from telemetry.wire.control import GetStep, Request, Response, StepState
from telemetry.wire.snapshot import BackendStat


class FailingLink:
    """A link whose aggregator goes away once the step is closed."""

    def __init__(self, stat: BackendStat) -> None:
        self.stat = stat

    async def confirmed(self, timeout_s: float) -> bool:
        return True

    async def ask(self, request: Request, timeout_s: float = 1.0, *, slow: bool = False) -> Response:
        if isinstance(request, GetStep):
            return state("closed", 2, [self.stat])
        raise Problem(503, "no answer; nothing was recorded, try again")


def state(word: Any, next_record: int, backends: list[BackendStat]) -> StepState:
    return StepState(
        state=word, values={"loss": 0.5}, producers=1, revision=0, next_record=next_record, backends=backends
    )


def test_a_step_that_is_closed_is_never_called_unrecorded() -> None:
    """The aggregator can't say which step a backend refused, so the answer is "pending"."""
    stat = BackendStat(name="tracker", state="running", next_record=2, refused=[1])
    link = cast(RunLink, FailingLink(stat))
    answer = asyncio.run(report(link, state("open", 1, []), GetStep(axis="step", step=1), Waits(1.0, 1.0)))
    body = cast(Any, answer.body)
    assert (answer.status, body.status) == (202, "pending")
    assert "nothing was recorded" not in body.message
