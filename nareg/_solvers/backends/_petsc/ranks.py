"""All ranks stop together, with one sentence: none waits for one that has failed."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import numpy as np

from nareg.errors import InputError, NaregError


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
        traceback.print_exc()
        print(f"rank {comm.rank} of {comm.size} failed ({type(error).__name__}: {error}); all ranks stop.", file=sys.stderr)
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
