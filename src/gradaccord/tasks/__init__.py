"""What is learned: one module for each kind of task, with its head, loss, decoding and metric."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from gradaccord.tasks.classification import Classification as Classification
    from gradaccord.tasks.cloze import EntityCloze as EntityCloze
    from gradaccord.tasks.coreference import PronounResolution as PronounResolution
    from gradaccord.tasks.errors import analyse as analyse
    from gradaccord.tasks.evaluation import Evaluation as Evaluation
    from gradaccord.tasks.evaluation import evaluate as evaluate
    from gradaccord.tasks.evaluation import predict as predict
    from gradaccord.tasks.image import ImageClassification as ImageClassification
    from gradaccord.tasks.kinds import KINDS as KINDS
    from gradaccord.tasks.kinds import build as build
    from gradaccord.tasks.kinds import options as options
    from gradaccord.tasks.kinds import task_for as task_for
    from gradaccord.tasks.masked_lm import MaskedLM as MaskedLM
    from gradaccord.tasks.multi_answer import MultiAnswer as MultiAnswer
    from gradaccord.tasks.multiple_choice import MultipleChoice as MultipleChoice
    from gradaccord.tasks.pseudo import pseudo_tasks as pseudo_tasks
    from gradaccord.tasks.question_answering import QuestionAnswering as QuestionAnswering
    from gradaccord.tasks.regression import Regression as Regression
    from gradaccord.tasks.summarization import Summarization as Summarization
    from gradaccord.tasks.tagging import Tagging as Tagging
    from gradaccord.tasks.task import Task as Task
    from gradaccord.tasks.transfer import evaluate_transfer as evaluate_transfer
    from gradaccord.tasks.word_in_context import WordInContext as WordInContext


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gradaccord.tasks' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
