"""Sphinx configuration."""

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
autosummary_generate = False
