"""What is learned: one module for each kind of task, with its head, loss, decoding and metric."""

from __future__ import annotations

from importlib import import_module
from typing import Any

# The public names and where they live, imported when first used.
_HOMES = {
    "Task": "gradaccord.tasks.task",
    "Classification": "gradaccord.tasks.classification",
    "Regression": "gradaccord.tasks.regression",
    "MultipleChoice": "gradaccord.tasks.multiple_choice",
    "MultiAnswer": "gradaccord.tasks.multi_answer",
    "EntityCloze": "gradaccord.tasks.cloze",
    "WordInContext": "gradaccord.tasks.word_in_context",
    "PronounResolution": "gradaccord.tasks.coreference",
    "QuestionAnswering": "gradaccord.tasks.question_answering",
    "Tagging": "gradaccord.tasks.tagging",
    "Summarization": "gradaccord.tasks.summarization",
    "ImageClassification": "gradaccord.tasks.image",
    "MaskedLM": "gradaccord.tasks.masked_lm",
    "KINDS": "gradaccord.tasks.kinds",
    "build": "gradaccord.tasks.kinds",
    "options": "gradaccord.tasks.kinds",
    "task_for": "gradaccord.tasks.kinds",
    "Evaluation": "gradaccord.tasks.evaluation",
    "evaluate": "gradaccord.tasks.evaluation",
    "predict": "gradaccord.tasks.evaluation",
    "evaluate_transfer": "gradaccord.tasks.transfer",
    "pseudo_tasks": "gradaccord.tasks.pseudo",
    "analyse": "gradaccord.tasks.errors",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gradaccord.tasks' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
