"""Sparse matrices from files: what SciPy wrote comes back, and nothing else is let through."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st

import nareg
from nareg import io
from nareg._storage import sparse_files
from nareg.cli import node_files
from nareg.errors import InputError
from nareg.unlearning import CertifiedGPR
from tests.command_line import process, run


def parts(matrix):
    return {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": np.array(matrix.shape)}


def write(path, **arrays):
    """As ``scipy.sparse.save_npz`` does."""
    np.savez(path, **{"format": np.array(b"csr"), **arrays})


@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "dia"])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, bool])
def test_what_scipy_saved_comes_back(form, kind, dtype, rng, tmp_path):
    dense = (rng.random((6, 4)) < 0.4).astype(dtype) * (np.array(3, dtype=dtype))
    sp.save_npz(tmp_path / "a.npz", kind(dense).asformat(form))
    result = sparse_files.read_npz(tmp_path / "a.npz")
    assert result.format == "csr"
    assert result.has_canonical_format
    assert np.array_equal(result.toarray(), dense)


def test_blocks_of_several_rows_come_back(rng, tmp_path):
    dense = np.kron(rng.random((3, 2)) < 0.5, np.ones((2, 3))) * rng.standard_normal((6, 6))
    sp.save_npz(tmp_path / "a.npz", sp.bsr_array(dense, blocksize=(2, 3)))
    assert np.array_equal(sparse_files.read_npz(tmp_path / "a.npz").toarray(), dense)


def test_entries_in_any_order_and_more_than_once_are_added_in_a_wide_type(tmp_path):
    write(tmp_path / "a.npz", data=np.int8([100, 1, 100]), indices=[2, 0, 2], indptr=[0, 3, 3], shape=[2, 3])
    result = sparse_files.read_npz(tmp_path / "a.npz")
    assert np.array_equal(result.toarray(), [[1, 0, 200], [0, 0, 0]])
    assert result.has_canonical_format


GOOD = {"data": np.ones(3), "indices": np.int32([0, 2, 1]), "indptr": np.int32([0, 2, 3]), "shape": np.array([2, 3])}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indices": np.int32([0, -1, 1])}, "an entry of row 0 is in column -1 of 3"),
        ({"indices": np.int32([0, 2, 3])}, "an entry of row 1 is in column 3 of 3"),
        ({"indices": np.int64([0, 2**40, 1])}, "an entry of row 0 is in column 1099511627776 of 3"),
        ({"indices": np.uint64([0, 2**64 - 1, 1])}, "its indices hold 18446744073709551615"),
        ({"indices": np.float64([0, 2, 1])}, "its indices have the shape (3,) and dtype float64"),
        ({"indices": np.int32([[0, 2, 1]])}, "its indices have the shape (1, 3)"),
        ({"indices": np.int32([0, 2])}, "values of shape (3,) at 2 places"),
        ({"indptr": np.int32([0, 3, 2])}, "its row starts do not rise from 0 to 3"),
        ({"indptr": np.int32([0, 100, 3])}, "its row starts do not rise from 0 to 3"),
        ({"indptr": np.int32([0, -(2**31), 3])}, "its row starts do not rise from 0 to 3"),
        ({"indptr": np.int32([1, 2, 3])}, "its row starts do not rise from 0 to 3"),
        ({"indptr": np.int32([0, 2, 30])}, "its row starts do not rise from 0 to 3"),
        ({"indptr": np.int32([0, 3])}, "2 rows and 2 row starts"),
        ({"data": np.array([1.0, np.nan, 1.0])}, "it holds the value nan"),
        ({"data": np.array([1.0, -np.inf, 1.0])}, "it holds the value -inf"),
        ({"data": np.array(["a", "b", "c"])}, "its values have dtype <U1"),
        ({"data": np.ones(3, dtype=complex)}, "its values have dtype complex128"),
        ({"data": np.ones((3, 1))}, "values of shape (3, 1) at 3 places"),
        ({"shape": np.array([2, -3])}, "its shape is (2, -3)"),
        ({"shape": np.array([2.0, 3.0])}, "its shape is [2.0, 3.0], two whole numbers are expected"),
        ({"shape": np.array([2, 3, 4])}, "its shape is [2, 3, 4], two whole numbers are expected"),
        ({"shape": np.array([2**62, 3])}, "its shape is (4611686018427387904, 3)"),
        ({"format": np.array(b"csc")}, "3 rows and 3 row starts"),
        ({"format": np.array(b"lil")}, "holds a matrix of format 'lil': csr, csc, bsr, coo, dia are read"),
        ({"format": np.array(b"coo")}, "it has no array 'row'"),
    ],
)
@pytest.mark.parametrize("read", [sparse_files.read_npz, node_files.matrix])
def test_parts_that_do_not_fit_are_refused(read, change, message, tmp_path):
    write(tmp_path / "a.npz", **{**GOOD, **change})
    with pytest.raises(InputError, match=re.escape(message)):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("form", "arrays", "message"),
    [
        ("coo", {"row": [0, 2], "col": [0, 1]}, "an entry is in row 2 of 2"),
        ("coo", {"row": [0, -1], "col": [0, 1]}, "an entry is in row -1 of 2"),
        ("coo", {"row": [0, 1], "col": [0, 3]}, "an entry is in column 3 of 3"),
        ("coo", {"row": [0], "col": [0, 1]}, "at 1 rows and 2 columns"),
        ("dia", {"offsets": [0, 0]}, "on 2 diagonals"),
        ("bsr", {"indices": [0, 7], "indptr": [0, 1, 2]}, "its blocks have the shape"),
    ],
)
def test_other_formats_are_checked_too(form, arrays, message, tmp_path):
    arrays = {name: np.array(value) for name, value in arrays.items()}
    write(tmp_path / "a.npz", **{"format": np.array(form.encode()), "data": np.ones(2), "shape": np.array([2, 3]), **arrays})
    with pytest.raises(InputError, match=re.escape(message)):
        sparse_files.read_npz(tmp_path / "a.npz")


@pytest.mark.parametrize("indices", [[0, 7], [0, -1], [-1, 0]])
def test_blocks_outside_the_matrix_are_refused(indices, tmp_path):
    arrays = {"data": np.ones((2, 1, 3)), "indices": np.array(indices), "indptr": np.array([0, 1, 2])}
    write(tmp_path / "a.npz", format=np.array(b"bsr"), shape=np.array([2, 6]), **arrays)
    with pytest.raises(InputError, match=r"is in column -?\d of 2"):
        sparse_files.read_npz(tmp_path / "a.npz")


@example(data=[], indices=[], indptr=[], shape=(-1, 0))
@given(
    data=st.lists(st.floats(-1e300, 1e300) | st.just(np.nan), max_size=4),
    indices=st.lists(st.integers(-2, 4) | st.sampled_from([2**31, -(2**31), 2**63 - 1]), max_size=4),
    indptr=st.lists(st.integers(-2, 5) | st.sampled_from([2**31, -(2**63)]), max_size=5),
    shape=st.tuples(st.integers(-1, 4), st.integers(-1, 4)),
)
def test_parts_make_the_matrix_that_they_say_or_none(data, indices, indptr, shape):
    """Against the definition, entry by entry."""
    try:
        result = sparse_files.csr(np.array(data), np.array(indices, dtype=int), np.array(indptr, dtype=int), shape, what="it")
    except InputError:
        result = None
    wanted = _dense(data, indices, indptr, shape)
    assert (result is None) == (wanted is None)
    if result is not None:
        assert np.array_equal(result.toarray(), wanted)
        result.check_format(full_check=True)


def _dense(data, indices, indptr, shape):
    if min(shape) < 0 or len(indptr) != shape[0] + 1 or len(data) != len(indices):
        return None
    if (indptr[0], indptr[-1]) != (0, len(data)) or sorted(indptr) != indptr or not all(0 <= j < shape[1] for j in indices):
        return None
    wanted = np.zeros(shape)
    for i in range(shape[0]):
        for k in range(indptr[i], indptr[i + 1]):
            wanted[i, indices[k]] += data[k]
    return wanted if np.isfinite(data).all() and np.isfinite(wanted).all() else None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("coordinate real general\n3 3 100000000000\n1 1 1\n", "declares 100000000000 entries but has 69 characters at most"),
        ("array real general\n1000000000 1000000000\n1\n", "declares 1000000000000000000 entries"),
        ("coordinate real general\n1000000000000 3 1\n1 1 1\n", "declares 8000000000024, more than 200 times as many"),
        ("coordinate real general\n3 1000000000000 1\n1 1 1\n", "declares 8000000000024, more than 200 times as many"),
        ("coordinate real general\n3 3 1\n1 1 nan\n", "it holds the value nan"),
        ("coordinate complex general\n3 3 1\n1 1 1 1\n", "holds complex numbers, real ones are expected"),
        ("coordinate real general\n3 3 1\n4 1 1\n", "names row 4: rows are numbered from 1 to 3"),
        ("coordinate real general\n3 3 1\n0 1 1\n", "names row 0: rows are numbered from 1 to 3"),
        ("coordinate real general\n3 2 1\n3 3 1\n", "names column 3: columns are numbered from 1 to 2"),
        ("coordinate real general\n3 3 1\n1.5 1 1\n", "names row 1.5: rows are numbered"),
        ("coordinate real general\n3 3 2\n1 1 1\n", "declares 2 entries and has 1"),
        ("coordinate real general\n3 3 1\n1 1 1\n2 2 1\n", "declares 1 entries and has more"),
        ("coordinate real general\n1" + 5000 * "0" + " 3 1\n1 1 1\n", "whole numbers are expected"),
        ("coordinate integer general\n3 3 1\n1 1 1" + 5000 * "0" + "\n", "it holds the value inf"),
        ("array real general\n-3 -3\n1\n", "whole numbers are expected"),
        # SciPy's own reader takes the first two as numbers, and ends the process on the others
        ("coordinate real general\n3 3 1\n1 1 1.5x\n", "'1.5x' is not a number"),
        ("coordinate real general\n3 3 1\n1 1 1e9.5\n", "'1e9.5' is not a number"),
        ("coordinate real general\n3 3 1\n1 1 2.9E", "'2.9E' is not a number"),
        ("coordinate real general\n3 3 1\n1 1 2.\x00\x00\x019\n", "line 3: 4 values, 3 are expected"),
    ],
)
def test_matrix_market_files_that_cannot_be_are_refused(text, message, tmp_path):
    path = tmp_path / "a.mtx"
    path.write_text(f"%%MatrixMarket matrix {text}")
    for read in (io.read_adjacency, node_files.matrix):
        with pytest.raises(InputError, match=re.escape(message)):
            read(path)


def test_a_last_line_without_an_end_is_read(tmp_path):
    """With a blank behind its number; SciPy's own reader ends the process."""
    (tmp_path / "a.mtx").write_text("%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n2 1 0.5 ")
    assert io.read_adjacency(tmp_path / "a.mtx").toarray().tolist() == [[0, 0.5], [0.5, 0]]


@pytest.mark.parametrize("symmetry", ["general", "symmetric", "skew-symmetric"])
@pytest.mark.parametrize("sparse", [True, False])
def test_matrix_market_files_come_back(symmetry, sparse, tmp_path):
    upper = np.triu(np.ones((120, 120)), 1)  # of one digit each: no file of so many entries is smaller
    dense = upper + {"general": 0, "symmetric": 1, "skew-symmetric": -1}[symmetry] * upper.T
    scipy.io.mmwrite(tmp_path / "a.mtx", sp.coo_array(dense) if sparse else dense, symmetry=symmetry, field="integer")
    assert np.array_equal(io.read_adjacency(tmp_path / "a.mtx").toarray(), dense)
    result = node_files.matrix(tmp_path / "a.mtx")
    assert sp.issparse(result) == sparse


def test_a_large_graph_with_few_edges_is_read(tmp_path):
    (tmp_path / "a.mtx").write_text("%%MatrixMarket matrix coordinate pattern symmetric\n1000000 1000000 1\n2 1\n")
    assert io.read_adjacency(tmp_path / "a.mtx").shape == (1000000, 1000000)


BROKEN = [([0, -1], [0, 1, 2]), ([0, 9], [0, 1, 2]), ([0, 1], [0, 2, 1]), ([0, 1], [0, -5, 2]), ([0, 1], [0, 900, 2])]


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix])
@pytest.mark.parametrize(("indices", "indptr"), BROKEN)
def test_matrices_that_were_made_without_checks_stop_at_the_border(form, indices, indptr):
    """As ``scipy.sparse.load_npz`` makes them."""
    matrix = form((np.ones(2), np.array(indices), np.array(indptr)), shape=(2, 2))
    with pytest.raises(InputError, match="adjacency is a damaged sparse matrix"):
        nareg.Graph(matrix)
    ring = np.ones((2, 2)) - np.eye(2)
    with pytest.raises(InputError, match="features is a damaged sparse matrix"):
        CertifiedGPR().fit(ring, matrix, np.arange(2), np.arange(2))


def test_entries_that_point_outside_stop_at_the_border():
    matrix = sp.coo_array((np.ones(2), ([0, 1], [1, 0])), shape=(2, 2))
    matrix.coords[0][0] = 2**30
    with pytest.raises(InputError, match="adjacency is a damaged sparse matrix"):
        nareg.Graph(matrix)


@pytest.mark.slow
def test_a_crafted_file_reaches_no_compiled_loop_by_way_of_the_command_line(rng, tmp_path):
    """In a process of its own: it would end with a segmentation fault, or after the store was written."""
    adjacency = nareg.graphs.grid((8, 8)).adjacency
    scipy.io.mmwrite(tmp_path / "graph.mtx", sp.coo_array(adjacency), symmetry="general")
    rows = "".join(f"{node},{node % 2},1\n" for node in range(64))
    (tmp_path / "labels.csv").write_text(f"node,label,train\n{rows}")
    good = sp.csr_array(rng.random((64, 5)))
    sp.save_npz(tmp_path / "good.npz", good)
    write(tmp_path / "bad.npz", **{**parts(good), "indices": np.where(np.arange(good.nnz) % 7, good.indices, -(10**6))})
    for command, store, features, expected in [(process, "a.store", "bad.npz", 2), (run, "b.store", "good.npz", 0)]:
        done = command("unlearn", "fit", store, "graph.mtx", features, "labels.csv", cwd=tmp_path)
        assert done.returncode == expected, done.stderr
        assert (tmp_path / store).exists() == (expected == 0)
    done = process("unlearn", "add", "b.store", "--nodes", "bad.npz", cwd=tmp_path)
    assert done.returncode == 2
    assert "an entry of row 0 is in column -1000000 of 5" in " ".join(done.stderr.split())
