"""One BLAS thread where products are small: threads that wait for the next one spin, and hold up all others."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from threadpoolctl import threadpool_limits

#: Below this many unknowns matrix products are too small to share among threads: one thread is twice as fast.
ONE_THREAD = 500

P = ParamSpec("P")
T = TypeVar("T")


def few_threads(size: int) -> threadpool_limits:
    """Context in which the linear algebra of small problems runs in one thread."""
    return threadpool_limits(limits=1 if size < ONE_THREAD else None, user_api="blas")


def one_blas_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator for loops over compiled kernels, which have threads of their own.

    BLAS threads that wait for the next inner product contend with them for the cores: a Hessian product of 3,000 rows took
    12 ms with both and 0.6 ms with one BLAS thread.
    """
    return cast("Callable[P, T]", threadpool_limits.wrap(limits=1, user_api="blas")(function))
