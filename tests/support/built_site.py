"""The site, built once for all tests and workers, and its pages as a browser would see them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path

from doc_pages import ROOT
from filelock import FileLock


def build(shared: Path) -> Path:
    """The folder of the site, which the first worker builds; a warning is an error."""
    site, done = shared / "site", shared / "site.done"
    with FileLock(shared / "site.lock"):
        if not done.exists():
            run = subprocess.run(
                [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
                cwd=ROOT,
                env={**os.environ, "NO_MKDOCS_2_WARNING": "1", "OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                check=False,
            )
            done.write_text(f"{run.returncode}\n{run.stdout}{run.stderr}", encoding="utf-8")
    code, _, output = done.read_text(encoding="utf-8").partition("\n")
    assert code == "0", output[-5000:]
    return site


class Page(HTMLParser):
    """The ids of a page, where its links lead, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what the element names."""
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if "src" in given:
            self.loads.append(given["src"])
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.loads.append(given["href"])


def inventory(site: Path) -> set[str]:
    """Every name that the reference describes."""
    packed = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    return set(re.findall(r"^(\S+) py:", zlib.decompress(packed).decode(), re.M))
