"""Hooks that run when a program imports a library. Imports only what every interpreter has loaded already.

`sitecustomize.py` beside this file loads it in each Python process of the command of `telemetry run --capture`. It
must cost nothing measurable, so it may import neither telemetry nor importlib until the program imports a hooked
library.
"""

import _thread
import os
import sys

VARIABLE = "TELEMETRY_CAPTURE"
"""Names of the captures to install, separated by commas."""
SIGNS_VARIABLE = "TELEMETRY_CAPTURE_LOG"
"""File that gets one line of each Python process that started, and of each library that was hooked."""
PLUGINS_VARIABLE = "TELEMETRY_CAPTURE_PLUGINS"
"""Captures of other packages: `NAME=WHERE|TRIGGER|TRIGGER;NAME=…`. WHERE is the value of the entry point."""
SIGNS_BYTES = 1 << 20
_IN_PACKAGE = "integrations/capture/boot/_telemetry_boot.py"
"""This file in the package `telemetry`, of which the program's environment may have another copy."""

TRIGGERS = {
    "distributed": ("torch",),
    "lightning": ("lightning.pytorch.trainer.trainer", "pytorch_lightning.trainer.trainer"),
    "locust": ("locust.env",),
    "logging": ("logging",),
    "rl_insight": ("rl_insight.client", "rl_insight.utils"),
    "tensorboard": ("torch.utils.tensorboard.writer", "tensorboardX.writer"),
    "torchrun": ("torch.distributed.elastic.metrics", "torch.distributed.elastic.events"),
    "transformers": ("transformers.trainer",),
    "verl": ("verl.utils.tracking",),
    "wandb": ("wandb.sdk.wandb_run",),
}
"""Name of each capture, and the modules whose import installs it."""


class Finder:
    """A meta-path finder that runs hooks after a module was executed. It finds no module by itself."""

    def __init__(self):
        self.hooks = {}
        """Functions that get the module, by the module's name."""
        self._finding = set()
        """Names that other finders look for right now, each with the thread that asked."""

    def add(self, name, hook):
        """Run `hook` each time a module of this name is executed."""
        hooks = self.hooks.setdefault(name, [])
        if hook not in hooks:
            hooks.append(hook)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def discard(self, name, hook):
        """Run `hook` no more. Without any hook, leave the meta path."""
        hooks = self.hooks.get(name, [])
        if hook in hooks:
            hooks.remove(hook)
        if not hooks:
            self.hooks.pop(name, None)
        if not self.hooks and self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name, path=None, target=None):
        """Return the spec that the other finders give, with a loader that runs the hooks. Else return None."""
        if name not in self.hooks:
            return None
        asked = (name, _thread.get_ident())
        if asked in self._finding:
            return None
        self._finding.add(asked)
        try:
            spec = self.find_elsewhere(name, path, target)
        finally:
            self._finding.discard(asked)
        loader = getattr(spec, "loader", None)
        if loader is None:
            return spec
        if not hasattr(loader, "exec_module"):
            leave_sign(f"failed {name} its loader {type(loader).__name__} can't be hooked")
            return spec
        if isinstance(loader, type):  # shared by modules of all interpreters
            spec.loader = _Loader(loader, name)
            return spec
        execute = loader.exec_module

        def exec_module(module):
            if getattr(module, "__name__", name) != name:  # this loader has several modules
                execute(module)
                return
            loader.__dict__.pop("exec_module", None)  # the loader is its own again
            execute(module)
            self.run(name, module)

        try:
            loader.exec_module = exec_module
        except (AttributeError, TypeError):  # a loader with slots
            spec.loader = _Loader(loader, name)
        return spec

    def run(self, name, module):
        """Run the hooks of a module that was executed. A hook may add another one, which then runs, too."""
        done = []
        while True:
            hook = next((each for each in self.hooks.get(name, ()) if each not in done), None)
            if hook is None:
                return
            done.append(hook)
            try:
                hook(module)
            except Exception as error:  # noqa: BLE001 – a fault of a hook must not reach the program
                _report(name, error)

    def find_elsewhere(self, name, path=None, target=None):
        """Return the spec that the other finders give. Else return None."""
        for finder in list(sys.meta_path):
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None


FINDER = Finder()


class _Loader:
    """A loader in place of one that can't be changed. It gives its place back when the module is executed."""

    def __init__(self, loader, name):
        self._loader = loader
        self._name = name

    def __getattr__(self, attribute):
        return getattr(self._loader, attribute)

    def create_module(self, spec):
        spec.loader = self._loader  # some loaders look at it
        try:
            create = getattr(self._loader, "create_module", None)
            return None if create is None else create(spec)
        finally:
            spec.loader = self

    def exec_module(self, module):
        module.__loader__ = self._loader
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.loader is self:
            spec.loader = self._loader
        self._loader.exec_module(module)
        FINDER.run(self._name, module)


def leave_sign(text):
    """Append a line to the file of signs, if there is one. Never raises."""
    path = os.environ.get(SIGNS_VARIABLE)
    if not path:
        return
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(file).st_size < SIGNS_BYTES:
                line = text.replace("\n", " ")
                os.write(file, f"{os.getpid()} {line}\n".encode(errors="replace"))
        finally:
            os.close(file)
    except (OSError, ValueError):
        pass  # another host, or a full disk: `telemetry run` then reports that no sign came


def leave_hooked(capture):
    """Leave the sign that a capture is installed, with the file name of the program. Never raises."""
    arguments = getattr(sys, "argv", None) or [""]
    leave_sign(f"hooked {capture} {os.path.basename(str(arguments[0]))}".rstrip())


def say(text):
    """Write a line to stderr. Never raises."""
    try:
        sys.stderr.write(f"telemetry: {text}\n")
    except Exception:  # noqa: BLE001 – the stream may be absent, closed, or an object of the program
        return


def boot():
    """Prepare the captures that the environment names. Do nothing without them, or if this was done already."""
    names = [name.strip() for name in os.environ.get(VARIABLE, "").split(",")]
    triggers = {**_read_plugins(), **TRIGGERS}
    names = [name for name in names if name in triggers]
    if not names or PREPARED or _is_own_process():
        return
    PREPARED.extend(names)
    leave_sign(f"booted {sys.executable}")
    for name in names:
        hook = _Hook(name)
        for trigger in triggers[name]:
            if trigger in sys.modules:
                try:
                    hook(sys.modules[trigger])
                except Exception as error:  # noqa: BLE001 – the other captures may work
                    _report(trigger, error)
            else:
                FINDER.add(trigger, hook)


def _read_plugins():
    """Return the triggers of the captures of other packages, by name, and keep where the captures are."""
    triggers = {}
    for text in os.environ.get(PLUGINS_VARIABLE, "").split(";"):
        name, _, rest = text.partition("=")
        where, *modules = rest.split("|")
        if name and where and name not in TRIGGERS:
            PLUGINS[name] = where
            triggers[name] = modules
    return triggers


def _is_own_process():
    """Return whether this process runs `python -m telemetry`, which logs to trackers what was recorded already."""
    arguments = iter(getattr(sys, "orig_argv", ())[1:])
    for word in arguments:
        if word == "-m":
            return next(arguments, "") == "telemetry"
        if not word.startswith("-") or word == "-c":
            return False
        if word in ("-W", "-X"):
            next(arguments, None)
    return False


class _Hook:
    """A hook that installs one capture, once. A capture that was removed by hand stays removed."""

    def __init__(self, capture):
        self.capture = capture
        self._is_done = False

    def __call__(self, module):
        if not self._is_done:
            self._is_done = True
            _install(self.capture)


def _install(capture):
    if is_hidden(capture):
        return
    if capture in PLUGINS:
        _install_plugin(capture, PLUGINS[capture])
        return
    try:
        from telemetry.integrations.capture import captures
    except ImportError as error:
        leave_sign(f"absent {capture} {sys.executable}")
        say(f"{capture} is not captured: {error}. Install telemetryd for {sys.executable}")
        return
    captures.install(capture)


def _install_plugin(capture, where):
    """Install a capture of another package. Report what it raises: a fault of it must not reach the program."""
    try:
        from importlib import import_module

        module, _, attribute = where.partition(":")
        plugin = import_module(module)
        for part in filter(None, attribute.split(".")):
            plugin = getattr(plugin, part)
        plugin.install()
    except Exception as error:  # noqa: BLE001 – the code of another package
        what = f"can't load the capture {capture} ({where}): {type(error).__name__}: {error}"
        leave_sign("failed " + what)
        say(what)
    else:
        leave_hooked(capture)


def is_hidden(capture):
    """Return whether a module of the program hides the package `telemetry`. Report that, and execute nothing."""
    module = sys.modules.get("telemetry")
    if module is None:
        spec = FINDER.find_elsewhere("telemetry")
        path, folders = getattr(spec, "origin", None), getattr(spec, "submodule_search_locations", None)
    else:
        path, folders = getattr(module, "__file__", None), getattr(module, "__path__", None)
    if path is None or any(os.path.exists(f"{folder}/{_IN_PACKAGE}") for folder in folders or ()):
        return False
    if not _hidden:
        say(f"the program has a module named telemetry ({path}), so nothing is captured; rename it")
    if capture not in _hidden:
        _hidden.append(capture)
        leave_sign(f"hidden {capture} {path}")
    return True


def _report(name, error):
    what = f"can't hook into {name}: {type(error).__name__}: {error}"
    leave_sign("failed " + what)
    say(what)


PLUGINS = {}
"""Where the captures of other packages are, by name."""
PREPARED = []
"""Names of the captures that `boot` has prepared in this process."""
_hidden = []
"""Captures that were not installed, because a module of the program hides the package."""
