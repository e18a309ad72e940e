"""Hugging Face's Trainer with two data sets, two losses and PCGrad; each loss is logged.

Needs `pip install 'gradaccord[hf]'`. Model, words and texts are made on the spot.
"""

import random

import torch
from transformers import BertConfig, BertModel, TrainingArguments

import gradaccord
from gradaccord.integrations import AlignedTrainer

# %% Two data sets: is the author pleased, and what is the text about?
PLEASED = {"good": 1, "lovely": 1, "great": 1, "bad": 0, "dull": 0, "awful": 0}
TOPICS = {"film": 0, "actor": 0, "soup": 1, "waiter": 1, "room": 2, "lift": 2}
WORDS = ["[PAD]", "the", "was", "really", "and", "so", *PLEASED, *TOPICS]


def texts(answers: dict[str, int], count: int, seed: int) -> list[dict]:
    """Sentences such as "the soup was really awful" as numbers, with the answer for one word."""
    draw, rows = random.Random(seed), []
    for _ in range(count):
        words = ["the", draw.choice(list(TOPICS)), "was", "really", draw.choice(list(PLEASED))]
        (label,) = (answers[word] for word in words if word in answers)
        rows.append({"input_ids": [WORDS.index(word) for word in words], "labels": label})
    return rows


train = {"sentiment": texts(PLEASED, 400, seed=1), "topic": texts(TOPICS, 200, seed=2)}
dev = {"sentiment": texts(PLEASED, 100, seed=3), "topic": texts(TOPICS, 100, seed=4)}


# %% One encoder, a head for each task. A model whose `forward` takes `task` is told the task.
class TwoHeads(torch.nn.Module):
    """A tiny BERT; with a real one, `AutoModel.from_pretrained(...)`."""

    def __init__(self) -> None:
        super().__init__()
        size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
        self.encoder = BertModel(BertConfig(vocab_size=len(WORDS), intermediate_size=64, **size))
        self.heads = torch.nn.ModuleDict(
            {"sentiment": torch.nn.Linear(32, 2), "topic": torch.nn.Linear(32, 3)}
        )

    def forward(self, task: str, input_ids: torch.Tensor, labels: torch.Tensor) -> dict:
        logits = self.heads[task](self.encoder(input_ids).last_hidden_state.mean(1))
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def accuracy(predictions) -> dict[str, float]:
    """Share of right answers."""
    return {"accuracy": float((predictions.predictions.argmax(1) == predictions.label_ids).mean())}


# %% The Trainer. `per_device_train_batch_size` is the batch of one task.
torch.manual_seed(0)
trainer = AlignedTrainer(
    TwoHeads(),
    TrainingArguments(
        "out", max_steps=60, per_device_train_batch_size=16, learning_rate=3e-3, logging_steps=20,
        report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True,
    ),
    method=gradaccord.PCGrad,
    train_dataset=train,
    eval_dataset=dev,
    compute_metrics=accuracy,
)  # fmt: skip
trainer.train()
scores = trainer.evaluate()

# %% What the log holds: every task's loss, the cosine of their gradients, and how often they conflict.
print("step  loss/sentiment  loss/topic  cosine  conflicts")
for line in (line for line in trainer.state.log_history if "loss/topic" in line):
    kept = [line[name] for name in ("loss/sentiment", "loss/topic", "mean_cosine", "conflicts")]
    print(f"{line['step']:4}  {kept[0]:14.3f}  {kept[1]:10.3f}  {kept[2]:6.2f}  {kept[3]:9.2f}")
for task in dev:
    print(f"{task}: {100 * scores[f'eval_{task}_accuracy']:.1f} % right")
