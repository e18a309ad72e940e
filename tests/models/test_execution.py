"""Recomputed activations and compiled trunks: the same gradients, less memory, a graph that runs."""

from __future__ import annotations

import logging
from shutil import which
from typing import Any

import pytest
import torch
from small_models import save_checkpoint

import gradaccord
from gradaccord.models.trunks import execution
from gradaccord.models.trunks.characters import CharacterTrunk
from gradaccord.models.trunks.execution import compile_trunk
from gradaccord.models.trunks.images import Conv4Trunk, ResNetTrunk
from gradaccord.models.trunks.loading import load_trunk
from gradaccord.models.trunks.trunk import States, Trunk

KINDS = ("bert", "t5", "bart with its decoder", "characters", "resnet18", "conv4")


@pytest.fixture(autouse=True)
def fresh_compiler() -> None:
    """Whatever other tests of this process have compiled or switched off."""
    torch._dynamo.reset()
    torch.compiler.set_stance("default")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Any:
    return tmp_path_factory.mktemp("switches")


def made(kind: str, folder: Any) -> tuple[Any, dict[str, torch.Tensor]]:
    """A trunk with dropout in float64, and a batch."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    if kind in ("resnet18", "conv4"):
        trunk: Trunk = (
            ResNetTrunk.resnet18(1, small=True) if kind == "resnet18" else Conv4Trunk(size=16)
        )
        size = 8 if kind == "resnet18" else 16
        batch = {"image": torch.randn(3, 1, size, size, generator=generator, dtype=torch.float64)}
    else:
        if kind == "characters":
            trunk = CharacterTrunk(60, width=16)
        else:
            path = folder / kind.split()[0]
            if not path.exists():
                save_checkpoint(path, kind.split()[0], depth=3)
            trunk, _ = load_trunk(path, decoder="decoder" in kind)
        ids = torch.randint(5, 60, (3, 12), generator=generator)
        batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    return trunk.double().train(), batch


def gradients(trunk: Any, batch: dict[str, torch.Tensor]) -> tuple[list[torch.Tensor], int]:
    """With respect to all weights, and the bytes that the forward pass keeps for them."""
    torch.manual_seed(2)
    known = {t.untyped_storage().data_ptr() for t in (*trunk.parameters(), *trunk.buffers())}
    kept = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in known:
            kept[memory.data_ptr()] = memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        states = trunk(batch)
        if hasattr(trunk, "decoded"):
            loss = trunk.decoded(states, batch["input_ids"]).logsumexp(-1).sum()
        else:
            loss = states.pooled.square().sum()
    weights = [p for p in trunk.parameters() if p.requires_grad]
    found = torch.autograd.grad(loss, weights, allow_unused=True)
    return [torch.zeros(()) if g is None else g for g in found], sum(kept.values())


@pytest.mark.parametrize("kind", KINDS)
def test_checkpointing_gives_the_same_gradients_from_less_memory(kind: str, folder: Any) -> None:
    plain, batch = made(kind, folder)
    recomputed, _ = made(kind, folder)
    names = list(recomputed.state_dict())
    recomputed.checkpoint()
    expected, whole = gradients(plain, batch)
    found, less = gradients(recomputed, batch)
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-12, atol=1e-12)
    assert less < 0.6 * whole
    # Running statistics saw the batch once; names are those of before.
    assert list(recomputed.state_dict()) == names
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(recomputed.state_dict()[name], value, rtol=0, atol=0, msg=name)


@pytest.mark.parametrize("kind", ["bert", "conv4"])
def test_checkpointing_saves_the_same_files(kind: str, folder: Any, tmp_path: Any) -> None:
    trunk = made(kind, folder)[0].float()
    for name in ("plain", "recomputed"):
        (tmp_path / name).mkdir()
        trunk.save(tmp_path / name)
        trunk.checkpoint()
    files = sorted(path.name for path in (tmp_path / "plain").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "recomputed").iterdir())
    for file in files:
        one, other = (tmp_path / name / file for name in ("plain", "recomputed"))
        assert one.read_bytes() == other.read_bytes(), file


class Stubborn(Trunk):
    """A trunk that can do neither."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(()))

    def forward(self, batch: dict[str, torch.Tensor]) -> States:
        return States(batch["x"] * self.weight, batch["x"])


def test_a_trunk_without_blocks_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"A Stubborn cannot recompute .* train.checkpointing to false"
    ):
        Stubborn().checkpoint()


def test_a_hugging_face_model_without_the_switch_is_refused() -> None:
    from transformers import ResNetModel

    model = ResNetTrunk.resnet18().model
    assert isinstance(model, ResNetModel)
    with pytest.raises(ValueError, match=r"A ResNetModel cannot recompute its activations: set train"):
        execution.checkpoint_model(model)


@pytest.fixture
def graphs(monkeypatch: Any, caplog: Any) -> Any:
    """Numbers of operations of the graphs that compiled trunks have run, one for each call."""
    run: list[int] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        def called(*given: Any) -> Any:
            run.append(len(module.graph.nodes))
            return module(*given)

        return called

    torch._dynamo.reset()
    caplog.set_level(logging.ERROR, "torch.__trace")  # pages of it, which pytest would keep
    monkeypatch.setattr(execution, "BACKEND", backend)
    yield run
    torch._dynamo.reset()


@pytest.mark.parametrize("kind", ["bert", "characters", "conv4", "characters, recomputed"])
def test_a_compiled_trunk_runs_its_graph_and_gives_the_same_gradients(
    kind: str, folder: Any, graphs: list[int]
) -> None:
    if kind == "bert" and not hasattr(torch.compiler, "is_exporting"):
        pytest.skip("transformers 5.23 needs torch 2.7 inside of a compiled model")
    plain, batch = made(kind.split(",")[0], folder)
    compiled, _ = made(kind.split(",")[0], folder)
    if kind.endswith("recomputed"):
        compiled.checkpoint()
    names = list(compiled.state_dict())
    before = torch.get_rng_state()
    compile_trunk(compiled, batch)
    assert torch.equal(torch.get_rng_state(), before)
    assert list(compiled.state_dict()) == names
    for name, value in plain.state_dict().items():  # the trial has left nothing behind
        torch.testing.assert_close(compiled.state_dict()[name], value, rtol=0, atol=0, msg=name)
    graphs.clear()
    expected, _ = gradients(plain, batch)
    assert not graphs
    found, _ = gradients(compiled, batch)
    assert len(graphs) == 1
    assert graphs[0] > 20
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-12, atol=1e-12)


def test_recomputed_batch_norm_is_not_compiled_wrongly_but_refused(
    folder: Any, graphs: list[int]
) -> None:
    trunk, batch = made("conv4", folder)
    trunk.checkpoint()
    with pytest.raises(
        ValueError, match="A Conv4Trunk cannot be compiled here .* train.compile to fal"
    ):
        compile_trunk(trunk, batch)


@pytest.mark.skipif(which("c++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # torch's own, in its compiler
def test_compiled_code_gives_the_gradients_of_the_plain_one(folder: Any) -> None:
    """By torch's own compiler, on a small network without dropout."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    plain, compiled = (CharacterTrunk(20, width=4, depth=1, dropout=0.0).train() for _ in range(2))
    compiled.load_state_dict(plain.state_dict())
    ids = torch.randint(3, 20, (3, 7))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    compile_trunk(compiled, batch)
    expected, found = gradients(plain, batch)[0], gradients(compiled, batch)[0]
    for a, b in zip(expected, found, strict=True):
        torch.testing.assert_close(b, a, rtol=1e-5, atol=1e-6)
    # It cannot be differentiated twice: DotProd says so and goes on by differences.
    loss = {name: lambda: compiled(batch).pooled.square().sum() for name in ("one", "two")}
    with pytest.warns(UserWarning, match="compiled"):
        report = gradaccord.DotProd(compiled).backward(loss)
    assert report.finite


def test_a_trunk_that_cannot_be_compiled_is_refused_and_left_as_it_was(monkeypatch: Any) -> None:
    def broken(module: Any, inputs: Any) -> Any:
        raise RuntimeError("no compiler\nand much more")

    torch._dynamo.reset()
    monkeypatch.setattr(execution, "BACKEND", broken)
    trunk = Stubborn()
    with pytest.raises(ValueError, match=r"^A Stubborn cannot be compiled here \(.*\)") as caught:
        compile_trunk(trunk, {"x": torch.ones(2, 3, 4)})
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("set train.compile to false.")
    assert trunk({"x": torch.ones(2, 3, 4)}).tokens.sum() == 24
