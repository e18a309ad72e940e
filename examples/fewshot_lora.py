"""Few-shot text classification with LoRA: from which of five unseen languages is a name?

Needs `pip install 'gradaccord[demo,hf]'`. The names are the Unicode CLDR's, in the package Babel.
"""

from copy import deepcopy
from itertools import islice
from zlib import crc32

import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from gradaccord.data.text.cldr import LANGUAGES, UNSEEN_LANGUAGES, names
from gradaccord.meta import FOMAML, MAML, Episodes, FixedTasks, Reptile, evaluate

# %% A name is the numbers of its parts of one, two and three characters.
WAYS, SHOTS, BUCKETS, LENGTH, WIDTH = 5, 5, 4096, 64, 64


def encoded(languages: tuple[str, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers of each name's character n-grams [names, LENGTH], 0 for padding, and its language."""
    rows, labels = [], []
    for label, language in enumerate(languages):
        for name in names(language):
            text = f"^{name.text.casefold()}$"
            grams = [text[i : i + n].encode() for n in (1, 2, 3) for i in range(len(text) - n + 1)]
            row = [1 + crc32(gram) % (BUCKETS - 1) for gram in grams[:LENGTH]]
            rows.append(row + [0] * (LENGTH - len(row)))
            labels.append(label)
    return torch.tensor(rows), torch.tensor(labels)


class Classifier(nn.Module):
    """The mean of the n-grams' vectors, a hidden layer, and a score for each class."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(BUCKETS, WIDTH, padding_idx=0)
        self.norm, self.hidden = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, classes)

    def forward(self, grams: torch.Tensor) -> torch.Tensor:
        mean = self.embedding(grams).sum(1) / (grams != 0).sum(1, keepdim=True)
        return self.head(self.hidden(self.norm(mean)).tanh())


# %% A small classifier learns 24 languages and is frozen. Test tasks are made of twelve others.
torch.manual_seed(0)
train, test = encoded(UNSEEN_LANGUAGES), encoded(LANGUAGES)
base = Classifier(len(UNSEEN_LANGUAGES))
optimizer = torch.optim.Adam(base.parameters(), lr=0.01)
for _ in range(200):
    rows = torch.randint(len(train[0]), (256,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(base(train[0][rows]), train[1][rows]).backward()
    optimizer.step()
base.head = nn.Linear(WIDTH, WAYS)
tasks = FixedTasks(test, ways=WAYS, shots=SHOTS, queries=10, count=100, dtype=torch.int64)
# %% Three learners look for LoRA weights from which three steps on five names of each language go far.
config = LoraConfig(r=8, lora_alpha=8, target_modules=["hidden", "head"])
accuracies = {}
print("accuracy, %   not meta-trained, adapted   meta-trained, before   adapted")
for kind, inner_lr, outer_lr in ((MAML, 0.5, 0.01), (FOMAML, 0.5, 0.01), (Reptile, 0.02, 0.5)):
    torch.manual_seed(0)
    model = get_peft_model(deepcopy(base), config)
    learner = kind(model, inner_lr=inner_lr, inner_steps=3, adapted=lambda name: "lora_" in name)
    outer = torch.optim.SGD if kind is Reptile else torch.optim.Adam
    optimizer = outer(learner.parameters(), lr=outer_lr)
    untrained = evaluate(learner, tasks)
    episodes = Episodes(train, ways=WAYS, shots=SHOTS, queries=5, tasks=4, dtype=torch.int64)
    for batch in islice(episodes, 100):
        learner.backward(batch)
        optimizer.step()
        learner.after_step()
        optimizer.zero_grad()
    trained = evaluate(learner, tasks)
    accuracies[kind.__name__] = untrained.value, trained.by_step[0], trained.value
    print(f"{kind.__name__:8}{untrained.value:21.1f}{trained.by_step[0]:26.1f}{trained.value:18.1f}")
