"""Control channel: one handler per request type. Handlers never block; file reads go to the worker."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Final

from msgspec import Raw
from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator import Aggregator
from telemetry.daemon.components import DaemonParts
from telemetry.daemon.input import Ingress
from telemetry.daemon.node_search import SearchChannel
from telemetry.daemon.process_watch import exists
from telemetry.daemon.run_status import RunStatus
from telemetry.daemon.write_ahead import no_more_nodes, no_room
from telemetry.store.history import HistoryReader
from telemetry.store.records import RecordLog
from telemetry.wire import control as msg
from telemetry.wire.codec import Malformed, control_head, decode_request, encode_control, encode_interval
from telemetry.wire.control import Error, Noted, Response
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.nodes import Found, Search
from telemetry.wire.snapshot import MetricsSnapshot, State
from telemetry.wire.version import PROTOCOL, SAYS_UNFINISHED, may_talk

_LOG = logging.getLogger("telemetry.daemon")
_MESSAGES_A_TURN: Final = 256
_RESEND_PERIOD_NS: Final = 300_000_000  # a resent batch needs a flush period and a turn to arrive
_RANGES_ASKED: Final = 16
_LATE_NS: Final = int(limits.LATE_AFTER_S * 1e9)


class Control:
    """The aggregator's side of the control channel."""

    def __init__(
        self,
        parts: DaemonParts,
        run_status: RunStatus,
        snapshot: Callable[[], MetricsSnapshot],
        ingress: Ingress,
        *,
        catch_up: Callable[[], None],
    ) -> None:
        """Prepare the handlers.

        `snapshot` makes a snapshot of all applied events. `catch_up` applies the events that have arrived.
        """
        self._hub = parts.hub
        self._numbers = parts.numbers
        self._process_watch = parts.process_watch
        self._clock = parts.clock
        self._run_status = run_status
        self._snapshot = snapshot
        self._catch_up = catch_up
        self._ingress = ingress
        self._peers: dict[str, bytes] = {}
        """Producers that sent hello → peers that get their acknowledgements and resend requests."""
        self.leaves = LeafPeers(parts.worker.wake, self._reply)
        self._disk_reads = DiskReads(parts, self._reply)
        self._owed: dict[tuple[bytes, type, int], msg.End | msg.Barrier] = {}
        """(peer, kind, id) → request that is answered once its batches are applied.

        A repeated request gets one answer.
        """
        self._closed = False
        self._bytes = 0
        """Bytes received and sent in this turn."""
        self._now: MetricsSnapshot | None = None
        """Snapshot made in this turn, shared by all status requests."""
        self._asked_ns: dict[str, int] = {}
        self._older: set[str] = set()
        """Producers whose protocol version has no flag for an `end` forced by the end of the run."""
        self._handlers: dict[type, Callable[[bytes, Any], None]] = {
            msg.Hello: self._hello,
            msg.Ping: self._ping,
            msg.End: self._end,
            msg.CannotResend: self._cannot_resend,
            msg.Barrier: self._barrier,
            msg.GetStatus: self._status,
            msg.GetHistory: self._history,
            msg.Catchup: self._disk_reads.records,
            msg.Stop: self._stop,
            msg.Watch: self._watch,
            msg.TellBackend: self._backend,
            msg.GetStep: self._step,
            Found: self._found,
            msg.ExpectNodes: self._nodes,
            msg.GetMembers: self._members,
        }

    @property
    def _aggregator(self) -> Aggregator:
        """Current aggregator. A replay may replace it."""
        return self._numbers.aggregator

    @property
    def owed(self) -> int:
        """Number of requests that wait for batches."""
        return len(self._owed)

    @property
    def peers(self) -> int:
        """Number of producers that sent hello."""
        return len(self._peers)

    def turn(self) -> None:
        """Answer waiting requests, up to a bound of messages and of bytes in both directions."""
        self._now, self._bytes = None, 0
        for _ in range(_MESSAGES_A_TURN):
            received = self._hub.receive_control(1)
            if not received:
                return
            [(peer, data)] = received
            self._bytes += len(data)
            self._take(peer, data)
            if self._bytes >= limits.TURN_BYTES:
                return

    def settle(self) -> None:
        """Answer `end` and `barrier` requests whose batches were applied."""
        self._owed = {key: request for key, request in self._owed.items() if not self._settled(key[0], request)}

    def give_up(self) -> None:
        """Answer all waiting requests with the current account. No batch will follow.

        Later requests are answered in the same way.
        """
        self._closed = True
        self.settle()

    def acknowledge(self) -> None:
        """Tell producers which batches they may forget."""
        for producer, _ in self._aggregator.book.acknowledgements():
            peer = self._peers.get(producer)
            if peer is not None:
                self._acknowledge(peer, producer)

    def ask_for_missing(self, now_ns: int) -> None:
        """Request missing batches of each active producer, at most every 300 ms."""
        if self._closed:
            return
        for producer, peer in self._peers.items():
            gaps = self._aggregator.book.gaps(producer)
            if not gaps or now_ns - self._asked_ns.get(producer, 0) < _RESEND_PERIOD_NS:
                continue
            if now_ns - self._aggregator.book[producer].last_seen_ns > _LATE_NS:
                continue
            self._asked_ns[producer] = now_ns
            for first, last in gaps[:_RANGES_ASKED]:
                self._reply(peer, msg.Resend(first=first, last=last))

    def announce_state(self) -> None:
        """Send the state to every producer. A producer that receives DRAINING flushes and ends."""
        for peer in self._peers.values():
            self._reply(peer, self._pong(echo_ns=0))

    # --- handlers --------------------------------------------------------------------------------

    def _take(self, peer: bytes, data: bytes) -> None:
        try:
            request = decode_request(data)
        except Malformed as malformed:
            # for an oversized frame, the search for its id would cost too much
            request_id = 0 if malformed.reason is Reason.FRAME_TOO_LARGE else control_head(data).id
            code = "wrong_version" if malformed.reason is Reason.WRONG_VERSION else "unknown_message"
            self._reply(
                peer, msg.Error(code=code, message=f"the request could not be read: {malformed}"), request_id
            )
            return
        if isinstance(request, msg.GetStep) or (isinstance(request, msg.GetStatus) and self._now is None):
            frames = self._numbers.frames
            self._catch_up()  # errors of the numbers do not concern this request
            if self._numbers.frames != frames:
                self._now = None
        try:
            self._handlers[type(request)](peer, request)
        except Exception as error:  # noqa: BLE001 – one request must not end the run; reported in the snapshot
            _LOG.exception("%s could not be answered", type(request).__name__)
            self._run_status.warn([f"the request failed, {type(request).__name__}: {error!r}"])
            self._reply(
                peer, msg.Error(code="unavailable", message="the aggregator failed to handle it"), request.id
            )

    def _hello(self, peer: bytes, hello: msg.Hello) -> None:
        if not may_talk(hello.version):
            theirs, ours = (".".join(map(str, version)) for version in (hello.version, PROTOCOL))
            text = f"this aggregator speaks protocol {ours}, not {theirs}"
            self._reply(peer, msg.Error(code="wrong_version", message=text), hello.id)
            return
        if hello.producer:
            refusal = "the run is over" if self._comes_too_late(hello) else self._ingress.hello(hello)
            if refusal:
                code: msg.ErrorCode = "no_room" if refusal in {no_room(), no_more_nodes()} else "refused"
                self._reply(peer, msg.Error(code=code, message=refusal), hello.id)
                return
            self._peers[hello.producer] = peer
            if hello.node:
                self.leaves.meet(hello.producer, peer)
            if hello.version < SAYS_UNFINISHED:
                self._older.add(hello.producer)
        endpoints, now_ns = self._hub.endpoints, self._clock.monotonic_ns()
        welcome = msg.Welcome(
            run_id=self._run_status.run_id,
            name=self._run_status.name,
            epoch=self._run_status.epoch,
            state=self._run_status.lifecycle.state,
            events=endpoints.events,
            snapshots=endpoints.snapshots,
            records=endpoints.records,
            directory=self._run_status.directory,
            refresh_hz=self._run_status.refresh_hz,
            mono_ns=now_ns,
            wall_ns=self._numbers.wall_ns(now_ns),
            echo_ns=hello.mono_ns,
        )
        self._reply(peer, welcome, hello.id)
        if hello.producer:
            self._acknowledge(peer, hello.producer)

    def _comes_too_late(self, hello: msg.Hello) -> bool:
        """Check whether a producer introduces itself after the books are closed.

        Its events would be in no account.
        """
        return self._closed and self._aggregator.book.get(hello.producer) is None

    def _ping(self, peer: bytes, ping: msg.Ping) -> None:
        self._ingress.ping(ping.producer)
        self._reply(peer, self._pong(ping.mono_ns), ping.id)
        if self._peers.get(ping.producer) == peer:  # the last one may have been lost, and no other may follow
            self._acknowledge(peer, ping.producer)

    def _end(self, peer: bytes, end: msg.End) -> None:
        if end.producer in self._older and self._run_status.ending:
            end = replace(end, unfinished=True)  # this version can't tell, and only verified ends count as complete
        refusal = self._ingress.end(end)
        if refusal:
            self._reply(peer, msg.Error(code="refused", message=refusal), end.id)
        else:
            self._owe(peer, end)

    def _cannot_resend(self, _peer: bytes, message: msg.CannotResend) -> None:
        self._ingress.cannot_resend(message)

    def _barrier(self, peer: bytes, barrier: msg.Barrier) -> None:
        self._owe(peer, barrier)

    def _owe(self, peer: bytes, request: msg.End | msg.Barrier) -> None:
        if self._settled(peer, request):
            return
        key = (peer, type(request), request.id)
        if key not in self._owed and len(self._owed) >= limits.CONTROL_OWED:
            self._reply(peer, msg.Error(code="refused", message="too many requests are waiting"), request.id)
            return
        self._owed[key] = request

    def _settled(self, peer: bytes, request: msg.End | msg.Barrier) -> bool:
        answer = self._account(request) if isinstance(request, msg.End) else self._reached(request)
        if answer is None:
            return False
        self._reply(peer, answer, request.id)
        if isinstance(request, msg.End):  # no more pushes to it; a repeated end is still answered
            self._acknowledge(peer, request.producer)
            self._peers.pop(request.producer, None)
            self._asked_ns.pop(request.producer, None)
        return True

    def _account(self, end: msg.End) -> msg.Response | None:
        ended = self._aggregator.book.ended(end.producer)
        return self._aggregator.book.account(end.producer) if ended is None and self._closed else ended

    def _reached(self, barrier: msg.Barrier) -> msg.Response | None:
        applied = self._aggregator.book.applied_batches(barrier.producer)
        if applied >= barrier.batches:
            dropped, given_up = self._aggregator.book.losses(barrier.producer)
            return msg.BarrierReached(batches=applied, dropped=dropped, given_up=given_up)
        return msg.Error(code="unavailable", message="the run is over") if self._closed else None

    def _status(self, peer: bytes, request: msg.GetStatus) -> None:
        """Answer with a new snapshot of all applied events, or with the result if the run is over."""
        self._now = self._now or self._snapshot()
        self._reply(peer, msg.Status(snapshot=self._now), request.id)

    def _step(self, peer: bytes, request: msg.GetStep) -> None:
        """Answer with the state of a step. `run.records` counts the records of all closed steps."""
        records = self._numbers.run.records
        backends = self._run_status.backend_stats(self._clock.monotonic_ns(), records)
        step_state = self._aggregator.steps.state(request.axis, request.step)
        self._reply(peer, replace(step_state, next_record=records, backends=backends), request.id)

    def _stop(self, peer: bytes, stop: msg.Stop) -> None:
        self._run_status.end(stop.reason, interrupted=stop.interrupted, command=stop.command)
        self._reply(peer, msg.Stopping(state=self._run_status.lifecycle.state), stop.id)

    def _watch(self, peer: bytes, watch: msg.Watch) -> None:
        answer: msg.Response = msg.Watching(pid=watch.pid)
        if not exists(watch.pid):
            message = f"no process {watch.pid} runs on the aggregator's host; name one that runs"
            answer = msg.Error(code="refused", message=message)
        elif not self._process_watch.watch(watch.pid):
            answer = msg.Error(code="refused", message="too many processes are watched")
        else:
            self._ingress.watch(watch)
        self._reply(peer, answer, watch.id)

    def _nodes(self, peer: bytes, note: msg.ExpectNodes) -> None:
        """Add nodes that belong to the run. They are in the journal before the answer."""
        refusal = "the run is over" if self._closed else self._ingress.expect_nodes(note)
        noted = msg.Noted(state=self._run_status.lifecycle.state)
        self._reply(peer, msg.Error(code="refused", message=refusal) if refusal else noted, note.id)

    def _members(self, peer: bytes, request: msg.GetMembers) -> None:
        members = self._aggregator.root.members(request.node)
        if members is None:
            unknown = f"this run has no node {request.node!r}; `telemetry nodes` lists its nodes"
            self._reply(peer, msg.Error(code="refused", message=unknown), request.id)
        else:
            self._reply(peer, msg.Members(members=members), request.id)

    def _backend(self, peer: bytes, report: msg.TellBackend) -> None:
        if self._run_status.tell(report.stat, self._clock.monotonic_ns()):
            if not self._closed:
                self._ingress.tell_backend(report.stat)
            self._reply(peer, msg.Noted(state=self._run_status.lifecycle.state), report.id)
        else:
            self._reply(peer, msg.Error(code="refused", message="too many backends"), report.id)

    def _found(self, peer: bytes, leaf_answer: Found) -> None:
        self._reply(peer, self.leaves.answer(peer, leaf_answer, self._run_status.lifecycle.state), leaf_answer.id)

    def _history(self, peer: bytes, request: msg.GetHistory) -> None:
        keys = self._aggregator.keys() if request.start_ns == 0 else []
        self._disk_reads.history(peer, request, keys)

    # --- answers ---------------------------------------------------------------------------------

    def _acknowledge(self, peer: bytes, producer: str) -> None:
        batches = self._aggregator.book.applied_batches(producer)
        if batches:
            self._reply(peer, msg.Ack(epoch=self._run_status.epoch, batches=batches))

    def _pong(self, echo_ns: int) -> msg.Pong:
        now_ns = self._clock.monotonic_ns()
        return msg.Pong(
            epoch=self._run_status.epoch,
            state=self._run_status.lifecycle.state,
            mono_ns=now_ns,
            echo_ns=echo_ns,
            drain_s=self._run_status.drain_left_s(now_ns),
        )

    def _reply(self, peer: bytes, response: msg.Response, request_id: int = 0) -> None:
        data = encode_control(replace(response, id=request_id))
        self._bytes += len(data)
        self._hub.send_control(peer, data)


class DiskReads:
    """A bounded number of reads that wait for the worker. `reply` is called once for each, on the loop's thread."""

    def __init__(self, parts: DaemonParts, reply: Callable[[bytes, msg.Response, int], object]) -> None:
        self._worker = parts.worker
        self._reply = reply
        self._past = HistoryReader(parts.directory.history)
        """Reader of the history. Only the worker uses it, for one query after the other."""
        self._records = parts.records
        self._waiting = 0
        """Number of answers that the worker still owes."""

    def records(self, peer: bytes, request: msg.Catchup) -> None:
        """Answer with records of the run."""
        self._answer(peer, request.id, lambda: read_records(self._records, request.from_seq))

    def history(self, peer: bytes, request: msg.GetHistory, keys: list[msg.SeriesKey]) -> None:
        """Answer with intervals of the history, and these keys."""
        self._answer(peer, request.id, lambda: read_history(self._past, request, keys))

    def _answer(self, peer: bytes, request_id: int, read: Callable[[], msg.Response]) -> None:
        def done(answer: msg.Response | None, error: Exception | None) -> None:
            self._waiting -= 1
            failed = msg.Error(code="unavailable", message=f"could not be read: {error}")
            self._reply(peer, failed if answer is None else answer, request_id)

        if self._waiting < limits.CONTROL_READS and self._worker.submit(read, done):
            self._waiting += 1
        else:
            self._reply(peer, msg.Error(code="unavailable", message="the disk is far behind"), request_id)


def read_records(log: RecordLog, from_seq: int) -> msg.CaughtUp:
    """Return as many records as fit into one reply, and the next sequence number."""
    records = log.read(from_seq, limits.CATCHUP_RECORDS, limits.CATCHUP_REPLY_BYTES)
    following = records[-1].seq + 1 if records else from_seq
    return msg.CaughtUp(records=records, next_seq=following, last_seq=log.next_seq - 1)


def read_history(reader: HistoryReader, request: msg.GetHistory, keys: list[msg.SeriesKey]) -> msg.History:
    """Return as many intervals as fit into one reply, and the start time of the next one."""
    intervals: list[Raw] = []
    size = 0
    if request.slices:
        candidates = reader.fine(request.start_ns, request.end_ns)
    else:
        candidates = reader.intervals(request.start_ns, request.end_ns, request.level_s)
    for interval in candidates:
        raw = encode_interval(interval)
        if intervals and size + len(raw) > limits.HISTORY_REPLY_BYTES:
            return msg.History(keys=keys, intervals=intervals, next_ns=interval.start_ns)
        intervals.append(Raw(raw))
        size += len(raw)
    return msg.History(keys=keys, intervals=intervals)


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

    def answer(self, peer: bytes, leaf_answer: Found, state: State) -> Response:
        """Hand an answer of a leaf to the search. Return the response to the leaf."""
        if self._peers.get(leaf_answer.producer) != peer:
            return Error(code="refused", message="only a leaf that said hello may answer a search")
        if self.searches.deliver(leaf_answer):
            return Noted(state=state)
        return Error(code="unavailable", message="too many answers are waiting: send it again")
