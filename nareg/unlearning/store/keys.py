"""The key of a store's hashes, in a file of its own."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from nareg._storage.files import resolved
from nareg.errors import InputError, LedgerError

#: Bytes of a key.
KEY = 32


def key_file(path: Path) -> Path:
    """Default path of the key of a store."""
    return path.with_name(path.name + ".key")


def paths(path: str | os.PathLike[str], key: str | os.PathLike[str] | None) -> tuple[Path, Path]:
    """Paths of a store and of its key."""
    store = Path(path)
    if not store.name:
        raise InputError(f"{store} is no name of a store: pass a path that ends in one.")
    return store, key_file(store) if key is None else Path(key)


def refuse_taken(path: str | os.PathLike[str], key: str | os.PathLike[str] | None) -> tuple[Path, Path]:
    """Paths of a new store and of its key.

    Raises
    ------
    InputError
        If one of them exists, or both are the same.
    """
    store, key_path = paths(path, key)
    if exists(store):
        raise InputError(f"{store} exists: load it, or pass another path.")
    if exists(key_path):
        raise InputError(f"key is {key_path}, which exists and may belong to another store: pass another path, or delete it.")
    try:
        inside = resolved(key_path).is_relative_to(resolved(store))
    except OSError as error:
        raise InputError(f"{store} or {key_path} cannot be written ({error}): pass another path.") from None
    if inside:
        raise InputError(f"key is {key_path}, the store itself: pass another path, preferably on another disk.")
    return store, key_path


def exists(path: Path) -> bool:
    """Whether a file or folder has this path.

    Raises
    ------
    InputError
        If the system cannot tell, or no file can have this path.
    """
    try:
        return path.exists()
    except OSError as error:
        raise InputError(f"{path} cannot be accessed ({error.strerror}): pass another path.") from None


def write_key(path: Path, key: bytes) -> None:
    """Write a key to a new file, for its owner only."""
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as handle:
        handle.write(key.hex() + "\n")
        handle.flush()
        os.fsync(handle.fileno())


def read_key(path: Path, *, required: bool) -> bytes | None:
    """The key; None if its file is absent or unreadable, which is an error only if ``required``."""
    if required and not (exists(path) and path.is_file()):
        raise InputError(f"key is {path}, which is not a file: pass the file that save() wrote.")
    try:
        if path.exists() and not path.is_file():  # a pipe would block
            raise OSError(errno.EINVAL, "it is no plain file")
        key = bytes.fromhex(path.read_text().strip())
    except ValueError:
        key = b""
    except OSError as error:
        if required:
            raise InputError(f"key is {path}, which cannot be read ({error.strerror}): check its permissions.") from None
        return None
    if len(key) != KEY:
        raise LedgerError(f"{path} is not a key: restore the one that save() wrote.")
    return key
