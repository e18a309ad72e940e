"""Sets that need no files: the names of the Unicode CLDR, in a language each."""

from __future__ import annotations

from functools import lru_cache

from gradaccord.data.dataset import Dataset
from gradaccord.data.examples import Text
from gradaccord.data.files.found import Found

NAMES = ("cldr",)


def load(language: str) -> Dataset:
    """What kind of thing a name names, in one language.

    A dev or test name's concept is in no language's train split, nor is a name that is judged in any
    of the twelve languages of the demo or in this one.
    """
    from gradaccord.data.text import cldr

    if not language:
        raise ValueError(f"`cldr` has many languages: choose one, such as 'cldr/{cldr.LANGUAGES[0]}'.")
    task = cldr.task(language, tuple(dict.fromkeys([*cldr.LANGUAGES, language])))
    splits = {
        split: [
            Text(text, None, int(label), f"{split}-{number}-{concept}")
            for number, (text, label, concept) in enumerate(
                zip(part.texts, part.labels.tolist(), part.concepts, strict=True)
            )
        ]
        for split, part in (("train", task.train), ("dev", task.dev), ("test", task.test))
    }
    return Dataset(f"cldr/{language}", "classification", splits, cldr.KINDS, language)


@lru_cache(maxsize=1)
def found() -> tuple[Found, ...]:
    """The languages of the demo; none if the package that holds the names is missing."""
    from gradaccord.data.text import cldr

    try:
        tasks = cldr.load().tasks
    except ModuleNotFoundError:
        return ()
    return tuple(
        Found(
            name=f"cldr/{language}",
            kind="classification",
            language=language,
            counts={"train": len(task.train), "dev": len(task.dev), "test": len(task.test)},
            labels=cldr.KINDS,
            files=("embedded",),
        )
        for language, task in tasks.items()
    )
