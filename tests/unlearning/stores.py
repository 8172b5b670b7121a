"""What somebody does to the files of a store, whose checksums are written anew: anybody can compute these."""

from __future__ import annotations

import json

import numpy as np

from nareg.unlearning.store.entries import RECORD
from nareg.unlearning.store.folder import StateFolder, locked, write_state
from nareg.unlearning.store.ledger import NODES
from nareg.unlearning.store.state import HISTORY, read_state


def changed_tables(path, **changes):
    """Each change gets the rows of its table, and alters them in place."""
    folder = StateFolder(path, HISTORY, locked(path))
    for name, change in changes.items():
        rows = np.array(folder[name].array)
        change(rows)
        folder[name].write(0, rows)
    folder.sum_up_files(HISTORY)
    folder.write_sums()
    folder.close()


def changed_state(path, **changes):
    """Other values in ``state.json``."""
    write_state(path, {**read_state(path), **changes})


def changed_settings(path, **settings):
    changed_state(path, settings={**read_state(path)["settings"], **settings})


def changed_counts(path, **counts):
    changed_state(path, counts={**read_state(path)["counts"], **counts})


def changed_request(path, change, number=0):
    """The change gets keyed hash, certificate, hash of the model and digest, and returns what is written instead."""

    def write(rows):
        new = change(*json.loads(rows[number].tobytes().rstrip(b"\0")))
        text = new if isinstance(new, bytes) else json.dumps(new).encode()
        rows[number] = np.frombuffer(text.ljust(RECORD, b"\0")[:RECORD], np.uint8)

    changed_tables(path, requests=write)


def changed_certificate(path, **changes):
    """The certificate of the first request states something else."""
    changed_request(path, lambda asked, certificate, *hashes: [asked, certificate | changes, *hashes])


def emptied(path, nodes):
    """Nodes without features and label, which are not trained on."""

    def empty(rows):
        rows[nodes] = 0

    changed_tables(path, **dict.fromkeys(NODES, empty))


def contents(path):
    """Bytes of all files below a folder."""
    return b"".join(file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file())
