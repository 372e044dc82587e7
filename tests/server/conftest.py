"""A server over small data sets, shared by the tests of a file."""

from __future__ import annotations

from functools import cache

import pytest
from jinja2 import Template, meta, nodes

from scumble.server.catalogue import DatabaseDataset, ReleaseDataset
from scumble.server.pages.gates import environment
from tests.support.servers import Front, make_settings


@cache
def _names(template: str) -> frozenset[str]:
    """Return the names that a template and its parts need, on whichever of its branches."""
    source, _, _ = environment().loader.get_source(environment(), template)
    tree = environment().parse(source)
    own = {each.name for each in tree.find_all(nodes.Name) if each.ctx != "load"}
    parts = [_names(each) for each in meta.find_referenced_templates(tree)]
    return frozenset(meta.find_undeclared_variables(tree).union(*parts) - own)


@pytest.fixture(autouse=True)
def complete_templates(monkeypatch):
    """A template of a page that is rendered without one of its names fails, on any branch."""
    render, incomplete = Template.render, set()

    def checked(template, values):
        if template.environment is environment():
            missing = _names(template.name) - set(values)
            incomplete.update((template.name, each) for each in missing)
        return render(template, values)

    monkeypatch.setattr(Template, "render", checked)
    yield
    assert not incomplete


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    return make_settings(tmp_path_factory.mktemp("server"))


@pytest.fixture
def without_audits(monkeypatch):
    """Certificates without the audit, which takes seconds."""
    for kind in (DatabaseDataset, ReleaseDataset):
        monkeypatch.setattr(kind, "certificate", lambda _: "<p>A certificate.</p>")


@pytest.fixture(scope="module")
def front(settings):
    found = Front(settings)
    yield found
    found.close()
