"""Untrusted names and texts, escaped for Markdown (tables, code blocks) and spreadsheets.

HTML pages are escaped where they are filled in (`report/html_file.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

# A formula is also found behind tabs, line breaks or spaces, and with a full-width sign.
FORMULA = re.compile(r"\s*[=+\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n]")


def markdown(text: object) -> str:
    """A text inside a line or a table's cell of Markdown: shown as it is, on one line."""
    line = " ".join(str(text).split())
    line = re.sub(r"[\\`*\[|~]|(?<![^\W_])_|_(?![^\W_])", r"\\\g<0>", line)
    line = re.sub(r"&(?=#?\w+;)", "&amp;", line)
    return line.replace("<", "&lt;").replace(">", "&gt;")


def table_row(cells: Iterable[str]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def table_head(*headings: str) -> list[str]:
    """The first two lines of a Markdown table."""
    return [table_row(headings), "|" + "---|" * len(headings)]


def fenced(text: str, language: str = "") -> str:
    """A text as a block of code, which nothing in the text can end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}{language}\n{text.strip(chr(10))}\n{fence}"


def csv_cell(value: Any) -> Any:
    """A cell that no spreadsheet reads as a formula; numbers stay numbers."""
    return f"'{value}" if isinstance(value, str) and FORMULA.match(value) else value
