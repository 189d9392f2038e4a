"""A process that counts tokens: it reads texts from stdin and writes counts to stdout until stdin ends.

It is run as a file, not as a module of the package, so that it loads neither numpy nor sockets. It ends when its
parent process ends for any reason.

    frame    = length, then so many bytes; all numbers are 32 bits, little-endian
    first    → empty: the tokenizer is read; otherwise the error
    request  ← number of texts, length of each, the texts in UTF-8
    answer   → number of tokens of each; FAILED for a text that the tokenizer refuses
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Sequence
from typing import IO, Final

FAILED: Final = -1
HEAD: Final = struct.Struct("<I")
_NICENESS: Final = 10  # the benchmark on this machine has priority

Count = Callable[[list[str]], list[int]]


def framed(body: bytes) -> bytes:
    return HEAD.pack(len(body)) + body


def request(texts: Sequence[str]) -> bytes:
    """Return the body of a request."""
    encoded = [text.encode() for text in texts]
    return struct.pack(f"<{len(encoded) + 1}I", len(encoded), *map(len, encoded)) + b"".join(encoded)


def texts_of(body: bytes) -> list[str]:
    """Return the texts of a request."""
    (number,) = HEAD.unpack_from(body)
    lengths = struct.unpack_from(f"<{number}I", body, HEAD.size)
    texts, begin = [], HEAD.size * (number + 1)
    for length in lengths:
        texts.append(body[begin : begin + length].decode())
        begin += length
    return texts


def answer(counts: Sequence[int]) -> bytes:
    """Return the body of an answer."""
    return struct.pack(f"<{len(counts)}i", *counts)


def counts_of(body: bytes) -> list[int]:
    """Return the counts of an answer. Raise struct.error for an invalid body."""
    return list(struct.unpack(f"<{len(body) // 4}i", body))


def counter(path: str) -> Count:
    """Return a function that counts tokens by the library's own encoding.

    It excludes special tokens that a model puts around a text, and ignores padding and truncation settings of a
    tokenizer. Raises the errors of the library.
    """
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(path)
    tokenizer.no_padding()
    tokenizer.no_truncation()

    def count(texts: list[str]) -> list[int]:
        try:
            return [len(encoding) for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)]
        except Exception:  # noqa: BLE001 – the library raises plain Exception; the other texts are still counted
            return [FAILED] if len(texts) == 1 else [count([text])[0] for text in texts]

    return count


def serve(count: Count, inbox: IO[bytes], outbox: IO[bytes]) -> None:
    """Answer requests until stdin ends."""
    while len(head := inbox.read(HEAD.size)) == HEAD.size:
        (length,) = HEAD.unpack(head)
        body = inbox.read(length)
        if len(body) < length:
            return
        outbox.write(framed(answer(count(texts_of(body)))))
        outbox.flush()


def main(path: str) -> int:
    """Serve requests. Return 1 if the tokenizer can't be read."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # one worker, one core
    os.nice(_NICENESS)
    inbox, outbox = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output that a library prints is not an answer
    try:
        count = counter(path)
    except Exception as error:  # noqa: BLE001 – the library raises plain Exception; the parent reports it
        outbox.write(framed(str(error).encode(errors="replace") or b"unknown"))
        outbox.flush()
        return 1
    try:
        outbox.write(framed(b""))
        outbox.flush()
        serve(count, inbox, outbox)
    except BrokenPipeError:  # no process waits for the answer
        os._exit(0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
