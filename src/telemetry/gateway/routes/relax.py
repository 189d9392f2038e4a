"""The routes of the Relax metrics service, `POST /metrics/log_metric` and so on, and what each call does."""

from __future__ import annotations

import threading
from math import isnan
from typing import Any, Final

from msgspec import Struct

from telemetry import limits
from telemetry.common.formatting import number_of
from telemetry.compat.relax.native import declare, names_of, record_values
from telemetry.compat.relax.values import Entry, Events, Plain, Refuse, counted, plain_values, tagged
from telemetry.errors import InstrumentError
from telemetry.gateway.endpoint import Answer, Call, Endpoint, Failure, FieldProblem, Handler, Method, Problem
from telemetry.gateway.routes.delivery import StepReport, Waits, metrics_of, report
from telemetry.gateway.routes.relax_bodies import (
    ClearMetrics,
    Done,
    Health,
    LogError,
    Logged,
    LogMetric,
    LogMetricsBatch,
    Metrics,
    ReportStep,
    StepQuery,
    problem_of,
    with_nan,
)
from telemetry.gateway.run_link import RunLink
from telemetry.wire.control import GetStatus, GetStep, Status, StepState

_REFUSED: Final = "not recorded: "
_UNCONFIRMED: Final = "the run has not confirmed it yet"


# --- logging -------------------------------------------------------------------------------------


async def log_metric(call: Call) -> Answer:
    body: LogMetric = call.body
    values = {body.metric_name: body.metric_value}
    batch = LogMetricsBatch(step=body.step, metrics=values, tags=body.tags, axis=body.axis)
    outcomes = await _log(call, batch, "metric_value")
    return await _logged(call, outcomes, f"Metric {body.metric_name} logged for step {body.step}")


async def log_metrics_batch(call: Call) -> Answer:
    body: LogMetricsBatch = call.body
    outcomes = await _log(call, body, "metrics")
    number = sum(not outcome.startswith(_REFUSED) for outcome in outcomes.values())
    return await _logged(call, outcomes, f"{number} metrics logged for step {body.step}")


async def _log(call: Call, body: LogMetricsBatch, field: str) -> dict[str, str]:
    """Record values and return what became of each. Raise Problem if none could be recorded."""
    run = call.gateway.run
    await _check_open(run, body.axis, body.step)
    _declare(body.axis)
    return await call.record(_record, body, field)


def _record(body: LogMetricsBatch, field: str) -> dict[str, str]:
    outcomes: dict[str, str] = {}
    entries: list[Entry] = []
    for name, value in body.metrics.items():
        problems: list[tuple[str, str]] = []
        pairs = plain_values(name, with_nan(value), counted, _noted_in(problems))
        pairs = [pair for pair in pairs if _is_usable(*pair, problems)]
        pairs = [pair for pair in pairs if _fits(pair[0], body.tags, problems)]
        entries += [(key, plain, body.tags) for key, plain in pairs]
        outcomes[name] = _outcome(pairs, [why if who == name else f"{who}: {why}" for who, why in problems])
    refused = [name for name, outcome in outcomes.items() if outcome.startswith(_REFUSED)]
    if refused and len(refused) == len(outcomes):
        raise Problem(
            422,
            f"{refused[0]}: {outcomes[refused[0]]}",
            [
                FieldProblem(loc=["body", field, *([name] if field == "metrics" else [])], msg=outcomes[name])
                for name in refused[:100]
            ],
        )
    record_values((body.axis, body.step), entries)
    return outcomes


def _fits(name: str, tags: dict[str, str] | None, problems: list[tuple[str, str]]) -> bool:
    """Check the length of a name with its tags, and add a problem if it is too long."""
    fits = len(tagged(name, tags)) <= limits.NAME_CHARS
    if not fits:
        problems.append((name, f"with its tags the name is longer than {limits.NAME_CHARS} characters"))
    return fits


def _noted_in(problems: list[tuple[str, str]]) -> Refuse:
    """Return a function that adds what it is told to a list."""

    def note(name: str, why: str) -> None:
        problems.append((name, why))

    return note


def _is_usable(name: str, plain: Plain, problems: list[tuple[str, str]]) -> bool:
    """Remove events that can't be recorded from a timeline, and note why. Return False if none is left."""
    if not isinstance(plain, Events) or not plain:
        return True
    reasons = [problem_of(event) for event in plain]
    bad = [reason for reason in reasons if reason]
    if bad:
        plain[:] = [event for event, reason in zip(plain, reasons, strict=True) if not reason]
        problems.append((name, f"{number_of(len(bad), 'timeline event')}: {bad[0]}"))
    for event in plain:
        if isinstance(event, dict):  # else a begin and its end could be recorded by different threads
            event.setdefault("tid", threading.main_thread().ident)
    return bool(plain)


def _outcome(pairs: list[tuple[str, Plain]], problems: list[str]) -> str:
    if not pairs:
        return _REFUSED + (problems[0] if problems else "it is empty")
    kinds = list(dict.fromkeys(_kind(plain) for _, plain in pairs))
    outcome = "recorded" if kinds == ["number"] else f"recorded as {' and '.join(kinds)}"
    return f"{outcome}, but for {problems[0]}" if problems else outcome


def _kind(plain: Plain) -> str:
    if isinstance(plain, str):
        return "text"
    if isinstance(plain, Events):
        return "timeline events"
    if not isinstance(plain, float):
        return "distribution"
    return "not finite" if isnan(plain) else "number"


async def _logged(call: Call, outcomes: dict[str, str], message: str) -> Answer:
    if not await call.gateway.run.confirmed(call.gateway.options.confirm_within_s):
        return Answer(202, Logged(status="pending", message=f"{message}; {_UNCONFIRMED}", outcomes=outcomes))
    # not another status for a part: Relax's client would not report the step then
    return Answer(200, Logged(status="success", message=message, outcomes=outcomes))


async def _check_open(run: RunLink, axis: str, step: int) -> None:
    """Raise Problem for a step so old that the run drops its values."""
    snapshot = run.snapshots.newest
    for stat in snapshot.axes if snapshot is not None else ():
        if stat.name == axis and stat.closed > limits.STEPS_KEPT and stat.newest is not None and step < stat.newest:
            state = await _step_state(run, axis, step)
            if state.state == "forgotten":
                raise Problem(
                    409,
                    f"step {step} was closed long ago: only the newest {limits.STEPS_KEPT} closed steps take "
                    "values",
                )


def _declare(axis: str) -> None:
    """Declare an axis whose steps close by a report. Raise Problem for an invalid name."""
    try:
        declare(axis)
    except InstrumentError as error:
        raise Problem(422, str(error), [FieldProblem(loc=["body", "axis"], msg=str(error))]) from None


# --- steps ---------------------------------------------------------------------------------------


async def report_step(call: Call) -> Answer:
    body: ReportStep = call.body
    run, options = call.gateway.run, call.gateway.options
    _declare(body.axis)
    before = await _step_state(run, body.axis, body.step)
    run.recording.end_step(body.step, axis=body.axis)
    waits = Waits(options.confirm_within_s, options.deliver_within_s if body.wait_s is None else body.wait_s)
    return await report(run, before, GetStep(axis=body.axis, step=body.step), waits)


async def query_metrics(call: Call) -> Answer:
    query: StepQuery = call.query
    run = call.gateway.run
    if query.step is not None:
        state = await _step_state(run, query.axis, query.step)
        if state.state not in ("open", "closed"):
            messages = {
                "unknown": f"there is no value of step {query.step}",
                "forgotten": f"step {query.step} was closed long ago; `telemetry report` and the backends have it",
            }
            raise Problem(404, messages[state.state])
        closed = state.state == "closed"
        metrics = metrics_of(state)
        message = f"{len(metrics)} metrics of step {query.step}, {'reported' if closed else 'not reported yet'}"
        return Answer(200, Metrics(message=message, metrics=metrics, step=query.step, reported=closed))
    status = await run.ask(
        GetStatus(), slow=True
    )  # a new snapshot: the newest published one may lack the last step
    if not isinstance(status, Status):
        raise Problem(503, "the aggregator answered with an unknown message")
    stat = next((axis for axis in status.snapshot.axes if axis.name == query.axis), None)
    newest = None if stat is None else stat.newest
    metrics = {} if stat is None else dict(stat.values)
    if newest is not None:
        metrics = {**metrics_of(await _step_state(run, query.axis, newest)), **metrics}
    message = f"the newest value of {len(metrics)} metrics"
    return Answer(200, Metrics(message=message, metrics=metrics, step=newest, reported=True))


async def clear_metrics(call: Call) -> Answer:
    body: ClearMetrics = call.body
    run = call.gateway.run
    what = "all steps that are not reported"
    if body.step is not None:
        state = await _step_state(run, body.axis, body.step)
        if state.state in ("closed", "forgotten"):
            raise Problem(409, f"step {body.step} was reported already, so it can't be cleared")
        what = f"{len(metrics_of(state))} metrics of step {body.step}"
    run.recording.clear_step(body.step, axis=body.axis)
    if not await run.confirmed(call.gateway.options.confirm_within_s):
        return Answer(
            202, Done(status="pending", message=f"{what} will be cleared; the run has not confirmed it yet")
        )
    return Answer(200, Done(message=f"Metrics cleared: {what}"))


async def _step_state(run: RunLink, axis: str, step: int) -> StepState:
    answer = await run.ask(GetStep(axis=axis, step=step))
    if not isinstance(answer, StepState):
        raise Problem(503, "the aggregator answered with an unknown message")
    return answer


# --- the rest ------------------------------------------------------------------------------------


async def health(call: Call) -> Answer:
    run = call.gateway.run
    run.check_room()
    snapshot = run.snapshots.newest
    stats = snapshot.backends if snapshot is not None else []
    adapters, has_wandb = names_of(stats)
    health = Health(adapters=adapters, wandb_enabled=has_wandb, backends={stat.name: stat.state for stat in stats})
    return Answer(200, health)


async def log_error(call: Call) -> Answer:
    body: LogError = call.body
    run = call.gateway.run
    run.recording.mark(body.error_message, labels={"level": "error", "source": "log_error"})
    if body.error_traceback:
        run.recording.text("error", body.error_traceback[-limits.TEXT_CHARS :])  # its end says what happened
    if not await run.confirmed(call.gateway.options.confirm_within_s):
        return Answer(
            202, Done(status="pending", message="the error is accepted; the run has not confirmed it yet")
        )
    return Answer(200, Done(message="the error is recorded as a mark of the run"))


def _both(
    method: Method,
    name: str,
    handler: Handler,
    summary: str,
    answers: dict[int, Any],
    *,
    body: type[Struct] | None = None,
    query: type[Struct] | None = None,
    writes: bool = False,
) -> tuple[Endpoint, Endpoint]:
    """Return an endpoint below `/metrics` and its bare variant, for an application that is mounted there."""
    return (
        Endpoint(method, f"/metrics/{name}", handler, summary, answers, body=body, query=query, writes=writes),
        Endpoint(method, f"/{name}", handler, summary, answers, body=body, query=query, writes=writes),
    )


_LOGGED: Final[dict[int, Any]] = {200: Logged, 202: Logged, 409: Failure}
_DONE: Final[dict[int, Any]] = {200: Done, 202: Done}

ENDPOINTS: Final = (
    *_both("POST", "log_metric", log_metric, "Log a value of a step", _LOGGED, body=LogMetric, writes=True),
    *_both(
        "POST",
        "log_metrics_batch",
        log_metrics_batch,
        "Log values of a step",
        _LOGGED,
        body=LogMetricsBatch,
        writes=True,
    ),
    *_both(
        "POST",
        "report_step",
        report_step,
        "Report a step to all backends",
        {200: StepReport, 202: StepReport, 502: StepReport},
        body=ReportStep,
        writes=True,
    ),
    *_both(
        "POST",
        "clear_metrics",
        clear_metrics,
        "Forget values that are not reported",
        {**_DONE, 409: Failure},
        body=ClearMetrics,
        writes=True,
    ),
    *_both("POST", "log_error", log_error, "Record an error", _DONE, body=LogError, writes=True),
    *_both("GET", "health", health, "Return the state of the service", {200: Health, 410: Failure, 503: Failure}),
    *_both(
        "GET",
        "query_metrics",
        query_metrics,
        "Return values of a step",
        {200: Metrics, 404: Failure, 503: Failure},
        query=StepQuery,
    ),
)
