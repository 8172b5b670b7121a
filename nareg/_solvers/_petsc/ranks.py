"""PETSc and MPI, and ranks that stop together, with one sentence.

They meet at roll calls in long work: none waits for one that has failed. PETSc is imported when first needed, and checked:
installed, of real numbers, and started by its own launcher.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from hashlib import blake2b
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from nareg.errors import InputError, MissingDependencyError, NaregError


@contextmanager
def agreed(comm: Any) -> Iterator[dict[str, Any]]:
    """Work that each rank does by itself; if it fails on one rank, all ranks raise.

    A rank that failed raises its own error, the others an InputError with the sentence of the first that did. What the work
    puts into the dictionary must be the same on all ranks.
    """
    caught: Exception | None = None
    compared: dict[str, Any] = {}
    try:
        yield compared
    except Exception as error:
        caught = error
    sentences = comm.allgather(None if caught is None else sentence(caught))
    if caught is not None:
        raise caught
    for rank, other in enumerate(sentences):
        if other is not None:
            raise InputError(f"rank {rank} of {comm.size} failed: {other}")
    if compared:
        refuse_different(comm, compared)


def sentence(error: BaseException) -> str:
    """What an error says, to those that did not raise it."""
    return str(error) if isinstance(error, NaregError) else f"{type(error).__name__}: {error}"


@contextmanager
def together(comm: Any) -> Iterator[None]:
    """Work that needs all ranks: what one raises and the others do not know of ends all processes.

    Errors of nareg pass: they are raised on all ranks, from ``agreed`` or from numbers that all ranks share.
    """
    try:
        yield
    except NaregError:
        raise
    except BaseException as error:
        if comm.size == 1:
            raise
        end = f"rank {comm.rank} of {comm.size} failed ({type(error).__name__}: {error}); all ranks stop.\n"
        sys.stderr.write(traceback.format_exc() + end)  # at once: mpiexec may take no second part after the abort
        sys.stderr.flush()
        comm.Abort(1)


def refuse_different(comm: Any, inputs: Mapping[str, Any]) -> None:
    """Refuse inputs that are not the same on all ranks, by their hashes; on all ranks alike."""
    if comm.size == 1:
        return
    all_hashes = comm.allgather({name: hashed(value) for name, value in inputs.items()})
    for name in inputs:
        for rank, hashes in enumerate(all_hashes):
            if hashes.get(name) != all_hashes[0].get(name):
                raise InputError(
                    f"ranks 0 and {rank} pass different values for {name}: pass the same on every rank, from the same files "
                    "and random seed."
                )


def hashed(value: Any) -> bytes:
    """A short hash of numbers, strings and arrays."""
    digest = blake2b(digest_size=16)
    for part in value if isinstance(value, tuple) else (value,):
        if isinstance(part, np.ndarray):
            digest.update(repr((part.shape, part.dtype.str)).encode())
            digest.update(np.ascontiguousarray(part).data.cast("B") if part.size else b"")
        else:
            digest.update(repr(part).encode())
    return digest.digest()


class OutOfStepError(InputError):
    """Raised at a roll call, hence on all ranks."""


class Interrupts:
    """Ctrl-C, which waits for the next roll call: there all ranks stop at the same point, and keep the same result."""

    waiting = pressed = False

    @classmethod
    @contextmanager
    def delayed(cls) -> Iterator[None]:
        """Hold the first Ctrl-C until a roll call; a second one before it has its usual effect."""
        usual = signal.getsignal(signal.SIGINT)
        handles = threading.current_thread() is threading.main_thread() and callable(usual)

        def hold(number: int, frame: FrameType | None) -> None:
            if cls.pressed and callable(usual):
                usual(number, frame)
            cls.pressed = True

        cls.waiting = True
        if handles:
            signal.signal(signal.SIGINT, hold)
        try:
            yield
        finally:
            if handles:
                signal.signal(signal.SIGINT, usual)
            cls.waiting = cls.pressed = False


def roll_call(comm: Any, inputs: Mapping[str, Any], failure: str | None = None) -> None:
    """Wait for all ranks, which must be at the same step with the same inputs.

    Raises
    ------
    OutOfStepError
        On all ranks, if one has failed, or ranks differ.
    KeyboardInterrupt
        On all ranks, if Ctrl-C reached one.
    """
    mine = failure, Interrupts.pressed, {name: hashed(value) for name, value in inputs.items()} if comm.size > 1 else {}
    everyone = comm.allgather(mine)
    if failure is not None:
        return
    for rank, (other, _, _) in enumerate(everyone):
        if other is not None:
            raise OutOfStepError(f"rank {rank} of {comm.size} failed: {other}")
    for rank, (_, _, hashes) in enumerate(everyone):
        if hashes.keys() != everyone[0][2].keys():
            raise OutOfStepError(
                f"ranks 0 and {rank} are at different steps: give every rank the same arguments and callbacks."
            )
        for name, value in hashes.items():
            if value != everyone[0][2][name]:
                raise OutOfStepError(
                    f"ranks 0 and {rank} have different values for {name}: pass the same on every rank, from the same files "
                    "and random seed, and take machines of one kind."
                )
    if any(pressed for _, pressed, _ in everyone):
        Interrupts.pressed = False
        raise KeyboardInterrupt


@contextmanager
def meeting(comm: Any) -> Iterator[None]:
    """Work that needs all ranks, after a roll call: none begins it alone."""
    roll_call(comm, {})
    with together(comm):
        yield


@contextmanager
def in_step(comm: Any) -> Iterator[dict[str, Any]]:
    """Work with roll calls. A rank that fails by itself tells the others at their next one, and all raise.

    What the work puts into the dictionary is compared at the end.
    """
    compared: dict[str, Any] = {}
    if Interrupts.waiting:  # within such work: what is told once reaches all
        yield compared
        return
    try:
        with Interrupts.delayed():
            yield compared
    except OutOfStepError:
        raise
    except BaseException as error:
        roll_call(comm, {}, failure=sentence(error))
        raise
    roll_call(comm, compared)


#: How launchers tell their processes how many there are: MPICH and Intel MPI, Open MPI.
COUNTS = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")


class Library(NamedTuple):
    """The modules ``mpi4py.MPI`` and ``petsc4py.PETSc``, and all ranks."""

    MPI: Any
    PETSc: Any
    comm: Any


@cache
def load() -> Library:
    """PETSc on all ranks.

    Raises
    ------
    MissingDependencyError
        If petsc4py or mpi4py is not installed, or does not find its libraries.
    InputError
        If PETSc has complex scalars, or ranks were started by another MPI's ``mpiexec``.
    """
    try:
        from mpi4py import MPI  # before petsc4py: it opens the MPI library that both use

        import petsc4py  # isort: skip

        petsc4py.init(["nareg"])
        from petsc4py import PETSc
    except (ImportError, RuntimeError, OSError) as error:
        raise MissingDependencyError(
            f"backend='petsc' needs petsc4py and mpi4py ({error}): on Python 3.12 or later pip install 'nareg[petsc]', or "
            "install petsc4py built with your cluster's MPI."
        ) from None
    refuse_complex(np.dtype(PETSc.ScalarType))
    comm = MPI.COMM_WORLD
    if (started := started_processes()) > 1 and comm.size == 1:
        raise InputError(
            f"mpiexec started {started} processes, but each has an MPI of its own ({MPI.get_vendor()[0]}) and would run alone: "
            "use the mpiexec of the MPI that mpi4py was built with (the wheels' one lies beside python)."
        )
    return Library(MPI, PETSc, comm)


def started_processes() -> int:
    """Processes that the launcher says it started; one without a launcher."""
    counts = [os.environ.get(name, "") for name in COUNTS]
    return max([int(count) for count in counts if count.isdecimal()], default=1)


def refuse_complex(scalars: np.dtype[Any]) -> None:
    """Refuse a PETSc that does not compute in float64."""
    if scalars != np.float64:
        raise InputError(
            f"petsc4py was built for {scalars.name} scalars, float64 is needed: install a PETSc with real scalars "
            "(PETSC_ARCH chooses where there are several)."
        )
