"""Arrays as text: 16-bit integers where that shows the readings, float64 where the page computes with them."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

#: Code of a missing value, and the largest code of a value.
MISSING, LARGEST = 65535, 65534
#: Decimals that sensors write; values with no more of them are stored exactly.
DECIMALS = 4


def encode(array: np.ndarray, dtype: str) -> str:
    """The little-endian bytes of an array as base64."""
    return base64.b64encode(np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<")).tobytes()).decode("ascii")


def decode(text: str, dtype: str) -> np.ndarray:
    """The array that :func:`encode` wrote, in one dimension."""
    return np.frombuffer(base64.b64decode(text), dtype=np.dtype(dtype).newbyteorder("<")).astype(dtype)


def pack(values: np.ndarray) -> dict[str, Any]:
    """Values as ``low + step * code``, NaN where missing.

    The step is a power of ten where that stores every value exactly; else the range over 65,534.
    """
    finite = np.isfinite(values)
    if not finite.any():
        return {"low": 0.0, "step": 1.0, "codes": encode(np.full(values.shape, MISSING), "uint16")}
    low, high = float(values[finite].min()), float(values[finite].max())
    step = next((10.0**-k for k in range(DECIMALS + 1) if _exact(values[finite], k, high - low)), (high - low) / LARGEST or 1.0)
    codes = np.full(values.shape, MISSING, dtype=np.int64)
    codes[finite] = np.clip(np.rint((values[finite] - low) / step), 0, LARGEST)
    return {"low": low, "step": step, "codes": encode(codes, "uint16")}


def unpack(packed: dict[str, Any], shape: tuple[int, ...]) -> np.ndarray:
    """What the page reads from :func:`pack`."""
    codes = decode(packed["codes"], "uint16").reshape(shape)
    return np.where(codes == MISSING, np.nan, packed["low"] + packed["step"] * codes)


def _exact(values: np.ndarray, decimals: int, spread: float) -> bool:
    scaled = values * 10.0**decimals
    return spread * 10**decimals <= LARGEST and bool(np.abs(scaled - np.rint(scaled)).max() < 1e-6)
