"""Sphinx configuration: `make docs` builds site/ from these pages.

The pages are plain Markdown and read well in a repository browser too. This file adds what only the site needs: links
to README.md and CHANGELOG.md lead to their pages, and each page of the API reference lists its public names, so a new
method or function appears in the reference by itself.
"""

from __future__ import annotations

import inspect
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from sphinx.ext.napoleon import NumpyDocstring  # noqa: E402

import concordant  # noqa: E402 - the path must be set first
from concordant.data.container import Container  # noqa: E402

# Autodoc changes `typing.TYPE_CHECKING` while it imports, and Pydantic's classes cannot be made then.
for framework in ("haystack", "langchain", "llama_index", "pyterrier"):
    import_module(f"concordant.integrations.{framework}")

project = "Concordant"
author = "the authors of Concordant"
release = concordant.__version__
smartquotes = False
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["results", "_static"]

# Anchors are spelled as repository browsers spell them; a missing anchor stops the build.
myst_heading_anchors = 4
nitpicky = True

# Docstrings are prose with code in backticks; types and shapes are words ("float64[experts, 3]").
default_role = "literal"
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
napoleon_google_docstring = False
napoleon_use_param = False
napoleon_use_rtype = False
# Attributes look like parameters, and words of their types are not references.
napoleon_custom_sections = [("Attributes", "params_style")]

html_theme = "furo"
html_title = f"Concordant {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
# Excerpts in search results need to read other pages, which a page opened from disk may not do.
html_show_search_summary = False
pygments_style = "friendly"
pygments_dark_style = "github-dark"

PLACEHOLDER = re.compile(r"^<!-- public names of ([\w. ,]+) -->$", re.MULTILINE)


def directive(name: str, value: object) -> str:
    """Return the lines of reStructuredText that put one public name into the reference."""
    if inspect.isclass(value):
        options = ["   :members:"]
        if issubclass(value, Container):
            options.append("   :inherited-members: object")
        return "\n".join([f".. autoclass:: {name}", *options])
    if isinstance(value, dict):
        # Its docstring would be that of every dictionary.
        return f".. py:data:: {name}\n\n   By name: {', '.join(value)}."
    return f".. auto{'function' if inspect.isroutine(value) else 'data'}:: {name}"


def public_names(places: str) -> str:
    """Return the directives for the public names of rooms (`data`) and of modules (`concordant.plots`)."""
    names: list[tuple[str, object]] = []
    for place in places.replace(" ", "").split(","):
        if place.startswith("concordant."):
            module = module_of(place.removeprefix("concordant."))
            # Names of `concordant` itself are listed there already.
            ours = [name for name in module.__all__ if name not in concordant._MODULE_OF]
            names += [(f"{place}.{name}", getattr(module, name)) for name in ours]
            continue
        for name, module_name in sorted(concordant._MODULE_OF.items(), key=lambda pair: pair[0].lower()):
            if f"{module_name}.".startswith(f"{place}."):
                value = getattr(module_of(module_name), name, None)
                names.append((f"concordant.{name}", value))
    # Modules among the public names have pages of their own.
    found = [directive(n, value) for n, value in names if value is not None and not inspect.ismodule(value)]
    return "\n\n".join(["```{eval-rst}", *found, "```"])


def module_of(name: str) -> ModuleType:
    """Return a module by its place in the package, or by its public name."""
    return getattr(concordant, name) if name in concordant._MODULE_OF else import_module(f"concordant.{name}")


def complete(_app: object, _docname: str, source: list[str]) -> None:
    """Point links to the two files of the root to their pages, and put the public names in."""
    text = re.sub(r"\]\((?:\.\./)+(README|CHANGELOG)\.md", lambda m: f"](/{m[1].lower()}.md", source[0])
    source[0] = PLACEHOLDER.sub(lambda m: public_names(m[1]), text)


def escape(_app: object, _what: str, _name: str, _value: object, _options: object, lines: list[str]) -> None:
    """Escape characters in docstrings that are not meant as markup; code stays as it is."""
    for i, line in enumerate(lines):
        # Napoleon takes care of the stars in a list of parameters.
        if re.match(r"\s*(?:>>>|\.\.\.|\*{1,2}\w+(?: :|,|$))", line):
            continue
        parts = re.split(r"(`+[^`]+`+)", line)
        for n in range(0, len(parts), 2):
            # |x| is a magnitude, and of stars only those around one word make it stand out.
            text = re.sub(r"(?<![\w*])\*(\w+)\*(?![\w*])", "\0\\1\0", parts[n])
            parts[n] = re.sub(r"\||\*(?=\S)", r"\\\g<0>", text).replace("\0", "*")
        lines[i] = "".join(parts)


def settle(app: Any, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """Correct the output of napoleon."""
    if what == "property":
        # Napoleon reads "A frame: one row per expert" as a type and its meaning, and ignores sections below it.
        text = (inspect.getdoc(value) or "").split("\n")
        escape(app, what, name, value, options, text)
        lines[:] = NumpyDocstring(text, app.config, app, "method", name, value).lines()
    lines[:] = [line.replace(" -- ", " – ") for line in lines]


def setup(app: Any) -> dict[str, bool]:
    """Connect the functions above to Sphinx."""
    app.connect("source-read", complete)
    # Before and after napoleon processes the docstring.
    app.connect("autodoc-process-docstring", escape, priority=400)
    app.connect("autodoc-process-docstring", settle, priority=600)
    return {"parallel_read_safe": True}
