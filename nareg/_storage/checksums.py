"""Checksums of blocks of rows, by which bits that flip on the disk are found before a certificate relies on them.

The checksum of a block adds up one number per word of 8 bytes, ``mixed(word) (2 i + 1)`` modulo 2^64 for the i-th. Mixing is
one to one, and so is multiplication by an odd number: a change within one word always changes the sum, and any other change
with all but a chance of about 2^-64. Zeros count nothing, so a file that grows by zeros keeps its sums. They are no protection
against whoever means to change the files, and can write new sums.
"""

from __future__ import annotations

import functools

import numba
import numpy as np

from nareg._core.compiled import parallel

#: Bytes of a block, about: a page of memory, which is read as a whole anyway.
BLOCK = 4096
#: Bytes of a word.
WORD = 8
_FACTOR, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)


def rows_per_block(row_bytes: int) -> int:
    """So many that a block has whole words.

    Examples
    --------
    >>> rows_per_block(8), rows_per_block(10_000), rows_per_block(12)
    (512, 1, 336)
    """
    rows = max(BLOCK // max(row_bytes, 1), 1)
    return rows if row_bytes % WORD == 0 else max(rows // WORD * WORD, WORD)


def checksums(data: np.ndarray, blocks: np.ndarray, block_bytes: int) -> np.ndarray:
    """Sums of these blocks of some bytes; where the bytes end, zeros follow.

    Examples
    --------
    >>> data = np.zeros(8192, np.uint8)
    >>> data[5000] = 1
    >>> [bool(one) for one in checksums(data, np.arange(2), 4096)]
    [False, True]
    """
    whole = data.size // WORD
    sums = np.zeros(blocks.size, np.uint64)
    _add_up(data[: whole * WORD].view(np.uint64), blocks, block_bytes // WORD, sums)
    if data.size % WORD:
        last = np.zeros(WORD, np.uint8)
        last[: data.size - whole * WORD] = data[whole * WORD :]
        block, place = divmod(whole, block_bytes // WORD)
        sums[blocks == block] += _mixed(last.view(np.uint64)) * np.uint64(2 * place + 1)
    return sums


def _mixed(word: np.ndarray) -> np.ndarray:
    word = word * _FACTOR
    mixed: np.ndarray = word ^ (word >> _HALF)
    return mixed


@functools.partial(parallel, size=lambda words, blocks, per_block, sums: blocks.size * per_block)
def _add_up(words: np.ndarray, blocks: np.ndarray, per_block: int, sums: np.ndarray) -> None:
    for k in numba.prange(blocks.size):
        first = blocks[k] * per_block
        part = words[first : min(first + per_block, words.size)]
        total = np.uint64(0)
        for i in range(part.size):  # in lanes, as sums of integers may be taken in any order
            word = part[i] * _FACTOR
            total += (word ^ (word >> _HALF)) * np.uint64(2 * i + 1)
        sums[k] = total
