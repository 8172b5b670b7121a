"""A pandas frame in the shape in which files are read: header, sample, texts and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nareg.errors import InputError
from nareg.io._file import SAMPLE
from nareg.io._notes import Notes, count
from nareg.io._numbers import Numbers, OddCells


class FrameTable:
    """Header, sample and columns of a frame; an index with a meaning becomes the first columns.

    Parameters
    ----------
    frame : pandas.DataFrame
        The table.
    notes : Notes
        Collects the guesses.
    """

    comma = False

    def __init__(self, frame: Any, notes: Notes) -> None:
        import pandas as pd

        self.source, self.notes = notes.source, notes
        if isinstance(frame, pd.Series):
            frame = frame.to_frame(frame.name if frame.name is not None else "value")
        if not isinstance(frame, pd.DataFrame):
            raise InputError(f"{self.source} is {type(frame).__name__}, a pandas DataFrame is expected.")
        if isinstance(frame.columns, pd.MultiIndex):
            raise InputError(f"{self.source} has {frame.columns.nlevels} levels of columns: give it one name per column.")
        if not len(frame):
            raise InputError(f"{self.source} is empty: at least one row is needed.")
        #: Whether rows have nothing but their number.
        self.counted = isinstance(frame.index, pd.RangeIndex) and frame.index.name is None
        levels = [] if self.counted else [frame.index.get_level_values(level) for level in range(frame.index.nlevels)]
        names = ["" if level.name is None else str(level.name) for level in levels]
        if len(levels) == 1 and isinstance(levels[0], (pd.DatetimeIndex, pd.PeriodIndex)):
            names = ["time"]
        self._frame, self._levels = frame, [pd.Series(level) for level in levels]
        self.header = names + [str(name).strip() for name in frame.columns]

    def _series(self, index: int) -> Any:
        """The level of the index, or the column, at this place of the header."""
        return self._levels[index] if index < len(self._levels) else self._frame.iloc[:, index - len(self._levels)]

    def head(self, index: int) -> list[str]:
        """The first cells of a column."""
        return list(_texts(self._series(index).iloc[:SAMPLE]))

    def column(self, index: int) -> str:
        """The name of a column in messages."""
        return f"column {self.header[index]!r}" if self.header[index] else "the index"

    def line(self, row: int) -> str:
        """The place of a row."""
        return f"row {row}"

    def place(self, row: int, column: int) -> str:
        """The place of a cell."""
        return f"{self.line(row)}, {self.column(column)}"

    def load(
        self, texts: Sequence[int], numbers: Sequence[int], *, finite: bool = False, odd: OddCells | None = None
    ) -> tuple[list[np.ndarray], np.ndarray]:
        """Texts of some columns and numbers (R, C) of others, by ``odd`` where their cells are no numbers."""
        levels = len(self._levels)
        part = self._frame.iloc[:, [i - levels for i in numbers]] if min(numbers, default=0) >= levels else None
        if part is not None and all(_numeric(dtype) for dtype in set(part.dtypes)):
            values = part.to_numpy(dtype=float, na_value=np.nan).copy()
        else:
            values = np.empty((len(self._frame), len(numbers)))
            converter = Numbers(self.notes, lambda row, j: self.place(row, numbers[j]), comma=False, finite=finite, odd=odd)
            for j, index in enumerate(numbers):
                values[:, j] = self._converted(index, j, converter)
            converter.finish(values)
        bad = np.isinf(values)
        if bad.any():
            if finite or self.notes.strict:
                row, j = (int(i) for i in np.argwhere(bad)[0])
                raise InputError(f"{self.source}, {self.place(row, numbers[j])}: the value is infinite: write NaN.")
            values[bad] = np.nan
            self.notes.fact(f"{count(int(bad.sum()), 'reading is', 'readings are')} infinite and taken as missing")
        return [_texts(self._series(i)) for i in texts], values

    def _converted(self, index: int, place: int, converter: Numbers) -> np.ndarray:
        column = self._series(index)
        if _numeric(column.dtype):
            return np.asarray(column.to_numpy(dtype=float, na_value=np.nan))
        if column.dtype.kind in "bmMc":
            raise InputError(f"{self.source}, {self.column(index)}: its type is {column.dtype}, numbers are expected.")
        return converter.convert(_texts(column)[:, None], column=place)[:, 0]


def _numeric(dtype: Any) -> bool:
    return dtype.kind in "iuf"


def _texts(column: Any) -> np.ndarray:
    """The column as stripped texts; empty where a cell is missing."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column.dtype):  # pandas drops the time of day where it is 0 in all rows
        words = pd.Index(column).astype(str)
    elif column.dtype.kind == "m":  # times since some start, in seconds
        words = [repr(v) for v in column.dt.total_seconds()]
    elif pd.api.types.is_float_dtype(column.dtype):
        words = [repr(float(v)) for v in column.to_numpy(dtype=float, na_value=np.nan)]
    else:
        words = [str(v) for v in column]
    absent = column.isna().to_numpy()
    return np.array(["" if a else str(w).strip() for w, a in zip(words, absent, strict=True)], dtype=object)
