"""Files of a store: the store itself, its key, and the draft that it is written to first."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from nareg._storage.files import DRAFT, own_file, resolved
from nareg.errors import InputError, LedgerError

#: Where a journal of SQLite ends so, it names a journal of several databases.
SEVERAL = bytes.fromhex("d9d505f920a163d7")
#: Bytes of a key.
KEY = 32


def link(draft: Path, path: Path) -> None:
    """Rename a draft to a path that must not exist. Without hard links, the check comes just before the renaming."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, "exists", str(path)) from None
    except OSError:
        if path.exists():
            raise FileExistsError(errno.EEXIST, "exists", str(path)) from None
        os.replace(draft, path)
    else:
        draft.unlink()


def refuse_foreign_journal(path: Path) -> None:
    """Refuse what SQLite would carry out beside a store, if the store came from others.

    It follows links, and a journal that names a journal of several databases has that file deleted: a store is one database,
    without a write-ahead log.

    Raises
    ------
    LedgerError
    """
    for suffix in ("-journal", "-wal", "-shm"):
        beside = path.with_name(path.name + suffix)
        if not os.path.lexists(beside):
            continue
        why = "" if suffix == "-journal" else "a store has none"
        try:
            with os.fdopen(own_file(beside, os.O_RDWR), "rb") as handle:
                if handle.seek(0, os.SEEK_END) >= len(SEVERAL):
                    handle.seek(-len(SEVERAL), os.SEEK_END)
                    why = why or ("it names a journal of several databases" if handle.read() == SEVERAL else "")
        except FileNotFoundError:  # its writer is done
            continue
        except OSError as error:
            why = error.strerror or str(error)
        if why:
            raise LedgerError(f"{beside} is not a journal of a store ({why}): delete it, or restore the store from a copy.")


def drop_drafts(path: Path) -> None:
    """Delete the drafts of saves that were killed."""
    pattern = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.{DRAFT}(-journal)?")
    if path.parent.is_dir():
        for draft in path.parent.iterdir():
            if pattern.fullmatch(draft.name):
                draft.unlink(missing_ok=True)


def key_file(path: Path) -> Path:
    """Default path of the key of a store."""
    return path.with_name(path.name + ".key")


def paths(path: str | os.PathLike[str], key: str | os.PathLike[str] | None) -> tuple[Path, Path]:
    """Paths of a store and of its key."""
    store = Path(path)
    if not store.name:
        raise InputError(f"{store} is a folder: pass the path of a file.")
    return store, key_file(store) if key is None else Path(key)


def refuse_taken(path: str | os.PathLike[str], key: str | os.PathLike[str] | None) -> tuple[Path, Path]:
    """Paths of a new store and of its key.

    Raises
    ------
    InputError
        If one of them exists, or both are the same file.
    """
    store, key_path = paths(path, key)
    if exists(store):
        raise InputError(f"{store} exists: load it, or pass another path.")
    if exists(key_path):
        raise InputError(f"key is {key_path}, which exists and may belong to another store: pass another path, or delete it.")
    try:
        same = resolved(key_path) == resolved(store)
    except OSError as error:
        raise InputError(f"{store} or {key_path} cannot be written ({error}): pass another path.") from None
    if same:
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


def is_file(path: Path) -> bool:
    """Whether the path is a file; raises as :func:`exists`."""
    return exists(path) and path.is_file()


def read_key(path: Path, *, required: bool) -> bytes | None:
    """The key; None if its file is absent or unreadable, which is an error only if ``required``."""
    if required and not is_file(path):
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
