"""A step of every small variant, on tiny files in the layouts of the published sets."""

import pytest
from accelerate.state import AcceleratorState
from tiny_sets import write_tiny_sets

from gradaccord.reproduce.entry import COMPARE, all_entries
from gradaccord.reproduce.plan import missing_files, plan
from gradaccord.reproduce.run import config_of
from gradaccord.runs.config_files import write_config
from gradaccord.runs.log import Log
from gradaccord.train.config_file import read_own_config
from gradaccord.train.loop import TrainingLoop
from gradaccord.train.problem import load_problem
from gradaccord.train.run import make_accelerator, seed_everything

VARIANTS = [
    (entry, variant)
    for entry in all_entries().values()
    if entry.kind == COMPARE and entry.small is not None and entry.records_of is None
    for variant in entry.small.variants
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return write_tiny_sets(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize(("entry", "variant"), VARIANTS, ids=lambda own: getattr(own, "name", own))
def test_a_step_of_every_variant(entry, variant, tiny, tmp_path):
    design = entry.small
    assert missing_files(design.needs, design.publisher, tiny) is None
    arm = design.primary.arm if design.primary else list(design.arms)[-1]
    quick = {"model": {"steps": 20}} if design.content(variant, arm)["model"] == "characters" else {}
    planned = plan(entry, seeds=1, variants=[variant], only=[arm], replace=quick)[0]
    config = config_of(planned, tiny)
    seed_everything(0)
    AcceleratorState._reset_state(True)  # which keeps the precision of the first run of a process
    loop = TrainingLoop(config, load_problem(config, tiny), tmp_path, make_accelerator(config))
    loop.begin(len(loop.phases) - 1)
    before = [p.detach().clone() for p in loop.trainable.parameters()]
    loop.take_step(Log(None))
    after = loop.trainable.parameters()
    assert any(not old.equal(new) for old, new in zip(before, after, strict=True))


@pytest.mark.parametrize(
    "entry", {entry.name: entry for entry, _ in VARIANTS}.values(), ids=lambda e: e.name
)
def test_the_file_of_every_run_says_what_was_planned(entry, tiny, tmp_path):
    """Among them are options without an end, such as an uncapped DotProd's."""
    for planned in plan(entry, seeds=1):
        config = config_of(planned, tiny)
        write_config(config, tmp_path / "run.yaml")
        assert read_own_config(tmp_path / "run.yaml") == config, planned.label
