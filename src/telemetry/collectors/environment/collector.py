"""The collector `environment`."""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from telemetry import limits
from telemetry.collectors.collector import ONCE_S, Target
from telemetry.common.formatting import printable, size
from telemetry.redaction import mask_secrets

if TYPE_CHECKING:
    from telemetry.client.run import Run


_PYTHON: Final = re.compile(r"python(\d+(?:\.\d+)?)?t?")
_LIBRARY: Final = re.compile(r"python(\d+\.\d+)t?")
_INSTALLED: Final = re.compile(r"(.+?)-([^-]+)(?:-py[\d.]+.*)?\.(?:dist|egg)-info")
_VERSION: Final = re.compile(r"^version(?:_info)?\s*=\s*(\d+\.\d+(?:\.\d+)?)", re.MULTILINE)
_SHARED: Final = re.compile(r"^include-system-site-packages\s*=\s*true", re.MULTILINE | re.IGNORECASE)
_MOST_PROCESSES: Final = 64
_MOST_ENTRIES: Final = 20_000
VARIABLES: Final = (
    *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_LAUNCH_BLOCKING", "NVIDIA_VISIBLE_DEVICES"),
    *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS"),
    *("OMP_*", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "TOKENIZERS_PARALLELISM"),
    *("NCCL_*", "TORCH_NCCL_*", "GLOO_SOCKET_IFNAME", "UCX_NET_DEVICES", "UCX_TLS"),
    *("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "TORCH_*", "TORCHINDUCTOR_*", "XLA_FLAGS", "JAX_*"),
    *("VLLM_*", "SGLANG_*", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"),
    *("PYTHONHASHSEED", "PYTHONOPTIMIZE", "PYTHONMALLOC", "MALLOC_ARENA_MAX", "LD_PRELOAD"),
    *("WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "CONDA_DEFAULT_ENV", "VIRTUAL_ENV"),
    *("SLURM_JOB_ID", "SLURM_JOB_PARTITION", "SLURM_JOB_NUM_NODES", "SLURM_JOB_NODELIST", "SLURM_NTASKS"),
    *("SLURM_CPUS_PER_TASK", "SLURM_GPUS*", "SLURM_MEM_PER_*"),
)
"""Environment variables that change how fast or how a program runs, and that hold no secrets by their purpose."""
PACKAGES: Final = (
    *(
        "torch",
        "torch-*",
        "torchvision",
        "triton",
        "pytorch-triton",
        "jax",
        "jaxlib",
        "flax",
        "tensorflow",
        "keras",
    ),
    *("numpy", "scipy", "pandas", "polars", "pyarrow", "scikit-learn", "xgboost", "lightgbm", "numba", "cupy*"),
    *("transformers", "tokenizers", "datasets", "accelerate", "peft", "trl", "safetensors", "diffusers"),
    *("deepspeed", "megatron-core", "lightning", "pytorch-lightning", "verl", "ray", "flash-attn", "xformers"),
    *("bitsandbytes", "vllm", "sglang", "tensorrt*", "onnxruntime*", "openai", "aiohttp", "httpx", "uvloop"),
    *("nvidia-nccl-*", "nvidia-cudnn-*", "nvidia-cublas-*", "nvidia-cuda-runtime-*", "pyzmq", "telemetryd"),
)
"""Packages whose versions explain differences between two runs."""
_LOOKS: Final = 10
_LOOK_S: Final = 1.0
"""Pause between two looks for a Python process. A shell script starts it later."""


# The interpreter is that of the first Python process among the command and its descendants. Packages are the names
# of folders in its `site-packages`. So packages that come from PYTHONPATH or `.pth` files alone are not found.


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter: the path it was started by, its version, and its folders of packages."""

    path: Path
    version: str
    folders: tuple[Path, ...]


def interpreter_of(pid: int) -> Interpreter | None:
    """Return the interpreter of a process or of its first descendant that is Python, or None."""
    for member in _family(pid):
        try:
            executable = Path(os.readlink(f"/proc/{member}/exe"))
            if not _PYTHON.fullmatch(executable.name) or not _has_our_files(member):
                continue
            started_as = _started_as(member, executable)
        except OSError:
            continue
        return described(started_as, executable)
    return None


def described(path: Path, executable: Path) -> Interpreter:
    """Return an interpreter by the path it is started by, which may be in a virtual environment, and its file."""
    settings = _text(path.parent.parent / "pyvenv.cfg")
    stated = _VERSION.search(settings)
    named = _LIBRARY.fullmatch(executable.name)
    version = stated[1] if stated else named[1] if named else ""
    roots = [path.parent.parent] if settings else []
    if not settings or _SHARED.search(settings):
        roots.append(executable.parent.parent)
    minor = ".".join(version.split(".")[:2])
    folders = list(dict.fromkeys(folder for root in roots for folder in _folders(root, minor)))
    if version.count(".") < 2 and executable == Path(sys.executable).resolve():
        version = platform.python_version()
    return Interpreter(path, version or _version_of(folders), tuple(folders))


def packages(interpreter: Interpreter) -> dict[str, str]:
    """Return the version of each package by its name. The first folder wins, as for imports."""
    versions: dict[str, str] = {}
    for folder in interpreter.folders:
        try:
            with os.scandir(folder) as entries:
                for _, entry in zip(range(_MOST_ENTRIES), entries, strict=False):
                    installed = _INSTALLED.fullmatch(entry.name)
                    if installed is not None:
                        name = re.sub(r"[-_.]+", "-", installed[1]).lower()
                        versions.setdefault(name[: limits.NAME_CHARS // 2], installed[2])
        except OSError:
            continue
    return versions


def _family(pid: int) -> Iterator[int]:
    """Yield a process and its descendants, parents first."""
    waiting = [pid]
    for _ in range(_MOST_PROCESSES):
        if not waiting:
            return
        member = waiting.pop(0)
        yield member
        children = _text(Path(f"/proc/{member}/task/{member}/children"))
        waiting += [int(word) for word in children.split()]


def _started_as(pid: int, executable: Path) -> Path:
    """Return the path that a process was started by: it tells the virtual environment. Raises OSError."""
    word = os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0])
    if "/" in word:
        path = Path(os.readlink(f"/proc/{pid}/cwd"), word)
    else:
        entries = os.fsdecode(Path(f"/proc/{pid}/environ").read_bytes()).split("\0")
        search = next((entry.partition("=")[2] for entry in entries if entry.startswith("PATH=")), None)
        path = Path(shutil.which(word, path=search) or executable)
    return path if path.exists() and path.resolve() == executable.resolve() else executable


def _has_our_files(pid: int) -> bool:
    """Return whether a path means the same to a process as here: not in a container of its own. Raises OSError."""
    return os.path.samefile(f"/proc/{pid}/root", "/")


def _folders(root: Path, minor: str) -> Iterator[Path]:
    """Yield the existing folders of packages below a prefix, among them those of Debian.

    `minor`: version such as 3.11, or an empty string for all versions.
    """
    for library in sorted((root / "lib").glob("python3*")):
        if minor and library.name not in ("python3", f"python{minor}", f"python{minor}t"):
            continue
        for name in ("site-packages", "dist-packages"):
            if (library / name).is_dir():
                yield library / name
    if root == Path("/usr"):
        yield from _folders(Path("/usr/local"), minor)


def _version_of(folders: list[Path]) -> str:
    """Return the version in the name of a folder of packages, such as 3.11."""
    names = (_LIBRARY.fullmatch(folder.parent.name) for folder in folders)
    return next((match[1] for match in names if match), "")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


class Environment:
    """The machine, variables and packages at the start of the run."""

    interval_s = _LOOK_S

    class Options(Struct, frozen=True, kw_only=True):
        """Options of the collector."""

        variables: str = ""
        """More environment variables, as patterns such as `MY_*|APP_MODE`."""
        packages: str = ""
        """Packages, as patterns such as `torch*|numpy`, instead of the default ones. `*`: all packages."""

    def __init__(self, options: Options, target: Target) -> None:
        """Check the options. Reads nothing yet."""
        self._variables = (*VARIABLES, *_patterns(options.variables))
        self._packages = _patterns(options.packages.lower()) or PACKAGES
        self._target = target
        self._looks = 0

    def sample(self, run: Run) -> None:
        """Record what is known. Look for the Python interpreter again while there is none."""
        if self._looks == 0:
            run.params(self._facts())
        if self._looks < _LOOKS:
            self._looks += 1
            interpreter = interpreter_of(self._target.pid) if self._target.pid else None
            if interpreter is not None:
                run.params(self._python(interpreter))
                self._looks = _LOOKS
        if self._looks >= _LOOKS or not self._target.pid:
            self._looks = _LOOKS
            self.interval_s = ONCE_S

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _facts(self) -> dict[str, str]:
        node = self._target.labels.get("node", "")
        facts = {f"machine.{name}": value for name, value in machine_facts().items()}
        if node:  # every node of a run has its own
            facts = {f"{name} ({node})": value for name, value in facts.items()}
        return facts | {f"env.{name}": value for name, value in self._chosen_variables().items()}

    def _chosen_variables(self) -> dict[str, str]:
        chosen = {
            name: value
            for name, value in sorted(_variables_of(self._target.pid).items())
            if value and any(fnmatchcase(name, pattern) for pattern in self._variables)
        }
        masked = mask_secrets(dict(list(chosen.items())[: limits.ENVIRONMENT_VARIABLES]))
        return {name: printable(value) for name, value in masked.items()}

    def _python(self, interpreter: Interpreter) -> dict[str, str]:
        versions = packages(interpreter)
        chosen = {
            name: version
            for name, version in sorted(versions.items())
            if any(fnmatchcase(name, pattern) for pattern in self._packages)
        }
        return {
            "python.version": interpreter.version,
            "python.path": printable(str(interpreter.path)),
            **{
                f"packages.{name}": version for name, version in list(chosen.items())[: limits.ENVIRONMENT_PACKAGES]
            },
        }


def _patterns(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split("|") if word.strip())


def _variables_of(pid: int) -> Mapping[str, str]:
    """Return the environment of the command at its start, or that of this process, which it got from the same."""
    try:
        data = Path(f"/proc/{pid}/environ").read_bytes() if pid else b""
    except OSError:
        data = b""
    pairs = (entry.partition("=") for entry in os.fsdecode(data).split("\0"))
    return {name: value for name, _, value in pairs if name} or os.environ


_MODEL: Final = re.compile(r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", re.MULTILINE)
_MEMORY: Final = re.compile(r"^MemTotal:\s*(\d+) kB$", re.MULTILINE)
_NAME: Final = re.compile(r'^PRETTY_NAME="?([^"\n]*)"?$', re.MULTILINE)
_DRIVER: Final = re.compile(r"Kernel Module\D*([\d.]+)")
_KIB: Final = 1024


def machine_facts() -> dict[str, str]:
    """Return name → value for what is known."""
    memory = _found(_MEMORY, _file_text("/proc/meminfo"))
    values = {
        "host": socket.gethostname(),
        "os": _found(_NAME, _file_text("/etc/os-release")) or platform.system(),
        "kernel": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _found(_MODEL, _file_text("/proc/cpuinfo")) or platform.processor(),
        "cpus": str(_cpus()),
        "memory": size(int(memory) * _KIB) if memory else "",
        "nvidia_driver": _found(_DRIVER, _file_text("/proc/driver/nvidia/version")),
    }
    return {name: printable(value) for name, value in values.items() if value}


def _cpus() -> int:
    """Return the number of CPUs that processes of this user may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 0


def _file_text(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def _found(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1].strip() if match else ""
