"""The configuration of pretraining: the keys of its YAML file, with their defaults.

model: {name: bert, hidden_size: 256, num_hidden_layers: 4}    # from scratch; or a folder to continue
tokenizer: {kind: unigram, size: 8000}
texts: {de: german.txt, sw: [swahili/, common-voice-text/sw]}
train: {steps: 20000, lr: 5e-4}
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from gradaccord.data.registry import HUB
from gradaccord.recipes import recipe_texts
from gradaccord.runs.config_files import checked, own_config, read_content
from gradaccord.runs.config_sections import Count, FromName, Named, Positive, Section, Share

Several = list[str]


class ModelConfig(Named):
    """An architecture of transformers with its options (`bert`, `roberta`, `modernbert`, ...), to be
    trained from fresh weights; or a folder or a name on the hub, whose weights are trained further.
    """

    name: str = "bert"


class TokenizerConfig(Section, FromName):
    """A tokenizer to be trained on a sample of the texts, or the name of one that exists."""

    name: str | None = Field(None, description="A folder or a name on the hub, instead of training.")
    kind: Literal["unigram", "wordpiece"] = "unigram"
    size: Annotated[int, Field(ge=16)] = Field(8000, description="Pieces, special ones included.")
    lowercase: bool = False
    coverage: Annotated[float, Field(gt=0.5, le=1)] = Field(
        0.9995, description="Share of the characters that become pieces; rarer ones are unknown."
    )
    characters: Count = Field(4_000_000, description="Characters of text to train on, at most.")

    @model_validator(mode="after")
    def _one_way(self) -> TokenizerConfig:
        given = self.model_fields_set - {"name"}
        changed = [n for n in given if getattr(self, n) != type(self).model_fields[n].default]
        if self.name is not None and changed:
            raise ValueError(
                f"`name` is an existing tokenizer's, `{changed[0]}` is for a new one: leave one out"
            )
        return self


class PretrainTrainConfig(Section):
    """The length of a run, its batches, learning rate and checkpoints."""

    steps: Count | None = Field(None, description="Optimiser steps.")
    epochs: Positive | None = Field(
        None, description="Instead of steps: as many tokens as this many passes over all texts."
    )
    batch_size: Count = Field(64, description="Sequences per step, over all processes.")
    micro_batches: Count = Field(1, description="Parts that a batch is computed in, to save memory.")
    lr: Positive = Field(5e-4, description="The highest learning rate.")
    schedule: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="How the rate falls to 0 after the warm-up, or constant."
    )
    warmup: Share = Field(0.06, description="Share of the run during which the rate rises.")
    weight_decay: Annotated[float, Field(ge=0)] = Field(0.01, description="For matrices only.")
    clip: Positive | None = Field(
        1.0, description="Longer gradients are clipped to this length; null: never."
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="auto: bf16 on a GPU that has it, else fp32."
    )
    evaluate_every: Share | Count = Field(
        0.1, description="Steps, or a share of the run, between held-out losses."
    )
    save_every: Share | Count = Field(
        0.05, description="Steps, or a share of the run, between checkpoints."
    )
    seed: int = Field(0, description="Seed of weights, batches, masks and dropout.")
    threads: Count | None = Field(None, description="Torch threads on the CPU; default: all cores.")

    @model_validator(mode="after")
    def _one_length(self) -> PretrainTrainConfig:
        if self.steps is not None and self.epochs is not None:
            raise ValueError("`steps` and `epochs` both set the length: give one of them")
        return self


class PretrainConfig(Section):
    """A whole run of pretraining."""

    model: ModelConfig = ModelConfig()
    tokenizer: TokenizerConfig | None = Field(
        None, description="Default: the model's own where it is trained further, else a new one."
    )
    texts: dict[str, Several] | Several = Field(
        description="Language -> files, folders, sets of `list data`, hub:NAME. Without languages: a "
        "file or folder is the language of its name, and a set has its own.",
    )
    encoding: str = Field("utf-8", description="Encoding of the text files.")
    leave_out: Several = Field(
        default_factory=list,
        description="Sets or files whose dev and test texts are not trained on; all: every set "
        "below the data folder.",
    )
    held_out: Annotated[float, Field(gt=0, lt=0.5)] = Field(
        0.01, description="Share of each language's texts that the held-out loss is measured on."
    )
    held_out_most: Count = Field(500, description="Held-out texts of a language, at most.")
    balance: Share = Field(
        0.3,
        description="Languages are drawn by p ~ N^balance, for batches and for the tokenizer; 1: by "
        "size, 0: all equally.",
    )
    length: Annotated[int, Field(ge=8)] = Field(128, description="Tokens of a sequence.")
    share: Annotated[float, Field(gt=0, lt=1)] = Field(0.15, description="Share of tokens to predict.")
    whole_words: bool = Field(False, description="Predict all pieces of a word, or none.")
    train: PretrainTrainConfig = PretrainTrainConfig()
    data_folder: Path | None = Field(None, description="Default: --data, or $GRADACCORD_DATA.")

    @field_validator("texts", "leave_out", mode="before")
    @classmethod
    def _as_lists(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {k: [v] if isinstance(v, str) else v for k, v in value.items()}
        return [value] if isinstance(value, str) else value

    @field_validator("texts")
    @classmethod
    def _some(cls, value: Any) -> Any:
        if not value or (isinstance(value, dict) and not all(value.values())):
            raise ValueError("give at least one file, folder or set")
        return value


def read_pretrain_config(path: Path | str, overrides: Sequence[str] = ()) -> PretrainConfig:
    """The configuration in a YAML file or recipe, with overrides, as `train.config_file` reads its own.

    Relative paths in the file start at its folder, those of overrides at the current one.
    """
    content, places = read_content(Path(path), overrides, recipe_texts("pretrain"), _located)
    return checked(PretrainConfig, _located(content, Path.cwd()), places, str(path), "texts")


def read_own_config(path: Path) -> PretrainConfig:
    """The configuration that a run wrote into its folder."""
    return own_config(path, read_pretrain_config)


def _located(content: Any, folder: Path) -> Any:
    """Make paths absolute: a value is a path if it begins with `.` or `~`, or if it exists."""

    def path(given: Any) -> Any:
        if isinstance(given, list):
            return [path(each) for each in given]
        if not isinstance(given, str):
            return given
        hub = given.startswith(HUB)
        found = os.path.normpath(folder / Path(given.removeprefix(HUB)).expanduser())
        if not (given.startswith((".", "~")) or os.path.exists(found)):
            return given
        return HUB + found if hub else found

    def named(given: Any) -> Any:
        return {**given, "name": path(given["name"])} if "name" in given else given

    if not isinstance(content, Mapping):
        return content
    found = dict(content)
    for key in ("model", "tokenizer"):
        if key in found:
            found[key] = named(found[key]) if isinstance(found[key], dict) else path(found[key])
    for key in ("texts", "leave_out", "data_folder"):
        given = found.get(key)
        if isinstance(given, dict):
            found[key] = {language: path(several) for language, several in given.items()}
        elif given is not None:
            found[key] = path(given)
    return found
