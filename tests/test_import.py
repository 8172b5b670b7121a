"""What importing costs and drags in: optional and heavy modules only when they are asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import nareg


def modules_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def loaded_after(code: str) -> set[str]:
    return {name.partition(".")[0] for name in modules_after(code)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "absent"),
    [
        (
            "import nareg",
            {
                "cvxpy",
                "scs",
                "clarabel",
                "numba",
                "pyamg",
                "pandas",
                "polars",
                "xarray",
                "geopandas",
                "torch",
                "torch_geometric",
            }
            | {"sklearn", "matplotlib", "networkx", "pygsp", "petsc4py", "distributed", "pooch", "jinja2", "rich", "typer"},
        ),
        (
            "import nareg, nareg.design, nareg.filters, nareg.baselines, nareg.datasets",
            {"cvxpy", "numba", "pyamg", "pandas", "torch", "sklearn", "matplotlib", "pygsp", "petsc4py", "typer"},
        ),
        ("import nareg.cli.main", {"cvxpy", "numba", "pandas", "scipy", "torch", "sklearn", "matplotlib"}),
    ],
)
def test_heavy_modules_stay_out(code, absent):
    assert not loaded_after(code) & absent


def test_later_readings_need_neither_optimizers_nor_designs():
    """``nareg apply`` is run as often as new readings come."""
    assert not modules_after("import nareg.cleaning") & {"scipy.optimize", "scipy.ndimage", "nareg.design", "pandas"}


def test_a_command_imports_no_other():
    code = """
import sys
from nareg.cli import run
sys.argv = ["nareg", "apply", "--help"]
try:
    run()
except SystemExit:
    pass
"""
    others = {"nareg.cli.apply_model", "nareg.cli.inputs", "nareg.cli.judging", "nareg.cli.main"}
    assert {name for name in modules_after(code) if name.startswith("nareg.cli.")} == others


def test_a_report_needs_neither_windows_nor_files_of_matlab():
    assert not modules_after("import nareg.cleaning._pictures") & {"matplotlib.pyplot", "scipy.io"}


def test_objects_of_imports_are_searched_once_for_unreachable_ones():
    code = """
import gc, sys
from nareg.cli import COLLECTED, run
sys.argv = ["nareg", "--version"]
try:
    run()
except SystemExit:
    before = gc.get_threshold()
    gc.collect()
    print(before[0] > 2 * COLLECTED[0], gc.get_threshold() == COLLECTED)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "True True"


@pytest.mark.slow
def test_submodules_load_when_first_used():
    assert "cvxpy" not in loaded_after("import nareg\nnareg.design.risk\nnareg.graphs.grid((2, 2))")


@pytest.mark.slow
def test_clean_is_a_function_and_does_not_shadow_its_package():
    assert "pandas" not in loaded_after("import nareg\nnareg.clean")
    assert callable(nareg.clean)
    assert nareg.cleaning.clean is nareg.clean
    assert {"clean", "cleaning"} <= set(dir(nareg))


@pytest.mark.slow
def test_every_public_module_is_an_attribute():
    pytest.importorskip("torch")
    assert "matplotlib" in loaded_after("import nareg\nnareg.plotting.network")
    for name in nareg.__all__:
        assert getattr(nareg, name) is not None


def test_unknown_attribute_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = nareg.nonsense
    assert "design" in dir(nareg)


@pytest.mark.parametrize("module", ["nareg.cli.main", "typer", "numpy", "nareg.cli.inputs", "rich.console"])
@pytest.mark.parametrize(
    "program", ["from nareg.cli import run; run()", "import runpy; runpy.run_module('nareg', run_name='__main__')"]
)
def test_ctrl_c_while_a_module_is_imported_ends_the_command_quietly(module, program):
    code = f"""
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
sys.meta_path.insert(0, Interrupt())
sys.argv = ["nareg", "--version"]
{program}
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")
