"""What the demo adds to the report of its comparison: the plane, forgetting, the characters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gradaccord.compare.statistics import Mean
from gradaccord.report.extra_sections import Extras, ExtraSection, Picture
from gradaccord.report.method_names import short_name
from gradaccord.report.page import write_report
from gradaccord.report.section import Table, mean_cell, named
from gradaccord.showcase.demo import glyphs as characters
from gradaccord.showcase.demo import plane as planes
from gradaccord.showcase.demo.glyphs import Glyphs
from gradaccord.showcase.demo.names import Names
from gradaccord.showcase.landscape.runs import Result


def write_page(
    folder: Path, plane: Result, names: Names, glyphs: Glyphs, findings: Sequence[str]
) -> Path:
    """Write the demo's own sections and the report that shows them."""
    sections = [_names(names), _plane(plane), _glyphs(glyphs)]
    Extras(findings=list(findings), sections=sections).write(folder)
    return write_report(folder)


def _names(names: Names) -> ExtraSection:
    rows = []
    for own in names.comparison.methods:
        seen, unseen = (Mean.of(names.forgotten(own.method, s).values()) for s in (True, False))
        zero = Mean.of(names.unseen_scores(own.method).values())
        means = (own.average, zero, seen, unseen, own.train_loss)
        rows.append([named(short_name(own.method)), *map(mean_cell, means)])
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
                caption="Mean ± standard error over seeds. Forgotten: rise of the masked-character "
                "loss over that before training. Less training also forgets less: read it beside the "
                "training loss.",
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


def _glyphs(glyphs: Glyphs) -> ExtraSection:
    return ExtraSection(
        title="Characters from one picture each",
        sentences=[
            f"Before adaptation {glyphs.before:.1f} % of the queries are right (chance: 20 %), after "
            f"{glyphs.steps} inner steps {glyphs.after:.1f} ± {glyphs.interval:.1f} % (95 % interval "
            f"over {glyphs.tasks} tasks; each query is predicted apart from the others).",
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
