"""Tests mirror the source: <room>/[<sub>/]<module>.py is tested in tests/<room>/test_<module>.py.

Or all of <sub>/ in tests/<room>/test_<sub>.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import gradaccord

SOURCE, TESTS = Path(gradaccord.__file__).parent, Path(__file__).parent
MODULES = sorted(
    path.relative_to(SOURCE).as_posix() for path in SOURCE.glob("*/**/*.py") if path.stem != "__init__"
)
# Module -> the test file that covers it, where that is another one.
ELSEWHERE = {
    "cli/advise_screen.py": "cli/test_advise.py",
    "cli/data_cards.py": "cli/test_validate.py",
    "cli/demo_screen.py": "showcase/test_demo.py",
    "cli/evaluate_screen.py": "cli/test_evaluate.py",
    "cli/landscape.py": "showcase/test_landscape.py",
    "cli/landscape_screen.py": "showcase/test_landscape.py",
    "cli/options.py": "cli/test_app.py",
    "cli/report.py": "report/test_page.py",
    "cli/reproduce_screen.py": "cli/test_reproduce.py",
    "compare/advisor.py": "cli/test_advise.py",
    "core/sharding.py": "distributed/test_fsdp.py",
    "methods/align/vectors.py": "methods/test_dotprod.py",
    "methods/regularize/extra_pass.py": "methods/test_smart.py",
    "methods/regularize/regularizer.py": "methods/test_smart.py",
    "models/heads.py": "tasks/test_task.py",
    "models/trunks/trunk.py": "tasks/test_task.py",
    "cli/pretrain_screen.py": "cli/test_pretrain.py",
    "pretrain/problem.py": "pretrain/test_run.py",
    "pretrain/results.py": "pretrain/test_run.py",
    "probe/eval_mode.py": "probe/test_cosines.py",
    "probe/figure.py": "probe/test_cosines.py",
    "report/html.py": "report/test_page.py",
    "runs/config_sections.py": "train/test_config_file.py",
    "runs/endings.py": "train/test_loop.py",
    "runs/ranks.py": "distributed/test_ranks.py",
    "reproduce/special/fewshot.py": "reproduce/test_pool.py",
    "reproduce/special/landscape.py": "reproduce/test_pool.py",
    "reproduce/special/outcome.py": "reproduce/test_pool.py",
    "report/section.py": "report/test_run_tables.py",
    "train/file_evaluation.py": "cli/test_evaluate.py",
    "runs/duration.py": "cli/test_train_screen.py",
    "runs/schedule.py": "train/test_optimizers.py",
    "runs/versioned.py": "runs/test_results.py",
    "tasks/kinds/sequences.py": "tasks/test_classification.py",
    "tasks/saved_models.py": "models/test_saving.py",
    "train/predict.py": "cli/test_predict.py",
    "train/progress.py": "cli/test_train_screen.py",
}


def mirrored(module: str) -> bool:
    room, *folders, name = module.split("/")
    places = [Path(*folders, f"test_{name}"), *(Path(f"test_{folder}.py") for folder in folders)]
    if sum(other.startswith(f"{room}/") and other.endswith(f"/{name}") for other in MODULES) == 1:
        places.append(Path(f"test_{name}"))  # the only one of its name
    return any((TESTS / room / place).exists() for place in places)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_a_test_file(module: str) -> None:
    assert mirrored(module) or module in ELSEWHERE


@pytest.mark.parametrize("module", ELSEWHERE)
def test_the_list_of_exceptions_is_true(module: str) -> None:
    assert module in MODULES
    assert (TESTS / ELSEWHERE[module]).exists()
    assert not mirrored(module), "it has a test file of its own: take it off the list"
