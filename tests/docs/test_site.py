"""The site builds without a warning, its links lead somewhere, it loads nothing, and it is whole."""

from __future__ import annotations

import re
from importlib import import_module
from urllib.parse import unquote, urlsplit

import pytest
from built_site import Page, inventory
from doc_pages import DOCS

import gradaccord
from gradaccord.methods.registry import ADDITIONS, METHODS
from gradaccord.tasks.registry import KINDS
from gradaccord.train import config

# The build takes seconds of processor, minutes on a busy machine.
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="module")
def pages(site):
    return {path.resolve(): Page(path) for path in site.rglob("*.html")}


def test_links_and_their_anchors_exist(pages):
    broken = []
    for page in pages.values():
        for link in {*page.links, *page.loads}:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or page.path.name == "404.html":
                continue
            target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                broken.append(f"{page.path.name}: {link}")
            elif parts.fragment and target.suffix == ".html":
                found = pages[target.resolve()].ids
                if unquote(parts.fragment) not in found:
                    broken.append(f"{page.path.name}: {link}")
    assert not broken, "\n".join(sorted(set(broken)))


def test_nothing_is_fetched_from_elsewhere(site, pages):
    for page in pages.values():
        for source in page.loads:
            assert not urlsplit(source).netloc, f"{page.path.name} loads {source}"
    for sheet in site.rglob("*.css"):
        assert "url(http" not in sheet.read_text(encoding="utf-8"), sheet.name


def test_every_page_is_in_the_site(pages):
    built = {path.name for path in pages}
    missing = [page.name for page in DOCS.rglob("*.md") if f"{page.stem}.html" not in built]
    assert not missing


def test_every_public_name_is_in_the_reference(site):
    known = inventory(site)
    rooms = [gradaccord, *(import_module(f"gradaccord.{room}") for room in gradaccord._ROOMS)]
    names = {f"{room.__name__}.{name}" for room in rooms for name in getattr(room, "__all__", ())}
    assert len(names) > 70
    assert names - {"gradaccord.__version__"} <= known, names - known


def test_every_room_has_its_entries_in_the_reference(site):
    known = inventory(site)
    for room in gradaccord._ROOMS:
        assert any(name.startswith(f"gradaccord.{room}.") for name in known), room


def test_generated_parts_are_filled_in(site):
    for name, entry in {**METHODS, **ADDITIONS}.items():
        text = (site / "methods" / f"{name}.html").read_text(encoding="utf-8")
        assert "<!-- method:" not in text
        assert f"gradaccord.{entry.class_name}</code>" in text
        for option in entry.options():
            assert f"<code>{option}</code>" in text, f"{name}: {option}"
    for kind in KINDS:
        text = (site / "tasks" / f"{kind}.html").read_text(encoding="utf-8")
        assert "<!-- kind:" not in text
        assert f"<code>{KINDS[kind].metric}</code>" in text


def test_generated_parts_of_learners_are_filled_in(site):
    from gradaccord import meta

    for page in (DOCS / "learners").glob("*.md"):
        text = (site / "learners" / f"{page.stem}.html").read_text(encoding="utf-8")
        assert "<!-- learner" not in text
        assert page.stem == "index" or "Numbers learned beside them" in text
    text = (site / "learners" / "mamlpp.html").read_text(encoding="utf-8")
    assert "mamlpp-miniimagenet" in text
    assert "<code>multi_step_epochs</code>" in text
    assert meta.MAMLPlusPlus.__name__ in text


def test_every_setting_is_in_the_reference(site):
    text = (site / "reference" / "train.html").read_text(encoding="utf-8")
    sections = [one for name, one in vars(config).items() if name.endswith("Config")]
    assert len(sections) > 10
    for section in sections:
        assert f'id="{section.__module__}.{section.__name__}"' in text
        for key in section.model_fields:
            assert f"<td><code>{key}</code></td>" in text, f"{section.__name__}: {key}"


def test_a_tutorial_holds_its_script_and_stands_in_the_order_of_the_index(site):
    index = (DOCS / "tutorials" / "index.md").read_text(encoding="utf-8")
    names = re.findall(r"\]\(([\w-]+)\.md\)", index)[:11]
    for name in names:
        source = (DOCS / "tutorials" / f"{name}.md").read_text(encoding="utf-8")
        text = (site / "tutorials" / f"{name}.html").read_text(encoding="utf-8")
        assert ("The whole script" in source) == ('<details class="example">' in text), name
    shown = re.findall(r'href="(?:\./)?([\w-]+)\.html" class="md-nav__link"', text)
    assert [name for name in dict.fromkeys(shown) if name in names[:-1]] == names[:-1]


def test_figures_that_were_measured_are_shown(site):
    text = (site / "methods" / "pcgrad.html").read_text(encoding="utf-8")
    assert "controls-valley" in text
    assert "python benchmarks/combine.py" in text
    assert "Not measured yet." in (site / "methods" / "mean.html").read_text(encoding="utf-8")
    text = (site / "learners" / "reptile.html").read_text(encoding="utf-8")
    assert "94.73 ± 0.83" in text
    assert "Not measured yet" in (site / "learners" / "meta_sgd.html").read_text(encoding="utf-8")
