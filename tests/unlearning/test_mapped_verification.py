"""Verification of a folder: on an embedding that is propagated anew, without a change of its files."""

from __future__ import annotations

import numpy as np
import pytest

from nareg.errors import InputError
from nareg.unlearning import CertifiedGPR, LedgerError, verify
from tests.unlearning import reference
from tests.unlearning.mapped_models import LITTLE, mapped, with_new_sums


def requested(rng, path, **options):
    """A folder after some requests, closed; its remaining graph, features and model."""
    model = mapped(rng, path, **options)
    edges = np.argwhere(np.triu(model._data.graph.adjacency().toarray()))
    model.remove_edges(edges[::7])
    model.remove_nodes([3, 50])
    model.add_nodes(rng.standard_normal((2, model._data.n_features)), labels=[0, -1])
    A, X = model._data.graph.adjacency().toarray(), np.array(model._data.propagation.features, dtype=float)
    state = (A, X, model.coefficients, model._head.B, model.labels, model.train, model.classes, model.lam)
    model.close()
    return state


@pytest.mark.parametrize("memory", [None, LITTLE])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_the_gradient_is_that_of_what_remains(memory, loss, rng, tmp_path):
    A, X, W, B, labels, train, classes, lam = requested(rng, tmp_path / "m", loss=loss)
    before = {path: path.read_bytes() for path in (tmp_path / "m").iterdir()}
    result = verify(tmp_path / "m", memory=memory)
    assert {path: path.read_bytes() for path in (tmp_path / "m").iterdir()} == before
    Z = reference.embedding(A, X, [0.2, 0.3, 0.5])
    gradient = np.linalg.norm(reference.gradient(Z[train], reference.signs(labels[train], classes), W, B, lam, loss))
    assert result.gradient == pytest.approx(gradient, rel=1e-6, abs=1e-11)
    assert result.holds
    assert not result.wrong
    assert result.distance <= result.bound
    assert result.agreement > 0.9
    assert (result.requests, result.digest, result.chained) == (None, None, None)
    CertifiedGPR.load(tmp_path / "m").close()


@pytest.mark.parametrize("name", ["features", "sum"])
def test_an_embedding_that_is_not_that_of_the_data_is_found(name, rng, tmp_path):
    requested(rng, tmp_path / "m")
    row = int(np.load(tmp_path / "m" / "node.npy")[5]) if name == "features" else 5
    table = np.load(tmp_path / "m" / f"{name}.npy", mmap_mode="r+")
    table[row] += 1e-6  # far below what the budget would show
    table.flush()
    del table
    with pytest.raises(LedgerError, match="do not have their checksum"):
        verify(tmp_path / "m")
    with_new_sums(tmp_path / "m")  # as a writer that means to deceive would
    result = verify(tmp_path / "m")
    assert not result.holds
    assert "the stored embedding is" in result.wrong[0]
    assert "THE LAST CERTIFICATE DOES NOT HOLD" in result.summary()


def test_options_that_a_folder_cannot_have_are_refused(rng, tmp_path):
    mapped(rng, tmp_path / "m").close()
    with pytest.raises(InputError, match="is the folder of a model, which has none"):
        verify(tmp_path / "m", key=tmp_path / "k")
    with pytest.raises(InputError, match="device is 'cpu' and folder is given"):
        verify(tmp_path / "m", device="cpu")
