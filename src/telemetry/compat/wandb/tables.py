"""Tables that a program logs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final

from telemetry.compat.wandb.media import WBValue

_COLUMNS: Final = ("Input", "Output", "Expected")


class Table(WBValue):
    """Rows under named columns: from lists, an array or a data frame. Types of columns are not checked."""

    _log_type: ClassVar[str] = "table"
    MAX_ROWS: ClassVar[int] = 10_000
    MAX_ARTIFACT_ROWS: ClassVar[int] = 200_000

    def __init__(  # noqa: PLR0917 – W&B's signature
        self,
        columns: Iterable[Any] | None = None,
        data: Any = None,
        rows: Any = None,
        dataframe: Any = None,
        dtype: Any = None,
        optional: Any = True,
        allow_mixed_types: bool = False,
        log_mode: str | None = "IMMUTABLE",
    ) -> None:
        if dataframe is None and hasattr(data, "itertuples"):
            dataframe = data
        self.log_mode = log_mode
        self.columns: list[Any]
        self.data: list[list[Any]] = []
        if dataframe is not None:
            self.columns = list(dataframe.columns)
            self.data = [list(row) for row in dataframe.itertuples(index=False)]
            return
        self.columns = list(_COLUMNS if columns is None else columns)
        given = data if data is not None else rows
        for row in given.tolist() if hasattr(given, "tolist") else given or ():
            self.add_data(*row)

    def __len__(self) -> int:
        return len(self.data)

    def add_data(self, *data: Any) -> None:
        """Add a row. Raise ValueError if it has another number of cells than there are columns."""
        if len(data) != len(self.columns):
            raise ValueError(f"the table has {len(self.columns)} columns, but the row has {len(data)} cells")
        self.data.append(list(data))

    def add_row(self, *row: Any) -> None:
        """Add a row."""
        self.add_data(*row)

    def add_column(self, name: str, data: Any, optional: bool = False) -> None:
        """Add a column. Raise ValueError if it has another number of cells than there are rows."""
        cells = list(data)
        if self.columns and self.data and len(cells) != len(self.data):
            raise ValueError(f"the table has {len(self.data)} rows, but the column has {len(cells)} cells")
        if not self.columns or not self.data:
            self.data = [[None] * len(self.columns) for _ in cells]
        for row, cell in zip(self.data, cells, strict=True):
            row.append(cell)
        self.columns.append(name)

    def get_column(self, name: str, convert_to: str | None = None) -> Any:
        """Return the cells of a column, as a list or with `convert_to="numpy"` as an array."""
        at = self.columns.index(name)
        cells = [row[at] for row in self.data]
        if convert_to != "numpy":
            return cells
        import numpy

        return numpy.array(cells)

    def get_dataframe(self) -> Any:
        """Return the table as a data frame of pandas."""
        from importlib import import_module

        return import_module("pandas").DataFrame(self.data, columns=self.columns)

    def iterrows(self) -> Iterator[tuple[int, list[Any]]]:
        """Yield the number of each row and the row."""
        yield from enumerate(self.data)
