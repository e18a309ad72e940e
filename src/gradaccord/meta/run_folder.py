"""Which run a few-shot command means: a new one in a free folder, or an old one that goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gradaccord.meta.presets import find_preset
from gradaccord.meta.settings import Settings, settings_for


def new_run(
    algorithm: str | None, preset: str | None, chosen: dict[str, Any], out: Path | None
) -> tuple[Settings, Path]:
    """Settings and folder of a run that begins; a folder that holds one already is refused."""
    name = algorithm or (find_preset(preset).algorithm if preset else "maml")
    settings = settings_for(name, preset=preset, **chosen)
    folder = out or Path("runs/fewshot") / settings.name
    if any(folder.glob("seed-*/checkpoint.pt")):
        raise ValueError(
            f"{folder} holds a run already: go on with it by --resume {folder}, or give another --out."
        )
    return settings, folder


def old_run(
    folder: Path, given: list[str], limits: dict[str, Any], seeds: int
) -> tuple[Settings, Path, int]:
    """Settings, folder and number of seeds of a run that goes on. given: options that cannot be."""
    if given:
        raise ValueError(
            f"--{given[0].replace('_', '-')} cannot be given with --resume: the run keeps its own "
            "settings."
        )
    if not (folder / "settings.json").exists():
        raise FileNotFoundError(f"{folder} holds no run: it has no settings.json.")
    settings = Settings.read(folder / "settings.json").continued(**limits)
    return settings, folder, max(seeds, len(list(folder.glob("seed-*"))))
