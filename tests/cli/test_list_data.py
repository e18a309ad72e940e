"""`gradaccord list data`: the table of sets that were found."""

from __future__ import annotations

import io
import re


def test_the_table_of_found_sets(tmp_path, monkeypatch):
    from rich.console import Console

    from gradaccord.cli.list_data import list_data

    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2/train.tsv").write_text("sentence\tlabel\n" + "fine\t1\n" * 1234)
    (tmp_path / "SST-2/dev.tsv.gz").write_bytes(b"\x1f\x8b broken")
    console = Console(width=120, record=True, file=io.StringIO())
    found = list_data(tmp_path, console)
    shown = console.export_text()
    assert "sst2" in [each.name for each in found]
    assert re.search(r"sst2 +1,234 +classification +en +unreadable, see below", shown)
    assert "territory, city" in shown  # the classes of the embedded sets
    assert "cannot be read" in shown
    for width in (80, 40):
        narrow = Console(width=width, record=True, file=io.StringIO())
        list_data(tmp_path, narrow)
        text = narrow.export_text()
        assert re.search(r"^sst2 +1,234 +classification", text, re.MULTILINE)
        if width == 80:
            table = text.splitlines()[: len(found) + 1]
            assert all(len(line.rstrip()) <= width for line in table)
    monkeypatch.delenv("GRADACCORD_DATA", raising=False)
    list_data(console=console)
    assert "GRADACCORD_DATA" in console.export_text()
