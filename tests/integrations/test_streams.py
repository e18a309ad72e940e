"""Streamed data: the same examples in the same order as a data set that is gone through in order."""

from __future__ import annotations

import pytest
import torch
from trainer_toy import Streamed, assert_same, bert, data, moved, sentences, trainer, weights
from transformers import TrainerCallback

from gradaccord.data.samplers import UniformTasks
from gradaccord.integrations.streams import Stream, is_stream


def test_examples_by_number_skip_and_begin_again():
    stream = Stream("a", Streamed(list("abcde")), 10)
    assert stream.__getitems__([0, 2]) == ["a", "c"]
    assert stream.__getitems__([3, 5, 11]) == ["d", "a", "b"]  # passes follow one another
    assert stream.__getitems__([1]) == ["b"]


def test_what_is_a_stream():
    assert is_stream(Streamed([]))
    assert is_stream(x for x in "ab")
    assert not is_stream([])
    assert not is_stream({"input_ids": [1]})


def test_streams_of_datasets_are_shuffled_anew_on_every_pass():
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict({"n": list(range(40))}).to_iterable_dataset()
    stream = Stream("a", rows.shuffle(seed=3, buffer_size=40), 80)
    first = [row["n"] for row in stream.__getitems__(list(range(40)))]
    second = [row["n"] for row in stream.__getitems__(list(range(40, 80)))]
    again = [row["n"] for row in stream.__getitems__(list(range(40)))]
    assert sorted(first) == sorted(second) == list(range(40))
    assert first != second
    assert again == first


def streams():
    return {task: Streamed(rows) for task, rows in data().items()}


def test_training_on_streams_is_training_in_order(tmp_path):
    start = weights(bert(0.0))
    in_order = trainer(tmp_path, bert(0.0), train_sampling_strategy="sequential")
    in_order.train()
    streamed = trainer(tmp_path, bert(0.0), streams())
    streamed.train()
    assert moved(weights(streamed.model), start)
    assert_same(weights(streamed.model), weights(in_order.model))


@pytest.mark.parametrize("method", ["PCGrad", "SequentialReptile", "DotProd"])
def test_streams_feed_every_kind_of_method_beside_other_data(tmp_path, method):
    tasks = {"a": Streamed(sentences(24, 1)), "b": sentences(20, 2)}
    made = trainer(tmp_path, bert(), tasks, trainer_options={"method": method}, max_steps=12)
    made.train()
    assert made.state.global_step == 12
    assert made.state.epoch is not None


def test_streamed_columns_that_the_model_does_not_take_are_left_out(tmp_path):
    datasets = pytest.importorskip("datasets")
    rows = [{**row, "input_ids": row["input_ids"].tolist(), "note": "x"} for row in sentences(24, 1)]
    stream = datasets.Dataset.from_list(rows).to_iterable_dataset()
    trainer(tmp_path, tasks={"a": stream, "b": Streamed(rows)}).train()


class Stop(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        if state.global_step == 5:
            raise KeyboardInterrupt


def test_resumed_on_streams_bit_equal(tmp_path):
    saved = {"save_strategy": "steps", "save_steps": 2, "max_steps": 9}
    whole = trainer(tmp_path / "whole", tasks=streams(), **saved)
    whole.train()
    stopped = {"callbacks": [Stop()]}
    with pytest.raises(KeyboardInterrupt):
        trainer(tmp_path / "parts", tasks=streams(), trainer_options=stopped, **saved).train()
    resumed = trainer(tmp_path / "parts", tasks=streams(), **saved)
    resumed.train(resume_from_checkpoint=True)
    assert_same(weights(resumed.model), weights(whole.model))


def test_a_sampler_of_ones_own_draws_from_streams(tmp_path):
    sampler = UniformTasks(["a", "b"], n=1, seed=1)
    made = trainer(tmp_path, tasks=streams(), trainer_options={"sampler": sampler})
    made.train()
    assert made.report is not None
    assert torch.isfinite(made.report.losses).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_steps": -1}, "Streamed without a length: set `max_steps`"),
        ({"dataloader_num_workers": 2}, "`dataloader_num_workers` is 2: set it to 0"),
    ],
)
def test_what_streams_do_not_go_with_is_refused(tmp_path, options, words):
    with pytest.raises(ValueError, match=words):
        trainer(tmp_path, tasks=streams(), **options).train()


def test_a_stream_that_cannot_be_gone_through_again_says_so(tmp_path):
    once = (row for row in sentences(6, 1))
    with pytest.raises(ValueError, match="task 'b' gives no example after 6: give one that can"):
        trainer(tmp_path, tasks={"a": sentences(4, 1), "b": once}).train()
