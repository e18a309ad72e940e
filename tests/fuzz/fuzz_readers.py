"""One damaged input given to its reader."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fuzz_outcome import refusal
from fuzz_seeds import Seed, tokenised
from hypothesis import strategies as st

from gradaccord.data.dataset import Dataset


def try_reader(seed: Seed, draw: st.DataObject) -> str | None:
    """The refusal of the seed with one of its files damaged; None: it was read all the same."""
    name = draw.draw(st.sampled_from(sorted(seed.files)), label="file")
    content = draw.draw(seed.mutate(seed.files[name]), label="content")
    return refused(seed, {name: content})


def refused(seed: Seed, changes: dict[str, bytes]) -> str | None:
    """What a command would say to the seed with other contents of some files."""
    with TemporaryDirectory(prefix="fuzz-") as folder:
        seed.write(Path(folder), changes)
        found: list[Any] = []
        sentence = refusal(lambda: found.append(seed.read(Path(folder))))
        where = Path(folder).name
        assert sentence is None or where in sentence, f"no file is named: {sentence!r}"
        if found and isinstance(found[0], Dataset):
            return refusal(lambda: tokenised(found[0]))
    return sentence
