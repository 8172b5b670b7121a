"""Nothing in a loop waits for the device: reads and copies are counted on CPU tensors; results are those of the host's way."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from experiments import _gnn_peers as peers  # noqa: E402
from nareg import datasets, gnn, graphs, herta  # noqa: E402
from nareg._solvers import cg, lanczos  # noqa: E402
from nareg._solvers.lbfgs import Pair, two_loop  # noqa: E402
from nareg._solvers.passes import ProductPasses  # noqa: E402
from nareg.errors import DivergentMethodError, SolverError  # noqa: E402
from nareg.gnn import networks, training  # noqa: E402
from nareg.gnn.adjacency import csr_tensor  # noqa: E402
from nareg.gnn.robust import masked_operator  # noqa: E402
from tests.synchronizations import Synchronizations  # noqa: E402


def times(matrix):
    """Products with a CSR tensor, in its dtype."""
    return lambda Z: matrix @ Z


NETWORKS = {
    "filtered": lambda: networks.FilteredNetwork(64, 3, lam=8.0, hidden=(8,), dropout=0.5),
    "GCN": lambda: peers.gcn(64, 3),
    "GAT": lambda: peers.gat(64, 3),
    "APPNP": lambda: peers.appnp(64, 3),
    "AirGNN": lambda: peers.airgnn(64, 3),
    "IRLS": lambda: peers.twirls(64, 3),
    "two NGC layers": lambda: peers.Convolutional(gnn.NGC(64, 8), gnn.NGC(8, 3, solver="chebyshev")),
}


@pytest.fixture(scope="module")
def task():
    return datasets.node_classification.synthetic(150, 3, rng=np.random.default_rng(0))


def train(task, build, epochs, progress=None, **settings):
    return training.fit(
        build, task.graph, torch.as_tensor(task.dense_features()), task.labels, task.splits[0],
        protocol=training.Protocol(epochs=epochs, **settings), rng=np.random.default_rng(1), progress=progress,
    )  # fmt: skip


class TestTheCounterItself:
    def test_it_sees_every_way_to_read_a_value(self):
        x, mask = torch.ones(3), torch.tensor([True, False, True])
        ways = (x.sum().item, lambda: float(x.sum()), lambda: bool(x.any()), x.nonzero, lambda: x[mask], x.cpu, x.numpy,
                x.tolist, lambda: torch.equal(x, x), lambda: np.asarray(x))  # fmt: skip
        for way in ways:
            with Synchronizations() as seen:
                way()
            assert seen.count >= 1, way
        assert "test_synchronizations.py" in next(iter(seen.places))

    def test_it_sees_copies_between_devices_and_nothing_else(self):
        x = torch.ones(3)
        with Synchronizations() as seen:
            _ = (x * 2).sum() + x.double().sum()
            _ = x[torch.tensor([0, 2])]
        assert seen.count == 0
        with Synchronizations() as seen:
            x.to("meta")
        assert seen.count == 1


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.slow
def test_training_does_not_wait_in_its_epochs(name, task):
    counts = []
    for epochs in (2, 12):
        with Synchronizations() as seen:
            train(task, NETWORKS[name], epochs)
        counts.append(seen.count)
    assert counts[0] == counts[1], seen.places


def test_layers_that_check_a_spectrum_wait_twice_a_pass_and_no_more(task):
    """RNGC's dropped-out features are others in every pass: whether the series converges is looked at each time."""
    counts = []
    for epochs in (2, 12):
        with Synchronizations() as seen:
            train(task, lambda: peers.Convolutional(gnn.RNGC(64, 8, lam=4.0, eps=0.1), gnn.NGC(8, 3)), epochs)
        counts.append(seen.count)
    assert counts[1] - counts[0] <= 10 * 2 * 2, seen.places


@pytest.mark.slow
@pytest.mark.parametrize("selection", training.RULES)
@pytest.mark.parametrize("patience", [1, 4, 9])
def test_patience_stops_where_a_look_at_every_epoch_would_stop(selection, patience, task):
    values: list[tuple[float, float]] = []

    def note(progress):
        values.append((progress.values["val_accuracy"], progress.values["val_loss"]))

    train(task, NETWORKS["filtered"], 80, selection=selection, progress=note)
    keys = {"val-accuracy": lambda v: (v[0], -v[1]), "val-loss": lambda v: -v[1], "last": None}
    best = last = 0
    for epoch, value in enumerate(values, start=1):
        last = epoch
        key = keys[selection]
        if key is None or best == 0 or key(value) > key(values[best - 1]):
            best = epoch
        if epoch - best >= patience:
            break
    with Synchronizations() as seen:
        run = train(task, NETWORKS["filtered"], 80, selection=selection, patience=patience)
    assert (run.epoch, run.epochs) == (best, last)
    assert run.val_accuracy == values[best - 1][0]
    assert run.val_loss == values[best - 1][1]
    assert seen.count <= 10 + 2 * (last // patience + 1)


def test_the_weights_are_those_of_the_selected_epoch(task):
    run = train(task, NETWORKS["filtered"], 60, selection="val-accuracy")
    assert run.epoch < 60
    x, A = torch.as_tensor(task.dense_features()), gnn.Adjacency(task.graph)
    with torch.no_grad():
        predicted = run.network(run.network.prepare(A, x), slice(None)).argmax(1).numpy()
    _, val, test = (np.flatnonzero(p) if np.asarray(p).dtype == bool else p for p in task.splits[0])
    assert (predicted[val] == task.labels[val]).mean() == run.val_accuracy
    assert (predicted[test] == task.labels[test]).mean() == run.test_accuracy


class TestConjugateGradients:
    @staticmethod
    def system(rng, n=80, columns=5, dtype=torch.float64):
        Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
        K = (Q * np.geomspace(1, 1e4, n)) @ Q.T
        B = rng.standard_normal((n, columns)) * 10.0 ** rng.uniform(-3, 3, columns)
        B[:, 1] = 0
        B[:, 2] = Q[:, 0]  # done in one step
        return K, B, torch.as_tensor(K, dtype=dtype), torch.as_tensor(B, dtype=dtype)

    @pytest.mark.parametrize("seed", range(5))
    def test_the_solution_does_not_depend_on_how_often_one_looks(self, seed):
        K, B, T, Y = self.system(np.random.default_rng(seed))
        jacobi = 1 / T.diagonal()[:, None]
        solutions = [
            cg.solve_exactly(ProductPasses(lambda P, out: torch.mm(T, P, out=out), jacobi), Y, tol=1e-9, check_every=k)
            for k in (1, 3, 8)
        ]
        for X, products in solutions:
            assert torch.equal(X, solutions[0][0])
            assert solutions[0][1] <= products <= solutions[0][1] + 7
        exact = np.linalg.solve(K, B)
        lengths = np.linalg.norm(B, axis=0)
        assert (np.linalg.norm(solutions[2][0].numpy() - exact, axis=0) <= 2e-9 * lengths + 1e-300).all()
        host = cg.solve_exactly(ProductPasses(lambda P, out: np.matmul(K, P, out=out)), B, tol=1e-9, check_every=8)[0]
        assert (np.linalg.norm(host - exact, axis=0) <= 2e-9 * lengths + 1e-300).all()

    def test_one_look_in_eight_steps(self):
        _, _, T, Y = self.system(np.random.default_rng(0))
        for every in (1, 8):
            with Synchronizations() as seen:
                _, products = cg.solve_exactly(
                    ProductPasses(lambda P, out: torch.mm(T, P, out=out)), Y, tol=1e-6, check_every=every, max_products=4000
                )
            assert products > 50
            assert seen.count <= products / every + 4

    @pytest.mark.parametrize("every", [1, 8])
    def test_an_indefinite_system_is_refused(self, every):
        T = torch.diag(torch.tensor([1.0, 2.0, -1.0, 3.0] * 5, dtype=torch.float64))
        with pytest.raises(SolverError, match="not positive definite"):
            cg.solve_exactly(
                ProductPasses(lambda P, out: torch.mm(T, P, out=out)),
                torch.ones((20, 3), dtype=T.dtype),
                tol=1e-8,
                check_every=every,
            )


def test_the_two_loop_recursion_waits_for_nothing_and_is_the_host_s():
    rng = np.random.default_rng(0)
    steps, changes = rng.standard_normal((2, 6, 30))
    changes += 3 * steps
    pairs = [Pair(s, c, float(s @ c)) for s, c in zip(steps, changes, strict=True)]
    tensors = [Pair(torch.as_tensor(p.step), torch.as_tensor(p.change), p.curvature) for p in pairs]
    gradient = rng.standard_normal(30)
    with Synchronizations() as seen:
        direction = two_loop(torch.as_tensor(gradient), tensors, lambda q: q / 3)
    assert seen.count == 0
    np.testing.assert_allclose(direction.numpy(), two_loop(gradient, pairs, lambda q: q / 3), rtol=1e-12)


def random_operator(seed, n=60, *, symmetric=True):
    import scipy.sparse as sp

    rng = np.random.default_rng(seed)
    M = sp.random_array((n, n), density=0.1, rng=rng, data_sampler=rng.standard_normal).toarray()
    M = (M + M.T) / 2 if symmetric else M
    return M, csr_tensor(M, torch.float64, torch.device("cpu"))


class TestSpectrum:
    @pytest.mark.parametrize("seed", range(8))
    @pytest.mark.parametrize("which", ["SA", "LA", "LM"])
    def test_ends_of_symmetric_operators(self, seed, which):
        M, tensor = random_operator(seed, 30 + 40 * seed)
        values = np.linalg.eigvalsh(M)
        exact = {"SA": values[0], "LA": values[-1], "LM": values[np.abs(values).argmax()]}[which]
        like = torch.empty((len(M), 0), dtype=torch.float64)
        found = lanczos.extreme_eigenvalue(times(tensor), like, which, tol=1e-4)
        assert abs(abs(found) - abs(exact)) < 1e-3 * abs(exact)

    @pytest.mark.parametrize("seed", range(8))
    def test_radius_of_operators_that_are_not_symmetric(self, seed):
        M, tensor = random_operator(seed, 30 + 40 * seed, symmetric=False)
        like = torch.empty((len(M), 0), dtype=torch.float64)
        exact = np.abs(np.linalg.eigvals(M)).max()
        assert lanczos.radius(times(tensor), like, tol=1e-4) == pytest.approx(exact, rel=2e-2)

    @pytest.mark.parametrize("M", [np.zeros((5, 5)), np.eye(7), np.diag([1.0, 1.0, -2.0]), np.ones((1, 1))])
    def test_few_different_eigenvalues(self, M):
        tensor, like = csr_tensor(M, torch.float64, torch.device("cpu")), torch.empty((len(M), 0), dtype=torch.float64)
        values = np.linalg.eigvalsh(M)
        for which, exact in (("SA", values[0]), ("LA", values[-1])):
            found = lanczos.extreme_eigenvalue(times(tensor), like, which, tol=1e-4)
            assert found == pytest.approx(exact, abs=1e-10)
        assert lanczos.radius(times(tensor), like, tol=1e-4) == pytest.approx(np.abs(values).max(), abs=1e-10)

    def test_one_look_in_sixteen_steps(self):
        M, tensor = random_operator(1, 400)
        like = torch.empty((len(M), 0), dtype=torch.float64)
        with Synchronizations() as seen:
            lanczos.extreme_eigenvalue(times(tensor), like, "LA", tol=1e-12)
        assert 1 <= seen.count <= 400 / lanczos.LOOK + 1

    @pytest.mark.parametrize("normalization", ["sym", "rw"])
    @pytest.mark.parametrize("masked", [False, True])
    def test_tensors_are_refused_where_arrays_are(self, normalization, masked):
        rng = np.random.default_rng(3)
        A = gnn.Adjacency(graphs.sensor(60, rng=rng), normalization=normalization)
        x = np.abs(rng.standard_normal((60, 3)))
        refused = []
        for features in (x, torch.as_tensor(x)):
            for eps in np.geomspace(0.1, 8, 12):
                try:
                    gnn.propagate(A, features, perturbation=gnn.Perturbation(float(eps), masked=masked))
                except DivergentMethodError:
                    refused.append(float(eps))
        first, second = refused[: len(refused) // 2], refused[len(refused) // 2 :]
        assert first == second
        assert 0 < len(first) < 12


class TestMasked:
    @pytest.mark.parametrize("normalization", ["sym", "rw"])
    @pytest.mark.parametrize("chunk", [7, 2**20])
    def test_operator_and_slope_are_those_of_dense_matrices(self, normalization, chunk, monkeypatch):
        monkeypatch.setattr("nareg.gnn.robust.CHUNK", chunk)
        rng = np.random.default_rng(0)
        A = gnn.Adjacency(graphs.sensor(40, rng=rng), normalization=normalization)
        U, Y, Z = rng.standard_normal((3, 40, 4))
        dense, eps = A.matrix.toarray(), 0.7
        P = (U @ U.T) * (dense != 0)
        expected = dense - eps * P / np.linalg.norm(P)
        parameter = torch.as_tensor(U).requires_grad_(True)
        Q = (parameter @ parameter.T) * torch.as_tensor(dense != 0)
        inner = (torch.as_tensor(Y) * ((torch.as_tensor(dense) - eps * Q / Q.norm()) @ torch.as_tensor(Z))).sum()
        (gradient,) = torch.autograd.grad(inner, parameter)
        for kind in (np.asarray, torch.as_tensor):
            M, slope = masked_operator(A, kind(U), eps)
            out = M.multiply_add(kind(Z), kind(Z), 1.0, 0.0, kind(np.empty_like(Z)))
            np.testing.assert_allclose(np.asarray(out), expected @ Z, atol=1e-12)
            back = M.transposed.multiply_add(kind(Z), kind(Z), 1.0, 0.0, kind(np.empty_like(Z)))
            np.testing.assert_allclose(np.asarray(back), expected.T @ Z, atol=1e-12)
            np.testing.assert_allclose(np.asarray(slope(kind(Y), kind(Z), kind(U))), gradient.numpy(), atol=1e-11)

    @pytest.mark.slow
    def test_nothing_is_read_or_copied_however_many_slices(self, monkeypatch):
        A = gnn.Adjacency(graphs.sensor(100, rng=np.random.default_rng(0)))
        x = torch.randn(100, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64, requires_grad=True)
        counts = []
        for chunk in (2**20, 16):
            monkeypatch.setattr("nareg.gnn.robust.CHUNK", chunk)
            with Synchronizations() as seen:
                out = gnn.propagate(A, x, lam=2.0, perturbation=gnn.Perturbation(0.2, masked=True))
                out.square().sum().backward()
            counts.append(seen.count)
        assert counts[0] == counts[1] <= 3, seen.places

    @pytest.mark.parametrize("masked", [False, True])
    @pytest.mark.parametrize("solver", ["neumann", "cg", "chebyshev"])
    def test_features_that_are_all_zero_perturb_nothing(self, masked, solver):
        if masked and solver == "chebyshev":
            pytest.skip("has no edge-masked form")
        A = gnn.Adjacency(graphs.sensor(30, rng=np.random.default_rng(0)))
        x = np.random.default_rng(1).standard_normal((30, 2))
        for kind in (np.asarray, torch.as_tensor):
            factor = kind(np.zeros((30, 2)))
            perturbed = gnn.propagate(
                A, kind(x), lam=2.0, solver=solver, perturbation=gnn.Perturbation(0.5, masked=masked, factor=factor)
            )
            np.testing.assert_allclose(np.asarray(perturbed), np.asarray(gnn.propagate(A, kind(x), lam=2.0, solver=solver)))


#: Loss, optimizer, preconditioner; reads of an iteration, at most: losses, slopes and norms by which the host decides.
HERTA = [
    ("mse", "pcg", "none", 1),
    ("mse", "gd", "auto", 6),
    ("mse", "adam", "auto", 6),
    ("ce", "adam", "none", 5),
    ("ce", "lbfgs", "none", 9),
    ("ce", "lbfgs", "exact", 12),
]


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "optimizer", "preconditioner", "most"), HERTA)
def test_herta_reads_a_few_numbers_an_iteration_whatever_its_solves_take(loss, optimizer, preconditioner, most, task):
    for lam in (1.0, 50.0):  # a few and many products per solve
        counts = {}
        for iterations in (4, 12):
            options = herta.Optimizer(optimizer, tol=1e-14, max_iterations=iterations)
            with Synchronizations() as seen:
                result = herta.fit(
                    task.graph, torch.as_tensor(task.dense_features()).double(), task.labels, lam=lam, loss=loss,
                    optimizer=options, preconditioner=preconditioner, rng=np.random.default_rng(1),
                )  # fmt: skip
            counts[len(result.losses)] = seen.count
        assert len(counts) == 2
        (few, before), (many, after) = counts.items()
        assert after - before <= most * (many - few), seen.places
