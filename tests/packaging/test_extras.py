"""Every extra, installed alone in a fresh environment, brings what it serves."""

from __future__ import annotations

import sys
import tomllib

import pytest

from tests.packaging.conftest import ROOT, command

pytestmark = pytest.mark.nightly

EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]

GRAPH = "import nareg, numpy as np\ngraph = nareg.graphs.grid((4, 4))\ny = np.arange(16.0)\n"
TORCH = (
    GRAPH
    + """
import torch, nareg.herta
x = nareg.filters.denoise(graph, 0.5, torch.tensor(y), backend="torch").x
assert np.allclose(x, nareg.filters.denoise(graph, 0.5, y).x)
assert nareg.gnn.NGC(3, 2)
"""
)
SKLEARN = (
    GRAPH
    + """
for name in nareg.estimators.__all__:
    getattr(nareg.estimators, name)
assert nareg.estimators.GraphInterpolator(graph).fit_transform(np.stack([y, y + 1])).shape == (2, 16)
"""
)
TABLES = (
    GRAPH
    + """
import geopandas, pandas as pd, polars, xarray
frame = pd.DataFrame({"time": pd.date_range("2025-01-01", periods=16), "a": y, "b": y + 1})
frame.to_parquet("readings.parquet")
frame.set_index("time").to_xarray().to_dataarray("station").rename("t").to_netcdf("readings.nc", engine="h5netcdf")
assert nareg.io.read_readings("readings.parquet").values.shape == (2, 16)
assert nareg.io.read_readings("readings.nc").values.shape == (2, 16)
assert nareg.io.readings_from_frame(polars.from_pandas(frame)).values.shape == (2, 16)
geopandas.GeoDataFrame({"station": ["a"]}, geometry=geopandas.points_from_xy([5], [45]), crs=4326).to_file("stations.gpkg")
assert nareg.io.read_stations("stations.gpkg").names == ("a",)
"""
)
#: What each extra is for. Dependencies of developers are only imported.
USES = {
    "torch": TORCH,
    "pyg": TORCH + "import nareg.gnn.comparison, torch_geometric\nassert nareg.Graph.from_edge_index(graph.to_edge_index()[0])",
    "pygsp": GRAPH + "assert nareg.Graph.from_pygsp(graph.to_pygsp()) == graph",
    "sklearn": SKLEARN,
    "experiments": SKLEARN,
    "dask": GRAPH + "import distributed",
    "tables": TABLES,
    "petsc": GRAPH + "assert nareg.filters.denoise(graph, 0.5, y, backend='petsc').status.ok",
    "docs": "import sphinx, pydata_sphinx_theme, myst_parser, numpydoc, sphinx_copybutton, sphinx_design, sphinx_gallery, "
    "ziamath",
    "test": TABLES + "import pytest, selenium, xdist, hypothesis, torch_geometric, pygsp, sklearn, distributed",
    "dev": "import pytest, mypy, torch, sklearn",
    "speeds": TORCH + "import pytest_benchmark",
    "release": "import build, twine, uv, mypy",
    "all": TORCH + SKLEARN + TABLES + "import sphinx, mypy",
}


def test_every_extra_has_a_use():
    assert set(USES) == set(EXTRAS)


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_alone_serves(environment, tmp_path, extra):
    if extra == "petsc" and sys.version_info < (3, 12):
        pytest.skip("the wheels of PETSc need Python 3.12 or later")
    command(environment(f"[{extra}]"), "-c", USES[extra], cwd=tmp_path)


def test_without_extras_each_refusal_names_its_own(environment, tmp_path):
    asked = {
        "nareg.estimators.EdgeDenoiser": "sklearn",
        "nareg.gnn.NGC": "torch",
        "nareg.graphs.grid((2, 2)).to_pygsp()": "pygsp",
        "nareg.filters.denoise(nareg.graphs.grid((2, 2)), 1.0, [1.0, 2.0, 3.0, 4.0], backend='torch')": "torch",
        "nareg.io.read_readings('readings.parquet')": "tables",
    }
    (tmp_path / "readings.parquet").write_bytes(b"PAR1")
    lines = ["import nareg", f"for call, extra in {asked!r}.items():", "    try:", "        eval(call)"]
    lines += [
        "    except nareg.errors.MissingDependencyError as error:",
        "        assert f'nareg[{extra}]' in str(error), (call, error)",
    ]
    lines += ["    else:", "        raise AssertionError(call)"]
    command(environment(""), "-c", "\n".join(lines), cwd=tmp_path)
