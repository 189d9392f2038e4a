"""Patches of other libraries: what callers see, removal in any order, and originals that come back as they were."""

from __future__ import annotations

import asyncio
import functools
import gc
import inspect
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.integrations.capture.patched_library import Library, Seen


@pytest.fixture
def library() -> Library:
    return Library()


@pytest.fixture
def seen() -> Seen:
    return Seen()


def covering(owner: Any, name: str, *, wraps: bool = True) -> Callable[[], None]:
    """Put another tool's wrapper on top. Returns the function that removes it as most tools do: blindly."""
    before = inspect.getattr_static(owner, name)
    original = getattr(owner, name)

    def cover(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    setattr(owner, name, functools.wraps(original)(cover) if wraps else cover)
    return lambda: setattr(owner, name, before)


# --- what callers see ----------------------------------------------------------------------------


def test_arguments_and_results_are_kept(library: Library, seen: Seen) -> None:
    """The wrapper has no signature of its own."""
    seen.patch(library.Writer, "put").install()
    writer = library.Writer()
    assert writer.put("a") == "a=0.0"
    assert writer.put("a", 1.0, 2.0, step=3) == "a=1.0(2.0,){'step': 3}"
    assert seen.calls == [("a=0.0", writer, "a"), (seen.calls[1][0], writer, "a", 1.0, 2.0, ("step", 3))]


def test_names_documents_and_signatures_are_kept(library: Library, seen: Seen) -> None:
    """Tools that inspect a function see the original."""
    before = inspect.signature(library.Writer.put)
    seen.patch(library.Writer, "put").install()
    assert library.Writer.put.__doc__ == "Put a value."
    assert library.Writer.put.__qualname__.endswith("Writer.put")
    assert inspect.signature(library.Writer.put) == before


def test_inherited_methods_are_patched_in_the_class_alone(library: Library, seen: Seen) -> None:
    """The base class, and other classes that have it, stay as they are."""
    patch = seen.patch(library.Writer, "inherited")
    patch.install()
    assert (library.Writer().inherited(2), library.Base().inherited(3)) == (4, 6)
    assert [call[0] for call in seen.calls] == [4]
    patch.remove()
    assert "inherited" not in vars(library.Writer)


def test_a_patch_of_the_base_reaches_a_subclass_that_calls_it(library: Library, seen: Seen) -> None:
    """Frameworks derive from writers."""

    class Sub(library.Writer):  # type: ignore[name-defined,misc]
        def put(self, tag: str) -> str:
            return "sub " + str(super().put(tag))

    seen.patch(library.Writer, "put").install()
    assert Sub().put("a") == "sub a=0.0"
    assert [call[0] for call in seen.calls] == ["a=0.0"]


def test_patches_of_a_class_and_its_base_see_a_call_once(library: Library, seen: Seen) -> None:
    """The inner one runs within the outer one."""
    patches = [seen.patch(library.Base, "inherited"), seen.patch(library.Writer, "inherited")]
    for patch in patches:
        patch.install()
    library.Writer().inherited(1)
    assert len(seen.calls) == 1


@pytest.mark.parametrize("owner", ["Base", "Writer"])
def test_class_methods_get_their_class(library: Library, seen: Seen, owner: str) -> None:
    """Called through the class or an object, own or inherited."""
    made_for = getattr(library, owner)
    before = vars(made_for).get("made")
    patch = seen.patch(made_for, "made")
    patch.install()
    assert library.Writer.made(1) == library.Writer().made(1) == (library.Writer, 1)
    assert [call[1] for call in seen.calls] == [library.Writer] * 2
    patch.remove()
    assert vars(made_for).get("made") is before


def test_static_methods_get_no_object(library: Library, seen: Seen) -> None:
    """Called through the class or an object."""
    before = vars(library.Writer)["plain"]
    patch = seen.patch(library.Writer, "plain")
    patch.install()
    assert library.Writer.plain(1) == library.Writer().plain(1) == 2
    assert seen.calls == [(2, 1), (2, 1)]
    patch.remove()
    assert vars(library.Writer)["plain"] is before


def test_a_callable_object_in_a_class_gets_no_object(library: Library, seen: Seen) -> None:
    """A callable object in a class does not bind, and neither does its wrapper."""
    library.Writer.double = functools.partial(int.__mul__, 2)  # type: ignore[attr-defined]
    seen.patch(library.Writer, "double").install()
    assert library.Writer().double(21) == 42  # type: ignore[attr-defined]


def test_a_coroutine_is_observed_after_it_ended(library: Library, seen: Seen) -> None:
    """Calling it does nothing yet. It still counts as a coroutine function."""
    seen.patch(library.Writer, "wait").install()
    assert inspect.iscoroutinefunction(library.Writer.wait)
    writer = library.Writer()

    async def both() -> list[int]:
        waiting = [writer.wait(1), writer.wait(2)]
        assert not seen.calls
        return await asyncio.gather(*waiting)

    assert asyncio.run(both()) == [1, 2]
    assert seen.calls == [(1, writer, 1), (2, writer, 2)]


def test_a_generator_is_observed_after_it_ended(library: Library, seen: Seen) -> None:
    """A generator gets what is sent into it and is observed after its end. A closed one is not observed."""
    seen.patch(library.Writer, "count").install()
    assert inspect.isgeneratorfunction(library.Writer.count)
    writer = library.Writer()
    numbers = writer.count(2)
    assert (next(numbers), numbers.send(7), seen.calls) == (0, 1, [])
    with pytest.raises(StopIteration) as ended:
        next(numbers)
    assert ended.value.value == "sent [7, None]"
    assert seen.calls == [("sent [7, None]", writer, 2)]
    list(writer.count(0))
    closed = writer.count(5)
    next(closed)
    closed.close()
    assert len(seen.calls) == 2


@pytest.mark.parametrize("error", [ValueError("x"), KeyboardInterrupt(), SystemExit(3), StopIteration()])
def test_errors_of_the_original_are_the_callers_and_are_not_observed(
    library: Library, seen: Seen, error: BaseException
) -> None:
    """The same object arrives, and later calls are observed again."""
    seen.patch(library.Writer, "fail").install()
    with pytest.raises(type(error)) as raised:
        library.Writer().fail(error)
    assert raised.value is error
    assert not seen.calls
    seen.patch(library.Writer, "put").install()
    library.Writer().put("the next call is observed")
    assert len(seen.calls) == 1


@pytest.mark.parametrize("name", ["missing", "__module__"])
def test_what_is_no_function_cannot_be_patched(library: Library, seen: Seen, name: str) -> None:
    """A library that has changed is noticed at once."""
    with pytest.raises(AttributeError, match=name):
        seen.patch(library.Writer, name)


# --- on and off ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["put", "plain", "inherited", "made", "wait", "count"])
def test_the_original_comes_back_as_it_was(library: Library, seen: Seen, name: str) -> None:
    """The very object, for each kind of method, however often it is installed and removed."""
    before = vars(library.Writer).get(name)
    patch = seen.patch(library.Writer, name)
    for _ in range(100):
        patch.install()
        patch.install()
        assert vars(library.Writer)[name] is not before
        patch.remove()
        patch.remove()
        assert vars(library.Writer).get(name) is before


def test_a_function_of_a_module_comes_back_as_it_was(library: Library, seen: Seen) -> None:
    """Modules have attributes of their own only."""
    before = library.module.put
    patch = seen.patch(library.module, "put")
    patch.install()
    assert library.module.put(5) == 5
    patch.remove()
    assert library.module.put is before
    assert seen.calls == [(5, 5)]


def test_patches_come_off_in_any_order(library: Library) -> None:
    """Three patches in all orders: each is off at once, and the last restores the original."""
    before = library.Writer.put
    for on in itertools.permutations(range(3)):
        for off in itertools.permutations(range(3)):
            seen = [Seen() for _ in range(3)]
            patches = [each.patch(library.Writer, "put") for each in seen]
            for number in on:
                patches[number].install()
            for removed, number in enumerate(off):
                library.Writer().put("a")
                assert sum(len(each.calls) for each in seen) == 3 - removed, (on, off)
                for each in seen:
                    each.calls.clear()
                patches[number].remove()
            assert library.Writer.put is before, (on, off)


@pytest.mark.parametrize("wraps", [True, False])
def test_another_tool_on_top_keeps_working(library: Library, seen: Seen, wraps: bool) -> None:
    """A hundred rounds beneath it neither remove its wrapper nor count a call twice."""
    before = library.Writer.put
    patch = seen.patch(library.Writer, "put")
    patch.install()
    uncover = covering(library.Writer, "put", wraps=wraps)
    covered = library.Writer.put
    patch.remove()
    assert library.Writer.put is covered
    library.Writer().put("off")
    assert not seen.calls
    for count in range(1, 101):
        patch.install()
        patch.install()
        library.Writer().put("on")
        assert len(seen.calls) == count
        patch.remove()
        assert library.Writer.put is covered
    uncover()
    patch.remove()
    assert library.Writer.put is before


def test_another_tool_below_keeps_working(library: Library, seen: Seen) -> None:
    """Removing a patch restores the wrapper of the tool below. The tool can later restore the original."""
    before = library.Writer.put
    uncover = covering(library.Writer, "put")
    below = library.Writer.put
    patch = seen.patch(library.Writer, "put")
    patch.install()
    library.Writer().put("a")
    patch.remove()
    assert library.Writer.put is below
    uncover()
    assert library.Writer.put is before
    assert len(seen.calls) == 1


def test_a_tool_below_that_removes_itself_blindly_takes_the_patch_along(library: Library, seen: Seen) -> None:
    """A tool below that restores the original blindly removes the patch too.

    The patch can still be removed and installed.
    """
    before = library.Writer.put
    uncover = covering(library.Writer, "put")
    patch = seen.patch(library.Writer, "put")
    patch.install()
    uncover()
    assert library.Writer.put is before
    patch.remove()
    assert library.Writer.put is before
    patch.install()
    library.Writer().put("a")
    assert len(seen.calls) == 1
    patch.remove()
    assert library.Writer.put is before


def test_a_tool_that_puts_the_patch_back_after_its_removal_changes_nothing(library: Library, seen: Seen) -> None:
    """A patch that another tool restores is off. The next `install()` uses it again."""
    before = library.Writer.put
    patch = seen.patch(library.Writer, "put")
    for _ in range(100):
        patch.install()
        uncover = covering(library.Writer, "put", wraps=False)
        ours = library.Writer.put
        patch.remove()
        uncover()  # restores our wrapper, which is off
        assert library.Writer.put is not ours
        library.Writer().put("off")
        assert not seen.calls
        patch.install()
        library.Writer().put("on")
        assert len(seen.calls) == 1
        seen.calls.clear()
        patch.remove()
        assert library.Writer.put is before


def test_wrappers_do_not_pile_up(library: Library, seen: Seen) -> None:
    """A program may install and remove for days."""
    patch = seen.patch(library.Writer, "put")
    covering(library.Writer, "put", wraps=False)
    for _ in range(100):
        patch.install()
        patch.remove()
    gc.collect()
    assert len(patch._layers) <= 1
    patch.install()
    depth, current = 0, library.Writer.put
    while hasattr(current, "__wrapped__"):
        depth, current = depth + 1, current.__wrapped__
    assert depth == 1
