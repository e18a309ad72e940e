"""Every key of the schema changes what it says: none is accepted and read nowhere."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch
from accelerate.state import AcceleratorState
from pydantic import BaseModel
from small_models import TEXTS, save_checkpoint
from train_toy import weights

from gradaccord.models.multitask import MultiTaskModel
from gradaccord.runs.config_files import section_in
from gradaccord.runs.log import read_log
from gradaccord.train.config import FILE_KEYS, Config
from gradaccord.train.problem import load_dataset, load_problem

TESTS = Path(__file__).parent.parent

# Keys whose effect another test shows.
ELSEWHERE = {
    "method.name": "train/test_run.py::test_every_method_trains_and_resumes_bit_equal",
    "model.name": "train/test_probes.py::test_what_is_forgotten_is_followed",
    "probe.masked_lm": "train/test_probes.py::test_what_is_forgotten_is_followed",
    "sampler.pairs": "data/test_pairs.py::test_both_pair_two_tasks_if_asked_to",
    "tasks.clusters": "train/test_problem.py::test_clusters_of_a_task_are_trained_on_as_tasks",
    "model.freeze": "train/test_problem.py::test_frozen_weights_stay_cost_nothing_and_resume_bit_equal",
    "tasks.patience": "train/test_task_patience.py::"
    "test_a_task_is_dropped_the_others_go_on_and_the_run_resumes_bit_equal",
    "tasks.metric": "train/test_evaluation.py::"
    "test_the_chosen_metric_chooses_the_weights_and_makes_the_averages",
    "tasks.weight": "train/test_task_weights.py::test_a_weighted_sum_is_the_sum_of_weighted_gradients",
    "tasks.evaluate_only": "train/test_problem.py::test_unseen_tasks_are_judged_by_a_trained_head",
    "train.checkpointing": "train/test_wrapped_model.py::test_checkpointing_changes_no_weight",
    "train.compile": "train/test_wrapped_model.py::test_a_compiled_trunk_is_run_and_changes_no_weight",
    "train.epochs": "train/test_phase.py::test_budgets_are_what_they_say",
    "train.gradients": "train/test_phase.py::test_budgets_are_what_they_say",
    "train.seconds": "train/test_phase.py::test_seconds_end_a_run_and_are_kept_when_it_is_resumed",
    "train.micro_batches": "train/test_loop.py::test_dropout_is_on_from_the_first_step",
    "train.optimizer.name": "train/test_optimizers.py::test_every_optimiser_takes_a_step",
    "train.patience": "train/test_loop.py::test_early_stopping_is_told",
    **dict.fromkeys(
        ("train.tensorboard", "train.log_with"),
        "train/test_trackers.py::test_curves_are_those_of_the_log_also_after_a_restart",
    ),
    "train.warm_start.task": "train/test_phase.py::test_a_warm_start_trains_its_task_alone_first",
}


def of_train(**changes):
    return {"train": changes}


def of_probe(**changes):
    return {"probe": {"cosine_batches": 2, "errors": 3, **changes}}


def trained(folder, results, said):
    return {name: value.sum().item() for name, value in weights(folder).items()}


def tasks_of_steps(folder, results, said):
    return [list(record.get("loss", ())) for record in read_log(folder / "log.jsonl")]


def checkpoints(folder, results, said):
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def evaluations(folder, results, said):
    return [record.step for record in results.evaluations]


LORA = "test_lora_trains_adapters_resumes_bit_equal_and_is_saved_as_a_plain_model"
ELSEWHERE |= {
    f"model.lora.{key}": f"train/test_problem.py::{LORA}"
    for key in ("r", "lora_alpha", "lora_dropout", "target_modules")
}
ELSEWHERE |= {
    "model.lora.use_rslora": "models/test_lora.py::test_the_merged_weight_is_the_formula",
    "model.lora.use_dora": "models/test_lora.py::test_the_pooling_layer_gets_nothing_to_train",
}


# Keys whose change another run shows: what is changed, and what must differ by it.
CHANGED = {
    "regularize.name": ({"regularize": ["smart"]}, trained),
    "sampler.name": ({"sampler": "sequential"}, tasks_of_steps),
    "train.batch_size": (of_train(batch_size=4), trained),
    "train.clip": (of_train(clip=1e-4), trained),
    "train.evaluate_every": (of_train(evaluate_every=1), evaluations),
    "train.head_lr": (of_train(head_lr=1e-2), trained),
    "train.keep": (of_train(keep=1), checkpoints),
    "train.lr": (of_train(lr=1e-2), trained),
    "train.precision": (of_train(precision="bf16"), trained),
    "train.save_every": (of_train(save_every=4), checkpoints),
    "train.schedule": (of_train(schedule="constant"), trained),
    "train.seed": (of_train(seed=1), trained),
    "train.steps": (of_train(steps=3), lambda f, r, s: r.cost.steps),
    "train.threads": (of_train(threads=2), lambda f, r, s: [x for x in s if "threads:" in x]),
    "train.warmup": (of_train(warmup=0.9), trained),
    "probe.cosine": (of_probe(cosine=False), lambda f, r, s: r.last.task_cosine is None),
    "probe.cosine_batches": (
        of_probe(cosine_batches=1), lambda f, r, s: r.last.task_cosine.mean
    ),
    "probe.distance": (of_probe(distance=False), lambda f, r, s: r.last.distance is None),
    "probe.errors": (of_probe(errors=1), lambda f, r, s: len(r.errors["long"].worst)),
}  # fmt: skip

# Keys that have a test of their own below.
HERE = {
    "data_folder": "test_data_folder", "probe.masked_lm_model": "test_masked_lm_model",
    "tasks.batch_size": "test_batch_size_of_a_task", "tasks.columns": "test_own_files",
    "tasks.cut": "test_cut_and_limit", "tasks.dev_as_test": "test_dev_as_test",
    "tasks.label_noise": "test_label_noise", "tasks.data": "test_data_folder",
    "tasks.files": "test_own_files", "tasks.kind": "test_own_files", "tasks.labels": "test_own_files",
    **dict.fromkeys((f"tasks.{key}" for key in FILE_KEYS), "test_how_own_files_are_written"),
    "tasks.limit": "test_cut_and_limit",
    "tasks.shared_head": "test_heads", "tasks.source": "test_heads",
    "train.evaluation_batch_size": "test_evaluation_batch_size",
    "train.warm_start.epochs": "test_epochs_of_a_warm_start",
}  # fmt: skip


def keys(section: type[BaseModel], prefix: str = "") -> list[str]:
    """All that the schema has, as `train.warm_start.task`; of tasks and lists, those of an entry."""
    found = []
    for name, field in section.model_fields.items():
        inner = section_in(field.annotation)
        found += [prefix + name] if inner is None else keys(inner, f"{prefix}{name}.")
    return found


def test_every_key_has_a_test():
    shown = [*ELSEWHERE, *CHANGED, *HERE]
    assert sorted(shown) == sorted(keys(Config))
    places = {key: place.split("::") for key, place in ELSEWHERE.items()}
    places |= {key: ["train/test_config.py", name] for key, name in HERE.items()}
    for key, (file, name) in places.items():
        tree = ast.parse((TESTS / file).read_text())
        assert name in {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}, key


@pytest.fixture(scope="module")
def base(content, tmp_path_factory):
    """Runs a variant of a run of four steps; returns what it can be judged by."""
    from gradaccord.train.config_file import check_config
    from gradaccord.train.run import train_run

    def made(changes, name):
        train = {
            "steps": 4, "lr": 1e-3, "batch_size": 8, "evaluate_every": 4, "save_every": 1, "keep": 2,
            "clip": 1.0, "threads": 1, **changes.get("train", {}),
        }  # fmt: skip
        config = check_config({**content, **changes, "train": train})
        folder, said = tmp_path_factory.mktemp(name) / "run", []
        AcceleratorState._reset_state(True)  # which keeps the precision of the first run of a process
        results = train_run(config, folder, say=said.append)
        AcceleratorState._reset_state(True)
        torch.set_num_threads(1)
        return folder, results, said

    made.plain = made({}, "plain")
    return made


@pytest.mark.parametrize("key", CHANGED)
def test_a_key_changes_what_it_says(key, base):
    changes, seen = CHANGED[key]
    assert seen(*base(changes, "changed")) != seen(*base.plain)


def test_the_same_keys_give_the_same_run(base):
    """So that it is the key that changes something."""
    again = base({}, "again")
    for key, (_, seen) in CHANGED.items():
        assert seen(*again) == seen(*base.plain), key


def test_own_files(content, configured, tmp_path):
    config = configured()
    film = load_dataset("film", config.tasks["film"], None)
    assert film.kind == "classification"
    assert {split: len(own) for split, own in film.splits.items()} == {"train": 64, "dev": 16}
    (tmp_path / "x.csv").write_text("it,says,other\na good film,yes,no\na bad one,no,no\n")
    task = {**content["tasks"]["film"], "files": {"train": str(tmp_path / "x.csv")}}
    found = {}
    for column in ("says", "other"):
        for labels in (["no", "yes"], ["yes", "no"]):
            changed = {**task, "columns": {"first": "it", "label": column}, "labels": labels}
            config = configured(tasks={"x": changed})
            own = load_dataset("x", config.tasks["x"], None).splits["train"]
            found[column, labels[0]] = [example.label for example in own]
    assert found == {
        ("says", "no"): [1, 0], ("says", "yes"): [0, 1], ("other", "no"): [0, 0],
        ("other", "yes"): [1, 1],
    }  # fmt: skip
    assert load_dataset("long", configured().tasks["long"], None).kind == "regression"


def test_how_own_files_are_written(configured, tmp_path):
    whole = {"format": "csv", "encoding": "latin-1", "columns": ["first", "label"]}

    def read(**changes):
        task = {"kind": "classification", "train": str(tmp_path / "x.dat"), **whole, **changes}
        own = load_dataset("x", configured(tasks={"x": task}).tasks["x"], None)
        return [(e.first, own.labels[e.label]) for e in own.splits["train"]]

    (tmp_path / "x.dat").write_bytes('text;label\n"é, è";1\n"a;b";2\n'.encode("latin-1"))
    assert read() == [("é, è", "1"), ("a;b", "2")]
    assert read(header=False) == [("text", "label"), ("é, è", "1"), ("a;b", "2")]
    for key, value in (("quotes", False), ("separator", "comma"), ("format", None)):
        with pytest.raises(ValueError, match=r"x\.dat"):
            read(**{key: value})
    with pytest.raises(ValueError, match="set `encoding`"):
        read(encoding="utf-8")
    (tmp_path / "x.dat").write_bytes(b"the\tO\nriver\tI-LOC\n\n")
    tags = {"kind": "tagging", "format": "conll", "train": str(tmp_path / "x.dat")}
    with pytest.raises(ValueError, match="the option iob 'repair' reads it so"):
        load_dataset("x", configured(tasks={"x": tags}).tasks["x"], None)
    own = load_dataset("x", configured(tasks={"x": {**tags, "iob": "repair"}}).tasks["x"], None)
    assert own.splits["train"][0].tags == ("O", "B-LOC")


def test_cut_and_limit(content, configured):
    film = content["tasks"]["film"]
    alone = {**film, "files": {"train": film["files"]["train"]}}
    tasks = configured(
        tasks={
            "plain": alone,
            "cut": {**alone, "cut": 0.25},
            "three": {**alone, "cut": {"train": 0.5, "dev": 0.25, "test": 0.25}},
            "limit": {**film, "limit": {"dev": 5}},
        }
    ).tasks
    sizes = {
        name: {split: len(own) for split, own in load_dataset(name, task, None).splits.items()}
        for name, task in tasks.items()
    }
    cut, three = sizes.pop("cut"), sizes.pop("three")
    assert [*three] == ["train", "dev", "test"]
    assert sum(three.values()) == 64
    assert sizes == {"plain": {"train": 64}, "limit": {"train": 64, "dev": 5}}
    assert cut["train"] + cut["dev"] == 64
    assert 5 <= cut["dev"] <= 30  # a quarter, drawn by the text


def test_dev_as_test(content, configured):
    film = content["tasks"]["film"]

    def splits(dev_as_test=True, **changes):
        task = configured(tasks={"film": {**film, "dev_as_test": dev_as_test, **changes}}).tasks["film"]
        loaded = load_dataset("film", task, None).splits
        return {split: list(examples) for split, examples in loaded.items()}

    plain = splits(dev_as_test=False)

    assert splits() == {"train": plain["train"], "test": plain["dev"]}
    cut = splits(cut=0.25)
    assert cut["test"] == plain["dev"]
    assert sorted(e.id for e in (*cut["train"], *cut["dev"])) == sorted(e.id for e in plain["train"])
    with pytest.raises(ValueError, match="has no train and dev split: leave it out"):
        splits(files={"train": film["files"]["train"]})


def test_label_noise(content, configured):
    film = content["tasks"]["film"]

    def labels(share):
        task = configured(tasks={"film": {**film, "label_noise": share}}).tasks["film"]
        found = load_dataset("film", task, None).splits
        return [e.label for e in found["train"]], [e.label for e in found["dev"]]

    (plain, dev), (noisy, same) = labels(0), labels(0.5)
    assert dev == same
    assert 16 < sum(a != b for a, b in zip(plain, noisy, strict=True)) < 48  # of 64


def test_heads(content, configured):
    film, bank = content["tasks"]["film"], content["tasks"]["bank"]
    shared = {"film": {**film, "shared_head": "one"}, "bank": {**bank, "shared_head": "one"}}
    assert list(load_problem(configured(tasks=shared)).model.heads) == ["head_one"]
    unseen = {**film, "evaluate_only": True}
    for source in ("film", "bank"):
        tasks = {"film": film, "bank": bank, "unseen": {**unseen, "source": source}}
        assert load_problem(configured(tasks=tasks)).model.head_of["unseen"] == source


def test_data_folder(configured, tmp_path):
    """An embedded set needs no folder; any other is looked for in the one that is configured."""
    task = {"data": "cldr/de", "limit": {"train": 20, "dev": 20}}
    assert load_dataset("names", configured(tasks={"names": task}).tasks["names"], None).splits
    config = configured(tasks={"sst": {"data": "sst"}}, data_folder=str(tmp_path / "nowhere"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load_problem(config)


def test_batch_size_of_a_task(content, configured, run, tmp_path, monkeypatch):
    seen = []
    plain = MultiTaskModel.forward

    def forward(model, task, batch):
        if torch.is_grad_enabled() and model.training:
            seen.append((task, len(batch["attention_mask"])))
        return plain(model, task, batch)

    monkeypatch.setattr(MultiTaskModel, "forward", forward)
    tasks = {"film": {**content["tasks"]["film"], "batch_size": 3}, "bank": content["tasks"]["bank"]}
    run(configured(tasks=tasks, train={"steps": 1}, probe={"cosine": False}))
    assert set(seen) == {("film", 3), ("bank", 8)}


def test_evaluation_batch_size(configured, run, monkeypatch):
    plain = MultiTaskModel.forward

    def forward(model, task, batch):
        if not model.training:
            seen.append(len(batch["attention_mask"]))
        return plain(model, task, batch)

    monkeypatch.setattr(MultiTaskModel, "forward", forward)
    for size in (16, 5):
        seen = []
        train = {"steps": 1, "evaluation_batch_size": size}
        run(configured(train=train, probe={"cosine": False}), f"run{size}")
        assert max(seen) == size


def test_epochs_of_a_warm_start(configured, run, tmp_path):
    for epochs, expected in ((1, 8), (0.5, 4)):
        warm = {"task": "film", "epochs": epochs}
        run(configured(train={"steps": 1, "warm_start": warm}), f"run{expected}")
        log = read_log(tmp_path / f"run{expected}" / "log.jsonl")
        assert sum(r.get("phase") == "warm start" for r in log) == expected


def test_masked_lm_model(configured, run, tmp_path, checkpoint):
    """The trunk's own checkpoint has no head: the one that is named brings it."""
    (tmp_path / "lines.txt").write_text("\n".join(TEXTS * 4))
    losses = []
    for seed in (0, 1):
        head = save_checkpoint(tmp_path / f"head{seed}", "bert", head=True, seed=seed)
        probe = {
            "masked_lm": {"seen": str(tmp_path / "lines.txt")}, "masked_lm_model": str(head),
            "cosine": False,
        }  # fmt: skip
        results = run(configured(probe=probe, train={"steps": 1}), f"run{seed}")
        losses.append(results.evaluations[-1].masked_lm["seen"])
    assert losses[0] != losses[1]
