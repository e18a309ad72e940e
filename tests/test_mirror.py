"""Tests mirror the source: <room>/[<sub>/]<module>.py is tested in tests/<room>/test_<module>.py."""

from __future__ import annotations

from pathlib import Path

import pytest

import gradaccord

SOURCE, TESTS = Path(gradaccord.__file__).parent, Path(__file__).parent
MODULES = sorted(
    path.relative_to(SOURCE).as_posix() for path in SOURCE.glob("*/**/*.py") if path.stem != "__init__"
)
# Rooms whose tests are not split by module yet.
UNFINISHED = {
    *("compare", "core", "data", "integrations", "methods", "models", "report"),
    *("showcase", "tasks"),
}
# Module -> the test file that covers it, where that is another one.
ELSEWHERE = {
    "cli/compare.py": "compare/test_processes.py",
    "cli/demo.py": "showcase/test_demo.py",
    "cli/demo_screen.py": "showcase/test_demo.py",
    "cli/exit_codes.py": "cli/test_base_install.py",
    "cli/fewshot_screen.py": "cli/test_fewshot.py",
    "cli/landscape.py": "showcase/test_landscape.py",
    "cli/landscape_screen.py": "showcase/test_landscape.py",
    "cli/options.py": "cli/test_app.py",
    "cli/report.py": "report/test_page.py",
    "cli/sweep.py": "compare/test_sweep.py",
    "meta/episodes/minibatches.py": "meta/test_reptile.py",
    "meta/episodes/task_batch.py": "meta/test_image_tasks.py",
    "meta/figures.py": "cli/test_fewshot.py",
    "meta/learners/checks.py": "meta/test_learner.py",
    "meta/learners/inner_loops.py": "meta/test_every_learner.py",
    "meta/learners/inner_optimizer.py": "meta/test_reptile.py",
    "meta/learners/outcome.py": "meta/test_learner.py",
    "meta/learners/per_tensor.py": "meta/test_every_learner.py",
    "meta/network/checkpoint_guard.py": "meta/test_every_learner.py",
    "meta/network/conv4_block.py": "meta/test_conv4.py",
    "meta/network/conv4_first_block.py": "meta/test_conv4.py",
    "meta/reduce.py": "distributed/test_meta_processes.py",
    "meta/report.py": "meta/test_learner.py",
    "meta/results.py": "meta/test_run.py",
    "meta/saved_runs.py": "meta/test_run.py",
    "cli/train.py": "train/test_run.py",
    "probe/eval_mode.py": "probe/test_cosines.py",
    "probe/figure.py": "probe/test_cosines.py",
    "runs/duration.py": "cli/test_train_screen.py",
    "runs/versioned.py": "runs/test_results.py",
    "train/check_options.py": "train/test_config_file.py",
    "train/config.py": "train/test_every_key.py",
    "train/dry_run.py": "cli/test_validate.py",
    "train/export.py": "cli/test_export.py",
    "train/predict.py": "cli/test_predict.py",
    "train/progress.py": "cli/test_train_screen.py",
}


def mirrored(module: str) -> bool:
    room = module.partition("/")[0]
    return any((TESTS / room).rglob(f"test_{Path(module).stem}.py"))


@pytest.mark.parametrize("module", [m for m in MODULES if m.partition("/")[0] not in UNFINISHED])
def test_every_module_has_a_test_file(module: str) -> None:
    assert mirrored(module) or module in ELSEWHERE


@pytest.mark.parametrize("module", ELSEWHERE)
def test_the_list_of_exceptions_is_true(module: str) -> None:
    assert module in MODULES
    assert (TESTS / ELSEWHERE[module]).exists()
    assert not mirrored(module), "it has a test file of its own: take it off the list"
