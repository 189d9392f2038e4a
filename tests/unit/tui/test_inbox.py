"""The inbox: bounded, the newest wins."""

from __future__ import annotations

from threading import Thread

from telemetry.tui.feed.news import CommandOutput, MembersOf, Trends, Trouble, ViewerNote
from telemetry.tui.model.scene import TREND_POINTS
from telemetry.tui.viewer import Inbox


def test_of_each_kind_the_newest_is_kept() -> None:
    """The inbox keeps the newest of each kind, as what nobody has seen in time nobody needs to see."""
    inbox = Inbox(lambda: None)
    for number in range(100):
        inbox.tell(Trouble(str(number)))
        inbox.tell(CommandOutput((str(number),)))
    assert inbox.take() == [Trouble("99"), CommandOutput(("99",))]
    assert inbox.take() == []


def test_answers_about_several_nodes_are_all_kept() -> None:
    """Answers about several nodes are all kept, of each node the newest."""
    inbox = Inbox(lambda: None)
    for node in ("a", "b", "a"):
        inbox.tell(MembersOf(node, ()))
    assert inbox.take() == [MembersOf("a", ()), MembersOf("b", ())]


def test_trends_and_notes_are_all_kept_within_a_bound() -> None:
    """Each trend is one more second, and each note an answer; nobody needs more than a screen holds."""
    inbox = Inbox(lambda: None)
    few = [Trends({("a", ()): (1.0,)}), Trends({("a", ()): (2.0,)}), ViewerNote("one"), ViewerNote("two")]
    for news in few:
        inbox.tell(news)
    assert inbox.take() == few
    for number in range(1_000):
        inbox.tell(Trends({("a", ()): (float(number),)}))
        inbox.tell(ViewerNote(str(number)))
    kept = inbox.take()
    assert len([news for news in kept if isinstance(news, Trends)]) == TREND_POINTS
    assert kept[-1] == ViewerNote("999")
    assert len(kept) < 2 * TREND_POINTS


def test_it_wakes_once_for_all_that_comes_before_it_is_emptied() -> None:
    """A flood of news costs one message."""
    woken: list[None] = []
    inbox = Inbox(lambda: woken.append(None))
    inbox.tell(Trouble("a"))
    inbox.tell(Trouble("b"))
    assert len(woken) == 1
    inbox.take()
    inbox.tell(Trouble("c"))
    assert len(woken) == 2


def test_threads_may_tell_at_the_same_time() -> None:
    """Threads may tell at the same time, and no news is lost or doubled."""
    inbox = Inbox(lambda: None)
    threads = [Thread(target=lambda name=name: inbox.tell(ViewerNote(name))) for name in "abcdef"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(note.words for note in inbox.take() if isinstance(note, ViewerNote)) == list("abcdef")
