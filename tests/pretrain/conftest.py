"""The encoder that these tests share, pretrained on texts in three scripts."""

import pytest
from pretrain_toy import configured, write_texts


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """A cache of these tests' own."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("GRADACCORD_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def texts(tmp_path_factory, cache):
    return write_texts(tmp_path_factory.mktemp("texts") / "own")


@pytest.fixture(scope="session")
def learned(texts, tmp_path_factory):
    """A run that has learned something: its folder and its results."""
    from gradaccord.pretrain.run import pretrain

    model = {
        "name": "bert", "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 128, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": 64,
    }  # fmt: skip
    train = {"steps": 300, "batch_size": 32, "lr": 8e-3, "evaluate_every": 100, "save_every": 300}
    folder = tmp_path_factory.mktemp("runs") / "learned"
    return folder, pretrain(configured(texts, model=model, train=train), folder)
