"""Data types that a program logs: distributions, pictures and other files."""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePath
from typing import Any, ClassVar, Final

from telemetry import limits
from telemetry.compat.wandb.errors import UsageError
from telemetry.compat.wandb.util import generate_id
from telemetry.integrations.wandb.values import kind_of

_COLORS: Final = {1: 0, 2: 4, 3: 2, 4: 6}
"""Color type of PNG by number of channels."""
_LEVEL: Final = 3


class Folders:
    """A place for data that a program logs without a file."""

    def __init__(self) -> None:
        self.of_run: Callable[[], str] = os.getcwd
        """Function that returns the folder of the current run."""

    def new_file(self, kind: str, suffix: str) -> Path:
        folder = Path(self.of_run()) / "media" / kind
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{generate_id(12)}.{suffix}"


FOLDERS: Final = Folders()


class WBValue:
    """Base of the data types."""

    _log_type: ClassVar[str] = ""


class Histogram(WBValue):
    """A distribution: counted from a sequence, or given as `(counts, edges)` in `np_histogram`."""

    _log_type = "histogram"
    MAX_LENGTH: ClassVar[int] = limits.WANDB_BINS

    def __init__(
        self, sequence: Any = None, np_histogram: tuple[Any, Any] | None = None, num_bins: int = 64
    ) -> None:
        if np_histogram is None:
            import numpy

            if hasattr(sequence, "detach"):
                sequence = sequence.detach().cpu().float().numpy()
            np_histogram = numpy.histogram(sequence, bins=num_bins)
        if len(np_histogram) != 2:
            raise ValueError("np_histogram must be a pair of counts and edges")
        self.histogram, self.bins = (_listed(part) for part in np_histogram)
        if len(self.histogram) > self.MAX_LENGTH:
            raise ValueError(f"a histogram has at most {self.MAX_LENGTH} bins, not {len(self.histogram)}")
        if len(self.histogram) + 1 != len(self.bins):
            raise ValueError(f"{len(self.histogram)} bins need {len(self.histogram) + 1} edges")


class Media(WBValue):
    """A file, or data that becomes a file when it is logged."""

    _suffix: str = ""
    """Kind of file that data becomes. Without one, data must come as a file."""

    def __init__(self, data_or_path: Any, caption: str | None = None) -> None:
        self._caption = caption
        self._file: str | None = None
        self._data: bytes | None = None
        if isinstance(data_or_path, Media):
            self._file, self._data = data_or_path._file, data_or_path._data
        elif isinstance(data_or_path, str | PurePath):
            self._file = str(data_or_path)
        else:
            self._data = self._encoded(data_or_path)

    @property
    def _path(self) -> str | None:
        if self._file is None and self._data is not None:
            path = FOLDERS.new_file(kind_of(self), self._suffix)
            path.write_bytes(self._data)
            self._file = str(path)
        return self._file

    def _encoded(self, data: Any) -> bytes:
        if isinstance(data, io.IOBase):
            content = data.read()
            self._suffix = Path(str(getattr(data, "name", "data.bin"))).suffix.lstrip(".") or "bin"
            return content if isinstance(content, bytes) else str(content).encode()
        raise UsageError(
            f"{type(self).__name__} takes the path of a file here, not {type(data).__name__}: "
            "save it and pass the path"
        )


class Image(Media):
    """A picture: a path, a URI, an array, a tensor, or a picture of Pillow or matplotlib."""

    _log_type = "image-file"
    _suffix = "png"

    def __init__(self, data_or_path: Any, mode: str | None = None, caption: str | None = None, **more: Any) -> None:
        super().__init__(data_or_path, caption)
        self.mode = mode
        self.options = more
        """Boxes, masks, classes and grouping. They are not recorded."""

    @property
    def caption(self) -> str | None:
        return self._caption

    def _encoded(self, data: Any) -> bytes:
        if hasattr(data, "gcf"):  # the module pyplot
            data = data.gcf()
        if hasattr(data, "get_figure"):
            data = data.get_figure()
        if not hasattr(data, "savefig") and not (hasattr(data, "save") and hasattr(data, "convert")):
            return png_of(data)
        buffer = io.BytesIO()
        if hasattr(data, "savefig"):
            data.savefig(buffer, format="png")
        else:
            data.save(buffer, format="PNG")
        return buffer.getvalue()


class Audio(Media):
    """A sound: the path of a file."""

    _log_type = "audio-file"

    def __init__(self, data_or_path: Any, sample_rate: int | None = None, caption: str | None = None) -> None:
        super().__init__(data_or_path, caption)
        self.sample_rate = sample_rate


class Video(Media):
    """A film: the path of a file."""

    _log_type = "video-file"

    def __init__(self, data_or_path: Any, caption: str | None = None, fps: int | None = None, **more: Any) -> None:
        super().__init__(data_or_path, caption)
        self.fps = fps
        self.options = more


class Html(Media):
    """A page: its text, or an open file."""

    _log_type = "html-file"
    _suffix = "html"

    def __init__(self, data: Any, inject: bool = True, data_is_not_path: bool = False) -> None:
        is_path = isinstance(data, PurePath) or (isinstance(data, str) and os.path.isfile(data))
        if is_path and not data_is_not_path:
            super().__init__(data)
            self.html = Path(data).read_text(errors="replace")
        else:
            self.html = data if isinstance(data, str) else data.read()
            super().__init__(io.StringIO(self.html))
            self._suffix = "html"


class Object3D(Media):
    """A body: the path of a file."""

    _log_type = "object3D-file"

    def __init__(self, data_or_path: Any, caption: str | None = None, **more: Any) -> None:
        super().__init__(data_or_path, caption)
        self.options = more


class Molecule(Object3D):
    """A molecule: the path of a file."""

    _log_type = "molecule-file"


class Plotly(WBValue):
    """A figure of plotly. It is not recorded."""

    _log_type = "plotly-file"

    def __init__(self, val: Any) -> None:
        self.figure = val


class Classes(WBValue):
    """Names of the classes of a picture. They are not recorded."""

    def __init__(self, class_set: Iterable[Any]) -> None:
        self.class_set = list(class_set)


def _listed(part: Sequence[Any] | Any) -> list[Any]:
    return list(part.tolist() if hasattr(part, "tolist") else part)


def png_of(pixels: Any) -> bytes:
    """Return an array or a tensor as a PNG: height × width, with 1 to 4 channels last, or first as torch has them.

    Floats are in the range 0 to 1, or -1 to 1, other numbers in 0 to 255. Raises ValueError for another shape.
    """
    import numpy

    if hasattr(pixels, "detach"):  # a tensor
        pixels = pixels.detach().cpu().float().numpy() if pixels.is_floating_point() else pixels.cpu().numpy()
        if pixels.ndim == 3 and pixels.shape[0] in _COLORS:
            pixels = numpy.moveaxis(pixels, 0, -1)
    array = numpy.asarray(pixels)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in _COLORS or not array.size:
        raise ValueError(f"an array of the shape {array.shape} is not a picture")
    if array.dtype.kind == "f":
        array = numpy.nan_to_num(array)
        low, high = float(array.min()), float(array.max())
        if low >= -1 and high <= 1:
            array = (array + 1) * 127.5 if low < 0 else array * 255
    array = numpy.clip(array, 0, 255).astype(numpy.uint8)
    height, width, channels = array.shape
    lines = numpy.zeros((height, 1 + width * channels), numpy.uint8)  # each line begins with its filter: none
    lines[:, 1:] = array.reshape(height, -1)
    head = struct.pack(">IIBBBBB", width, height, 8, _COLORS[channels], 0, 0, 0)
    data = zlib.compress(lines.tobytes(), _LEVEL)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
