"""What is learned: one module for each kind of task, with its head, loss, decoding and metric."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gradaccord.tasks.registry import CLASSES

# The public names and where they live, imported when first used.
_HOMES = {
    "Task": "gradaccord.tasks.task",
    **{name: f"gradaccord.tasks.kinds.{kind}" for kind, name in CLASSES.items()},
    "KINDS": "gradaccord.tasks.registry",
    "build": "gradaccord.tasks.registry",
    "options": "gradaccord.tasks.registry",
    "task_for": "gradaccord.tasks.registry",
    "Evaluation": "gradaccord.tasks.evaluation",
    "evaluate": "gradaccord.tasks.evaluation",
    "predict": "gradaccord.tasks.evaluation",
    "pseudo_tasks": "gradaccord.tasks.pseudo_tasks",
    "analyse": "gradaccord.tasks.error_analysis",
}

__all__ = list(_HOMES)

if TYPE_CHECKING:
    from gradaccord.tasks.error_analysis import analyse as analyse
    from gradaccord.tasks.evaluation import Evaluation as Evaluation
    from gradaccord.tasks.evaluation import evaluate as evaluate
    from gradaccord.tasks.evaluation import predict as predict
    from gradaccord.tasks.kinds.classification import Classification as Classification
    from gradaccord.tasks.kinds.cloze import EntityCloze as EntityCloze
    from gradaccord.tasks.kinds.coreference import PronounResolution as PronounResolution
    from gradaccord.tasks.kinds.image import ImageClassification as ImageClassification
    from gradaccord.tasks.kinds.masked_lm import MaskedLM as MaskedLM
    from gradaccord.tasks.kinds.multi_answer import MultiAnswer as MultiAnswer
    from gradaccord.tasks.kinds.multiple_choice import MultipleChoice as MultipleChoice
    from gradaccord.tasks.kinds.question_answering import QuestionAnswering as QuestionAnswering
    from gradaccord.tasks.kinds.regression import Regression as Regression
    from gradaccord.tasks.kinds.summarization import Summarization as Summarization
    from gradaccord.tasks.kinds.tagging import Tagging as Tagging
    from gradaccord.tasks.kinds.word_in_context import WordInContext as WordInContext
    from gradaccord.tasks.pseudo_tasks import pseudo_tasks as pseudo_tasks
    from gradaccord.tasks.registry import KINDS as KINDS
    from gradaccord.tasks.registry import build as build
    from gradaccord.tasks.registry import options as options
    from gradaccord.tasks.registry import task_for as task_for
    from gradaccord.tasks.task import Task as Task


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gradaccord.tasks' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
