"""One BLAS thread where products are small: waiting threads spin and slow all others down."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

#: Below this many unknowns matrix products are too small to share among threads: one thread is twice as fast.
ONE_THREAD = 500
#: Below this many multiply-adds a product with a few columns is: some 10 ms in one thread.
SMALL_PRODUCT = 2**26
#: Modules that bring a BLAS library of their own.
BLAS_MODULES = {"torch", "sksparse", "sksparse.cholmod"}

P = ParamSpec("P")
T = TypeVar("T")


def few_threads(size: int) -> AbstractContextManager[None]:
    """Context in which the linear algebra of small problems runs in one thread."""
    return one_thread() if size < ONE_THREAD else nullcontext()


def product_threads(multiply_adds: int) -> AbstractContextManager[None]:
    """Context for products of a tall matrix with a few columns: one thread where each takes so few multiply-adds."""
    return one_thread() if multiply_adds < SMALL_PRODUCT else nullcontext()


def one_blas_thread(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator for loops over compiled kernels, which have threads of their own.

    BLAS threads that wait for the next inner product contend with them for the cores: a Hessian product of 3,000 rows took
    12 ms with both and 0.6 ms with one BLAS thread.
    """

    @functools.wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        with one_thread():
            return function(*arguments, **options)

    return call


class one_thread(AbstractContextManager[None]):
    """Context in which BLAS has one thread.

    The limit is the process's: where contexts of several threads overlap, the first sets it and the last restores what was.
    Entering takes some 20 microseconds (threadpoolctl's own context looks for libraries each time, which takes milliseconds).
    """

    _lock = threading.RLock()  # of one thread again where a signal's handler runs in the middle
    _entered: set[one_thread] = set()  # noqa: RUF012
    _limit: Any = None

    def __enter__(self) -> None:
        try:
            with self._lock:
                self._entered.add(self)
                if one_thread._limit is None:
                    one_thread._limit = _controller(frozenset(BLAS_MODULES & sys.modules.keys())).limit(
                        limits=1, user_api="blas"
                    )
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._entered.discard(self)
            if not self._entered and one_thread._limit is not None:
                one_thread._limit.restore_original_limits()
                one_thread._limit = None


@functools.lru_cache(maxsize=1)
def _controller(modules: frozenset[str]) -> ThreadpoolController:
    """The BLAS libraries that are loaded, looked for again once one of these modules is."""
    import scipy.linalg  # noqa: F401 - it has one of its own

    return ThreadpoolController()
