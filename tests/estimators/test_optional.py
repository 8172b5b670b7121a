"""scikit-learn is an extra: without it the package imports, and says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

import nareg.estimators
from nareg.errors import MissingDependencyError


def test_all_names_load_when_first_used():
    for name in nareg.estimators.__all__:
        assert getattr(nareg.estimators, name).__name__ == name
        assert name in dir(nareg.estimators)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = nareg.estimators.nonsense


def test_the_module_does_not_import_scikit_learn():
    code = "import sys, nareg; nareg.estimators; print('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_without_it_the_message_says_what_to_install():
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "import nareg\n"
        "try:\n"
        "    nareg.estimators.EdgeDenoiser\n"
        "except nareg.errors.MissingDependencyError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "nareg.estimators.EdgeDenoiser needs scikit-learn: pip install 'nareg[sklearn]'.\n"
    assert issubclass(MissingDependencyError, ImportError)
