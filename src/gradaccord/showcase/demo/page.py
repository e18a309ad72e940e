"""What the demo adds to the report of its comparison: forgetting, plane, valley, characters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradaccord.compare.specs import Spec
from gradaccord.compare.statistics import Mean
from gradaccord.report.extras_file import Extras, ExtraSection, Picture
from gradaccord.report.page import write_report
from gradaccord.report.section import Cell, Table, mean_cell, named, number_cell
from gradaccord.showcase.demo import glyphs as characters
from gradaccord.showcase.demo import plane as planes
from gradaccord.showcase.demo import valley as in_valley
from gradaccord.showcase.demo.glyphs import Glyphs
from gradaccord.showcase.demo.names import Names
from gradaccord.showcase.demo.valley import Valleys
from gradaccord.showcase.landscape.runs import Result


def write_page(
    folder: Path,
    plane: Result,
    valley: Valleys,
    names: Names,
    glyphs: Glyphs,
    findings: Sequence[str],
) -> Path:
    """Write the demo's own sections and the report that shows them."""
    sections = [_names(names), _valley(valley), _plane(plane), _glyphs(glyphs)]
    Extras(findings=list(findings), sections=sections).write(folder)
    return write_report(folder)


def _names(names: Names) -> ExtraSection:
    rows = []
    for own in names.comparison.methods:
        seen, unseen = (Mean.of(names.forgotten(own.method, s).values()) for s in (True, False))
        zero = Mean.of(names.unseen_scores(own.method).values())
        means = (own.average, zero, seen, unseen, own.train_loss)
        rows.append([named(Spec.parse(own.method).short), *map(mean_cell, means)])
    texts = ", ".join(f"{text} {loss:.2f}" for text, loss in names.before.items())
    return ExtraSection(
        title="Seen and unseen languages",
        sentences=[
            "Unseen languages were never trained on; each is predicted by the head of a related one.",
            f"Masked-character loss before any training, nats: {texts}.",
        ],
        tables=[
            Table(
                id="demo-names",
                title="Accuracy and forgetting",
                headings=[
                    "method", "seen, %", "unseen, %", "forgotten, seen", "forgotten, unseen",
                    "training loss",
                ],
                rows=rows,
                caption="Mean ± standard error over seeds. Forgotten: increase of the masked-"
                "character loss over that before training. A method that learns less also forgets "
                "less: see the training loss.",
            )
        ],
    )  # fmt: skip


def _plane(plane: Result) -> ExtraSection:
    return ExtraSection(
        title="Three optima on a plane",
        sentences=plane.findings,
        pictures=[
            Picture(
                id="landscape",
                title="Where each method ends",
                file=f"{planes.FOLDER}/{planes.PICTURE}",
                wide=True,
                alt="The loss surface with three optima, the cosine of the gradients, and the paths "
                "of nine methods from three starts.",
                caption="The synthetic problem of Sequential Reptile's paper: every task's own "
                "optimum is a trap for the sum of the losses.",
            )
        ],
    )


def _valley(valley: Valleys) -> ExtraSection:
    rows = [
        [
            Cell(f"{rate:g}", rate),
            *(
                Cell(f"{valley.learned[m][i]} of {valley.starts}", float(valley.learned[m][i]))
                for m in in_valley.NAMES
            ),
            *(number_cell(valley.ends[method][i], "{:.1f}") for method in in_valley.NAMES),
        ]
        for i, rate in enumerate(valley.rates)
    ]
    names = in_valley.NAMES.values()
    return ExtraSection(
        title="A valley of two tasks",
        sentences=[valley.sentence],
        pictures=[
            Picture(
                id="valley",
                title="Where PCGrad and the sum go",
                file=f"{in_valley.FOLDER}/{in_valley.PICTURE}",
                wide=True,
                alt="A map of the summed loss with the ends of all runs, and the second task's loss "
                f"over the steps. {valley.sentence}",
                caption="The two-task problem of PCGrad's paper, from memory. Both methods fall into "
                "the first task's valley; across it the gradients conflict, and only what is left of "
                f"them after PCGrad's projection leads along it. Adam, rate {in_valley.SHOWN:g}.",
            )
        ],
        tables=[
            Table(
                id="demo-valley",
                title="Both tasks learned, by rate",
                headings=[
                    "rate", *(f"{name}, learned from" for name in names),
                    *(f"{name}, summed loss" for name in names),
                ],
                rows=rows,
                caption=f"{valley.starts} starts about the published one, {valley.steps:,} steps of "
                "Adam. Learned: the second task's loss is below 0 over the last tenth of the steps. "
                "Summed loss: median over the starts; lower is better.",
            )
        ],
    )  # fmt: skip


def _glyphs(glyphs: Glyphs) -> ExtraSection:
    return ExtraSection(
        title="Characters from one picture each",
        sentences=[
            f"Before adaptation {glyphs.before:.1f} % of the queries are right (chance: 20 %), after "
            f"{glyphs.steps} inner steps {glyphs.after:.1f} ± {glyphs.interval:.1f} % (95 % interval "
            f"over {glyphs.tasks} tasks; each query is predicted on its own).",
            f"On the validation tasks {glyphs.iterations} iterations of MAML bring the accuracy after "
            f"adaptation from {glyphs.untrained:.1f} % (fresh weights) to {glyphs.validated:.1f} %.",
        ],
        pictures=[
            Picture(
                id="adaptation",
                title="Accuracy by inner step",
                file=f"{characters.FOLDER}/adaptation.png",
                alt="Test accuracy after each inner step.",
                caption="Tasks of five characters that training never saw, one picture of each.",
            ),
            Picture(
                id="episode",
                title="A test task",
                file=f"{characters.FOLDER}/episode.png",
                alt="One picture of each of five characters, and the queries with their answers.",
                caption="Drawn from the fonts that come with matplotlib.",
            ),
        ],
    )
