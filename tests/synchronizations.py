"""Count what makes the host wait for a device, on tensors of the CPU: reads of values, and copies from device to device.

A dispatch mode sees ``item()``, ``bool()``, ``nonzero()`` (and masks as indices) and copies between devices; a function mode
sees ``.cpu()``, ``.numpy()`` and ``.tolist()``, which do nothing on a CPU and are not dispatched.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

READS = {
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::is_nonzero",
    "aten::equal",
    "aten::masked_select",
    "aten::_unique2",
    "aten::unique_dim",
}
METHODS = {"cpu", "numpy", "tolist", "__array__"}
#: Adam's count of steps is a number of the CPU whatever the device, and masks of dropout there are those of the CPU alone.
ON_THE_HOST = ("torch/optim/", *(f"nareg/gnn/networks.py:{name}" for name in ("dropout", "_Dropout", "_masked")))


class Synchronizations:
    """Context that counts; ``places`` names the line of nareg (or of the test) for each.

    >>> with Synchronizations() as seen:
    ...     _ = torch.ones(2).sum().item()
    >>> seen.count
    1
    """

    def __init__(self) -> None:
        self.places: Counter[str] = Counter()

    @property
    def count(self) -> int:
        return sum(self.places.values())

    def note(self, what: str) -> None:
        frame, place = sys._getframe(2), None
        while frame is not None:
            file = Path(frame.f_code.co_filename).as_posix()
            if any(part in f"{file}:{frame.f_code.co_qualname}" for part in ON_THE_HOST):
                return
            ours = "/site-packages/" not in file and any(part in file for part in ("/nareg/", "/tests/", "/experiments/"))
            if place is None and ours and __file__ != file:
                place = f"{'/'.join(file.split('/')[-3:])}:{frame.f_lineno}"
            frame = frame.f_back
        self.places[f"{what} at {place}"] += 1

    def __enter__(self) -> Synchronizations:
        self._modes = [_Dispatch(self), _Function(self)]
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(self, *exception) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(*exception)


class _Dispatch(TorchDispatchMode):
    def __init__(self, seen: Synchronizations) -> None:
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name
        out = func(*args, **(kwargs or {}))
        copies = name in ("aten::_to_copy", "aten::copy_") and _devices(args) | _devices((out,)) > _devices((out,))
        masks = name in ("aten::index.Tensor", "aten::index") and any(
            isinstance(index, torch.Tensor) and index.dtype == torch.bool for index in (args[1] if len(args) > 1 else ())
        )
        if name in READS or copies or masks:
            self.seen.note(name)
        return out


class _Function(TorchFunctionMode):
    def __init__(self, seen: Synchronizations) -> None:
        super().__init__()
        self.seen = seen

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in METHODS and args and isinstance(args[0], torch.Tensor):
            self.seen.note(func.__name__)
        return func(*args, **(kwargs or {}))


def _devices(values) -> set[torch.device]:
    return {value.device for value in values if isinstance(value, torch.Tensor)}
