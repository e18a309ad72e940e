"""What pretraining gives the character encoder: masked-character loss, fine-tuning, unseen languages.

python benchmarks/pretraining.py [--seeds 3] [--steps 160]
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections import Counter

import torch

import gradaccord
from gradaccord.data.examples import Line
from gradaccord.data.text import cldr
from gradaccord.models.multitask import MultiTaskModel
from gradaccord.models.trunks.characters import CharacterTokens, CharacterTrunk
from gradaccord.models.trunks.pretrained_characters import (
    LANGUAGES,
    pretrained_characters,
    training_names,
)
from gradaccord.tasks.evaluation import evaluate
from gradaccord.tasks.kinds.classification import Classification
from gradaccord.tasks.kinds.masked_lm import MaskedLM

TASK = Classification(cldr.KINDS, max_length=32)
RATES = (2e-3, 1e-2)
BATCH, PER_STEP = 12, 6  # names of a language, languages of a step: the demo's


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--pretraining", type=int, default=None, help="pretraining steps")
    settings = parser.parse_args()
    torch.set_num_threads(1)
    options = {} if settings.pretraining is None else {"steps": settings.pretraining}
    started = time.process_time()
    trunk, tokens = pretrained_characters(**options)
    print(
        f"pretrained, or read from the cache: {time.process_time() - started:.0f} s of processor time"
    )
    masked_characters(trunk, tokens)
    fine_tuning(trunk, tokens, settings.seeds, settings.steps)


def masked_characters(trunk: CharacterTrunk, tokens: CharacterTokens) -> None:
    """Nats per masked character of names of test concepts, none of which was read in pretraining."""
    task = MaskedLM(max_length=32)
    print("\nmasked characters of test names, nats each: model, unigrams of the language, of all")
    everything = Counter(c for name in training_names() for c in name)
    for group in (cldr.LANGUAGES, cldr.UNSEEN_LANGUAGES, LANGUAGES):
        losses, own, common = [], [], []
        for language in group:
            names = cldr.names(language)
            lines = [Line(n.text) for n in names if cldr.split_of(n.concept) == "test"]
            encoded = task.encode(lines, tokens)
            fresh = MultiTaskModel(trunk, {"lm": task.new_head(trunk)})
            result = evaluate(fresh, "lm", task, lines, encoded, batch_size=128)
            hidden = [c for p in result.predictions for c in tokens.decode(p["masked"])]
            mine = Counter(c for n in names if cldr.split_of(n.concept) != "test" for c in n.text)
            losses.append(result.scores["loss"])
            own.append(unigram(mine, hidden))
            common.append(unigram(everything, hidden))
        mean = [statistics.mean(values) for values in (losses, own, common)]
        print(f"{len(group):3} languages: {mean[0]:.2f} {mean[1]:.2f} {mean[2]:.2f}")


def unigram(counts: Counter[str], characters: list[str]) -> float:
    """Cross-entropy of characters under their frequencies, one added to each."""
    total = sum(counts.values()) + len(counts) + 1
    return statistics.mean(-math.log((counts[c] + 1) / total) for c in characters)


def fine_tuning(trunk: CharacterTrunk, tokens: CharacterTokens, seeds: int, steps: int) -> None:
    """Accuracy on the problem's languages and on those that it never trains on, one head for all."""
    start = trunk.state_dict()
    print("\naccuracy (%): mean over seeds [each], of the 12 languages trained on and of 24 unseen")
    for rate in RATES:
        for pretrained in (False, True):
            runs = [
                run(seed, steps, rate, tokens, start if pretrained else None) for seed in range(seeds)
            ]
            seen, unseen = zip(*runs, strict=True)
            print(
                f"lr {rate:g}, {'pretrained' if pretrained else 'from scratch'}: "
                f"{statistics.mean(seen):.1f} {[round(s, 1) for s in seen]}, unseen "
                f"{statistics.mean(unseen):.1f} {[round(s, 1) for s in unseen]}",
                flush=True,
            )


def run(
    seed: int, steps: int, rate: float, tokens: CharacterTokens, start: dict[str, torch.Tensor] | None
) -> tuple[float, float]:
    torch.manual_seed(seed)
    trunk = CharacterTrunk(tokens.size)
    if start is not None:
        trunk.load_state_dict(start)
    sets = {language: cldr.dataset(language) for language in cldr.LANGUAGES}
    model = MultiTaskModel(trunk, {"kind": TASK.new_head(trunk)}, dict.fromkeys(sets, "kind"))
    method = gradaccord.Sum(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 20, 1 - step / steps)
    )
    encoded = {name: TASK.encode(each.split("train"), tokens) for name, each in sets.items()}
    names = sorted(encoded)
    generator = torch.Generator().manual_seed(seed)
    model.train()
    for _ in range(steps):
        chosen = [names[i] for i in torch.randperm(len(names), generator=generator)[:PER_STEP]]
        losses = {}
        for name in chosen:
            rows = torch.randperm(len(encoded[name]), generator=generator)[:BATCH]
            batch = encoded[name].batch(rows.tolist())
            losses[name] = lambda name=name, batch=batch: TASK.loss(model(name, batch), batch)[0]
        method.backward(losses)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
    return accuracy(model, tokens, cldr.LANGUAGES), accuracy(model, tokens, cldr.UNSEEN_LANGUAGES)


def accuracy(model: MultiTaskModel, tokens: CharacterTokens, languages: tuple[str, ...]) -> float:
    scores = []
    for language in languages:
        examples = cldr.dataset(language).split("test")
        encoded = TASK.encode(examples, tokens)
        task = cldr.LANGUAGES[0]  # whose head is everybody's
        scores.append(evaluate(model, task, TASK, examples, encoded, batch_size=128).scores["accuracy"])
    return statistics.mean(scores)


if __name__ == "__main__":
    main()
