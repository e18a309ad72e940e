"""What the demo adds to the report of its comparison: the plane, forgetting, the characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gradaccord.compare.statistics import Mean
from gradaccord.compare.summary import AVERAGE
from gradaccord.report.extras import EXTRAS
from gradaccord.report.page import write_report
from gradaccord.runs.files import write_json
from gradaccord.showcase.demo import glyphs as characters
from gradaccord.showcase.demo import plane as planes
from gradaccord.showcase.demo.glyphs import Glyphs
from gradaccord.showcase.demo.names import Names


def write_page(
    folder: Path, plane: Mapping[str, Any], names: Names, glyphs: Glyphs, found: Sequence[str]
) -> Path:
    """Write `extras.json` and the report that shows it."""
    sections = [_names(names), _plane(plane), _glyphs(glyphs)]
    write_json(folder / EXTRAS, {"findings": list(found), "sections": sections})
    return write_report(folder)


def _names(names: Names) -> dict[str, Any]:
    rows = []
    for row in names.summary.rows:
        seen, unseen = (Mean.of(list(names.forgotten(row.spec, s).values())) for s in (True, False))
        zero = Mean.of(list(names.zero_shot(row.spec).values()))
        rows.append([row.name, *map(_cell, (row.scores[AVERAGE], zero, seen, unseen, row.train_loss))])
    texts = ", ".join(f"{text} {loss:.2f}" for text, loss in names.before.items())
    return {
        "title": "Seen and unseen languages",
        "sentences": [
            "Unseen languages were never trained on; each is judged by the head of a related one.",
            f"Masked-character loss before any training, nats: {texts}.",
        ],
        "tables": [
            {
                "id": "demo-names",
                "title": "Accuracy and forgetting",
                "headings": [
                    "method", "seen, %", "unseen, %", "forgotten, seen", "forgotten, unseen",
                    "training loss",
                ],
                "rows": rows,
                "caption": "Mean ± standard error over seeds. Forgotten: rise of the masked-character "
                "loss over that before training. Less training also forgets less: read it beside the "
                "training loss.",
            }
        ],
    }  # fmt: skip


def _cell(mean: Mean) -> list[Any] | str:
    """What is shown, and what the table is sorted by."""
    return [str(mean), mean.value] if mean.count else "–"


def _plane(plane: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "title": "Three optima on a plane",
        "sentences": plane["findings"],
        "pictures": [
            {
                "id": "landscape",
                "title": "Where each method ends",
                "file": f"{planes.FOLDER}/{planes.PICTURE}",
                "size": "wide",
                "alt": "The loss surface with three optima, the cosine of the gradients, and the paths "
                "of nine methods from three starts.",
                "caption": "The synthetic problem of Sequential Reptile's paper: every task's own "
                "optimum is a trap for the sum of the losses.",
            }
        ],
    }


def _glyphs(glyphs: Glyphs) -> dict[str, Any]:
    folder = characters.FOLDER
    return {
        "title": "Characters from one picture each",
        "sentences": [
            f"Before adaptation {glyphs.before:.1f} % of the queries are right (chance: 20 %), after "
            f"{glyphs.steps} inner steps {glyphs.after:.1f} ± {glyphs.interval:.1f} % (95 % interval "
            f"over {glyphs.tasks} tasks; each query is predicted apart from the others).",
            f"On the validation tasks {glyphs.iterations} iterations of MAML bring the accuracy after "
            f"adaptation from {glyphs.untrained:.1f} % (fresh weights) to {glyphs.validated:.1f} %.",
        ],
        "pictures": [
            {
                "id": "adaptation",
                "title": "Accuracy by inner step",
                "file": f"{folder}/adaptation.png",
                "alt": "Test accuracy after each inner step.",
                "caption": "Tasks of five characters that training never saw, one picture of each.",
            },
            {
                "id": "episode",
                "title": "A test task",
                "file": f"{folder}/episode.png",
                "alt": "One picture of each of five characters, and the queries with their answers.",
                "caption": "Drawn from the fonts that come with matplotlib.",
            },
        ],
    }
