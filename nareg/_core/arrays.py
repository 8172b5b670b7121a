"""One interface to NumPy arrays and torch tensors, which imports torch only if it is loaded."""

from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np
import scipy.sparse as sp

from nareg.errors import InputError

#: A NumPy array or a torch tensor, in code written once for both.
Array = Any
Class = TypeVar("Class", bound=type)
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
#: Characters of a field that :func:`briefly_shown` writes out.
BRIEF = 60
#: Median absolute deviation of a normal variable times this is its standard deviation.
MAD_TO_STD = 1.4826
#: Units of NumPy's dates that are finer than a second.
FINER = ("ms", "us", "ns", "ps", "fs", "as")
SECOND = np.timedelta64(1, "s")
#: Seconds of a calendar month in the mean. Steps of whole ones stand for calendar months.
MONTH = 365.2425 * 86_400 / 12
#: Months of times in UTC begin so much earlier where clocks are ahead, and an hour earlier again in summer.
AHEAD, SUMMER = np.timedelta64(13, "h"), np.timedelta64(1, "h")


def robust_std(values: np.ndarray) -> float:
    """Standard deviation that a few values far out leave as it is; 0 for no values.

    Examples
    --------
    >>> import numpy as np
    >>> robust_std(np.array([1.0, 2.0, 3.0, 1e6, 0.0]))
    1.4826
    """
    return MAD_TO_STD * float(np.median(np.abs(values - np.median(values)))) if values.size else 0.0


def briefly_shown(cls: Class) -> Class:
    """Decorate a dataclass so that its ``repr`` is short: arrays and tables by their shape, what else is long by its type.

    Examples
    --------
    >>> @briefly_shown
    ... @dataclasses.dataclass
    ... class Estimate:
    ...     x: np.ndarray
    ...     method: str
    >>> Estimate(np.zeros((12, 100)), "kriging")
    Estimate(x=<12 x 100 float64>, method='kriging')
    """

    def __repr__(self: Any) -> str:
        fields = (field.name for field in dataclasses.fields(self) if field.repr)
        return f"{type(self).__name__}({', '.join(f'{name}={_brief(getattr(self, name))}' for name in fields)})"

    cls.__repr__ = __repr__  # type: ignore[misc, assignment]
    return cls


def _brief(value: object) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        kind = getattr(value, "dtype", type(value).__name__)
        return f"<{' x '.join(map(str, shape))} {kind}>"
    if isinstance(value, (tuple, list, dict, frozenset, set)) and len(value) > 2:
        return f"<{type(value).__name__} of {len(value):,}>"
    text = str(value) if isinstance(value, enum.Enum) else repr(value)
    return text if len(text) <= BRIEF and "\n" not in text else f"<{type(value).__name__}>"


def is_tensor(value: object) -> bool:
    """Whether this is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def eagerly(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Keep torch.compile out of a function whose NumPy, SciPy and compiled loops it cannot follow."""

    @functools.wraps(function)
    def call(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        torch = sys.modules.get("torch")
        if torch is None or not torch.compiler.is_compiling():
            return function(*args, **options)
        result: Result = torch.compiler.disable(function)(*args, **options)
        return result

    return call


def as_numpy(value: Any) -> Any:
    """A torch tensor as a NumPy array (a SciPy CSR array where it is sparse), off its device; anything else as it is.

    Half precision, which NumPy or SciPy cannot compute with, becomes float32.
    """
    if not is_tensor(value):
        return value
    if str(value.layout) == "torch.strided":
        return outside_transforms(_to_numpy, value.detach())
    return outside_transforms(functools.partial(_to_numpy, value))  # a sparse tensor cannot be wrapped


def _to_numpy(value: Any) -> Any:
    import torch

    value = value.detach().cpu()
    if value.dtype in (torch.float16, torch.bfloat16):
        value = value.float()
    if value.layout == torch.strided:
        return value.resolve_conj().resolve_neg().numpy()
    _refuse_damaged(value)
    value = value.to_sparse_coo().coalesce()
    return sp.csr_array(sp.coo_array((value.values().numpy(), value.indices().numpy()), shape=tuple(value.shape)))


def differentiated(value: Any) -> bool:
    """Whether a derivative in a tensor is asked for: backward, or forward along a tangent; False of what is no tensor."""
    if not is_tensor(value):
        return False
    if value.requires_grad or str(value.layout) != "torch.strided":  # sparse tensors have no tangents
        return bool(value.requires_grad)
    from torch.autograd import forward_ad

    if not in_transform():
        return forward_ad.unpack_dual(value).tangent is not None
    # what an outer transform of torch.func asks for is hidden from the inner ones, of which torch has no public list
    from torch._functorch.pyfunctorch import temporarily_pop_interpreter_stack

    functorch = _functorch()
    if not (functorch.is_batchedtensor(value) or forward_ad.unpack_dual(value).tangent is None):
        return True
    wrapped = functorch.maybe_get_level(value) == functorch.maybe_current_level()
    with temporarily_pop_interpreter_stack():
        return differentiated(functorch.get_unwrapped(value) if wrapped else value)


def in_transform() -> bool:
    """Whether a transform of torch.func, such as grad, is active: it wraps tensors, which have no memory then."""
    import torch

    return torch._C._are_functorch_transforms_active()  # which autograd functions ask


def outside_transforms(function: Callable[..., Result], *tensors: Any) -> Result:
    """``function(*tensors)`` of tensors that no transform of torch.func wraps, without a gradient.

    An autograd function's forward pass is where torch.func takes its wrappers off.
    """
    if not in_transform():
        return function(*tensors)
    result: Result = _outside().apply(function, False, *tensors)()
    return result


def of_all_entries(function: Callable[[Any], Result], tensor: Any) -> Result:
    """A number of all entries of a tensor, in whatever shape they come, as :func:`outside_transforms` would return it.

    So it may be taken of all that torch.func.vmap batches, too. An array is taken as it is.
    """
    if not is_tensor(tensor) or not in_transform():
        return function(tensor)
    result: Result = _outside().apply(function, True, tensor)()
    return result


def _functorch() -> Any:
    import torch

    return torch._C._functorch  # type: ignore[attr-defined]


def refuse_transform(name: str) -> None:
    """Refuse a gradient in ``name`` that a transform of torch.func asks for."""
    if in_transform():
        raise InputError(f"{name} has no derivative by torch.func: take torch.autograd.grad, or backward().")


def refuse_nested_tangents(name: str) -> None:
    """Refuse a tangent of a tangent through ``name``, of which torch would take the outer one as zero."""
    if not in_transform():
        return
    functorch = _functorch()
    if sum(level.key() == functorch.TransformType.Jvp for level in functorch.get_interpreter_stack() or ()) > 1:
        raise InputError(
            f"{name} has no jvp within a jvp, or jacfwd within jacfwd: take torch.func.hessian, or jacfwd of jacrev."
        )


@functools.cache
def _outside() -> Any:
    import torch

    class Outside(torch.autograd.Function):
        """A function that returns what another one returns: as no tensor, it is not wrapped."""

        @staticmethod
        def forward(function: Callable[..., Result], of_all: bool, *tensors: Any) -> Callable[[], Result]:
            result = function(*tensors)
            return lambda: result

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            pass

        @staticmethod
        def vmap(
            info: Any, in_dims: Any, function: Callable[..., Result], of_all: bool, *tensors: Any
        ) -> tuple[Callable[[], Result], None]:
            if of_all:
                return Outside.apply(function, True, *tensors), None
            raise InputError(
                "torch.func.vmap batches a tensor whose values are needed: pass the batch as columns, or loop over it."
            )

    return Outside


def _refuse_damaged(value: Any) -> None:
    """Refuse a sparse tensor whose index arrays do not fit its shape: torch's loops read and write where an index points."""
    import torch

    try:
        if value.layout == torch.sparse_coo:
            torch.sparse_coo_tensor(value._indices(), value._values(), value.shape, check_invariants=True)
            return
        by_rows = value.layout in (torch.sparse_csr, torch.sparse_bsr)
        starts = value.crow_indices() if by_rows else value.ccol_indices()
        places = value.col_indices() if by_rows else value.row_indices()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse .* tensor support is in beta", UserWarning)
            torch.sparse_compressed_tensor(
                starts, places, value.values(), value.shape, layout=value.layout, check_invariants=True
            )
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"a tensor is a damaged sparse matrix ({reason}): build it again from its entries.") from None


def as_tensor(value: Array, **options: Any) -> Any:
    """``torch.as_tensor`` of any array: one that torch warns of (read-only) or refuses (backward in memory) is copied."""
    import torch

    alien = isinstance(value, np.ndarray) and (not value.flags.writeable or any(stride < 0 for stride in value.strides))
    return torch.as_tensor(value.copy() if alien else value, **options)


def empty_like(x: Array) -> Array:
    """A contiguous array of the same kind, shape, dtype and place as x."""
    return namespace(x).empty(x.shape, dtype=x.dtype, device=x.device)


def namespace(x: Array) -> Any:
    """The NumPy or the torch module, whose functions take x."""
    if isinstance(x, (np.ndarray, np.generic)):
        return np
    import torch

    return torch


def dots(A: Array, B: Array) -> Array:
    """The inner products of the columns of two (N, T) arrays, (T,)."""
    return np.einsum("it,it->t", A, B) if isinstance(A, np.ndarray) else (A * B).sum(0)


def ratio(above: Array, below: Array, where: Array = None) -> Array:
    """``above / below`` where the condition holds (by default: ``below > 0``), zero elsewhere."""
    where = below > 0 if where is None else where
    if isinstance(below, np.ndarray):
        return np.divide(above, below, out=np.zeros_like(below), where=where)
    return namespace(below).where(where, above / below, 0.0)


def in_calendar(start: np.datetime64, months: np.ndarray) -> np.ndarray:
    """Times that are so many calendar months after a start: as long after their month's begin, or before its end.

    Examples
    --------
    >>> in_calendar(np.datetime64("2024-01-31"), np.array([1, 2])).astype("datetime64[D]")
    array(['2024-02-29', '2024-03-31'], dtype='datetime64[D]')
    """
    begin = month_of(start)
    later = begin + months
    if (start + AHEAD).astype("datetime64[D]") + 1 == begin + 1:  # the last day
        return (later + 1).astype("datetime64[ns]") - ((begin + 1).astype("datetime64[ns]") - start)
    return np.asarray(later.astype("datetime64[ns]") + (start - begin.astype("datetime64[ns]")))


def month_of(times: Any) -> Any:
    """Months of local times that are in UTC, whatever the zone: those 13 hours later."""
    return (times + AHEAD).astype("datetime64[M]")


def calendar_months(times: np.ndarray) -> np.ndarray | None:
    """Months (T,) since 1970 of increasing times that are calendar months apart, but for an hour in summer; None of others.

    Examples
    --------
    >>> calendar_months(np.array(["2024-01-31", "2024-02-29", "2024-04-30"], dtype="datetime64[ns]"))
    array([648, 649, 651])
    >>> calendar_months(np.array(["2024-01-31", "2024-03-01", "2024-03-31"], dtype="datetime64[ns]")) is None
    True
    """
    number: np.ndarray = month_of(times).astype(np.int64)
    apart = len(times) > 1 and np.diff(number).all()
    return number if apart and (np.abs(in_calendar(times[0], number - number[0]) - times) <= SUMMER).all() else None


def since(times: np.ndarray, start: Any) -> np.ndarray:
    """Seconds from one date to others, float64, over any span; NaN for no date.

    Nanoseconds in 64 bits would overflow after 292 years.

    Examples
    --------
    >>> import numpy as np
    >>> since(np.array(["2200-01-01"], dtype="datetime64[ns]"), np.datetime64("1700-01-01", "ns"))
    array([1.57784544e+10])
    """
    whole, rest = _parts(times)
    first, of_first = _parts(np.asarray(start))
    return np.asarray((whole - first) / SECOND + (rest - of_first), dtype=np.float64)


def _parts(times: np.ndarray) -> tuple[np.ndarray, Any]:
    """Whole seconds as dates, and what is left of each in seconds."""
    whole = times.astype("datetime64[s]")
    if np.datetime_data(times.dtype)[0] not in FINER:
        return whole, 0.0
    return whole, (times - whole.astype(times.dtype)) / SECOND
