"""What a layer says to an argument of PyTorch Geometric's layers that it has under another name, or does without."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

#: PyTorch Geometric's argument -> (nareg's argument, what to write); the first that the layer has, or no argument at all.
REMEDIES: dict[str, tuple[tuple[str | None, str], ...]] = {
    "K": (("order", "use order"), (None, "omit it, the filter is not truncated")),
    "alpha": (("lam", "use lam = 1 / alpha - 1"),),
    "cached": ((None, "omit it, a layer prepares a graph once and again when it changes"),),
    "add_self_loops": ((None, "omit it, self-loops are always added"),),
    "normalize": (("normalization", "use normalization"), ("laplacian", "use laplacian")),
}


def explained(init: Callable[..., None]) -> Callable[..., None]:
    """An ``__init__`` that names nareg's argument where PyTorch Geometric's is given; its signature stays as it is."""
    own = inspect.signature(init).parameters

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        for name in kwargs.keys() - own.keys() & REMEDIES.keys():
            remedy = next(text for mine, text in REMEDIES[name] if mine is None or mine in own)
            raise TypeError(f"{type(self).__name__} has no argument {name}, as PyTorch Geometric's layers have: {remedy}.")
        init(self, *args, **kwargs)

    return checked
