"""The one place where arrays, masks, graphs and numbers that come from a user are checked.

Public functions call these at their border, once; everything behind the border trusts its arguments.
A check either returns a clean array or raises an error of one sentence: argument, value, remedy.
"""

from __future__ import annotations

import numbers
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from nareg._core import memory as _memory
from nareg._core.arrays import as_numpy, differentiated, is_tensor
from nareg.errors import InputError, TooLargeError

#: Largest number of nodes for which a function may form dense N x N matrices (about 72 MB each).
DENSE_LIMIT = 3000

#: Bytes that are not worth asking the system for.
SMALL = 2**24

#: No count, size or seed of a network is larger.
LARGEST_INTEGER = 2**63 - 1

Floats = np.ndarray[Any, np.dtype[np.floating]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


def _first(bad: np.ndarray) -> str:
    """Index of the first True entry, written as a user would write it: ``[3]`` or ``[3, 5]``."""
    index = np.argwhere(bad)[0]
    return "[" + ", ".join(str(int(i)) for i in index) + "]"


def refuse_gradient(name: str, value: Any) -> None:
    """Refuse a tensor that requires a gradient where none is computed."""
    if differentiated(value):
        raise InputError(f"{name} requires a gradient, which is not computed in it: pass {name}.detach().")


def array_of(name: str, value: Any) -> np.ndarray:
    """The value as an array of whatever type; ragged lists are refused, and masked arrays."""
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(f"{name} is a masked array, whose mask would be lost: pass {name}.compressed() or {name}.filled(...).")
    refuse_gradient(name, value)
    try:
        here = is_tensor(value) and value.device.type == "cpu" and str(value.layout) == "torch.strided"
        return np.asarray(as_numpy(value) if here else value)
    except ValueError as error:
        raise InputError(f"{name} is not an array: its rows have different lengths ({error}).") from None
    except TypeError as error:
        raise InputError(f"{name} is a {type(value).__name__}, which is not to be read as an array ({error}).") from None


def covariance(variances: Floats) -> Floats:
    """A checked noise covariance as a matrix, whether it comes as (N,) variances or as (N, N)."""
    return np.diag(variances) if variances.ndim == 1 else variances


def floats(name: str, value: Any, *, ndim: Iterable[int], finite: bool = True, remedy: str = "replace it") -> Floats:
    """A float32 or float64 array; integers become float64; anything else is refused."""
    if isinstance(value, np.ma.MaskedArray):
        raise InputError(
            f"{name} is a masked array, whose mask would be lost: pass {name}.filled(numpy.nan) and, for readings, "
            f"observed=~{name}.mask to interpolate."
        )
    if sp.issparse(value):
        raise InputError(f"{name} is a sparse matrix, a dense array is expected: pass {name}.toarray().")
    array = array_of(name, value)
    if array.dtype == bool:
        raise InputError(
            f"{name} is boolean: if it is a mask pass it as a mask argument (observed=...), "
            f"if it is data convert it with {name}.astype(float)."
        )
    if array.dtype.kind in "iu":
        array = array.astype(np.float64)
    elif array.dtype.kind == "c":
        raise InputError(f"{name} has dtype {array.dtype}, real numbers are expected: pass {name}.real, then {name}.imag.")
    elif array.dtype.kind == "O" and array.ndim == 0:
        what = "None" if value is None else f"a {type(value).__name__}"
        raise InputError(f"{name} is {what}: pass real numbers, as an array.")
    elif array.dtype.kind != "f":
        raise InputError(f"{name} has dtype {array.dtype}, real numbers are expected: convert it to float64.")
    elif array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    allowed = tuple(ndim)
    if array.ndim not in allowed:
        wanted = " or ".join(f"{d}-dimensional" for d in allowed)
        raise InputError(f"{name} has shape {array.shape}, a {wanted} array is expected.")
    if finite and not np.isfinite(array).all():
        bad = ~np.isfinite(array)
        where = _first(bad) if array.ndim else ""
        raise InputError(f"{name}{where} is {array[bad].flat[0]}: values must be finite; {remedy}.")
    return array


def signals(name: str, value: Any, n_nodes: int) -> Floats:
    """Graph signals: ``(n_nodes,)`` or ``(n_nodes, n_signals)``, finite, at least one signal."""
    remedy = "mark missing readings with a mask (interpolate(..., observed=mask)) or drop the node"
    array = floats(name, value, ndim=(1, 2), remedy=remedy)
    lengths(name, array, n_nodes)
    squares(name, array)
    return array


def squares(name: str, array: Floats) -> None:
    """Refuse values whose squares overflow; NaN has none."""
    largest = float(np.fmax.reduce(np.abs(array), axis=None, initial=0))
    if largest > np.sqrt(np.finfo(array.dtype).max / array.size):
        raise InputError(f"{name} holds a value of size {largest:g}, whose square overflows: divide {name} by a constant.")


def squares_survive(name: str, array: Floats) -> None:
    """Refuse signals whose squares underflow: they have no second moment."""
    largest = float(np.abs(array).max(initial=0))
    if 0 < largest < 1e-140:
        raise InputError(f"the largest value of {name} is {largest:g}, whose square underflows: multiply {name} by a constant.")


def lengths(name: str, array: np.ndarray, n_nodes: int) -> None:
    """Refuse signals of another number of nodes, or of none at all."""
    if array.shape[0] != n_nodes:
        hint = f"; it looks transposed: pass {name}.T" if array.ndim == 2 and array.shape[1] == n_nodes else ""
        raise InputError(
            f"{name} has shape {array.shape} but the graph has {n_nodes} nodes: "
            f"rows are nodes, ({n_nodes},) or ({n_nodes}, n_signals){hint}."
        )
    if array.ndim == 2 and array.shape[1] == 0:
        raise InputError(f"{name} has shape {array.shape}: at least one signal (column) is needed.")


def partially_observed(name: str, value: Any, observed: Bools, n_nodes: int) -> Floats:
    """Signals that may hold anything (NaN too) where ``observed`` is False; those become zero."""
    array = floats(name, value, ndim=(1, 2), finite=False)
    lengths(name, array, n_nodes)
    seen = observed if observed.ndim == array.ndim else observed[:, None] & np.ones(array.shape, bool)
    bad = seen & ~np.isfinite(array)
    if bad.any():
        raise InputError(f"{name}{_first(bad)} is {array[bad].flat[0]} but observed is True there: set it to False.")
    readings = np.where(seen, array, array.dtype.type(0))
    squares(name, readings)
    return readings


def measurements(value: Any, observed: Any, n_nodes: int) -> tuple[Floats, Bools | None]:
    """Noisy readings as (N, T) float64, zero where missing, and the mask (N, T); None where nothing is missing."""
    if observed is None:
        remedy = "mark missing readings with observed=numpy.isfinite(measurements)"
        array = floats("measurements", value, ndim=(1, 2), remedy=remedy)
        return signals("measurements", array, n_nodes).astype(np.float64).reshape(n_nodes, -1), None
    array = floats("measurements", value, ndim=(1, 2), finite=False)
    lengths("measurements", array, n_nodes)
    seen = array_of("observed", observed)
    if seen.dtype == bool and seen.shape in ((n_nodes,), array.shape):
        if not seen.any():
            raise InputError("observed marks nothing as observed: at least one reading is needed.")
    else:
        seen = mask("observed", seen, n_nodes, array.shape[1] if array.ndim == 2 else None)
    readings = partially_observed("measurements", array, seen, n_nodes).astype(np.float64).reshape(n_nodes, -1)
    spread = seen.reshape(n_nodes, -1) & np.ones(readings.shape, dtype=bool)
    return readings, None if spread.all() else spread


def mask(name: str, value: Any, n_nodes: int, n_signals: int | None) -> Bools:
    """Boolean ``(n_nodes,)`` or, with ``n_signals`` given, ``(n_nodes, n_signals)``; never all False."""
    array = array_of(name, value)
    if array.dtype != bool:
        raise InputError(
            f"{name} has dtype {array.dtype}, a boolean mask is expected (True where measured): "
            "for node indices i use mask = np.zeros(n_nodes, bool); mask[i] = True."
        )
    shapes = [(n_nodes,)] if n_signals is None else [(n_nodes,), (n_nodes, n_signals)]
    if array.shape not in shapes:
        raise InputError(f"{name} has shape {array.shape}, expected {' or '.join(map(str, shapes))}.")
    empty = ~array.any(axis=0)
    if np.any(empty):
        which = f" in signal {int(np.flatnonzero(empty)[0])}" if array.ndim == 2 else ""
        raise InputError(f"{name} marks nothing as observed{which}: at least one reading is needed.")
    return array


def node_vector(name: str, value: Any, n_nodes: int) -> Floats:
    """One finite number per node as float64; a scalar is spread over all nodes."""
    array = floats(name, value, ndim=(0, 1), remedy="give every node a finite number").astype(np.float64)
    if array.ndim == 0:
        return np.full(n_nodes, float(array))
    if array.shape != (n_nodes,):
        raise InputError(f"{name} has shape {array.shape}, expected a number or ({n_nodes},), one value per node.")
    return array.copy()


def nonnegative_vector(name: str, value: Any, n_nodes: int, *, why: str) -> Floats:
    """Like :func:`node_vector`, and no entry below zero; ``why`` ends the error message."""
    array = node_vector(name, value, n_nodes)
    if (array < 0).any():
        i = int(np.flatnonzero(array < 0)[0])
        raise InputError(f"{name}[{i}] is {array[i]:g}, negative: {why}.")
    return array


def noise(name: str, value: Any, n_nodes: int) -> Floats:
    """A noise covariance: ``(n_nodes,)`` variances or a symmetric PSD ``(n_nodes, n_nodes)`` matrix."""
    array = floats(name, value, ndim=(0, 1, 2)).astype(np.float64)
    if array.ndim < 2:
        return nonnegative_vector(name, array, n_nodes, why="a variance is at least 0; square standard deviations, convert dB")
    return psd_matrix(name, array, n_nodes)


def psd_matrix(name: str, value: Any, n_nodes: int) -> Floats:
    """A dense symmetric PSD matrix of size ``n_nodes``."""
    given = floats(name, value, ndim=(2,))
    array = given.astype(np.float64)
    if array.shape != (n_nodes, n_nodes):
        raise InputError(f"{name} has shape {array.shape}, expected ({n_nodes}, {n_nodes}).")
    dense_size(name, n_nodes)
    rounding = max(1e-8, 8 * float(np.finfo(given.dtype).eps))
    diagonal = np.diagonal(array)
    if (diagonal < 0).any():
        i = int(np.flatnonzero(diagonal < 0)[0])
        raise InputError(f"{name}[{i}, {i}] is {diagonal[i]:g}, negative: the diagonal of a covariance holds variances.")
    # entry by entry: a faint block beside large entries is not rounding
    size = np.sqrt(diagonal)
    gap = np.abs(array - array.T)
    excess = gap - rounding * np.maximum(size[:, None] * size, np.maximum(np.abs(array), np.abs(array.T)))
    if excess.max(initial=0.0) > 0:
        bad = excess == excess.max()
        raise InputError(
            f"{name} is not symmetric: entry {_first(bad)} differs from its mirror by {gap[bad].flat[0]:g}; "
            f"pass ({name} + {name}.T) / 2."
        )
    array = (array + array.T) / 2
    smallest = least_relative_eigenvalue(array)
    if smallest < -rounding * n_nodes:
        scaled = f"a negative eigenvalue ({smallest:g} with its diagonal scaled to ones)"
        what = scaled if np.isfinite(smallest) else "a zero on its diagonal with entries beside it"
        raise InputError(f"{name} has {what}: a covariance is positive semidefinite.")
    return array


def least_relative_eigenvalue(matrix: Floats) -> float:
    """Smallest eigenvalue of a symmetric matrix after its diagonal, which has no negative entry, is scaled to ones.

    -inf where a zero on the diagonal has entries beside it. Scaled, a part in small units is judged by itself.
    """
    size = np.sqrt(np.diagonal(matrix))
    some = size > 0
    if matrix[~some].any():
        return -np.inf
    if not some.any():
        return 0.0
    size = size[some]
    return float(np.linalg.eigvalsh(matrix[np.ix_(some, some)] / size[:, None] / size)[0])


def _shown(value: Any) -> str:
    """The value as a message shows it, in one short line; Python itself refuses to write thousands of digits."""
    try:
        text = repr(value)
    except ValueError:
        return f"a {type(value).__name__} with a number of more than {sys.get_int_max_str_digits()} digits"
    return text if len(text) <= 120 else f"{text[:100]}... ({len(text)} characters)"


def number(name: str, value: Any, *, low: float = -np.inf, high: float = np.inf, strict: bool = False) -> float:
    """A finite real number in ``[low, high]`` (``(low, high]`` if ``strict``)."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, np.floating, np.integer)):
        raise InputError(f"{name} is {_shown(value)}, a number is expected.")
    try:
        result = float(value)
    except OverflowError:
        raise InputError(f"{name} is a number of more than 308 digits: pass a smaller number.") from None
    if not np.isfinite(result) or result < low or result > high or (strict and result == low):
        bounds = f"{'above' if strict else 'at least'} {low:g}" + (f" and at most {high:g}" if np.isfinite(high) else "")
        raise InputError(f"{name} is {_shown(value)}, it must be {bounds if np.isfinite(low) else 'finite'}.")
    return result


def integer(name: str, value: Any, *, low: int) -> int:
    """An integer not below ``low``."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or value < low:
        raise InputError(f"{name} is {_shown(value)}, an integer of at least {low} is expected.")
    if value > LARGEST_INTEGER:
        raise InputError(f"{name} is {_shown(value)}, an integer of at most {LARGEST_INTEGER} is expected.")
    return int(value)


def choice(name: str, value: Any, options: Sequence[str]) -> str:
    """One of ``options``."""
    if not isinstance(value, str) or value not in options:
        raise InputError(f"{name} is {_shown(value)}; choose one of {', '.join(map(repr, options))}.")
    return str(value)


def generator(value: Any) -> np.random.Generator:
    """A ``numpy.random.Generator``; None is ``default_rng(0)``. Seeds and the legacy ``RandomState`` are refused."""
    if value is None:
        return np.random.default_rng(0)
    if not isinstance(value, np.random.Generator):
        raise InputError(f"rng is {_shown(value)}, a numpy generator is expected: rng=numpy.random.default_rng(0).")
    return value


def bounds(lower: Floats, upper: Floats, *, hint: str = "") -> None:
    """Bounds on w_i^2 that do not cross."""
    if (lower > upper).any():
        i = int(np.flatnonzero(lower > upper)[0])
        raise InputError(f"lower[{i}] = {lower[i]:g} is above upper[{i}] = {upper[i]:g}: the bounds on w_i^2 cross{hint}.")


def memory(what: str, n_bytes: float, *, alternative: str, reserved: float = 1.0) -> None:
    """Refuse work that needs more memory than is there, with the size, the limit in force and the alternative.

    Sparse factors reserve several times the addresses that they fill.
    """
    if n_bytes < SMALL:
        return
    free, limit = _memory.room(reserved)
    if n_bytes > free:
        more = f" ({reserved:g} times as much in addresses)" if reserved > 1 and "ulimit" in limit else ""
        raise TooLargeError(f"{what} needs about {n_bytes / 2**30:.1f} GiB{more} and {limit}: {alternative}.")


def dense_size(what: str, n_nodes: int, *, copies: int = 1, alternative: str = "") -> None:
    """Refuse dense N x N work above :data:`DENSE_LIMIT` nodes, with the size and the alternative."""
    if n_nodes > DENSE_LIMIT:
        gib = copies * n_nodes**2 * 8 / 2**30
        raise TooLargeError(
            f"{what} needs {copies} dense {n_nodes} x {n_nodes} matrices ({gib:.1f} GiB), more than the limit of "
            f"{DENSE_LIMIT} nodes{': ' + alternative if alternative else ''}."
        )
