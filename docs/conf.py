"""Sphinx configuration."""

import importlib.util

from nareg import __version__

project = "nareg"
author = "the nareg developers"
copyright = "2026, the nareg developers"
release = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"nareg {__version__}"
autodoc_typehints = "none"  # numpydoc states types and shapes
numpydoc_show_class_members = False
if importlib.util.find_spec("torch") is None:  # an extra: the pages can be built without it
    autodoc_mock_imports = ["torch"]
autosummary_generate = False
