"""Every reader of files: how to write a valid file for it, and how to read one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.io
import scipy.sparse as sp

import nareg
from nareg import design, filters, io, spacetime, unlearning
from nareg.cli import node_files
from nareg.datasets import _graph_loaders, _pickles
from nareg.datasets.loaders import read_radomeh
from tests.spacetime import reference

RNG = np.random.default_rng
NAMES = tuple("abcde")
GRAPH = nareg.Graph.from_knn(RNG(0).random((5, 2)), 2, names=NAMES)
FRAME = pd.DataFrame(
    RNG(1).standard_normal((6, 5)).round(2), columns=list(NAMES), index=pd.date_range("2024-01-01", periods=6, name="time")
)


@dataclass(frozen=True)
class Reader:
    """``write(path)`` makes a valid file, or a folder of which ``parts`` are damaged; ``read(path)`` reads it.

    ``valid`` is False where only the published file is accepted.
    """

    name: str
    write: Callable[[Path], object]
    read: Callable[[Path], object]
    parts: tuple[str, ...] = ()
    valid: bool = True

    @property
    def module(self) -> str:
        """The optional library that it needs."""
        kinds = {".parquet": "pyarrow", ".nc": "h5netcdf", ".geojson": "pyogrio"}
        return kinds.get(Path(self.name).suffix, "nareg")


def wide(path: Path) -> None:
    FRAME.to_csv(path)


def long(path: Path) -> None:
    FRAME.reset_index().melt("time", var_name="station").to_csv(path, index=False)


def long_frame() -> pd.DataFrame:
    return FRAME.reset_index().melt("time", var_name="station")


def stations(path: Path) -> None:
    rows = "\n".join(f"{name},{50 + i},{i / 2},{100 * i}" for i, name in enumerate(NAMES))
    path.write_text(f"station,latitude,longitude,altitude\n{rows}\n")


def netcdf(path: Path) -> None:
    import xarray

    coordinates = {
        "time": FRAME.index,
        "station": list(NAMES),
        "lat": ("station", np.arange(5.0)),
        "lon": ("station", np.arange(5.0)),
    }
    array = xarray.DataArray(FRAME.to_numpy(), dims=("time", "station"), coords=coordinates, attrs={"units": "K"}, name="t")
    array.to_netcdf(path, engine="h5netcdf")


def station_parquet(path: Path) -> None:
    pd.DataFrame({"station": NAMES, "x": np.arange(5.0), "y": np.arange(5.0)}).to_parquet(path)


def geojson(path: Path) -> None:
    points = [
        {"type": "Feature", "properties": {"station": n}, "geometry": {"type": "Point", "coordinates": [i, 50 + i]}}
        for i, n in enumerate(NAMES)
    ]
    path.write_text(json.dumps({"type": "FeatureCollection", "features": points}))


def readings_npz(path: Path) -> None:
    times = FRAME.index.strftime("%Y-%m-%d").to_numpy().astype(str)
    np.savez(path, values=FRAME.to_numpy().T, names=np.array(NAMES), times=times)


def saved_design(path: Path) -> None:
    X = RNG(2).standard_normal((5, 8)) + 1
    design.exact(GRAPH, signals=X, noise=0.5, data_weight="noise").save(path)


def saved_edges(path: Path) -> None:
    design.edge(GRAPH, signals=RNG(2).standard_normal((5, 8)) + 1, noise=0.5).save(path)


def model(path: Path) -> None:
    reference.network(n=4, T=12).save(path)


def direction_models(path: Path) -> None:
    model(path)
    one = spacetime.load(path)
    spacetime.DirectionModels(one, one, signed=True, stretch=1.5).save(path)


def stream(path: Path) -> None:
    followed = reference.network(n=4, T=12).stream()
    followed.update(np.zeros(4))
    followed.save(path)


def forgetting(**options: object) -> unlearning.CertifiedGPR:
    data = nareg.datasets.node_classification.synthetic(30, 2, rng=RNG(0))
    fitted = unlearning.CertifiedGPR(lam=0.1, alpha=1.0, rng=RNG(1), **options)
    return fitted.fit(data.graph, np.asarray(data.features)[:, :4], data.labels, np.arange(20))


#: The files of a store, but for its lock.
STORE = (
    "checksums.npy", "coefficients.npy", "edges.npy", "features.npy", "gone.npy", "labels.npy", "requests.npy", "state.json",
    "term.npy", "trained.npy",
)  # fmt: skip


def store(path: Path) -> None:
    saved = forgetting().save(path)
    saved.remove_nodes([3])
    saved.close()


def store_folder(path: Path) -> None:
    forgetting(folder=path).close()


def load_model(path: Path) -> None:
    loaded = unlearning.CertifiedGPR.load(path)
    loaded.decision()
    loaded.close()


def history(path: Path) -> None:
    ledger = unlearning.Ledger(path)
    try:
        list(ledger.history())
    finally:
        ledger.close()


def denoise_stored(path: Path) -> None:
    """Weights and signals of NumPy files, from disk to disk."""
    filters.denoise(path.parent / "stored.graph", path.parent / "w.npy", path, out=path.parent / "out.npy")


def signals(path: Path) -> None:
    if not (path.parent / "stored.graph").exists():
        GRAPH.save(path.parent / "stored.graph")
    np.save(path.parent / "w.npy", np.ones(5))
    np.save(path, RNG(3).standard_normal((5, 3)))


def denoise_graph(path: Path) -> None:
    filters.denoise(path, np.ones(5), np.ones((5, 2)), out=path.parent / "out.npy")


def to_graph(path: Path) -> None:
    io.convert(path, path.parent / "converted.graph")
    nareg.Graph.load(path.parent / "converted.graph")


def to_signals(path: Path) -> None:
    io.convert(path, path.parent / "converted.npy")


def prepared(path: Path) -> None:
    """A data set as it lies prepared: sparse arrays, labels and a split."""
    adjacency, features = (
        GRAPH.adjacency.astype(bool).astype(np.uint8),
        sp.csr_array(RNG(4).random((5, 3)) > 0.5).astype(np.uint8),
    )
    parts = {
        f"{name}_{part}": np.asarray(getattr(matrix, part))
        for name, matrix in (("adj", adjacency), ("x", features))
        for part in ("data", "indices", "indptr", "shape")
    }
    split = {"train_idx": np.array([0, 1]), "val_idx": np.array([2]), "test_idx": np.array([3, 4])}
    np.savez_compressed(path, **parts, **split, y=np.array([0, 1, 0, 1, 0]), num_classes=np.array(2))


def entry(name: str, **changes: object) -> nareg.datasets.DatasetInfo:
    """A registry entry without digests, which any damage would fail: what its reader does behind them."""
    info = nareg.datasets.info(name)
    return replace(info, **{"files": dict.fromkeys(info.files)} | changes)


def load_prepared(path: Path) -> None:
    _graph_loaders.prepared(entry("cora", files={path.name: None}), path.parent)


def ogb_files(path: Path) -> None:
    """Open Graph Benchmark's own tables."""
    import gzip

    texts = ("0,1\n1,2\n", "0.5,1\n0.25,1\n0,1\n", "0\n1\n0\n", "0\n", "1\n", "2\n")
    for file, text in zip(entry("ogbn-arxiv").files, texts, strict=True):
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        (path / file).write_bytes(gzip.compress(text.encode()))


def ogb_arrays(path: Path) -> None:
    import gzip

    files = list(entry("ogbn-papers100M").files)
    for file in files:
        (path / file).parent.mkdir(parents=True, exist_ok=True)
    np.savez(path / files[0], edge_index=np.array([[0, 1], [1, 2]]), node_feat=np.ones((3, 2), np.float32))
    np.savez(path / files[1], node_label=np.array([[0.0], [np.nan], [1.0]]))
    for k, file in enumerate(files[2:]):
        (path / file).write_bytes(gzip.compress(f"{k}\n".encode()))


def saint_files(path: Path) -> None:
    adjacency, feature, classes, role = (path / file for file in entry("flickr").files)
    adjacency.parent.mkdir(parents=True)
    sp.save_npz(adjacency, sp.csr_array(np.ones((3, 3)) - np.eye(3)))
    np.save(feature, np.ones((3, 2)))
    classes.write_text('{"0": 0, "1": 1, "2": 0}')
    role.write_text('{"tr": [0], "va": [1], "te": [2]}')


def pickled(path: Path) -> None:
    import pickle

    path.write_bytes(pickle.dumps({0: [1, 2], 1: [0], 2: [0]}, protocol=2))


def sparse_npz(path: Path) -> None:
    sp.save_npz(path, GRAPH.adjacency)


def edges(path: Path) -> None:
    path.write_text("u,v,weight\n" + "\n".join(f"{i},{i + 1},{0.5 + i}" for i in range(4)) + "\n")


def gz_edges(path: Path) -> None:
    import gzip

    path.write_bytes(gzip.compress(b"0 1\n1 2\n2 3\n"))


def labels(path: Path) -> None:
    path.write_text("node,label,train\n" + "\n".join(f"{i},{i % 2},{int(i < 3)}" for i in range(5)) + "\n")


def write_radomeh(path: Path) -> None:
    import io as memory
    import tarfile

    text = b"numer_sta;date;t\n07110;20140101000000;280.1\n07110;20140101010000;279.5\n"
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo("radomeh/07110.csv")
        member.size = len(text)
        archive.addfile(member, memory.BytesIO(text))


MODEL_FILES = (
    "state.json",
    "start.npy",
    "node.npy",
    "labels.npy",
    "peaks.npy",
    "features.npy",
    "neighbors.npy",
    "coefficients.npy",
    "term.npy",
)
GRAPH_FILES = ("graph.json", "indptr.npy", "indices.npy", "weights.npy", "coordinates.npy", "names.npy")
READERS = [
    Reader("readings.csv", wide, io.read_readings),
    Reader("strict.csv", wide, lambda path: io.read_readings(path, NAMES, strict=True)),
    Reader("long.csv", long, lambda path: io.read_readings(path, NAMES, keep_absent=True)),
    Reader("readings.npz", readings_npz, io.read_readings),
    Reader("readings.parquet", lambda path: FRAME.to_parquet(path), io.read_readings),
    Reader("long.parquet", lambda path: long_frame().to_parquet(path), io.read_readings),
    Reader("readings.nc", netcdf, io.read_readings),
    Reader("stations.csv", stations, io.read_stations),
    Reader(
        "recipe.toml",
        lambda path: io.Recipe(station="id", time=("day", "hour"), missing=("M", "-99")).save(path),
        io.Recipe.load,
    ),
    Reader("stations.parquet", station_parquet, io.read_stations),
    Reader("stations.nc", netcdf, io.read_stations),
    Reader("stations.geojson", geojson, io.read_stations),
    Reader(
        "weights.csv",
        lambda path: io.write_weights(path, NAMES, np.ones(5), np.ones(5)),
        lambda path: io.read_weights(path, NAMES),
    ),
    Reader(
        "fit.csv",
        lambda path: io.write_weights(path, NAMES, np.ones(5), np.ones(5)),
        lambda path: io.read_data_weight(path, NAMES),
    ),
    Reader("column.csv", stations, lambda path: io.read_column(path, NAMES, "altitude")),
    Reader("rows.csv", stations, io.read_rows),
    Reader("adjacency.mtx", lambda path: scipy.io.mmwrite(path, GRAPH.adjacency), io.read_adjacency),
    Reader("edges.csv", edges, to_graph),
    Reader("edges.txt.gz", gz_edges, to_graph),
    Reader("edges.npy", lambda path: np.save(path, np.array([[0, 1, 2], [1, 2, 3]])), to_graph),
    Reader("graph.npz", sparse_npz, to_graph),
    Reader("graph.mtx", lambda path: scipy.io.mmwrite(path, GRAPH.adjacency), to_graph),
    Reader("whole.graph", lambda path: GRAPH.save(path), nareg.Graph.load, GRAPH_FILES),
    Reader("parts.graph", lambda path: GRAPH.save(path), denoise_graph, GRAPH_FILES[:4]),
    Reader("signals.npy", signals, denoise_stored),
    Reader("values.npy", lambda path: np.save(path, RNG(5).random((5, 2))), to_signals),
    Reader("values.csv", lambda path: path.write_text("1.5,2\n3,4\n"), to_signals),
    Reader("features.npy", lambda path: np.save(path, RNG(5).random((5, 2))), node_files.matrix),
    Reader("features.npz", sparse_npz, node_files.matrix),
    Reader("labels.csv", labels, lambda path: node_files.labels(path, 5)),
    Reader("pairs.csv", lambda path: path.write_text("u,v\n0,1\n3,4\n"), lambda path: node_files.pairs(str(path))),
    Reader("numbers.csv", lambda path: path.write_text("node\n0\n4\n"), lambda path: node_files.numbers(str(path))),
    Reader("design.npz", saved_design, design.load),
    Reader("edge-design.npz", saved_edges, design.load),
    Reader("model.npz", model, lambda path: spacetime.load(path).smooth()),
    Reader("directions.npz", direction_models, lambda path: spacetime.load_any(path).north.smooth()),
    Reader("stream.npz", stream, lambda path: spacetime.load_stream(path).update(np.zeros(4))),
    Reader("service.store", store, load_model, STORE),
    Reader("history.store", store, history, STORE),
    Reader("verified.store", store, unlearning.verify, STORE),
    Reader("model-folder", store_folder, load_model, MODEL_FILES),
    Reader("prepared.npz", prepared, load_prepared),
    Reader("ogb", ogb_files, lambda path: _graph_loaders.ogb(entry("ogbn-arxiv"), path), tuple(entry("ogbn-arxiv").files)),
    Reader(
        "ogb-arrays",
        ogb_arrays,
        lambda path: _graph_loaders.ogb_binary(entry("ogbn-papers100M"), path),
        tuple(entry("ogbn-papers100M").files),
    ),
    Reader("saint", saint_files, lambda path: _graph_loaders.saint(entry("flickr"), path), tuple(entry("flickr").files)),
    Reader("planetoid.graph", pickled, _pickles.read_pickle),
    Reader("RADOMEH.tar.gz", write_radomeh, read_radomeh, valid=False),
]
