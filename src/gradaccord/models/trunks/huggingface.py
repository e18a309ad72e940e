"""Any Hugging Face encoder as the trunk; of an encoder-decoder, its encoder."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from gradaccord.data.encoded import Batch
from gradaccord.data.files.bad_files import reason
from gradaccord.models.heads import MaskedLMHead
from gradaccord.models.trunks.execution import checkpoint_model
from gradaccord.models.trunks.trunk import Pooling, States, Trunk


class HuggingFaceTrunk(Trunk):
    """A model that `AutoModel` makes, read at its last layer.

    Of an encoder-decoder (T5, BART, Pegasus) the encoder alone is kept. A pooling layer that the
    checkpoint brings is kept for the sake of the file but frozen: heads read the tokens' states.

    pooling: None takes "cls", for encoder-decoders "mean", since their first token is an ordinary one.
    source: where the weights came from, so that a masked-LM head can be found there too.
    """

    def __init__(self, model: Any, pooling: Pooling | None = None, source: str | None = None) -> None:
        super().__init__()
        config = model.config
        self.has_decoder = bool(getattr(config, "is_encoder_decoder", False))
        self.config = config
        self.model: Any = model.get_encoder() if self.has_decoder else model
        self.pooling = checked_pooling(pooling, "mean" if self.has_decoder else "cls")
        self.source = source
        self.hidden = int(config.hidden_size)
        self.dropout = dropout_of(config)
        self.max_length = position_limit(self.model)
        self.takes_types = (getattr(config, "type_vocab_size", 0) or 0) > 1 and (
            "token_type_ids" in inspect.signature(self.model.forward).parameters
        )
        freeze_unlearned(self.model)

    def forward(self, batch: Batch) -> States:
        """The last layer's states."""
        inputs = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
        if self.takes_types and "token_type_ids" in batch:
            inputs["token_type_ids"] = batch["token_type_ids"]
        states: torch.Tensor = self.model(**inputs, return_dict=True).last_hidden_state
        return States(states, batch["attention_mask"], self.pooling)

    def checkpoint(self) -> None:
        """Use the model's own checkpointing."""
        checkpoint_model(self.model)

    def options(self) -> dict[str, Any]:
        """Pooling, and the attention that it computes with."""
        return {"pooling": self.pooling, "attention": self.config._attn_implementation}

    def masked_lm_head(self) -> nn.Module:
        """The head of the checkpoint; weights that the checkpoint lacks are fresh.

        The decoder matrix of a fresh one starts as a copy of the word embeddings.
        """
        import transformers

        if self.has_decoder:
            raise ValueError(
                f"A {type(self.model).__name__} is not a masked-LM encoder: choose one such as BERT."
            )
        if self.source is not None:
            return MaskedLMHead(pretrained("AutoModelForMaskedLM", self.source)[0])
        new: Any = transformers.AutoModelForMaskedLM
        with quiet():
            model = new.from_config(self.config)
        words = self.model.get_input_embeddings().weight
        decoder = model.get_output_embeddings()
        if decoder.weight.shape == words.shape:
            with torch.no_grad():
                decoder.weight.copy_(words)
        return MaskedLMHead(model)

    def save(self, folder: Path) -> None:
        """Write config.json and model.safetensors; of an encoder-decoder, the encoder's part."""
        with quiet():
            if not self.has_decoder:
                self.model.save_pretrained(folder)
                return
            self.config.save_pretrained(folder)
        from safetensors.torch import save_file

        weights = {f"encoder.{name}": value for name, value in self.model.state_dict().items()}
        words = weights.pop("encoder.embed_tokens.weight")  # under the name that both halves share
        weights["shared.weight"] = words
        contiguous = {name: value.detach().contiguous() for name, value in weights.items()}
        save_file(contiguous, str(folder / "model.safetensors"), metadata={"format": "pt"})


def pretrained(
    kind: str, source: str | Path, *, dtype: torch.dtype = torch.float32, attention: str | None = None
) -> tuple[Any, set[str]]:
    """A model of the class `transformers.<kind>` and the names of the weights that the file lacked.

    A folder is read without a network; weights come from safetensors alone, since a pickled
    checkpoint can run code when it is read; code that a checkpoint brings along is never run.
    """
    import transformers

    local = Path(source).is_dir()
    if local:
        _check_files(Path(source))
    options: dict[str, Any] = {} if attention is None else {"attn_implementation": attention}
    try:
        with quiet():
            model, about = getattr(transformers, kind).from_pretrained(
                str(source),
                use_safetensors=True,
                trust_remote_code=False,
                local_files_only=local,
                dtype=dtype,
                output_loading_info=True,
                **options,
            )
    except Exception as error:  # every library that a checkpoint can ask for has kinds of its own
        raise ValueError(_one_sentence(source, local, error)) from error
    return model, set(about["missing_keys"])


def load_encoder(
    source: str | Path,
    pooling: Pooling | None = None,
    attention: str | None = None,
    fresh: bool = False,
) -> HuggingFaceTrunk:
    """The encoder of a folder or of a hub's model.

    fresh: only its architecture, with weights drawn from torch's global generator.
    """
    model, missing = pretrained("AutoModel", source, attention=attention)
    if fresh:
        model, missing = _fresh_as(model), set()
    known = {n for n in missing if "pooler" in n.split(".") or n.startswith("decoder.")}
    check_complete(source, model, missing - known)
    return HuggingFaceTrunk(model, pooling, str(source))


def _fresh_as(model: Any) -> Any:
    """A model of the same class and configuration with fresh weights."""
    with quiet():
        return type(model)._from_config(model.config, dtype=model.dtype)


def check_complete(
    source: str | Path,
    model: Any,
    missing: set[str],
    remedy: str = "config.json and the weights do not belong together",
) -> None:
    """Weights that a checkpoint should have and lacks are an error."""
    if missing:
        raise ValueError(
            f"{source} lacks {len(missing)} weights of a {type(model).__name__}, such as "
            f"{min(missing)!r}: {remedy}."
        )


def checked_pooling(pooling: Any, default: Pooling) -> Pooling:
    """The pooling to use; None is the default."""
    if pooling is None:
        return default
    if pooling not in ("cls", "mean"):
        raise ValueError(f"`pooling` is {pooling!r}: use 'cls' or 'mean'.")
    chosen: Pooling = pooling
    return chosen


def freeze_unlearned(model: nn.Module) -> None:
    """Freeze what no loss can reach: the layer that pools, and position tables given by a formula."""
    for name, module in model.named_modules():
        if name == "pooler" or "Sinusoidal" in type(module).__name__:
            module.requires_grad_(False)


def dropout_of(config: Any) -> float:
    """The dropout that a model was configured with, under whichever name."""
    for name in ("hidden_dropout_prob", "dropout", "dropout_rate"):
        value = getattr(config, name, None)
        if isinstance(value, float | int) and not isinstance(value, bool):
            return float(value)
    return 0.1


def position_limit(model: Any) -> int | None:
    """The longest sequence that there are positions for; None if positions are relative.

    The RoBERTa family counts positions from after the padding's number, and so has fewer.
    """
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if last == "position_embeddings" and isinstance(module, nn.Embedding):
            start = 0 if module.padding_idx is None else module.padding_idx + 1
            return module.num_embeddings - start
    limit = getattr(model.config, "max_position_embeddings", None)
    return int(limit) if isinstance(limit, int) and limit > 0 else None


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from printing progress bars and notices of its own."""
    from transformers.utils import logging as transformers_logging

    logging: Any = transformers_logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def _check_files(folder: Path) -> None:
    if not (folder / "config.json").is_file():
        raise ValueError(f"{folder} holds no config.json: give the folder of a Hugging Face model.")
    if any(folder.glob("*.safetensors")):
        return
    pickled = [path.name for end in ("bin", "pt", "pth", "ckpt") for path in folder.glob(f"*.{end}")]
    if pickled:
        raise ValueError(
            f"{folder} holds its weights as a pickle ({pickled[0]}), which can run code when it is "
            "read: save it again with a recent transformers, model.save_pretrained(folder)."
        )
    raise ValueError(f"{folder} holds no model.safetensors: give the folder of a Hugging Face model.")


def _one_sentence(source: str | Path, local: bool, error: Exception) -> str:
    if local:
        return f"{source} cannot be loaded ({reason(error)}): save the model again."
    return (
        f"{str(source)!r} is neither a built-in name nor a folder, and the hub gave no model with "
        f"safetensors of that name ({reason(error)}): check the name, or give a folder."
    )
