"""`gradaccord fewshot presets`: lists published hyper-parameters and where they come from."""

from __future__ import annotations

from textwrap import wrap


def presets() -> None:
    """List the published hyper-parameters, with their source and the scale of their loss.

    [bold]gradaccord fewshot presets[/bold]
    """
    from gradaccord.meta.presets import PRESETS

    for preset in PRESETS.values():
        values = ", ".join(f"{name}={value}" for name, value in preset.settings.items())
        print(preset.name)
        for text in (preset.source, f"loss: {preset.loss_scale}", values):
            print(*wrap(text, 80, initial_indent="  ", subsequent_indent="    "), sep="\n")
