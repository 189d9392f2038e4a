"""The program of a worker: its frames, how it counts, and how it ends."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing

from telemetry.daemon.tokens import process
from telemetry.daemon.tokens.process import FAILED, answer, counter, counts_of, framed, request, serve, texts_of

TEXTS = ["the quick brown fox", "", "to be or not to be " * 40, "naïve 🦊 \x00"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_texts_arrive_as_they_were_sent(texts: list[str]) -> None:
    """Texts arrive unchanged, whatever is in them."""
    assert texts_of(request(texts)) == texts


def test_numbers_arrive_as_they_were_sent() -> None:
    """The numbers of texts that were refused arrive unchanged, too."""
    assert counts_of(answer([3, 0, FAILED])) == [3, 0, FAILED]
    with pytest.raises(struct.error):
        counts_of(b"12345")


def test_counts_are_the_library_s_own(tokenizer_file: Path) -> None:
    """The counts of empty and non-ASCII texts are the library's own, too."""
    library = Tokenizer.from_file(str(tokenizer_file))
    counts = counter(str(tokenizer_file))(TEXTS)
    assert counts == [len(library.encode(text).ids) for text in TEXTS]
    assert counts[0] > 1
    assert counts[1] == 0


def test_what_a_model_adds_or_cuts_is_not_counted(tokenizer_file: Path, tmp_path: Path) -> None:
    """A tokenizer that is set to truncate, pad and frame a text says how many tokens the text has all the same."""
    plain = counter(str(tokenizer_file))(TEXTS)
    library = Tokenizer.from_file(str(tokenizer_file))
    library.add_special_tokens(["<s>"])
    library.post_processor = TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", library.token_to_id("<s>"))]
    )
    library.enable_truncation(5)
    library.enable_padding(length=7)
    library.save(str(tmp_path / "set.json"))
    assert {len(library.encode(text)) for text in TEXTS} == {7}
    assert counter(str(tmp_path / "set.json"))(TEXTS) == plain


def test_a_text_that_the_tokenizer_refuses_costs_no_other(
    tokenizer_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text that the tokenizer refuses is marked, and its neighbours are counted."""
    library = Tokenizer.from_file(str(tokenizer_file))

    class Picky:
        no_padding = no_truncation = staticmethod(lambda: None)

        @staticmethod
        def encode_batch(texts: list[str], add_special_tokens: bool) -> list[object]:
            if "" in texts:
                raise Exception("nothing to encode")
            return library.encode_batch(texts, add_special_tokens=add_special_tokens)

        @staticmethod
        def from_file(path: str) -> Picky:
            return Picky()

    monkeypatch.setattr("tokenizers.Tokenizer", Picky)
    counts = counter("any")(TEXTS)
    assert counts[1] == FAILED
    assert counts[::2] == [len(library.encode(text)) for text in TEXTS[::2]]


def test_requests_are_answered_until_there_are_no_more() -> None:
    """One that is cut off is the end as well."""
    asked = framed(request(["a", "bb"])) + framed(request([])) + framed(request(["ccc"]))[:-1]
    told = io.BytesIO()
    serve(lambda texts: [len(text) for text in texts], io.BytesIO(asked), told)
    assert told.getvalue() == framed(answer([1, 2])) + framed(answer([]))


@pytest.mark.parametrize("content", [None, "{}", "no json"])
def test_a_tokenizer_that_can_t_be_read_is_said(tmp_path: Path, content: str | None) -> None:
    """A program that loads nothing of the package reports the failure in its first frame. Then it ends."""
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content)
    done = subprocess.run(
        [sys.executable, "-P", process.__file__, str(path)], input=b"", capture_output=True, check=False
    )
    (length,) = struct.unpack_from("<I", done.stdout)
    assert length > 0
    assert done.stdout[4:] == done.stdout[4 : 4 + length]
    assert done.returncode == 1
