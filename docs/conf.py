"""The manual: `sphinx-build -W -n docs docs/_build/html`. Nothing is fetched; all that is generated is made here."""

import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent / "benchmarks"), str(DOCS.parent)]

import generate  # noqa: E402

import memjax  # noqa: E402

project = "memjax"
author = "The memjax authors"
copyright = author
version = release = memjax.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "mathml",
    "memjax_docs",
]
exclude_patterns = ["_build", "_ext", "jupyter_execute"]
default_role = "py:obj"

# Notebooks are shown with the outputs that they were committed with; the tests run them.
nb_execution_mode = "off"
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4

# Signatures are read from the source, as `Float[Array, "K d"]`; see memjax_docs.
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_inherit_docstrings = False
maximum_signature_line_length = 88
add_module_names = False
python_display_short_literal_types = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_attr_annotations = False  # they stand in the signature

# What is written between single quotes in a docstring is code, and a link where it is a name; types of others' are
# no links, for that would ask their servers.
nitpick_ignore_regex = [("py:obj", "(?s).*"), ("py:class", r"(?!memjax\.).*|memjax\..*\.[A-Z]")]

html_math_renderer = "mathml"
html_theme = "sphinx_book_theme"
html_title = "memjax"
html_logo = "pictures/logo.svg"
html_static_path = ["_static"]
html_css_files = ["memjax.css"]
html_theme_options = {
    "use_download_button": False,
    "use_fullscreen_button": False,
    "show_toc_level": 2,
    "home_page_in_toc": True,
    "navbar_persistent": [],
}
html_copy_source = False
html_show_sourcelink = False

generate.everything(DOCS)
