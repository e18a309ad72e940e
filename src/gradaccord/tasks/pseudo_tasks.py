"""Pseudo-tasks: one data set cut into clusters of examples with similar encoder states."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import torch

from gradaccord.core.checks import whole_number
from gradaccord.data.dataset import Dataset
from gradaccord.data.encoded import Encoded
from gradaccord.data.examples import Example
from gradaccord.data.files.tensor_cache import cached
from gradaccord.models.tokens import Tokens
from gradaccord.models.trunks.trunk import States, Trunk

EVEN = 2.0  # clusters are even if the largest is no more than this many times the smallest
_BLOCK = 4096  # examples tokenised at once
_FORMAT = 1  # to be raised when a clustering changes


@dataclass(frozen=True)
class PseudoTasks:
    """The clusters of a data set, largest first; empty ones are left out.

    datasets: one for each cluster, with its part of the split alone; evaluate a model on the whole set.
    clusters: [examples], the cluster of each example.
    explained: share of the states' variance that the principal components keep.
    converged: whether the best of the restarts did.
    """

    datasets: dict[str, Dataset]
    clusters: torch.Tensor
    explained: float
    converged: bool
    q: float

    @property
    def sizes(self) -> dict[str, int]:
        """Examples in each cluster."""
        counts = self.clusters.bincount(minlength=len(self.datasets)).tolist()
        return dict(zip(self.datasets, counts, strict=True))

    @property
    def weights(self) -> dict[str, float]:
        """The probability of drawing each: equal if sizes are about even, else ~ N_t^q."""
        sizes = self.sizes
        power = 0.0 if max(sizes.values()) <= EVEN * min(sizes.values()) else self.q
        total = sum(size**power for size in sizes.values())
        return {name: size**power / total for name, size in sizes.items()}

    def __str__(self) -> str:
        parts = ", ".join(
            f"{name} {size:,} (p = {self.weights[name]:.2f})" for name, size in self.sizes.items()
        )
        doubt = "" if self.converged else " The mixture did not converge: give more restarts."
        return f"Clusters: {parts}; components keep {self.explained:.0%} of the variance.{doubt}"


def pseudo_tasks(
    dataset: Dataset,
    trunk: Trunk,
    tokens: Tokens,
    *,
    split: str = "train",
    clusters: int = 4,
    dimensions: int = 50,
    restarts: int = 5,
    seed: int = 0,
    q: float = 0.2,
    max_length: int = 128,
    batch_size: int = 32,
    progress: Callable[[int], None] = lambda examples: None,
) -> PseudoTasks:
    """Cluster a split by the states of a frozen encoder (Lee et al. 2022, Aharoni & Goldberg 2020).

    The states of the last layer are averaged over a text's tokens (a question and its context, a
    pair of sentences, as one sequence; as one text where the encoder reads no pairs), reduced to
    `dimensions` principal components and given to a mixture of Gaussians with full covariance, the
    best of `restarts` by likelihood; each example goes to its likeliest Gaussian. The same seed gives
    the same clusters; the result is kept on disk under a hash of the texts, the encoder's weights and
    the options.

    Cost: one forward pass over the split, and a few seconds of clustering per 10,000 examples.
    """
    for name, value in (("clusters", clusters), ("dimensions", dimensions), ("restarts", restarts)):
        whole_number(name, value)
    examples = dataset.split(split)
    if not all(isinstance(example, Example) for example in examples):
        raise ValueError(
            f"`{dataset.name}` ({dataset.kind}) has an example without text: only texts are clustered."
        )
    texts = [example.texts for example in examples]
    components = min(dimensions, trunk.hidden)
    _check_enough(dataset.name, split, len(examples), clusters, components)
    length = min(max_length, tokens.max_length)

    def make() -> tuple[dict[str, torch.Tensor], dict[str, str]]:
        states = mean_states(texts, trunk, tokens, length, batch_size, progress)
        found, explained, converged = cluster(
            states, clusters=clusters, dimensions=components, restarts=restarts, seed=seed
        )
        return {"clusters": found}, {"explained": repr(explained), "converged": str(int(converged))}

    read = (tokens.fingerprint, tokens.has_types)
    options = (_FORMAT, clusters, components, restarts, seed, length, read)
    kept, about = cached("clusters", _digest(options, texts, trunk), make)
    assigned = kept["clusters"].long()
    names = [f"{dataset.name}.{number + 1}" for number in range(int(assigned.max()) + 1)]
    return PseudoTasks(
        datasets={
            name: _part(dataset, name, split, (assigned == number).nonzero().flatten().tolist())
            for number, name in enumerate(names)
        },
        clusters=assigned,
        explained=float(about["explained"]),
        converged=about["converged"] == "1",
        q=q,
    )


def mean_states(
    texts: Sequence[tuple[str, str | None]],
    trunk: Trunk,
    tokens: Tokens,
    max_length: int,
    batch_size: int = 32,
    progress: Callable[[int], None] = lambda examples: None,
) -> torch.Tensor:
    """[texts, hidden]: the mean over each text's tokens of the last layer's states, without dropout."""
    device = next(trunk.parameters()).device
    states = torch.empty(len(texts), trunk.hidden, device="cpu")
    was_training = trunk.training
    trunk.eval()
    try:
        with torch.no_grad():
            for start, encoded in _encoded(texts, tokens, max_length):
                order = encoded.lengths.argsort(descending=True, stable=True)
                for places in torch.split(order, batch_size):
                    batch = encoded.batch(places.tolist())
                    found = trunk({name: part.to(device) for name, part in batch.items()})
                    mean = States(found.tokens, found.mask, "mean").pooled
                    states[start + places] = mean.float().cpu()
                    progress(len(places))
    finally:
        trunk.train(was_training)
    return states


def cluster(
    states: torch.Tensor, *, clusters: int, dimensions: int, restarts: int, seed: int
) -> tuple[torch.Tensor, float, bool]:
    """The cluster of each state, numbered from the largest; the variance kept; whether it converged."""
    from sklearn.decomposition import PCA
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    reduction = PCA(dimensions, random_state=seed)
    reduced = reduction.fit_transform(states.double().numpy())
    # On a scale of 1, so that the floor that scikit-learn adds to variances is small beside them.
    reduced = reduced / max(float(reduced[:, 0].std()), 1e-12)
    mixture = GaussianMixture(
        clusters, covariance_type="full", n_init=restarts, max_iter=200, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # reported in the result
        found = torch.from_numpy(mixture.fit_predict(reduced))
    rank = found.bincount(minlength=clusters).argsort(descending=True, stable=True).argsort()
    explained = float(reduction.explained_variance_ratio_.sum())
    return rank[found], explained, bool(mixture.converged_)


def _check_enough(name: str, split: str, count: int, clusters: int, dimensions: int) -> None:
    # A full covariance has an inverse only with more examples than dimensions.
    needed = clusters * (dimensions + 1)
    if count >= needed:
        return
    fit = count // clusters - 1
    remedy = f"set `dimensions` to at most {fit}" if fit >= 1 else "give more examples"
    raise ValueError(
        f"The split {split!r} of `{name}` has {count} examples, and {clusters} clusters in "
        f"{dimensions} dimensions need {needed}: {remedy}, or fewer `clusters`."
    )


def _encoded(
    texts: Sequence[tuple[str, str | None]], tokens: Tokens, max_length: int
) -> Iterator[tuple[int, Encoded]]:
    paired = texts[0][1] is not None and tokens.reads_pairs
    for start in range(0, len(texts), _BLOCK):
        block = texts[start : start + _BLOCK]
        seconds = [second or "" for _, second in block] if paired else None
        firsts = [pair[0] if paired else " ".join(filter(None, pair)) for pair in block]
        encodings = tokens.encode(firsts, seconds, max_length=max_length)
        yield (
            start,
            Encoded.single(
                [encoding.ids for encoding in encodings],
                [encoding.type_ids for encoding in encodings] if tokens.has_types else None,
                pad=tokens.pad,
            ),
        )


def _digest(options: tuple[Any, ...], texts: Sequence[Any], trunk: Trunk) -> str:
    digest = blake2b(repr(options).encode(), digest_size=20)
    for start in range(0, len(texts), _BLOCK):
        digest.update(repr(texts[start : start + _BLOCK]).encode("utf-8", "surrogatepass"))
    for name, weight in trunk.state_dict().items():
        digest.update(name.encode())
        digest.update(weight.detach().cpu().contiguous().view(torch.uint8).numpy())
    return digest.hexdigest()


def _part(dataset: Dataset, name: str, split: str, places: Sequence[int]) -> Dataset:
    examples = dataset.splits[split]
    return dataclasses.replace(dataset, name=name, splits={split: [examples[i] for i in places]})
