"""What `demo` shows on a terminal: its plan, pretraining progress, and the table of methods."""

from __future__ import annotations

import time

from rich import box
from rich.console import Console
from rich.table import Table

from gradaccord.cli.screen import Screen, bar
from gradaccord.compare.specs import short_names
from gradaccord.compare.statistics import Difference, Mean, short_p
from gradaccord.models.trunks.pretrained_characters import CharacterProgress
from gradaccord.runs.duration import duration
from gradaccord.showcase.demo.names import Names

PRETRAINING = "pretraining on 50 languages"
HEADINGS = (*("method", "seen", "vs sum", "unseen", "lost,\nseen", "lost,\nunseen", "loss", "cosine"),)
NEXT = (
    "gradaccord init classification --out mine.yaml",
    "gradaccord validate mine.yaml",
    "gradaccord compare mine.yaml --methods pcgrad,gradvac,dotprod --seeds 5",
)
NOTES = """\
seen, unseen  accuracy on test names, %: mean over the languages trained on, and
              over the others
vs sum        difference on seen languages, paired by seed; p of a t-test, as
              corrected by Holm for all tests of the comparison
lost          increase of the masked-character loss of these languages, nats
loss          final training loss: a method that learns less forgets less, too
(c)           a control: the same steps as the method below, without its idea"""


def plan_of(specs: int, seeds: int, gradients: int) -> str:
    """What the fourth part will do."""
    return (
        f"{specs} methods and controls x {seeds} seed{'' if seeds == 1 else 's'}, "
        f"{gradients:,} batch gradients each, after one pretraining"
    )


def pretraining_screen(console: Console) -> Screen[CharacterProgress]:
    """Shows the share, time left and loss of pretraining; nothing if it was done before."""
    began = time.monotonic()

    def facts(progress: CharacterProgress) -> tuple[str, str]:
        left = (time.monotonic() - began) / progress.step * (progress.steps - progress.step)
        return f"{duration(left)} left", f"loss {progress.loss:.2f}"

    return Screen(
        console,
        lambda progress: bar(PRETRAINING, progress.step / progress.steps, *facts(progress)),
        lambda progress: (
            f"{PRETRAINING}: {progress.step / progress.steps:.0%}, {', '.join(facts(progress))}"
        ),
    )


def methods_table(names: Names) -> Table:
    """All methods, controls marked; narrow enough for eighty columns."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for place, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="right" if place else "left", no_wrap=bool(place))
    short = short_names(own.method for own in names.comparison.methods)
    for place, own in enumerate(names.comparison.methods):
        table.add_row(
            short[own.method] + (" (c)" if own.is_control else ""),
            _number(own.average, 1),
            _difference(own.vs_baseline) if place else "",
            _number(Mean.of(names.unseen_scores(own.method).values()), 1),
            _number(Mean.of(names.forgotten(own.method, trained=True).values()), 2),
            _number(Mean.of(names.forgotten(own.method, trained=False).values()), 2),
            _number(own.train_loss, 2),
            _number(own.cosine, 3),
        )
    return table


def _difference(difference: Difference) -> str:
    """A difference with its corrected p; the report has the uncorrected p, too."""
    if not difference.count:
        return "–"
    p = "no p" if difference.no_p else f"p {short_p(difference.p_holm)}"
    return f"{difference.mean:+.2f} {p}"


def _number(mean: Mean, digits: int) -> str:
    return f"{mean.mean:.{digits}f}" if mean.count else "–"
