"""Sphinx configuration.

Build with `python -m sphinx -W --keep-going -q -b html docs docs/_build/html`.
"""

import re

import rareswitch

project = "rareswitch"
author = "The rareswitch authors"
copyright = "2026, The rareswitch authors"
release = version = rareswitch.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

# Shapes are in the docstrings; the array aliases of the signatures would only hide the names.
autodoc_typehints = "none"
autodoc_member_order = "bysource"

html_theme = "furo"
html_title = f"rareswitch {release}"


def _to_rst(app, what, name, obj, options, lines):
    """Make a docstring reStructuredText: `code` becomes a literal, mathematics stays as typed."""
    example = False
    for i, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            parts = line.split("`")
            parts[::2] = [re.sub(r"([\\|*_])", r"\\\1", text) for text in parts[::2]]
            lines[i] = "``".join(parts)


def setup(app):
    app.connect("autodoc-process-docstring", _to_rst)
