"""What the loop of `gradaccord pretrain` costs beyond a hand-written one, in tokens a second.

    python benchmarks/pretrain.py [--rounds 12] [--write]

All loops train the same BERT (4 layers, 256 wide, MiniLM's 30,522 pieces) from scratch on sequences of
128 tokens with the same fused AdamW, schedule and clipping. The floor is written by hand and knows one
language: rows of a tensor in memory, masks drawn inside the loop, the head run only on masked tokens.
The third loop is the usual one with transformers: logits of all tokens and the model's own loss. Ours
draws languages by p ~ N^0.3, keeps losses by language, writes the log, checks for Ctrl-C and updates a
screen.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

import torch
from measure import Arm, cpu_times, markdown, publish, ratios, setting
from rich.console import Console
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from gradaccord.cli.pretrain_screen import PretrainScreen
from gradaccord.models.trunks.loading import minilm_folder
from gradaccord.pretrain.config import PretrainConfig
from gradaccord.pretrain.loop import Loop
from gradaccord.pretrain.problem import PretrainProblem, load_problem
from gradaccord.runs.log import Log
from gradaccord.runs.ranks import make_accelerator

FLOOR, ALL = "hand-written loop (floor)", "hand-written, logits of all tokens"
OURS = "gradaccord pretrain"
STEPS = 10_000  # of the schedule; far fewer are taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/README.md")
    given = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        config = configured(Path(folder), given.batch)
        arms: dict[str, Arm] = {
            FLOOR: by_hand(config, load_problem(config), all_logits=False),
            ALL: by_hand(config, load_problem(config), all_logits=True),
            OURS: by_us(config, load_problem(config), Path(folder)),
        }
        times = cpu_times(arms, given.rounds, warmup=2)
    rows = []
    for name, ratio in ratios(times, FLOOR).items():
        typical = sorted(times[name])[given.rounds // 2]
        rows.append([name, f"{given.batch * config.length / typical:,.0f}", f"{1 / ratio:.3f}"])
    table = markdown(["loop", "tokens a CPU second", "tokens a second / floor"], rows)
    command = f"benchmarks/pretrain.py --rounds {given.rounds}"
    publish("pretrain", f"{setting(command, 1)}\n\n{table}", given.write)


def configured(folder: Path, batch: int) -> PretrainConfig:
    """Three languages of made-up words; nothing is evaluated or saved during the run."""
    draw = random.Random(0)
    for i, language in enumerate(("first", "second", "third")):
        words = [
            "".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9)))
            for _ in range(900)
        ]
        lines = (" ".join(draw.choices(words, k=draw.randint(5, 25))) for _ in range(1500 >> i))
        (folder / f"{language}.txt").write_text("\n".join(lines))
    sizes = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4}
    return PretrainConfig.model_validate(
        {
            "model": {"name": "bert", "intermediate_size": 1024, **sizes},
            "tokenizer": str(minilm_folder()),
            "texts": [str(folder)],
            "train": {"steps": STEPS, "batch_size": batch, "evaluate_every": 0, "save_every": 0},
        }
    )


def by_hand(config: PretrainConfig, problem: PretrainProblem, *, all_logits: bool) -> Arm:
    """What one would write."""
    torch.manual_seed(0)
    model, tokenizer = problem.model.train(), problem.tokens.tokenizer
    width = config.length - 1
    flat = problem.train[0].flat
    first = torch.full((len(flat) // width, 1), tokenizer.cls_token_id)
    data = torch.cat([first, flat[: len(first) * width].view(-1, width).long()], 1)
    special = torch.tensor(tokenizer.all_special_ids)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.train.lr, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 0.5) / 600))

    def step() -> None:
        ids = data[torch.randint(len(data), (config.train.batch_size,))]
        chosen = (torch.rand(ids.shape) < config.share) & ~torch.isin(ids, special)
        fate = torch.rand(ids.shape)
        seen = torch.where(chosen & (fate < 0.8), tokenizer.mask_token_id, ids)
        other = torch.randint(len(tokenizer), ids.shape)
        seen = torch.where(chosen & (fate >= 0.8) & (fate < 0.9), other, seen)
        if all_logits:
            loss = model(input_ids=seen, labels=torch.where(chosen, ids, -100)).loss
        else:
            states = model.bert(input_ids=seen).last_hidden_state[chosen]
            loss = cross_entropy(model.cls(states), ids[chosen])
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()

    return step


def by_us(config: PretrainConfig, problem: PretrainProblem, folder: Path) -> Arm:
    """A step of the same loop that the command runs."""
    torch.manual_seed(0)
    screen = PretrainScreen(Console(file=(folder / "screen.log").open("w", encoding="utf-8")))
    accelerator = make_accelerator("fp32", 1)
    loop = Loop(config, problem, folder, accelerator, screen.show, screen.say)
    steps = loop.each_step(Log(folder / "log.jsonl"))
    return lambda: next(steps)


if __name__ == "__main__":
    main()
