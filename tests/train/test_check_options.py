"""Options of methods, regularisers, samplers, optimisers and models have types."""

import re

import pytest

from gradaccord.runs.config_files import ConfigError
from gradaccord.train.config_file import read_config


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "run.yaml"
    path.write_text("model: minilm\ntasks: {sst: sst}\n")
    return path


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("method={name: dotprod, weight: '0,1'}", "`weight` is '0,1': did you mean '0.1'?"),
        ("method={name: dotprod, weight: inf}", "`weight` is 'inf': it must be a number."),
        ("method={name: dotprod, mode: 3}", "`mode` is 3: it must be 'exact' or 'difference'."),
        ("method={name: dotprod, mode: exakt}", "`mode` is 'exakt': did you mean 'exact'?"),
        ("method={name: sum, measure: nonsense}", "`measure` is 'nonsense': it must be true or false."),
        ("method={name: mean, reduction: sum}", "The method 'mean' has no option 'reduction'"),
        (
            "method={name: reptile, inner_steps: true}",
            "`inner_steps` is True: it must be a whole number",
        ),
        ("method={name: sam, batches: true}", "`batches` is True: it must be a whole number."),
        ("method={name: pcgrad, shared: 3}", "`shared` is 3: it must be a text, a list or null."),
        ("method={name: torchjd, weighting: CAGrad, c: a}", "`c` is 'a': it must be a number."),
        ("regularize={name: smart, weight: '0,1'}", "The regulariser 'smart': `weight` is '0,1'"),
        (
            "regularize={name: swep, hidden_size: 1.5}",
            "`hidden_size` is 1.5: it must be a whole number",
        ),
        ("sampler={name: proportional, q: high}", "The sampler 'proportional': `q` is 'high'"),
        ("sampler=weighted", "The sampler 'weighted' needs the option `weights`"),
        ("train.optimizer={name: adamw, eps: '1,0'}", "The optimiser 'adamw': `eps` is '1,0': did you"),
        ("train.optimizer={name: adamw, betas: [0.9]}", "`betas` is [0.9]: it must be a longer list."),
        ("train.optimizer={name: recadam, k: yes}", "The optimiser 'recadam': `k` is True: it must be"),
        ("model={name: minilm, pooling: 3}", "The model 'minilm': `pooling` is 3"),
    ],
)
def test_an_option_of_another_type_is_refused(file, override, said):
    with pytest.raises(ConfigError, match=re.escape(said)):
        read_config(file, [override])
