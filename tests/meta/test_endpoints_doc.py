"""Tests that docs/ENDPOINTS.md describes the messages that the feed reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from telemetry import limits
from telemetry.integrations.endpoints import decode
from telemetry.integrations.endpoints.decode import EndpointFailure, Event, ModelOutput, Prompt, data_of
from telemetry.integrations.endpoints.translate import EndpointsFeed
from telemetry.integrations.feeds import Feed, FeedKind, FeedOptions

TEXT = (Path(__file__).parents[2] / "docs" / "ENDPOINTS.md").read_text()
PART = TEXT.partition("## What is read\n")[2].partition("\n## ")[0]
OTHER = TEXT.partition("## Another feed\n")[2]


def rows(first_header: str) -> dict[str, str]:
    """Return the rows of the table whose header line begins so, as first cell and remainder."""
    table = PART.partition(f"| {first_header} |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [line.strip("|").partition(" | ") for line in table]
    return {first.strip().strip("`"): rest for first, _, rest in cells}


def publisher() -> dict[str, Callable[..., bytes]]:
    """Return the definitions of the page's code."""
    made: dict[str, Any] = {"msgspec": msgspec}
    (block,) = re.findall(r"^```python\n(.*?)^```", PART, re.DOTALL | re.MULTILINE)
    exec(block, made)
    return made


def test_fields_and_types_are_those_of_the_decoder() -> None:
    """The page has all fields and types of the decoder and invents none."""
    fields = rows("field")
    assert set(fields) == set(Event.__struct_fields__)
    named = set()
    for group in fields["event_type"].partition(":")[2].split(";"):
        first, *others = re.findall(r"`([\w.]+)`", group)
        named |= {first, *(f"{first.partition('.')[0]}.{word}" for word in others)}
    assert named == decode.KNOWN
    words = " ".join(PART.split())
    assert f"exactly {decode.TOPIC_BYTES} bytes" in words
    assert f"at most {limits.FEED_BATCH_EVENTS:,} `bin`" in words
    assert f"{limits.FEED_FRAME_BYTES >> 20} MiB at most" in words
    assert f"at most {limits.FEED_ID_CHARS} characters" in words


def test_arrays_are_those_of_the_decoder() -> None:
    """Each with its tag and its elements, in order."""
    written = [re.findall(r"\w+", cell) for cell in rows("`data` | with")]
    kinds = (Prompt, ModelOutput, EndpointFailure)
    assert [tag for tag, *_ in written] == [kind.__struct_config__.tag for kind in kinds]
    assert [len(elements) for _, *elements in written] == [len(kind.__struct_fields__) for kind in kinds]


def test_what_the_code_of_the_page_makes_is_read() -> None:
    """Alone and in batches, with everything that an event carries."""
    page = publisher()
    messages = [
        page["message"]("sample.issued", 1, "a", ["PromptData", None, [1, 2]], conversation_id="c", turn=1),
        page["message"]("sample.complete", 2, "a", ["TextModelOutput", ["x", "y"]], finish_reason="stop"),
        page["message"]("error.client", 3, "a", ["ErrorData", "late", "too late"]),
    ]
    alone = [event for one in messages for event in decode.decode(one)]
    assert list(decode.decode(page["batch"](messages))) == alone
    issued, complete, failed = (event for event in alone if isinstance(event, Event))
    prompt, output = data_of(issued), data_of(complete)
    assert isinstance(prompt, Prompt)
    assert isinstance(output, ModelOutput)
    assert (prompt.tokens, issued.conversation_id, issued.turn) == (2, "c", 1)
    assert (output.text, complete.finish_reason) == ("xy", "stop")
    assert data_of(failed) == EndpointFailure("late", "too late")


def test_the_form_of_a_feed_is_written_down() -> None:
    """Every member of a feed, of its class and of its options."""
    members = {name for form in (Feed, FeedKind) for name in vars(form) if not name.startswith("_")}
    named = {word for cell in re.findall(r"`([^`]+)`", OTHER) for word in re.findall(r"\w+", cell)}
    assert members | set(FeedOptions.__dataclass_fields__) <= named
    assert {"topics", "addresses", "take", "close"} <= set(vars(EndpointsFeed))
