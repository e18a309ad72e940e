"""What pretraining shows on a terminal: a bar with losses below it, and all losses at the end."""

from __future__ import annotations

import math
from statistics import fmean

from rich.console import Console, Group
from rich.table import Table

from gradaccord.cli import screen
from gradaccord.pretrain.results import Losses, PretrainProgress, PretrainResults
from gradaccord.runs.duration import duration

NAMED = 5  # languages whose losses are shown while it runs
LISTED = 30  # languages in the table at the end


class PretrainScreen(screen.Screen[PretrainProgress]):
    """Pass `show` and `say` to `pretrain` inside `with running()`."""

    def __init__(self, console: Console) -> None:
        super().__init__(console, picture, line)
        self._doing = ""

    def show(self, progress: PretrainProgress) -> None:
        """Draw the progress if it is time to; on a terminal, at once when the activity changes."""
        if progress.doing != self._doing and self._live:
            self._last = -math.inf
        self._doing = progress.doing
        super().show(progress)


def picture(progress: PretrainProgress) -> Group:
    """A bar with the time left, and the losses."""
    return screen.steps_picture("pretraining", progress, "; ".join(_numbers(progress)))


def line(progress: PretrainProgress) -> str:
    """The time left and the losses in one line."""
    doing = progress.doing
    if doing and progress.total:
        doing += f", {progress.done / progress.total:.0%}"
    if not progress.step:
        return f"setting up: {doing}"
    left = duration(progress.seconds_left)
    now = doing or "; ".join(_numbers(progress))
    return f"{progress.share:.0%}, step {progress.step:,}, {left} left; {now}"


def _numbers(progress: PretrainProgress) -> list[str]:
    parts = [f"{progress.tokens_per_second:,.0f} tokens/s", f"loss {_shown(progress.losses)}"]
    if progress.last is not None:
        parts.append(f"held-out {_shown(progress.last.held_out)}")
    return parts


def _shown(losses: Losses) -> str:
    """The mean loss, and each language's; of many languages only the lowest and the highest."""
    if len(losses) < 2:
        return "".join(f"{loss:.3f}" for loss in losses.values())
    ranked = sorted(losses, key=losses.__getitem__)
    named = ranked if len(losses) <= NAMED else [ranked[0], ranked[-1]]
    each = ", ".join(f"{language} {losses[language]:.2f}" for language in named)
    return f"{fmean(losses.values()):.3f} ({each})"


def losses_table(results: PretrainResults) -> Table:
    """Held-out losses by language, beside those of a unigram model; and the speed."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("language", "texts", "held-out loss", "unigrams", "perplexity"):
        table.add_column(heading, justify="left" if heading == "language" else "right")
    last = results.last.held_out
    shown = sorted(last, key=lambda language: -results.texts[language])
    for language in shown[:LISTED]:
        loss, texts = last[language], results.texts[language]
        unigrams = results.unigrams[language]
        table.add_row(
            language, f"{texts:,}", f"{loss:.3f}", f"{unigrams:.3f}", f"{math.exp(min(loss, 99)):.1f}"
        )
    if len(last) > LISTED:
        table.add_row(f"and {len(last) - LISTED} more, in results.json", style="dim")
    mean, by_frequency = results.last.mean, fmean(results.unigrams.values())
    if len(last) > 1:
        total = sum(results.texts.values())
        table.add_row("mean of languages", f"{total:,}", f"{mean:.3f}", f"{by_frequency:.3f}", "")
    table.caption = (
        f"{results.steps:,} steps, {results.tokens:,} tokens, {results.tokens_per_second:,.0f} a second"
    )
    table.caption_justify = "left"
    return table
