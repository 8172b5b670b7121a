"""What became of the cells of a table: read, empty, averaged with another, left out. The numbers add up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

#: What becomes of a cell that is not a reading of its own, in the order of sentences.
EMPTY = "empty"
CODED = "with a number that means missing"
FAILED = "that failed the checks of the file's agency"
MARKED = "marked as bad"
OTHER_KIND = "of other kinds"
UNKNOWN = "of stations that the table of stations lacks"
KNOWN_TIME = "of times that the model has"
EARLIER = "of earlier times that the model does not have"
MERGED = "averaged with another of their station and time"
IN_STEP = "averaged with another of their step"
FATES = (EMPTY, CODED, FAILED, MARKED, OTHER_KIND, UNKNOWN, KNOWN_TIME, EARLIER, MERGED, IN_STEP)


@dataclass(frozen=True)
class CellCounts:
    """What became of the cells of readings: ``cells`` are the ``used`` ones and those ``beside`` them.

    Attributes
    ----------
    cells : int
        Cells that may have a reading of the quantity: rows of a long table, or rows times columns of stations.
    used : int
        Those that are readings now. Of readings that are averaged, one counts.
    beside : mapping of str to int
        What the others are, such as ``"empty"``, with their number.

    Examples
    --------
    >>> print(CellCounts(10, 7, {"empty": 2, "marked as bad": 1}).sentence())
    Of 10 cells, 7 are readings that are used; others: 2 empty, 1 marked as bad.
    """

    cells: int
    used: int
    beside: Mapping[str, int]

    @property
    def add_up(self) -> bool:
        """Whether every cell is in one of the numbers."""
        return self.cells == self.used + sum(self.beside.values())

    @property
    def all_used(self) -> bool:
        """Whether every reading is used as it is."""
        return set(self.beside) <= {EMPTY}

    def sentence(self) -> str:
        """All numbers in one sentence."""
        parts = [f"{self.beside[fate]:,} {fate}" for fate in FATES if self.beside.get(fate)]
        return f"Of {self.cells:,} cells, {self.used:,} are readings that are used" + (
            f"; others: {', '.join(parts)}." if parts else "."
        )

    def less(self, number: int, fate: str) -> CellCounts:
        """The counts after so many readings more are not used."""
        if not number:
            return self
        return replace(self, used=self.used - number, beside=Counter(self.beside) + Counter({fate: number}))

    def __add__(self, other: CellCounts) -> CellCounts:
        """The counts of two tables together."""
        return CellCounts(self.cells + other.cells, self.used + other.used, Counter(self.beside) + Counter(other.beside))
