"""The program in a command line, behind interpreters and launchers: `train.py` in `torchrun train.py`. Pure.

A program gives a run its name, and a calibration the command that it belongs to. No file is read.
"""

from __future__ import annotations

import os.path
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_DEPTH: Final = 12
"""Largest number of launchers in front of a program."""
_PYTHON: Final = re.compile(r"(python|pypy|pythonw)[\d.]*t?(\.exe)?")
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_SUFFIX: Final = re.compile(r"\.(py|pyw|pyz|ipynb|sh|bash|zsh|js|mjs|cjs|ts|rb|pl|jl|lua|r|exe)$", re.IGNORECASE)
_SHELLS: Final = frozenset({"sh", "bash", "zsh", "dash", "ksh", "ash"})
_INTERPRETERS: Final = frozenset({"node", "bun", "ruby", "perl", "julia", "Rscript", "lua"})
_BETWEEN: Final = frozenset({"&&", "||", ";", "|", "&", ";;", "\n", "(", ")", "{", "}"})
_PREFIXES: Final = frozenset({"do", "then", "else", "exec", "command", "!"})
_SETTING_UP: Final = re.compile(
    r"cd|export|set|unset|source|\.|ulimit|umask|trap|for|while|until|if|elif|case|done|fi|esac|echo|printf|mkdir|sleep"
    r"|true|wait|test|\[|exit|return"
)
"""Words of a shell that prepare or follow the program."""


@dataclass(frozen=True, slots=True)
class _Launcher:
    """The options of a program that starts another one."""

    valued: str = ""
    """Options whose value is the next word."""
    flags: str | None = None
    """All options without a value. None: an option that is not in `valued` has none."""
    before: int = 0
    """Number of arguments in front of the program."""
    subcommand: str = ""
    module: str = ""
    """Options after which, or after whose value-less form, the program is a Python module."""
    runs_python: bool = False
    """True if the program is a Python script, whatever its name."""


_OF_TORCHRUN: Final = _Launcher(
    flags="--standalone --no-python --no_python --run-path --run_path -m --module -h --help",
    module="-m --module",
    runs_python=True,
)
_LAUNCHERS: Final = {
    "env": _Launcher("-u --unset -C --chdir"),
    "timeout": _Launcher("-k --kill-after -s --signal", before=1),
    "nice": _Launcher("-n --adjustment"),
    "ionice": _Launcher("-c -n -p --class --classdata"),
    "chrt": _Launcher(before=1),
    "taskset": _Launcher(before=1),
    "numactl": _Launcher("-N -m -C -i --cpunodebind --membind --physcpubind --interleave"),
    "nohup": _Launcher(),
    "setsid": _Launcher(),
    "time": _Launcher("-f --format -o --output"),
    "stdbuf": _Launcher("-i -o -e --input --output --error"),
    "sudo": _Launcher("-u --user -g --group -C -D -h -p -r -t"),
    "srun": _Launcher("-n -N -p -c -t -J -A -w -x -o -e -G --ntasks --nodes --partition --gres --cpus-per-task"),
    "mpirun": _Launcher("-n -np --np -H -host --host -hostfile --hostfile -x -bind-to --bind-to -map-by --map-by"),
    "mpiexec": _Launcher("-n -np --np -H -host --host -hostfile --hostfile -x -bind-to --bind-to -map-by --map-by"),
    "uv": _Launcher(
        "-p --python --with --with-editable --with-requirements --group --only-group --no-group --extra --no-extra "
        "--project --directory --env-file --package --index --index-url --extra-index-url --find-links -f -i -P -C "
        "--config-file --cache-dir --color --refresh-package --reinstall-package --upgrade-package",
        subcommand="run",
        module="-m --module",
    ),
    "poetry": _Launcher("-C --directory -P --project", subcommand="run"),
    "pdm": _Launcher("-p --project -c --config", subcommand="run"),
    "pipenv": _Launcher("--python --pypi-mirror", subcommand="run"),
    "hatch": _Launcher("-e --env -p --project", subcommand="run"),
    "rye": _Launcher("--pyproject", subcommand="run"),
    "pixi": _Launcher("-e --environment --manifest-path", subcommand="run"),
    "conda": _Launcher("-n --name -p --prefix --cwd", subcommand="run"),
    "mamba": _Launcher("-n --name -p --prefix --cwd", subcommand="run"),
    "torchrun": _OF_TORCHRUN,
    "accelerate": _Launcher(
        flags="--multi_gpu --cpu --tpu --mps --use_xpu --use_deepspeed --use_fsdp --use_megatron_lm --use_cpu "
        "--quiet -q -m --module --no_python --debug --same_network --enable_cpu_affinity --standalone -h --help",
        subcommand="launch",
        module="-m --module",
        runs_python=True,
    ),
    "deepspeed": _Launcher(
        "-H --hostfile -i --include -e --exclude --num_nodes --num_gpus --master_port --master_addr --launcher",
        module="--module",
        runs_python=True,
    ),
    "coverage": _Launcher("--source --omit --include --rcfile --data-file", subcommand="run", module="-m --module"),
}
"""Name of a launcher → where its program stands."""
_MODULES: Final = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate launch",
    "accelerate.commands.accelerate_cli": "accelerate",
    "coverage": "coverage",
    "pytest": "pytest",
}
"""Python module → the launcher that it is."""
_TESTERS: Final = frozenset({"pytest", "py.test"})
_OF_PYTHON: Final = "-X -W --check-hash-based-pycs"


def program_name(argv: Sequence[str]) -> str:
    """Return the name of the program: the stem of its script, the last part of a module, else the file's name.

    Return the name of an interpreter that runs no script, such as `python -c CODE`.
    """
    program, _ = _program(list(argv), _DEPTH)
    return program


def command_key(argv: Sequence[str], directory: str) -> tuple[str, ...]:
    """Return what identifies a command that ran in a directory: the same program with the same arguments.

    The path of the script is absolute, and all Python interpreters are one. A command without a script is another
    one in each directory: a module or a line of shell means what it finds there.
    """
    arguments = list(argv)
    _, script = _program(arguments, _DEPTH)
    key = [] if script is not None else [directory]
    for index, word in enumerate(arguments):
        if index == script:
            key.append(os.path.normpath(os.path.join(directory, word)))
        else:
            key.append("python" if _PYTHON.fullmatch(os.path.basename(word)) else word)
    return tuple(key)


def _program(arguments: list[str], depth: int) -> tuple[str, int | None]:
    """Return the name of the program, and the place of its script among the words; None without a script."""
    if not arguments:
        return "", None
    name, program = os.path.basename(arguments[0]), None
    if _PYTHON.fullmatch(name):
        program = _of_python(arguments, depth)
    elif name in _SHELLS and depth:
        program = _of_shell(arguments, depth)
    elif name in _TESTERS:
        program = _of_pytest(arguments)
    elif name in _INTERPRETERS:
        index = next((place for place, word in enumerate(arguments[1:], 1) if not word.startswith("-")), None)
        program = (name, None) if index is None else (stem(arguments[index]), index)
    elif name in _LAUNCHERS and depth:
        program = _launched(arguments, _LAUNCHERS[name], depth)
    return program or (stem(arguments[0]), 0 if os.sep in arguments[0] else None)


def _of_python(arguments: list[str], depth: int) -> tuple[str, int | None]:
    index = 1
    while index < len(arguments):
        word = arguments[index]
        option = re.fullmatch(r"-[A-Za-z]*?([cmWX])(.*)", word, re.DOTALL) if not word.startswith("--") else None
        if option is not None and option[1] == "c":
            break
        if option is not None and option[1] == "m":
            rest = [option[2], *arguments[index + 1 :]] if option[2] else arguments[index + 1 :]
            return _of_module(rest, index + (0 if option[2] else 1), depth)
        if word in _OF_PYTHON.split():
            index += 2
        elif word == "-":
            break
        elif word.startswith("-"):
            index += 1
        else:
            return stem(word), index
    return "python", None


def _of_module(arguments: list[str], at: int, depth: int) -> tuple[str, int | None]:
    """Return the program of `-m`, whose module is the first word and stands at a place of the whole."""
    if not arguments:
        return "python", None
    module = arguments[0]
    if module in _MODULES and depth:
        launcher = _MODULES[module].split()
        return _moved(_program([*launcher, *arguments[1:]], depth - 1), at + 1 - len(launcher))
    return module.removesuffix(".__main__").rpartition(".")[2] or "python", None


def _of_shell(arguments: list[str], depth: int) -> tuple[str, int | None]:
    name, index = os.path.basename(arguments[0]), 1
    while index < len(arguments):
        word = arguments[index]
        if word in ("-o", "-O", "+o", "+O", "--rcfile", "--init-file"):
            index += 2
        elif re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", word):
            line = next(
                (argument for argument in arguments[index + 1 :] if not argument.startswith(("-", "+"))), ""
            )
            return _of_line(line, depth - 1) or name, None
        elif word.startswith(("-", "+")):
            index += 1
        else:
            return stem(word), index
    return name, None


def _of_line(line: str, depth: int) -> str:
    """Return the name of the first program in a line of shell that does not only prepare others; empty if none."""
    for command in _commands(line):
        while command and (command[0] in _PREFIXES or _ASSIGNMENT.fullmatch(command[0])):
            del command[0]
        if command and not _SETTING_UP.fullmatch(command[0]):
            return _program(command, depth)[0]
    return ""


def _commands(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line.replace("\n", " ; "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    command: list[str] = []
    try:
        for word in lexer:
            if word in _BETWEEN:
                yield command
                command = []
            else:
                command.append(word)
    except ValueError:  # quotes that never close
        return
    yield command


def _of_pytest(arguments: list[str]) -> tuple[str, int | None]:
    """Return the first file of tests, or else the tester itself."""
    for index, word in enumerate(arguments[1:], 1):
        path = word.partition("::")[0]
        if path.endswith(".py") and not word.startswith("-"):
            return stem(path), index
    return "pytest", None


def _launched(arguments: list[str], launcher: _Launcher, depth: int) -> tuple[str, int | None] | None:
    """Return the program behind a launcher; None if there is none."""
    modules = launcher.module.split()
    subcommand, before, is_module, index = launcher.subcommand, launcher.before, False, 1
    while index < len(arguments):
        word = arguments[index]
        if word == "--":
            index += 1
            break
        if word in modules:
            is_module = True
            index += 1
        elif word.startswith("-") and len(word) > 1:
            index += 1 + _takes_next(word, launcher)
        elif subcommand:
            if word != subcommand:
                return None
            subcommand = ""
            index += 1
        elif before or _ASSIGNMENT.fullmatch(word):
            before -= not _ASSIGNMENT.fullmatch(word)
            index += 1
        else:
            break
    if subcommand or index >= len(arguments):
        return None
    rest = arguments[index:]
    if is_module:
        return _of_module(rest, index, depth - 1)
    if launcher.runs_python or _SUFFIX.search(rest[0]):
        return stem(rest[0]), index
    return _moved(_program(rest, depth - 1), index)


def _takes_next(option: str, launcher: _Launcher) -> bool:
    if "=" in option:
        return False
    return option not in launcher.flags.split() if launcher.flags is not None else option in launcher.valued.split()


def _moved(program: tuple[str, int | None], by: int) -> tuple[str, int | None]:
    name, script = program
    return name, None if script is None else script + by


def stem(path: str) -> str:
    """Return the name of a file without the suffix of a script. Of `pkg/__main__.py`, the folder's name."""
    path = path.rstrip("/") or path
    if os.path.basename(path) == "__main__.py":
        path = os.path.dirname(path) or path
    return _SUFFIX.sub("", os.path.basename(path))
