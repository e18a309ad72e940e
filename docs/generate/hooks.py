"""What MkDocs calls while it builds the site: navigation, pages from elsewhere, parts, links."""

from __future__ import annotations

import posixpath
import re
import textwrap
from pathlib import Path
from typing import Any

import learners
import methods
import tasks
from commands import command_line
from mkdocs.structure.files import File
from mkdocs.utils import get_relative_url
from names import reference_of
from settings import settings

ROOT = Path(__file__).parents[2]
# Pages of the site that stand elsewhere in the repository.
FROM_OUTSIDE = {
    "benchmarks/README.md": "benchmarks.md",
    "results/PLAN.md": "plan.md",
    "README.md": "index.md",  # only links to it: the site has its own first page
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "ARCHITECTURE.md": "architecture.md",
}
# `<!-- name: argument -->` in a page becomes what the function of the name returns.
PARTS = {
    "method": methods.part,
    "methods": methods.overview,
    "learner": learners.part,
    "learners": learners.overview,
    "kind": tasks.part,
    "kinds": tasks.overview,
    "names": reference_of,
    "commands": command_line,
    "settings": settings,
}

# Folders whose pages have an order of their own.
ORDERED = {"methods/": methods.navigation, "learners/": learners.navigation}


def on_config(config: Any) -> Any:
    """Put the pages of whole folders into the navigation."""
    config.nav = [item for item in (_expanded(item) for item in config.nav) if item is not None]
    return config


def _expanded(item: Any) -> Any:
    (title, target) = next(iter(item.items()))
    if not isinstance(target, str) or not target.endswith("/"):
        return item
    folder = ROOT / "docs" / target
    pages = sorted(path for path in folder.glob("*.md"))
    if not pages:
        return None
    if target in ORDERED:
        return {title: ORDERED[target](pages)}
    index = folder / "index.md"
    linked = re.findall(r"\]\(([\w-]+\.md)\)", index.read_text("utf-8")) if index.exists() else []
    names = dict.fromkeys(
        ["index.md", *linked, *(path.name for path in pages)]
    )  # as the index has them
    return {title: [f"{target}{name}" for name in names if (folder / name) in pages]}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that stand elsewhere."""
    for source, uri in FROM_OUTSIDE.items():
        if files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Fill the generated parts in, and mend links that lead out of docs/."""
    uri = page.file.src_uri

    def filled(match: re.Match[str]) -> str:
        return PARTS[match[1]](match[2].strip())

    text = re.sub(rf"^<!-- ({'|'.join(PARTS)}):(.*?)-->$", filled, markdown, flags=re.M)
    return _with_scripts(_with_links(text, uri))


def _with_scripts(text: str) -> str:
    """A tutorial with its script, which a click unfolds."""

    def unfolds(match: re.Match[str]) -> str:
        code = (ROOT / match[1]).read_text("utf-8")
        block = textwrap.indent(f"```python\n{code}```", "    ", lambda _: True)
        return f'??? example "The whole script: {match[1]}"\n\n{block}\n\n{match[2].strip()}'

    return re.sub(r"^The whole script: (examples/\w+\.py)\.(.*)$", unfolds, text, flags=re.M)


def _with_links(text: str, uri: str) -> str:
    """The text with its links as the site needs them; code is left alone."""
    sources = {page: source for source, page in FROM_OUTSIDE.items() if source != "README.md"}
    source = sources.get(uri, f"docs/{uri}")

    def mended(match: re.Match[str]) -> str:
        words, target, anchor = match.groups()
        found = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        page = FROM_OUTSIDE.get(found) or (found.removeprefix("docs/") if found[:5] == "docs/" else "")
        if page:
            return f"[{words}]({posixpath.relpath(page, posixpath.dirname(uri) or '.')}{anchor or ''})"
        if (ROOT / found).exists():  # a file of the repository that is no page
            return words if found in words else f"{words} (`{found}`)"
        return match[0]

    parts = re.split(r"(^```.*?^```$)", text, flags=re.S | re.M)
    link = r"\[([^\]\n]+)\]\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)"
    return "".join(part if i % 2 else re.sub(link, mended, part) for i, part in enumerate(parts))


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Put our own script in the place of one that the theme would fetch from elsewhere."""
    return _local(output, get_relative_url("javascripts/worker.js", page.url))


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """The same in the page for what is not found."""
    return _local(output_content, "javascripts/worker.js")


def _local(html: str, script: str) -> str:
    return re.sub(r'src="https://[^"]*iframe-worker/shim"', f'src="{script}"', html)
