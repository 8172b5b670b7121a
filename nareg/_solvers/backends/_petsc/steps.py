"""Long work that every rank does alike, meeting at roll calls: what happens to one there happens to all.

A design and a smoothing are such work: all ranks take the same steps on the same numbers, and solve between two roll calls.
Nothing but a roll call, or PETSc and MPI right after one, makes a rank wait for the others.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

from nareg._solvers.backends._petsc.ranks import hashed, sentence, together
from nareg.errors import InputError


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
