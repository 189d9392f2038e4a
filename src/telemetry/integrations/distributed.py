"""Capture of torch.distributed: work and wait of each rank in each step, and traffic by process group.

Waits are taken where a thread blocks on the CPU, below the functions of torch.distributed: at the process group
and its works. FSDP, DeepSpeed and Megatron use these, too. DistributedDataParallel reduces gradients in C++: its
wait is the time from the last gradient of a backward pass to its end.

Functions that torch.compile traces are not replaced. A step ends with the step of an optimizer.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary, ref

from telemetry.client import module_level as telemetry
from telemetry.client import user_warnings
from telemetry.client.identity import host_name
from telemetry.client.process import PROCESS
from telemetry.client.signal_safe import LivingObjects, Locked
from telemetry.client.stragglers import groups_of_environment
from telemetry.common.formatting import number_of
from telemetry.integrations.capture.captures import Capture
from telemetry.integrations.capture.patching import Function, Layer, Observers, Patch
from telemetry.wire.stragglers import WAIT, WORK

AXIS: Final = "optimizer"
"""Axis of the steps. It is no axis of the program: often only rank 0 logs, with a count of its own."""
WAITS: Final = "distributed/*"
"""Names of the waits, for declarations of the program: `distributed/GROUP/CALL`."""
_NS_PER_MS: Final = 1e6
_GROUPS: Final = 32  # names of groups; a job has one name for each kind of group
_FOREIGN_STEPS: Final = 1_000  # of other optimizers, after which the one that ended the steps is taken for finished
_EVENTS: Final = 10_000  # that wait to be recorded
_BATCH_NS: Final = 500_000_000
"""Steps within this time are recorded together. Code that runs once in 50 ms finds cold caches and takes five times
as long.
"""
_TRAFFIC_NS: Final = 1_000_000_000
_CALLS: Final = {
    "allreduce": ("all_reduce", 0),
    "allreduce_coalesced": ("all_reduce", 0),
    "reduce": ("reduce", 0),
    "broadcast": ("broadcast", 0),
    "allgather": ("all_gather", 0),
    "_allgather_base": ("all_gather", 0),
    "all_gather_single": ("all_gather", 0),
    "allgather_coalesced": ("all_gather", 0),
    "all_gather_single_coalesced": ("all_gather", 0),
    "allgather_into_tensor_coalesced": ("all_gather", 0),
    "gather": ("gather", None),
    "scatter": ("scatter", None),
    "reduce_scatter": ("reduce_scatter", 1),
    "_reduce_scatter_base": ("reduce_scatter", 1),
    "reduce_scatter_single": ("reduce_scatter", 1),
    "reduce_scatter_single_coalesced": ("reduce_scatter", 1),
    "reduce_scatter_tensor_coalesced": ("reduce_scatter", 1),
    "alltoall": ("all_to_all", 0),
    "alltoall_base": ("all_to_all", 0),
    "all_to_all_single": ("all_to_all", 0),
    "send": ("send", 0),
    "recv": ("recv", 0),
    "recv_anysource": ("recv", 0),
    "barrier": ("barrier", None),
}
"""Methods of ProcessGroup that return a work → name of the call, and its larger argument: output or input.

None: it differs between ranks, or there is none. Releases of torch have some of these methods.
"""
_SHORT: Final = {
    "default_pg": "world",
    "pipeline_model_parallel": "pp",
    "tensor_model_parallel": "tp",
    "data_parallel": "dp",
    "context_parallel": "cp",
    "expert_model_parallel": "ep",
    "sequence_parallel": "sp",
}
"""Names of Megatron, DeepSpeed and torch → short names."""
_DIMENSIONS: Final = frozenset(
    ("pp", "tp", "dp", "cp", "ep", "sp", "fsdp", "ddp", "dp_replicate", "dp_shard", "replicate", "shard")
)
"""Groups whose members are counted along one dimension of a mesh. Others combine several dimensions."""
_PARALLEL_STATES: Final = ("megatron.core.parallel_state", "deepspeed.utils.groups")
"""Modules whose variables `…_GROUP` hold process groups."""

_LISTS: Final = frozenset((list, tuple))
_now: Final = time.monotonic_ns
_OBSERVERS: Final = Observers("torch.distributed")
_report: Final = _OBSERVERS.report


Span = tuple[int, int]


class _Channel:
    """The calls of one kind in one group since they were recorded last."""

    __slots__ = ("bytes", "calls", "name", "wait_ns")

    def __init__(self, group: str, call: str) -> None:
        self.name = f"distributed/{group}/{call}"
        self.calls = self.bytes = self.wait_ns = 0


class Loop(Locked):
    """The training loop of this process: its steps, their waits, and what it sends.

    Threads of the program append events, which cost them little. From time to time one of them records these.
    """

    def __init__(self) -> None:
        super().__init__()
        self.events: deque[tuple[Any, ...]] = deque()
        """Methods `on_…` of this object and their arguments, in the order in which the calls ended."""
        self.models: LivingObjects[Any] = LivingObjects()
        """Models of DistributedDataParallel on the CPU."""
        self._gradient_bytes: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self.names: dict[int, str] = {}
        """Names of living groups by the id of the group."""
        self._groups: dict[int, Any] = {}
        """Weak references to these groups. They end their names."""
        self._channels: dict[tuple[str, str], _Channel] = {}
        self._works: dict[int, _Channel] = {}
        """Calls that nothing has waited for yet, by the id of their work."""
        self._waits: deque[Span] = deque(maxlen=_EVENTS)
        """Waits in this step."""
        self._spent: dict[str, int] = {}
        """Time in this step by what it is spent on, in ns, without the waits inside."""
        self._step = 0
        self._begun_ns: int | None = None
        """Begin of this step; None for the first one."""
        self._attached = -1
        self._has_devices = False
        self._sees_backward = self._had_backward = False
        self._leader: Callable[[], Any] = lambda: None
        """The optimizer whose steps end the steps. A program may have several."""
        self._foreign_steps = 0
        self._recorded_ns = self._traffic_ns = 0

    def renew_lock(self) -> None:
        """Replace the lock in a forked child, such as a worker of a DataLoader. The events are its parent's."""
        super().renew_lock()
        self.events.clear()
        self._channels.clear()

    # --- in the calls of the program -------------------------------------------------------------

    def name(self, group: Any) -> str:
        """Return the name of a group."""
        known = self.names.get(id(group))
        if known is not None:
            return known
        name, names = group_name(group), set(self.names.values())
        if name not in names and len(names) >= _GROUPS:
            name = "other"
        key = id(group)
        self._groups[key] = ref(group, lambda _: self.names.pop(key, None))
        self.names[key] = name
        return name

    def gradient_bytes(self, model: Any) -> int:
        """Return the bytes of the gradients of a model."""
        size = self._gradient_bytes.get(model)
        if size is None:
            size = _size([each for each in model.parameters() if each.requires_grad])
            self._gradient_bytes[model] = size
        return size

    def end_backward(self) -> None:
        """Register that a backward pass is over: the next step of an optimizer is a new one."""
        self._sees_backward = self._had_backward = True

    def ends_step(self, optimizer: Any) -> bool:
        """Return whether a step ends: this optimizer ends steps, and it is its first one since a backward pass."""
        if self._leader() is optimizer:
            self._foreign_steps = 0
        elif self._leader() is None or self._foreign_steps >= _FOREIGN_STEPS:
            self._leader, self._foreign_steps = ref(optimizer), 0
        else:
            self._foreign_steps += 1
            return False
        is_new = self._had_backward or not self._sees_backward
        self._had_backward = False
        return is_new

    def record_if_due(self, now_ns: int) -> None:
        """Record the events if the last time is long ago, or if the program counts steps itself."""
        if now_ns - self._recorded_ns > _BATCH_NS or PROCESS.step_waits:
            self.record(now_ns)

    def record(self, now_ns: int, *, is_last: bool = False) -> None:
        """Record all events, and each second what they say about traffic."""
        with self._lock:
            self._recorded_ns = now_ns
            while self.events:
                observe, *arguments = self.events.popleft()
                observe(*arguments)
            if is_last or now_ns - self._traffic_ns > _TRAFFIC_NS:
                self._traffic_ns = now_ns
                self._record_traffic()

    # --- later: the events -----------------------------------------------------------------------

    def on_issue(self, work_id: int, group: str, call: str, size: int, is_on_host: bool) -> None:
        """Count a call, and remember its work: a thread may wait for it."""
        channel = self._channels.get((group, call)) or self._add_channel(group, call)
        channel.calls += 1
        channel.bytes += size
        if is_on_host:
            self._works[work_id] = channel
            if len(self._works) > _EVENTS:
                self._works.clear()
        else:
            self._works.pop(work_id, None)
            self._see_device()

    def on_wait(self, work_id: int, start_ns: int, end_ns: int) -> None:
        """Add the wait for the work of a call."""
        channel = self._works.pop(work_id, None)
        if channel is None or self._has_devices:
            return
        channel.wait_ns += end_ns - start_ns
        self._waits.append((start_ns, end_ns))
        for each in PROCESS.step_waits:
            each.span(channel.name, start_ns, end_ns)

    def on_block(self, group: str, call: str, size: int, is_on_host: bool, span: Span) -> None:
        """Count a call that blocked until it was done."""
        self.on_issue(0, group, call, size, is_on_host)
        self.on_wait(0, *span)

    def on_spent(self, name: str, start_ns: int, end_ns: int) -> None:
        """Add time of this step, without the waits inside."""
        waits = ((max(start, start_ns), min(end, end_ns)) for start, end in reversed(self._waits))
        wait_ns = sum(end - start for start, end in waits if start < end)
        self._spent[name] = self._spent.get(name, 0) + end_ns - start_ns - wait_ns

    def on_step(self, now_ns: int) -> None:
        """Record the step that has ended."""
        step, self._step = self._step, self._step + 1
        begun_ns, self._begun_ns = self._begun_ns, now_ns
        waits = list(self._waits)
        self._waits.clear()
        spent, self._spent = self._spent, {}
        values = {name: each / 1e9 for name, each in spent.items()}
        if waits and begun_ns is not None:
            wait_ns = covered_ns(waits, begun_ns, now_ns)
            values |= {WORK: (now_ns - begun_ns - wait_ns) / 1e9, WAIT: wait_ns / 1e9}
        if self._attached != PROCESS.attached or not step:
            groups = {"node": host_name(), **coordinates(), **groups_of_environment()}
            telemetry.axis(AXIS, ranked=(WORK, WAIT), groups=groups)
            self._attached = PROCESS.attached
        telemetry.log(values, step=step, axis=AXIS, at_ns=now_ns)
        telemetry.end_step(step, axis=AXIS, at_ns=now_ns)

    def _add_channel(self, group: str, call: str) -> _Channel:
        channel = self._channels[group, call] = _Channel(group, call)
        return channel

    def _see_device(self) -> None:
        if not self._has_devices:
            self._has_devices = True
            if os.environ.get("RANK", "0") == "0":
                user_warnings.warn(
                    "torch.distributed: no rank can be named as slow, because collective calls of a GPU don't "
                    "block the program, and their waits are not measured. Calls and bytes are counted"
                )

    def _record_traffic(self) -> None:
        for (group, call), channel in self._channels.items():
            labels = {"group": group, "call": call}
            for name, unit, value in (
                ("calls", "calls", channel.calls),
                ("bytes", "B", channel.bytes),
                ("wait", "ms", channel.wait_ns / _NS_PER_MS),
            ):
                if value:
                    telemetry.counter(f"distributed.{name}", unit, labels=labels).add(value)
            channel.calls = channel.bytes = channel.wait_ns = 0


def group_name(group: Any) -> str:
    """Return the name of a kind of group: the ranks of a job have many groups `dp`, each has one of them."""
    name = str(getattr(group, "group_desc", "") or "undefined").removeprefix("mesh_")
    if name == "undefined":
        name = _name_in_parallel_state(group) or number_of(group.size(), "rank")
    name = name.lower().strip("_").removesuffix("_group")
    return _SHORT.get(name, name)


def _name_in_parallel_state(group: Any) -> str:
    """Return the name of the variable of Megatron or DeepSpeed that holds this group."""
    for module in _PARALLEL_STATES:
        for name, value in list(vars(sys.modules.get(module, object)).items()):
            if value is group and name.endswith("_GROUP"):
                return name
    return ""


def coordinates() -> dict[str, int]:
    """Return where this process is in the dimensions of its job, such as `{"pp": 3, "dp": 5}`.

    They are its ranks in the groups that Megatron, DeepSpeed or a DeviceMesh has made.
    """
    world = getattr(sys.modules.get("torch.distributed.distributed_c10d"), "_world", None)
    names = {group: group_name(group) for group in list(getattr(world, "pg_map", ()))}
    return {name: group.rank() for group, name in names.items() if name in _DIMENSIONS and group.size() > 1}


def covered_ns(spans: Iterable[Span], begun_ns: int, end_ns: int) -> int:
    """Return how much of a time range spans cover. Spans of several threads may overlap."""
    covered, until = 0, begun_ns
    for start, end in sorted(spans):
        covered += max(0, min(end, end_ns) - max(start, until))
        until = max(until, end)
    return covered


def _size(value: Any) -> int:
    """Return the bytes of a tensor, or of all tensors in nested lists."""
    if type(value) in _LISTS:
        return sum(map(_size, value))
    size = getattr(value, "nbytes", 0)
    return size if type(size) is int else 0


def _is_on_host(value: Any) -> bool:
    """Return whether a thread waits for a call with this first argument. A barrier has only options."""
    while type(value) in _LISTS:
        if not value:
            return True
        value = value[0]
    is_cpu = getattr(value, "is_cpu", None)
    if is_cpu is None:
        device = getattr(value, "device", None)
        return device is None or device.type == "cpu"
    return bool(is_cpu)


_LOOP: Final = Loop()
_append: Final = _LOOP.events.append
_ON_ISSUE: Final = _LOOP.on_issue
_ON_WAIT: Final = _LOOP.on_wait
_ON_BLOCK: Final = _LOOP.on_block
_ON_SPENT: Final = _LOOP.on_spent
_ON_STEP: Final = _LOOP.on_step
PROCESS.before_finish.append(lambda: _OBSERVERS.run("the last calls", _LOOP.record, _now(), is_last=True))


class _Local(threading.local):
    """State of the thread."""

    is_in_backward = False
    optimizer_begun_ns = 0


_LOCAL: Final = _Local()


def _issues(call: str, larger: int | None) -> Callable[[Function, Layer], Function]:
    """Wrap a method of ProcessGroup that returns a work. What it does is written out here: calls are what costs."""

    def wrap(original: Function, layer: Layer) -> Function:
        append, names = _LOOP.events.append, _LOOP.names

        def issue(group: Any, *args: Any, **kwargs: Any) -> Any:
            work = original(group, *args, **kwargs)
            if layer.active:
                try:
                    name = names.get(id(group)) or _LOOP.name(group)
                    if larger is None or kwargs:
                        values = (*args, *kwargs.values())
                        append((_ON_ISSUE, id(work), name, call, max(map(_size, values)), _is_on_host(values[0])))
                    else:
                        value = args[larger]
                        if type(value) is list and len(value) == 1:
                            [value] = value
                        if type(value) is list:
                            append((_ON_ISSUE, id(work), name, call, _size(value), _is_on_host(value)))
                        else:
                            append((_ON_ISSUE, id(work), name, call, value.nbytes, value.is_cpu))
                except Exception as error:  # noqa: BLE001 – a fault of the capture must not reach the program
                    _report(f"ProcessGroup, {call}", error)
            return work

        return issue

    return wrap


def _waits(original: Function, layer: Layer) -> Function:
    """Wrap `Work.wait`."""
    append, now, events, process = _LOOP.events.append, time.monotonic_ns, _LOOP.events, PROCESS

    def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
        start_ns = now()
        result = original(work, *args, **kwargs)
        if layer.active:
            append((_ON_WAIT, id(work), start_ns, now()))
            if len(events) > _EVENTS or process.step_waits:
                _OBSERVERS.run("Work.wait", _LOOP.record, now())
        return result

    return wait


def _blocks(call: str) -> Callable[[Function], Function]:
    """Wrap a function that gets a process group, and perhaps tensors, and blocks."""

    def wrap(original: Function) -> Function:
        def block(group: Any, *args: Any, **kwargs: Any) -> Any:
            start_ns = _now()
            result = original(group, *args, **kwargs)
            end_ns = _now()
            try:
                tensors = args[0] if args and type(args[0]) in _LISTS else []
                name = _LOOP.name(group)
                _append((_ON_BLOCK, name, call, _size(tensors), _is_on_host(tensors), (start_ns, end_ns)))
            except Exception as error:  # noqa: BLE001 – a fault of the capture must not reach the program
                _report(f"ProcessGroup, {call}", error)
            return result

        return block

    return wrap


def _waits_for_tensor(original: Function) -> Function:
    """Wrap a method of AsyncCollectiveTensor that waits for its tensor, which does not know its group."""

    def wait(tensor: Any) -> Any:
        if getattr(tensor, "completed", True):
            return original(tensor)
        start_ns = _now()
        result = original(tensor)
        end_ns = _now()
        try:
            _append((_ON_BLOCK, "functional", "wait", _size(result), _is_on_host(result), (start_ns, end_ns)))
        except Exception as error:  # noqa: BLE001 – a fault of the capture must not reach the program
            _report("wait_tensor", error)
        return result

    return wait


class _Pass:
    """A backward pass. With DistributedDataParallel, it ends with the wait for the gradients of the other ranks."""

    __slots__ = ("_computed_ns", "_handle", "_models")

    def __init__(self) -> None:
        self._computed_ns = 0
        """The time at which this rank had all its gradients."""
        self._handle: Any = None
        self._models: list[Any] = []

    def begin(self, tensors: Any) -> None:
        """Prepare to note when the gradients are there, if a model waits for those of other ranks after that."""
        self._models = [each for each in _LOOP.models.living() if each.require_backward_grad_sync]
        if self._models and not _is_traced():
            for root in tensors if type(tensors) in _LISTS else (tensors,):
                if root.requires_grad:
                    self._handle = root.register_hook(self._on_first_gradient)
                    return

    def release(self) -> None:
        """Remove the hook from the program's tensor."""
        if self._handle is not None:
            self._handle.remove()

    def end(self, start_ns: int, end_ns: int) -> None:
        """Record the time of the pass, and the wait at its end."""
        if self._computed_ns:
            size = _LOOP.gradient_bytes(self._models[0]) if len(self._models) == 1 else 0
            name = _LOOP.name(self._models[0].process_group)
            _append((_ON_BLOCK, name, "ddp", size, True, (self._computed_ns, end_ns)))
        _append((_ON_SPENT, "time/backward_s", start_ns, end_ns))
        _LOOP.end_backward()

    def _on_first_gradient(self, gradient: object) -> None:
        """Queue a call for the end of the pass. The engine makes it before that of the model, which comes later."""
        try:
            sys.modules["torch.autograd"].Variable._execution_engine.queue_callback(self._note)
        except Exception as error:  # noqa: BLE001 – a fault of the capture must not reach the program
            _report("Tensor.backward", error)

    def _note(self) -> None:
        self._computed_ns = _now()


def _is_traced() -> bool:
    """Return whether torch.compile traces backward passes with their hooks."""
    module = sys.modules.get("torch._dynamo.compiled_autograd")
    return bool(getattr(module, "compiled_autograd_enabled", False))


def _passes(original: Function) -> Function:
    """Wrap `torch.autograd.backward`, which `Tensor.backward` calls. A pass within a pass belongs to it."""
    run = _OBSERVERS.run

    def backward(*args: Any, **kwargs: Any) -> Any:
        if _LOCAL.is_in_backward:
            return original(*args, **kwargs)
        each = _Pass()
        _LOCAL.is_in_backward = True
        try:
            run("Tensor.backward", each.begin, args[0] if args else kwargs.get("tensors"))
            start_ns = _now()
            result = original(*args, **kwargs)
        finally:
            end_ns = _now()
            _LOCAL.is_in_backward = False
            run("Tensor.backward", each.release)
        run("Tensor.backward", each.end, start_ns, end_ns)
        return result

    return backward


def _loads(original: Function) -> Function:
    """Wrap `__next__` of the iterator of a DataLoader."""

    def load(iterator: Any) -> Any:
        start_ns = _now()
        result = original(iterator)
        _append((_ON_SPENT, "time/data_s", start_ns, _now()))
        return result

    return load


def _begin_optimizer(optimizer: Any, *arguments: object) -> None:
    _LOCAL.optimizer_begun_ns = _now()


def _end_optimizer(optimizer: Any, *arguments: object) -> None:
    now_ns = _now()
    try:
        _append((_ON_SPENT, "time/optimizer_s", _LOCAL.optimizer_begun_ns, now_ns))
        if _LOOP.ends_step(optimizer):
            _append((_ON_STEP, now_ns))
            _LOOP.record_if_due(now_ns)
    except Exception as error:  # noqa: BLE001 – a fault of the capture must not reach the program
        _report("Optimizer.step", error)


class _OptimizerHooks(Patch):
    """The hooks of all optimizers, in the place of a patch: torch has a public interface for them."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._handles: list[Any] = []

    def replaces_same(self, other: Patch) -> bool:
        """Return whether both are the hooks of all optimizers."""
        return isinstance(other, _OptimizerHooks)

    def install(self) -> None:
        """Add the hooks."""
        if not self._handles:
            self._handles.append(self._module.register_optimizer_step_pre_hook(_begin_optimizer))
            self._handles.append(self._module.register_optimizer_step_post_hook(_end_optimizer))

    def remove(self) -> None:
        """Remove the hooks."""
        while self._handles:
            self._handles.pop().remove()


def _add_model(result: object, model: Any, *args: object, **kwargs: object) -> None:
    if model.device_type == "cpu":
        _LOOP.models.add(model)


def _patches(torch: ModuleType) -> Iterable[Patch]:
    """Yield the patches of torch, once it is imported: its parts are then, too."""
    yield Patch(sys.modules["torch.utils.data.dataloader"]._BaseDataLoaderIter, "__next__", _loads)
    yield Patch(sys.modules["torch.autograd"], "backward", _passes)
    yield _OptimizerHooks(sys.modules["torch.optim.optimizer"])
    c10d = sys.modules.get("torch.distributed.distributed_c10d")
    if c10d is None:  # a torch without it
        return
    for name, (call, larger) in _CALLS.items():
        if hasattr(c10d.ProcessGroup, name):
            yield Patch(c10d.ProcessGroup, name, _issues(call, larger), has_switch=True)
    yield Patch(c10d.Work, "wait", _waits, has_switch=True)
    for owner, name, call in (
        (c10d.ProcessGroup, "monitored_barrier", "barrier"),
        (sys.modules["torch.distributed"], "_broadcast_coalesced", "broadcast"),
    ):
        if hasattr(owner, name):
            yield Patch(owner, name, _blocks(call))
    model = sys.modules["torch.nn.parallel.distributed"].DistributedDataParallel
    yield Patch(model, "__init__", _OBSERVERS.after(_add_model, "DistributedDataParallel"))


def _functional_patches(module: ModuleType) -> Iterable[Patch]:
    for name in ("trigger_wait", "wait"):
        if hasattr(module.AsyncCollectiveTensor, name):
            yield Patch(module.AsyncCollectiveTensor, name, _waits_for_tensor)


_CAPTURE: Final = Capture(
    {"torch": _patches, "torch.distributed._functional_collectives": _functional_patches}, "distributed"
)
install = _CAPTURE.install
uninstall = _CAPTURE.uninstall
