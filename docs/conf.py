"""Sphinx configuration."""

import sys
from pathlib import Path

from sphinx_gallery.sorting import ExplicitOrder

from nareg import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "nareg"
author = "the nareg developers"
copyright = "2026, the nareg developers"
release = __version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "svg_math",
]
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "sg_execution_times.rst"]
html_math_renderer = "svg"
html_theme = "pydata_sphinx_theme"
html_title = f"nareg {__version__}"
html_static_path = ["_static"]
html_css_files = ["nareg.css"]
html_js_files = ["nareg.js"]
html_theme_options = {
    "logo": {"text": "nareg"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "show_prev_next": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "results/claims": []},  # its tables need the width
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}
html_show_sourcelink = False
html_copy_source = False
autodoc_typehints = "none"  # numpydoc states types and shapes
numpydoc_show_class_members = False
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "plot_",
    "subsection_order": ExplicitOrder(["../examples/sensors", "../examples/filters", "../examples/graph_networks"]),
    "abort_on_example_error": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,  # times depend on the machine
    "download_all_examples": False,
    "remove_config_comments": True,
}
copybutton_exclude = ".linenos, .gp, .go"
autosummary_generate = False
