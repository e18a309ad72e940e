"""What is measured beside the scores: task cosines, distance, and what the model forgets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gradaccord.core.watch import NOBODY, Watch
from gradaccord.data.registry import load
from gradaccord.models.trunks.characters import CharacterTrunk
from gradaccord.models.trunks.lora import without_lora
from gradaccord.probe.cosines import task_cosines
from gradaccord.probe.distance import Distance
from gradaccord.probe.masked_lm import MaskedLM, with_encoder
from gradaccord.runs import results
from gradaccord.tasks.task import Task
from gradaccord.train.config import Config
from gradaccord.train.problem import Problem

LINES = 200  # of each text; the same ones, under the same masks, at every measurement
MAX_LENGTH = 128
FEWEST, MOST = 2, 8  # batches of each task that cosines are measured on
PART = 16  # of the batches of one epoch: one in so many


class Probes:
    """The probes of a configuration; built before training, as they remember the first weights."""

    def __init__(self, config: Config, problem: Problem) -> None:
        self.config = config
        self.problem = problem
        chosen = config.probe
        # With LoRA, of copies in which the adapters are merged into the weights.
        model = without_lora(problem.model)
        self.distance = Distance(model, within=["trunk"]) if chosen.distance else None
        self.cosines = chosen.cosine and len(problem.trained) > 1
        self.cosine_batches = chosen.cosine_batches or self._cosine_batches()
        self.forgetting = Forgetting(config, problem) if chosen.masked_lm else None

    def measure(self, model: nn.Module, accelerator: Any, watch: Watch = NOBODY) -> results.Measured:
        """Measure everything now. Training is not affected."""
        found = self.measure_weights(watch)
        if self.cosines:
            found.task_cosine = self.measure_cosines(model, accelerator, self.cosine_batches, watch)
        return found

    def _cosine_batches(self) -> int:
        """Few for small tasks, so that a short run does not spend its time on probes.

        It depends on the data alone: cosines of more batches are less noisy and further from 0, so
        that methods can be compared only on equally many.
        """
        rows = sum(len(self.problem.prepared[name].encoded["train"]) for name in self.problem.trained)
        batches = rows / len(self.problem.trained) / self.config.train.batch_size
        return min(max(round(batches / PART), FEWEST), MOST)

    def measure_cosines(
        self, model: nn.Module, accelerator: Any, count: int, watch: Watch = NOBODY
    ) -> results.TaskCosine:
        """The cosines between the tasks' gradients, from `count` batches of each."""
        steps = self._steps(model, accelerator, count)
        steps = watch.each("probing task cosines", steps, count, every=1)
        measured = task_cosines(model, steps, batches=None, engine=accelerator)
        return results.TaskCosine(
            tasks=list(measured.tasks),
            matrix=[[round(v, 6) for v in row] for row in measured.matrix.tolist()],
            mean=measured.mean,
            losses=measured.losses,
        )

    def measure_weights(self, watch: Watch = NOBODY) -> results.Measured:
        """How far the weights have moved, and what they forgot."""
        found = results.Measured()
        if self.distance is not None:
            own = without_lora(self.problem.model)
            if own is not self.problem.model:
                self.distance = Distance(own, within=["trunk"], reference=self.distance.reference)
            moved = self.distance.measure()
            found.distance = results.Distance(total=moved.total, layers=moved.layers)
        if self.forgetting is not None:
            found.masked_lm = self.forgetting.measure(watch)
        return found

    def _steps(self, model: nn.Module, accelerator: Any, count: int) -> Iterator[dict[str, Any]]:
        """The same training batches at every measurement, spread over each task's data."""
        size = self.config.train.batch_size
        device = accelerator.device
        rank, world = accelerator.process_index, accelerator.num_processes
        for i in range(count):
            step = {}
            for name in self.problem.trained:
                prepared = self.problem.prepared[name]
                encoded = prepared.encoded["train"]
                generator = torch.Generator().manual_seed(1000 + i)
                order = torch.randperm(len(encoded), generator=generator, device="cpu")
                rows = order[:size][rank::world]
                batch = {k: v.to(device) for k, v in encoded.batch(rows.tolist()).items()}
                step[name] = partial(_loss, prepared.task, model, name, batch)
            yield step

    def state_dict(self) -> dict[str, Any]:
        """The weights that the run started from, to measure distances after a restart."""
        return {} if self.distance is None else {"reference": dict(self.distance.reference)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        if self.distance is not None and "reference" in state:
            self.distance.reference = dict(state["reference"])


def _loss(task: Task[Any], model: nn.Module, name: str, batch: dict[str, torch.Tensor]) -> Any:
    return task.loss(model(name, batch), batch)


class Forgetting:
    """Masked-LM losses on the texts of `probe.masked_lm`, by the name given to each."""

    def __init__(self, config: Config, problem: Problem) -> None:
        self.trunk: Any = problem.model.trunk
        lines = {
            name: _lines(name, source, problem.folder)
            for name, source in config.probe.masked_lm.items()
        }
        tokens = problem.tokens
        if isinstance(self.trunk, CharacterTrunk):
            self.head = _character_head(config, self.trunk)
            ids = {
                k: [e.ids for e in tokens.encode(v, max_length=MAX_LENGTH)] for k, v in lines.items()
            }
            self.texts = {name: MaskedLM(own, tokens.masking()) for name, own in ids.items()}
        else:
            self.head = _head(config, self.trunk)
            tokenizer = getattr(tokens, "tokenizer", None) or tokens
            self.texts = {
                name: MaskedLM(own, tokenizer, max_length=MAX_LENGTH) for name, own in lines.items()
            }

    def measure(self, watch: Watch = NOBODY) -> dict[str, float]:
        """Every text's loss, with the trunk's weights as they are."""
        texts = watch.each("probing masked tokens", self.texts.items(), len(self.texts), every=1)
        if isinstance(self.trunk, CharacterTrunk):
            return {name: probe.measure(self.trunk, self._characters) for name, probe in texts}
        model = with_encoder(self.head, without_lora(self.trunk.model))
        return {name: probe.measure(model) for name, probe in texts}

    def _characters(self, ids: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
        states = self.trunk({"input_ids": ids, "attention_mask": attention}).tokens
        logits: torch.Tensor = self.head.to(ids.device)(states)
        return logits


def _character_head(config: Config, trunk: CharacterTrunk) -> nn.Module:
    """The layer that the characters were pretrained with, which is not trained on."""
    if trunk.lm is None:
        raise ValueError(
            f"`probe.masked_lm` needs the layer that predicted masked characters, and the model "
            f"{config.model.name!r} was loaded without it: use the model `characters`."
        )
    return trunk.masked_lm_head().requires_grad_(False)


def _head(config: Config, trunk: Any) -> Any:
    """The pretrained masked-LM model whose head is kept; one without a trained head is refused."""
    source = config.probe.masked_lm_model
    if source is None:
        source = config.model.name if Path(config.model.name).is_dir() else None
    if source is None:
        raise ValueError(
            f"`probe.masked_lm` needs a masked-LM head, and the model {config.model.name!r} brings "
            "none: name the pretrained checkpoint in `probe.masked_lm_model`."
        )
    from gradaccord.models.trunks.huggingface import pretrained

    model, missing = pretrained("AutoModelForMaskedLM", source)
    if missing:
        raise ValueError(
            f"`probe.masked_lm_model` is {source!r}, which has no trained masked-LM head "
            f"({min(missing)} is missing): name the checkpoint that was pretrained."
        )
    return model


def _lines(name: str, source: str, folder: Path | None) -> list[str]:
    """From a file of lines, or from a data set."""
    if Path(source).is_file():
        lines = [line.strip() for line in Path(source).read_text(encoding="utf-8").splitlines()]
        found = [line for line in lines if line]
    else:
        dataset = load(source, folder=folder)
        split = "test" if "test" in dataset.splits else next(iter(dataset.splits))
        found = [example.leak_key for example in dataset.splits[split]]
    if not found:
        raise ValueError(f"`probe.masked_lm.{name}` ({source}) holds no text.")
    return found[:LINES]
