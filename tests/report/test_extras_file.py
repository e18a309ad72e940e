"""Sections that another command leaves: written, read again, shown; anything else is refused."""

from base64 import b64decode

import pytest
from report_support import Page

from gradaccord.report.data import read_report_data
from gradaccord.report.extras_file import Extras, ExtraSection, Picture, read_extras
from gradaccord.report.page import render
from gradaccord.report.section import Cell, Table, named

PNG = b64decode("iVBORw0KGgo=")
TABLE = Table("more", "More", ["what", "mean"], [[named("a<b"), Cell("3 ± 1", 3.0)]])


def test_extra_sections_are_shown_with_their_findings(copied):
    (copied / "one.png").write_bytes(PNG)
    picture = Picture(id="one", title="One", file="one.png", alt='A "picture".', wide=True)
    section = ExtraSection(title="Extra", sentences=["Said."], pictures=[picture], tables=[TABLE])
    extras = Extras(findings=["Found elsewhere."], sections=[section])
    extras.write(copied)
    assert read_extras(copied) == extras
    page = Page.of(render(read_report_data(copied)))
    assert page.table("more") == [["what", "mean"], ["a<b", "3 ± 1"]]
    (image,) = [e for e in page.all if e.tag == "img"]
    assert image.attributes["alt"] == 'A "picture".'
    assert image.attributes["class"] == "wide"
    (box,) = [e for e in page.all if e.attributes.get("class") == "findings"]
    assert box.below("p")[-1].text == "Found elsewhere."


@pytest.mark.parametrize("content", ["[]", "{", '{"sections": [{"sentences": []}]}'])
def test_anything_else_is_one_sentence(content, tmp_path):
    assert read_extras(tmp_path) == Extras()
    (tmp_path / "extras.json").write_text(content)
    with pytest.raises(ValueError, match="repeat the command that wrote it") as error:
        read_extras(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "named", ["outside.png", "../outside.png", "link.png", "notes.png", "gone.png", "."]
)
def test_only_pictures_inside_the_folder_are_shown(named, tmp_path):
    """`extras.json` may come from a stranger: it names no other file of the reader's machine."""
    folder = tmp_path / "runs"
    folder.mkdir()
    outside = tmp_path / "outside.png"
    outside.write_bytes(PNG)
    (folder / "link.png").symlink_to(outside)
    (folder / "notes.png").write_text("not a picture")
    file = str(outside) if named == "outside.png" else named
    picture = Picture(id="one", title="One", file=file, alt="")
    Extras(sections=[ExtraSection(title="Extra", pictures=[picture])]).write(folder)
    with pytest.raises(ValueError, match="PNG inside") as error:
        read_extras(folder).sections[0].section(folder)
    assert "\n" not in str(error.value)
