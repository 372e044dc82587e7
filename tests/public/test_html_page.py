"""HTML pages: values are escaped, drawings are not, and no value may be missing."""

import sys

import pytest
from jinja2 import UndefinedError

from scumble.audit.report import Finding, Report, page
from scumble.public.html_page import render_page, svg_markup

CANARY = "<script>alert('x')</script>"


def test_every_value_is_escaped():
    finding = Finding(CANARY, CANARY, "stands", CANARY, {CANARY: 1.0})
    report = Report(CANARY, [finding], [CANARY], [CANARY], {CANARY: CANARY})
    text = page(report)
    assert "<script" not in text
    assert text.count("&lt;script&gt;alert(&#39;x&#39;)") >= 9


def test_a_drawing_goes_in_as_it_is_with_a_label():
    drawing = svg_markup("<svg width='1'><svg/></svg>", 'a "b" <c>')
    assert drawing.startswith('<svg role="img" aria-label="a &#34;b&#34; &lt;c&gt;" width=')
    assert drawing.count("role=") == 1


def test_a_missing_value_is_an_error():
    with pytest.raises(UndefinedError):
        render_page("scumble.audit", words={})


def test_the_template_engine_is_imported_with_the_first_page(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError):
        render_page("scumble.audit")
