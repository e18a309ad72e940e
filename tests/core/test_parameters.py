"""Names and groups of parameters."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy import trunk

from gradaccord.core.parameters import Parameters, Partition, layers_of


def test_layers_are_numbered_blocks_or_the_modules_that_hold_parameters():
    names = [f"0.encoder.layer.{i}.mlp.{j}.weight" for i in range(4) for j in range(2)]
    names += ["0.pooler.dense.bias", "1.weight", "scale", "neck.norm.bias"]
    blocks = [f"0.encoder.layer.{i}" for i in range(4) for _ in range(2)]
    assert layers_of(names) == [*blocks, "0", "1", "scale", "neck.norm"]
    assert layers_of(["0.weight", "0.bias", "2.weight"]) == ["0", "0", "2"]  # a plain nn.Sequential


names_of_parameters = st.lists(st.sampled_from("abc012"), min_size=1, max_size=4).map(".".join)


@given(
    st.lists(names_of_parameters, unique=True, min_size=1, max_size=12),
    st.sampled_from(["model", "layer", "tensor"]),
)
@settings(max_examples=50, deadline=None)
def test_a_partition_covers_every_parameter_exactly_once(names, granularity):
    partition = Partition.of(names, granularity)
    assert len(partition.index) == len(names)
    assert set(partition.index) == set(range(len(partition.groups)))
    if granularity == "tensor":
        assert len(partition.groups) == len(names)


def test_names_do_not_depend_on_wrappers():
    model = trunk()
    names = Parameters.of(model).names
    assert Parameters.of(torch.compile(model, backend="eager")).names == names
    model.layers[0] = torch.compile(model.layers[0], backend="eager")
    assert Parameters.of(model).names == names
