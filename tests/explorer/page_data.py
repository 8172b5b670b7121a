"""The data of a page, read as its script reads them."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from nareg.explorer._payload import MISSING


def decode(text: str, dtype: str) -> np.ndarray:
    """The array that :func:`encode` wrote, in one dimension."""
    return np.frombuffer(base64.b64decode(text), dtype=np.dtype(dtype).newbyteorder("<")).astype(dtype)


def unpack(packed: dict[str, Any], shape: tuple[int, ...]) -> np.ndarray:
    """What the page reads from :func:`pack`."""
    codes = decode(packed["codes"], "uint16").reshape(shape)
    return np.where(codes == MISSING, np.nan, packed["low"] + packed["step"] * codes)
