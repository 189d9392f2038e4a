"""The finder that hooks into imports: loaders of all kinds, reloads, threads, and hooks that fail."""

from __future__ import annotations

import importlib
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from telemetry.integrations.capture.boot_module import BOOT
from telemetry.integrations.capture.captures import Capture
from telemetry.integrations.capture.patching import Patch

LIBRARY = """
count = 0
def put(value):
    return value
class Writer:
    def put(self, value):
        return value
"""


class Hooked:
    """A capture of a library in a folder of the test."""

    def __init__(self, folder: Path, name: str) -> None:
        (folder / f"{name}.py").write_text(LIBRARY)
        self.name = name
        self.seen: list[Any] = []
        self.capture = Capture({name: self._patches})

    def _patches(self, module: ModuleType) -> list[Patch]:
        return [Patch(module, "put", self._wrap), Patch(module.Writer, "put", self._wrap)]

    def _wrap(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            self.seen.append(args[-1])
            return original(*args)

        return call


@pytest.fixture
def hooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Hooked]:
    monkeypatch.syspath_prepend(str(tmp_path))
    made = Hooked(tmp_path, f"library_{abs(hash(request.node.name))}")
    yield made
    made.capture.uninstall()
    sys.modules.pop(made.name, None)


def import_it(hooked: Hooked) -> Any:
    return importlib.import_module(hooked.name)


def test_from_imports_get_the_patched_function(hooked: Hooked) -> None:
    """Hooks run before the importer sees the names."""
    hooked.capture.install()
    names: dict[str, Any] = {}
    exec(f"from {hooked.name} import put", names)
    names["put"](1)
    assert hooked.seen == [1]


def test_a_library_imported_before_is_patched_too(hooked: Hooked) -> None:
    """`install()` patches a library that is already imported, and `uninstall()` restores it."""
    library = import_it(hooked)
    before = library.put
    hooked.capture.install()
    library.put(1)
    hooked.capture.uninstall()
    assert library.put is before
    library.put(2)
    assert hooked.seen == [1]


def test_the_loader_is_its_own_again_after_the_import(hooked: Hooked) -> None:
    """Tools that read sources ask the loader."""
    hooked.capture.install()
    library = import_it(hooked)
    assert "exec_module" not in vars(library.__loader__)
    assert library.__spec__.loader is library.__loader__
    assert type(library.__loader__).__name__ == "SourceFileLoader"


def test_a_reload_is_captured_with_its_new_class_and_the_old_one(hooked: Hooked) -> None:
    """Objects of the old class are still in use."""
    hooked.capture.install()
    library = import_it(hooked)
    old = library.Writer
    for _ in range(3):
        importlib.reload(library)
    assert library.Writer is not old
    library.Writer().put(1)
    old().put(2)
    library.put(3)
    assert hooked.seen == [1, 2, 3]
    hooked.capture.uninstall()
    library.Writer().put(4)
    old().put(5)
    library.put(6)
    importlib.reload(library)
    library.put(7)
    assert hooked.seen == [1, 2, 3]


def test_a_module_that_is_imported_anew_is_captured(hooked: Hooked) -> None:
    """Tests of frameworks drop modules and import them again."""
    hooked.capture.install()
    first = import_it(hooked)
    del sys.modules[hooked.name]
    second = import_it(hooked)
    first.put(1)
    second.put(2)
    assert hooked.seen == [1, 2]


def test_installing_a_hundred_times_stacks_nothing(hooked: Hooked) -> None:
    """Installing and uninstalling a hundred times stacks neither wrappers nor hooks."""
    hooked.capture.install()
    library = import_it(hooked)
    hooked.capture.uninstall()
    before = library.put
    for _ in range(100):
        hooked.capture.install()
        hooked.capture.install()
        library.put(1)
        hooked.capture.uninstall()
        hooked.capture.uninstall()
        assert library.put is before
        assert hooked.name not in BOOT.FINDER.hooks
    assert hooked.seen == [1] * 100


class SlottedLoader:
    """A loader that can't be changed."""

    __slots__ = ("wanted",)

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        return ModuleSpec(name, self) if name == self.wanted else None

    def create_module(self, spec: Any) -> None:
        assert spec.loader is self

    def exec_module(self, module: ModuleType) -> None:
        assert module.__loader__ is self
        assert module.__spec__ is not None
        assert module.__spec__.loader is self
        exec(LIBRARY, module.__dict__)

    def get_source(self, name: str) -> str:
        return LIBRARY


class ClassLoader:
    """A loader that is a class, as those of built-in and frozen modules are."""

    wanted = ""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> Any:
        return ModuleSpec(name, cls) if name == cls.wanted else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: Any) -> None:
        return None

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        exec(LIBRARY, module.__dict__)


class OldLoader:
    """A loader from before `exec_module`."""

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        return ModuleSpec(name, self) if name == self.wanted else None  # type: ignore[arg-type]

    def load_module(self, name: str) -> ModuleType:
        module = sys.modules[name] = ModuleType(name)
        exec(LIBRARY, module.__dict__)
        return module


@pytest.mark.parametrize("kind", ["slots", "class"])
def test_a_loader_that_cannot_be_changed_is_hooked_in_its_place(
    hooked: Hooked, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loader that can't be changed sees itself as the module's loader during and after the import.

    Its module is patched all the same.
    """
    loader: Any = SlottedLoader(hooked.name)
    if kind == "class":
        loader = ClassLoader
        monkeypatch.setattr(ClassLoader, "wanted", hooked.name)
    monkeypatch.setattr(sys, "meta_path", [loader, *sys.meta_path])
    hooked.capture.install()
    sys.meta_path.remove(BOOT.FINDER)
    sys.meta_path.insert(0, BOOT.FINDER)
    library = import_it(hooked)
    library.put(1)
    assert hooked.seen == [1]
    assert library.__loader__ is library.__spec__.loader is loader


def test_a_loader_without_exec_module_loads_and_leaves_a_sign(
    hooked: Hooked, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A loader without `exec_module` loads its module unpatched, because nothing can be wrapped.

    A sign tells the report of the run.
    """
    monkeypatch.setenv(BOOT.SIGNS_VARIABLE, str(tmp_path / "log"))
    monkeypatch.setattr(sys, "meta_path", [OldLoader(hooked.name), *sys.meta_path])
    hooked.capture.install()
    sys.meta_path.remove(BOOT.FINDER)
    sys.meta_path.insert(0, BOOT.FINDER)
    with pytest.warns(ImportWarning, match="falling back to load_module"):
        library = import_it(hooked)
    assert library.put(1) == 1
    assert hooked.seen == []
    assert f"failed {hooked.name} its loader OldLoader can't be hooked" in (tmp_path / "log").read_text()


def test_a_loader_of_several_modules_is_hooked_for_one(hooked: Hooked, tmp_path: Path) -> None:
    """A loader of several modules, such as that of a zip file, is hooked for one of them only."""
    with zipfile.ZipFile(tmp_path / "library.zip", "w") as file:
        file.writestr(f"{hooked.name}.py", LIBRARY)
        file.writestr(f"{hooked.name}_other.py", "there = True\n")
    sys.path.insert(0, str(tmp_path / "library.zip"))
    try:
        hooked.capture.install()
        spec = BOOT.FINDER.find_spec(hooked.name)  # looked up, not imported yet
        other = __import__(f"{hooked.name}_other")
        library = import_it(hooked)
    finally:
        sys.path.remove(str(tmp_path / "library.zip"))
        sys.modules.pop(f"{hooked.name}_other", None)
    assert spec is not None
    assert type(library.__loader__).__name__ == "zipimporter"
    assert other.there
    library.put(1)
    assert hooked.seen == [1]


def test_a_hook_that_fails_is_printed_and_the_module_is_there(
    hooked: Hooked, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other hooks run all the same."""

    def fail(_: ModuleType) -> None:
        raise ValueError("odd")

    BOOT.FINDER.add(hooked.name, fail)
    hooked.capture.install()
    try:
        library = import_it(hooked)
    finally:
        BOOT.FINDER.discard(hooked.name, fail)
    assert capsys.readouterr().err == f"telemetry: can't hook into {hooked.name}: ValueError: odd\n"
    library.put(1)
    assert hooked.seen == [1]


def test_an_interruption_in_a_hook_ends_the_import(hooked: Hooked) -> None:
    """Ctrl-C is never swallowed."""

    def interrupt(_: ModuleType) -> None:
        raise KeyboardInterrupt

    BOOT.FINDER.add(hooked.name, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            import_it(hooked)
    finally:
        BOOT.FINDER.discard(hooked.name, interrupt)


def test_a_module_that_fails_to_import_runs_no_hook(hooked: Hooked, tmp_path: Path) -> None:
    """A later import that succeeds does."""
    (tmp_path / f"{hooked.name}.py").write_text("1 / 0\n")
    hooked.capture.install()
    with pytest.raises(ZeroDivisionError):
        import_it(hooked)
    assert hooked.name not in sys.modules
    (tmp_path / f"{hooked.name}.py").write_text(LIBRARY + "# and longer\n")
    import_it(hooked).put(1)
    assert hooked.seen == [1]


def test_a_hook_may_remove_itself_without_hiding_the_next_one(hooked: Hooked) -> None:
    """The list changes while it is worked on."""
    ran: list[str] = []

    def first(_: ModuleType) -> None:
        ran.append("first")
        BOOT.FINDER.discard(hooked.name, first)

    def second(_: ModuleType) -> None:
        ran.append("second")

    BOOT.FINDER.add(hooked.name, first)
    BOOT.FINDER.add(hooked.name, second)
    import_it(hooked)
    BOOT.FINDER.discard(hooked.name, second)
    assert ran == ["first", "second"]


def test_two_threads_that_look_for_a_module_both_find_it_hooked(hooked: Hooked) -> None:
    """`find_spec` takes no lock of imports."""
    hooked.capture.install()
    found: list[Any] = []
    barrier = threading.Barrier(2)

    def look() -> None:
        for _ in range(200):
            barrier.wait()
            found.append(find_spec(hooked.name))

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 400
    assert all("exec_module" in vars(spec.loader) for spec in found)
