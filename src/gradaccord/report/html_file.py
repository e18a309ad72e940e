"""The HTML file of a report: sentences, tables and figures in one self-contained file."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256
from importlib.resources import files
from typing import Any

from gradaccord.report.section import Figure, Section
from gradaccord.report.svg import breakable

PAGE, STYLE, SCRIPT = "page.html.j2", "style.css", "script.js"
FIGURES_SHOWN = 9  # of a section; the others are folded, so that a phone need not scroll past them


def fill(
    title: str,
    about: str,
    findings: Sequence[str],
    sections: Sequence[Section],
    picture: Figure | None = None,
    more: Sequence[str] = (),
) -> str:
    """The page as text; sections without content are left out.

    picture: right below the findings; more: sentences below it.
    """
    jinja2 = _jinja2()
    here = files("gradaccord.report")
    script = (here / SCRIPT).read_text(encoding="utf-8")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["id"] = _Ids()
    environment.filters["breakable"] = lambda text: jinja2.utils.markupsafe.Markup(breakable(str(text)))
    template = environment.from_string((here / PAGE).read_text(encoding="utf-8"))
    text = template.render(
        title=title,
        about=about,
        findings=findings,
        picture=picture,
        more=more,
        sections=[section for section in sections if section],
        folded=FIGURES_SHOWN,
        style=(here / STYLE).read_text(encoding="utf-8"),
        script=script,
        # Only this script may run, whatever the data hold.
        digest=b64encode(sha256(script.encode()).digest()).decode(),
    )
    return str(text)


class _Ids:
    """Turns any text into an id that is unique on the page."""

    def __init__(self) -> None:
        self.given: dict[str, int] = {}

    def __call__(self, text: str) -> str:
        name = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"
        self.given[name] = self.given.get(name, 0) + 1
        return name if self.given[name] == 1 else f"{name}-{self.given[name]}"


def _jinja2() -> Any:
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("Reports need Jinja2: pip install 'gradaccord[report]'.") from error
    return jinja2
