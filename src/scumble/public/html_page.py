"""HTML pages from Jinja2 templates: audit certificates, comparisons, the report of the demo.

A template is the file page.html of a package. Every value is escaped, except for drawings that
`svg_markup` marks as safe. A page asks the network for nothing.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from markupsafe import Markup


def render_page(package: str, **values: Any) -> str:
    """Return the page of a package: its page.html, filled with `values`.

    A value that the template names and that is missing is an error.
    """
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    text = files(package).joinpath("page.html").read_text("utf-8")
    return environment.from_string(text).render(values)


def svg_markup(drawing: str, label: str = "") -> Markup:
    """Return an SVG drawing of our own to put into a page as it is; `label` says what it shows."""
    from markupsafe import Markup, escape

    if label:
        named = f'<svg role="img" aria-label="{escape(label)}" '
        drawing = drawing.replace("<svg ", named, 1)
    return Markup(drawing)  # noqa: S704  # made by matplotlib from escaped texts
