"""Sphinx configuration.

Build with `python -m sphinx -W --keep-going -q -b html docs docs/_build/html`. The pages load
nothing from another host: formulas are MathML, and fonts and scripts are those of the theme.
"""

import re
import struct
import sys
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx import addnodes
from sphinx.domains.python import PyProperty
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

import rareswitch

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import cli_reference  # noqa: E402 (it lies beside this file)

project = "rareswitch"
author = "The rareswitch authors"
copyright = "2026, The rareswitch authors"
release = version = rareswitch.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 72
python_use_unqualified_type_names = True
toc_object_entries_show_parents = "hide"

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

html_theme = "furo"
html_title = f"rareswitch {release}"
html_static_path = ["_static"]
html_css_files = ["pages.css"]
html_js_files = ["pages.js"]
html_favicon = "_static/favicon.svg"
html_math_renderer = "mathml"

# NumPy prints its array types in full: only the type of the numbers matters to a reader.
ARRAY = re.compile(
    r"~numpy\.ndarray\[tuple\[(?:~typing\.)?Any, \.\.\.\], ~numpy\.dtype\[((?:~?\w+\.)*\w+)\]\]"
)

# Words that a reader may search for, by the page that answers: in the index, they come first.
SEARCHES = {
    "start/quickstart": ["getting started"],
    "start/concepts": ["regret", "definition", "deployment", "switch deployment"],
    "start/compared": ["neural network"],
    "start/for-whom": ["neural network"],
    "tutorials/design-a-study": ["type I error"],
    "how-to/features": ["infeasible actions"],
    "how-to/learner": ["hyperparameters"],
    "how-to/loop": ["retrain", "delayed rewards"],
    "how-to/compare": ["compare", "off-policy"],
    "how-to/serve": ["checkpoint"],
    "switching/plan": ["switch budget"],
    "switching/plan-options": ["hyperparameters"],
    "campaigns/statistics": ["type I error", "p value", "p-value"],
    "service/operating": ["docker"],
    "reference/formats": ["compatibility"],
    "reference/streams": ["seed"],
    "project/citing": ["bibtex"],
}

# The sign that the text of the pages has, φ; the converter would write ϕ.
PHI = re.compile(r"\\phi(?![A-Za-z])")

# A letter with an accent; alone in a group, it would get its index below, as a limit.
ACCENT = re.compile(r"(\\(?:bar|hat) ?(?:\w|\{\w\}))")

# A cell such as "200.0 [190.0, 210.0]", "−3 ± 0.5", "12%" or "10 to 20".
NUMBERS = re.compile(r"(?=.*\d)(?:[\d\s.,:;%±+−–\-\[\]()/×·]|\bto\b)+")


def _write_commands(app):
    """Write the reference of the command line, which is not kept in the repository."""
    cli_reference.write(HERE / "reference" / "cli.md")


def _to_rst(app, what, name, obj, options, lines):
    """Make a docstring reStructuredText: `code` becomes a literal, mathematics stays as typed."""
    example = False
    for i, line in enumerate(lines):
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        if not example:
            parts = line.split("`")
            parts[::2] = [re.sub(r"([\\|*_])", r"\\\1", text) for text in parts[::2]]
            lines[i] = "``".join(parts)


def _skip_aliases(app, what, name, obj, skip, options):
    """Leave out the fields of a NamedTuple, whose texts are "Alias for field number 0"."""
    return True if type(obj).__name__ == "_tuplegetter" else None


def _short_signature(app, what, name, obj, options, signature, returns):
    """Shorten the types of a signature, and write a default that is made as the call that does."""
    if signature and is_dataclass(obj):
        made = (field.default_factory for field in fields(obj) if field.init)
        for make in [each for each in made if each is not MISSING]:
            signature = signature.replace("<factory>", f"{make.__name__}()", 1)
    return tuple(text and _short_type(text) for text in (signature, returns))


def _short_type(text):
    """Write an array type as `ndarray[float64]`."""
    return ARRAY.sub(_short_array, text).replace(" = <lambda>()", " = ...")


def _short_array(found):
    numbers = found[1].rpartition(".")[2]
    return "~numpy.ndarray" if numbers == "Any" else f"~numpy.ndarray[{numbers}]"


def _same_tree(app, page, template, context, doctree):
    """Make the navigation tree of the pages with source code once: none of them is in it."""
    if page.startswith("_modules/"):
        toctree = _trees.setdefault(page.count("/"), cache(context["toctree"]))
        context["toctree"] = toctree


_trees = {}  # by the depth of a page, on which its links depend


class Property(PyProperty):
    """A property with a short type; autodoc has no event for it."""

    def handle_signature(self, sig, signode):
        self.options["type"] = _short_type(self.options.get("type", ""))
        return super().handle_signature(sig, signode)


class TrimCode(SphinxTransform):
    """Drop the empty lines at the end of a code block, which doctest needs before the fence."""

    default_priority = 400

    def apply(self):
        for block in self.document.findall(nodes.literal_block):
            text = block.astext()
            if block.rawsource == text != text.rstrip("\n"):
                block.rawsource = text.rstrip("\n")
                block[:] = [nodes.Text(block.rawsource)]


class WidePictures(SphinxTransform):
    """Mark the pictures whose text is unreadable in the width of a phone."""

    default_priority = 400

    def apply(self):
        folder = Path(self.env.doc2path(self.env.docname)).parent
        for image in self.document.findall(nodes.image):
            header = (folder / image["uri"]).read_bytes()[:24]
            if header.startswith(b"\x89PNG"):
                (width,) = struct.unpack(">I", header[16:20])
                if width >= 1000:
                    image["classes"].append("wide")


class NumberCells(SphinxTransform):
    """Mark the cells that hold numbers only: such a cell, with its interval, stays on one line."""

    default_priority = 400

    def apply(self):
        for cell in self.document.findall(nodes.entry):
            if NUMBERS.fullmatch(cell.astext()):
                cell["classes"].append("numbers")


class SearchWords(SphinxTransform):
    """Give a page its words of `SEARCHES`, as main entries of the index for its top."""

    default_priority = 400

    def apply(self):
        if words := SEARCHES.get(self.env.docname):
            entries = [("single", word, "", "main", None) for word in words]
            self.document += addnodes.index(entries=entries)


def _visit_math(self, node):
    self.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _visit_math_block(self, node):
    self.body.append(
        f'<div class="math-block">{_mathml(node, as_block=True)}</div>\n'
    )
    raise nodes.SkipNode


def _mathml(node, *, as_block):
    try:
        text = ACCENT.sub(r"{\1{}}", PHI.sub(r"\\varphi", node.astext()))
        return tex2mathml(text, as_block=as_block)
    except MathError as error:
        logging.getLogger(__name__).warning(
            "formula %r: %s", node.astext(), error, location=node
        )
        return ""


def setup(app):
    app.connect("builder-inited", _write_commands)
    app.connect("autodoc-process-docstring", _to_rst)
    app.connect("autodoc-skip-member", _skip_aliases)
    app.connect("autodoc-process-signature", _short_signature)
    app.connect("html-page-context", _same_tree, priority=100)  # before the theme
    app.add_directive_to_domain("py", "property", Property, override=True)
    app.add_transform(TrimCode)
    app.add_transform(WidePictures)
    app.add_transform(NumberCells)
    app.add_transform(SearchWords)
    app.add_html_math_renderer(
        "mathml", (_visit_math, None), (_visit_math_block, None)
    )
