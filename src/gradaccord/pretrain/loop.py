"""The training loop of pretraining: batches, masks, loss by language, held-out losses, checkpoints."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.nn.utils import clip_grad_norm_

from gradaccord.data.text.masking import Mask
from gradaccord.pretrain.config import PretrainConfig
from gradaccord.pretrain.model import MaskedLoss, use_fast_attention
from gradaccord.pretrain.packing import Packed, PackedRows
from gradaccord.pretrain.problem import PretrainProblem
from gradaccord.pretrain.results import HeldOut, PretrainProgress
from gradaccord.runs.checkpoints import (
    CHECKPOINTS,
    Checkpoints,
    add_weights_of_all,
    fitting,
    random_state,
    set_random_state,
)
from gradaccord.runs.exceptions import TrainingError
from gradaccord.runs.interrupts import Interrupts
from gradaccord.runs.log import Log
from gradaccord.runs.ranks import gathered
from gradaccord.runs.schedule import Schedule, is_due

FORWARD = 1 / 3  # share of a step's time that its forward pass takes, about
EVALUATED = 64  # held-out sequences at once, whatever the batch size is: the masks stay the same

Show = Callable[[PretrainProgress], None]
Say = Callable[[str], None]


class Loop:
    """The steps of one run. accelerator: Accelerate's, which joins the processes."""

    def __init__(
        self,
        config: PretrainConfig,
        problem: PretrainProblem,
        folder: Path,
        accelerator: Any,
        show: Show = lambda progress: None,
        say: Say = lambda sentence: None,
    ) -> None:
        if config.train.batch_size < accelerator.num_processes:
            raise ValueError(
                f"`train.batch_size` is {config.train.batch_size}, and {accelerator.num_processes} "
                "processes share it: give at least one sequence for each."
            )
        self.config, self.problem, self.accelerator = config, problem, accelerator
        self.show, self.say = show, say
        precision = accelerator.mixed_precision
        use_fast_attention(problem.model, accelerator.device, precision, config.length)
        self.model = accelerator.prepare_model(MaskedLoss(problem.model)).train()
        self.rows = PackedRows(problem.train, config.balance, config.train.seed)
        self.generator = torch.Generator().manual_seed(config.train.seed)
        self.mask = Mask(problem.tokens.masking(), config.share, self.generator)
        self.optimizer = _optimizer(config, problem.model)
        self.schedule = Schedule(self.optimizer, config.train.schedule, config.train.warmup)
        self.checkpoints = Checkpoints(folder / CHECKPOINTS)
        self.progress = PretrainProgress(steps=problem.steps)
        self.step = self.tokens = 0
        self.seconds = 0.0  # of steps, over all sessions
        self._began = (0, 0.0)  # steps and seconds before this session
        self.evaluations: list[HeldOut] = []
        self._evaluation_seconds = math.nan
        self.between_steps = True

    # The loop

    def run(self, log: Log) -> bool:
        """Train to the end, or until Ctrl-C, which saves; returns whether it reached the end."""
        with Interrupts(self.say, lambda: self.progress.doing) as interrupts:
            try:
                for _ in self.each_step(log):
                    if interrupts.agreed(self.accelerator):
                        break
            except KeyboardInterrupt:
                pass
            if self.step < self.problem.steps or not self.between_steps:
                interrupts.saving = True
                if self.between_steps:
                    self.save(log)
                return False
        return True

    def each_step(self, log: Log) -> Iterator[int]:
        """Take the steps, with evaluations and checkpoints where they are due."""
        train = self.config.train
        self._began = (self.step, self.seconds)
        while self.step < self.problem.steps:
            self.between_steps = False
            self.take_step(log)
            if self._due(train.evaluate_every):
                self.evaluate(log)
            self.between_steps = True
            if self._due(train.save_every):
                self.save(log)
            self.estimate()
            self.show(self.progress)
            yield self.step

    def take_step(self, log: Log) -> None:
        """One optimiser step on a batch; every process computes its part of it."""
        began, train = time.perf_counter(), self.config.train
        drawn = self.rows.draw(train.batch_size)
        ids, begins = self._batch(self.problem.train, drawn)
        self.schedule.set(self.step / self.problem.steps, 1 / self.problem.steps)
        sums = self._backward(ids, *self.mask(ids, begins), [language for language, _ in drawn])
        loss = float(sums[0].sum() / sums[1].sum().clamp(min=1))
        length = 0.0
        if train.clip is not None:
            length = float(clip_grad_norm_(self.model.parameters(), train.clip, foreach=True))
        if not math.isfinite(loss + length):
            what = f"The loss is {loss}" if not math.isfinite(loss) else "The gradient is not finite"
            saved = "; the last checkpoint is kept" if self.checkpoints.all() else ""
            raise TrainingError(
                f"{what} at step {self.step + 1}: lower train.lr (now {train.lr:g}){saved}."
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.step += 1
        self.tokens += int((ids != self.problem.tokens.pad).sum())
        self.seconds += time.perf_counter() - began
        self._note(loss, sums, log)

    def _backward(
        self, ids: torch.Tensor, seen: torch.Tensor, chosen: torch.Tensor, languages: list[int]
    ) -> torch.Tensor:
        """Compute the gradients of a batch's mean loss; returns sums of losses and tokens by language.

        Every process draws the whole batch, so that it knows the number of tokens of all.
        """
        world, count = self.accelerator.num_processes, max(int(chosen.sum()), 1)
        own = torch.arange(len(ids), device="cpu")[self.accelerator.process_index :: world]
        parts = [part for part in own.tensor_split(self.config.train.micro_batches) if len(part)]
        sums = torch.zeros(2, len(self.problem.train), device="cpu")
        for i, part in enumerate(parts):
            with self.accelerator.no_sync(self.model) if i + 1 < len(parts) else nullcontext():
                losses = self._losses(ids[part], seen[part], chosen[part])
                self.accelerator.backward(losses.sum() * (world / count))  # DDP takes the mean
            of_each = torch.tensor(languages)[part].repeat_interleave(chosen[part].sum(1))
            found = losses.detach().float().cpu()
            sums.index_add_(1, of_each, torch.stack([found, torch.ones_like(found)]))
        return sums if world == 1 else self._over_processes(sums)

    def _over_processes(self, sums: torch.Tensor) -> torch.Tensor:
        total: torch.Tensor = self.accelerator.reduce(sums.to(self.accelerator.device), "sum")
        return total.cpu()

    def _batch(
        self, packed: Sequence[Packed], places: Sequence[tuple[int, int]]
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Rows as sequences, padded where a language ends, and which of their tokens begin a word."""
        tokens = self.problem.tokens
        rows = [packed[language][row] for language, row in places]
        width = 1 + max(map(len, rows))
        ids = torch.full((len(rows), width), tokens.pad, device="cpu")
        ids[:, 0] = tokens.tokenizer.cls_token_id
        begins = torch.ones_like(ids, dtype=torch.bool) if self.config.whole_words else None
        for i, row in enumerate(rows):
            ids[i, 1 : 1 + len(row)] = row
            if begins is not None:
                own = packed[places[i][0]]
                start = places[i][1] * own.width
                assert own.begins is not None
                begins[i, 1 : 1 + len(row)] = own.begins[start : start + len(row)].bool()
        return ids, begins

    def _losses(self, *batch: torch.Tensor) -> torch.Tensor:
        device = self.accelerator.device
        losses: torch.Tensor = self.model(*(part.to(device) for part in batch), self.problem.tokens.pad)
        return losses

    def _note(self, loss: float, sums: torch.Tensor, log: Log) -> None:
        now = self.progress.losses
        for language, (total, count) in zip(self.problem.languages, sums.t().tolist(), strict=True):
            if count:
                mean = total / count
                now[language] = mean + 0.95 * (now.get(language, mean) - mean)
        log.write(
            event="step",
            step=self.step,
            loss=loss,
            lr=self.optimizer.param_groups[0]["lr"],
            tokens=self.tokens,
            seconds=round(self.seconds, 3),
        )

    @torch.no_grad()
    def evaluate(self, log: Log) -> None:
        """Losses of held-out texts, by language; masks are the same every time."""
        began = time.perf_counter()
        self.model.eval()
        mask = Mask(self.problem.tokens.masking(), self.config.share, torch.Generator().manual_seed(0))
        world = self.accelerator.num_processes
        batches = [
            [(language, row) for row in range(start, min(start + EVALUATED, len(own)))]
            for language, own in enumerate(self.problem.held_out)
            for start in range(0, len(own), EVALUATED)
        ]
        sums = torch.zeros(2, len(self.problem.held_out), dtype=torch.float64, device="cpu")
        for i, places in enumerate(batches):
            ids, begins = self._batch(self.problem.held_out, places)
            seen, chosen = mask(ids, begins)  # drawn by every process: the same for any number of them
            if not chosen.any():  # the batch is only a few words
                chosen = ~torch.isin(ids, mask.special)
                seen = torch.where(chosen, mask.mask, ids)
            if i % world != self.accelerator.process_index:
                continue
            self.doing("measuring held-out losses", i, len(batches))
            losses = self._losses(ids, seen, chosen)
            sums[:, places[0][0]] += torch.tensor([float(losses.double().sum()), len(losses)])
        sums = sums if world == 1 else self._over_processes(sums)
        self.model.train()
        means = (sums[0] / sums[1].clamp(min=1)).tolist()
        held_out = dict(zip(self.problem.languages, means, strict=True))
        found = HeldOut(
            step=self.step, tokens=self.tokens, held_out=held_out, train=dict(self.progress.losses)
        )
        self.evaluations.append(found)
        self.progress.last = found
        log.write(**found.model_dump())
        self._evaluation_seconds = time.perf_counter() - began

    def _due(self, every: int | float) -> bool:
        """Whether the last step passed a point at which something is due. every: steps, or a share."""
        now, total = self.step, self.problem.steps
        return now == total or is_due(every, now, (now - 1) / total, now / total)

    # Progress for a screen

    def estimate(self) -> None:
        """Update the speed and the time left, from the steps of this session."""
        now, (steps, seconds) = self.progress, self._began
        now.step, now.doing = self.step, ""
        pace = (self.seconds - seconds) / max(self.step - steps, 1)
        now.tokens_per_second = self.tokens / self.seconds
        left = self.problem.steps - self.step
        every = self.config.train.evaluate_every
        due = left / every if isinstance(every, int) else left / self.problem.steps / (every or 1)
        evaluation = self._evaluation_seconds
        if math.isnan(evaluation):  # none yet: a guess from the steps
            rows = sum(map(len, self.problem.held_out))
            evaluation = FORWARD * pace * rows / self.config.train.batch_size
        now.seconds_left = left * pace + math.ceil(due) * evaluation

    def doing(self, what: str, done: float = 0, total: float = 0) -> None:
        """Show what is done instead of steps."""
        self.progress.doing, self.progress.done, self.progress.total = what, done, total
        self.show(self.progress)

    # Checkpoints

    def save(self, log: Log) -> None:
        """Write the log up to here, then all that is needed to continue bit for bit."""
        self.doing("saving a checkpoint")
        log.flush()
        main = self.accelerator.is_main_process
        state = {
            "step": self.step,
            "tokens": self.tokens,
            "seconds": self.seconds,
            "model": self.problem.model.state_dict() if main else {},
            "optimizer": self.optimizer.state_dict() if main else {},
            "rows": self.rows.state_dict(),
            "masks": self.generator.get_state(),
            **random_state(),
            "evaluations": [found.model_dump() for found in self.evaluations],
            "losses": dict(self.progress.losses),
        }
        rank, wait = self.accelerator.process_index, self.accelerator.wait_for_everyone
        self.checkpoints.save(self.step, state, rank=rank, wait=wait)

    def resume(self) -> bool:
        """Continue from the newest checkpoint that can be read; returns whether there is one."""
        gather = partial(gathered, self.accelerator)
        found = self.checkpoints.newest(self.accelerator.process_index, self.say, gather=gather)
        if found is None:
            return False
        path, state = found
        add_weights_of_all(path, state)
        with fitting(path):
            self._load(state)
        return True

    def _load(self, state: Mapping[str, Any]) -> None:
        self.problem.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.rows.load_state_dict(state["rows"])
        self.generator.set_state(state["masks"])
        self.step, self.tokens = int(state["step"]), int(state["tokens"])
        self.seconds = float(state["seconds"])
        self.evaluations = [HeldOut(**found) for found in state["evaluations"]]
        self.progress.last = self.evaluations[-1] if self.evaluations else None
        self.progress.losses = dict(state["losses"])
        set_random_state(state)


def _optimizer(config: PretrainConfig, model: Any) -> torch.optim.Optimizer:
    """AdamW; biases and norms do not decay."""
    matrices = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    others = [p for p in model.parameters() if p.requires_grad and p.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.train.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.train.lr, betas=(0.9, 0.98), eps=1e-6, fused=True)
