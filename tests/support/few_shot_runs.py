"""Images and checkpoints for tests of few-shot runs."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import torch

from gradaccord.runs.checkpoints import CHECKPOINTS, Checkpoints


def write_patterns(path: Path) -> Path:
    """A zip with 8 / 5 / 5 classes of 16x16 images: each class a pattern, each image it with noise."""
    from PIL import Image

    generator = torch.Generator().manual_seed(0)
    with zipfile.ZipFile(path, "w") as archive:
        for part, classes in (("train", 8), ("val", 5), ("test", 5)):
            for c in range(classes):
                coarse = torch.randint(0, 110, (4, 4), generator=generator)
                pattern = coarse.repeat_interleave(4, 0).repeat_interleave(4, 1)
                for i in range(8):
                    noise = torch.randint(0, 145, (16, 16), generator=generator)
                    buffer = io.BytesIO()
                    pixels = (pattern + noise).to(torch.uint8).numpy()
                    Image.fromarray(pixels).save(buffer, "PNG")
                    archive.writestr(f"{part}/{part}{c}/{i}.png", buffer.getvalue())
    return path


def newest_state(folder: Path) -> dict[str, Any]:
    """What the last checkpoint of a run holds."""
    found = Checkpoints(folder / CHECKPOINTS).newest()
    assert found is not None
    return found[1]


def final_state(folder: Path) -> dict[str, object]:
    """The same without times."""
    state = newest_state(folder)
    state.pop("seconds")
    state.pop("processor_seconds")
    state["history"] = [entry[:3] for entry in state["history"]]
    state["means"] = state["means"][:2]
    state.pop("log_bytes")  # the log holds times
    return state


def same(a: Any, b: Any) -> bool:
    """Whether two states are equal, bit for bit."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b or (a != a and b != b)
