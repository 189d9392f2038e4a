"""The collector `environment`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from telemetry import limits
from telemetry.collectors.collector import ONCE_S, Target
from telemetry.collectors.environment import machine
from telemetry.collectors.environment.interpreter import Interpreter, interpreter_of, packages
from telemetry.formatting import printable
from telemetry.redaction import mask_secrets

if TYPE_CHECKING:
    from telemetry.client.run import Run

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
            found = interpreter_of(self._target.pid) if self._target.pid else None
            if found is not None:
                run.params(self._python(found))
                self._looks = _LOOKS
        if self._looks >= _LOOKS or not self._target.pid:
            self._looks = _LOOKS
            self.interval_s = ONCE_S

    def close(self) -> None:
        """Do nothing: no file stays open."""

    def _facts(self) -> dict[str, str]:
        node = self._target.labels.get("node", "")
        facts = {f"machine.{name}": value for name, value in machine.facts().items()}
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

    def _python(self, found: Interpreter) -> dict[str, str]:
        versions = packages(found)
        chosen = {
            name: version
            for name, version in sorted(versions.items())
            if any(fnmatchcase(name, pattern) for pattern in self._packages)
        }
        return {
            "python.version": found.version,
            "python.path": printable(str(found.path)),
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
