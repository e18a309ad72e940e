"""What is compared: specs as they are written, and their controls."""

import pytest

from gradaccord.compare.budget import EqualBudget
from gradaccord.compare.specs import Spec, parse_methods, short_names, with_controls
from gradaccord.methods.registry import METHODS
from gradaccord.train.config import MethodConfig
from gradaccord.train.config_file import check_config, read_config

BUDGET = EqualBudget(kind="gradients", amount=120)
BASE = check_config({"tasks": {"a": "sst"}, "train": {"epochs": 2}})


@pytest.mark.parametrize(
    "text",
    [
        "pcgrad",
        "dotprod:weight=0.2,every=10",
        "sum+smart",
        "sum+recadam",
        "stl",
        "reptile:outer_lr=0.5",
        "torchjd:weighting=CAGrad,c=0.5",
        "torchjd:weighting=Constant,weights=[1, 2, 5],granularity=layer",
        "torchjd:weighting=CRMOGM,inner=CAGrad,alpha=0.8,c=0.5",
    ],
)
def test_a_spec_is_read_as_it_is_written(text):
    assert str(Spec.parse(text)) == text
    assert "/" not in Spec.parse(text).folder


def test_a_spec_with_a_list_is_found_again():
    text = "torchjd:weighting=Constant,weights=[1, 2, 5]"
    assert list(dict.fromkeys([Spec.parse(text), Spec.parse("sum"), Spec.parse(text)])) == [
        Spec.parse(text),
        Spec.parse("sum"),
    ]


def test_numbers_stay_numbers():
    assert dict(Spec.parse("dotprod:weight=1e-3,mode=exact").options) == {
        "weight": 1e-3,
        "mode": "exact",
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pcgrd", "did you mean 'pcgrad'"),
        ("dotprod:wieght=1", "did you mean 'weight'"),
        ("dotprod:weight", "without a value"),
        ("torchjd", "needs a `weighting`"),
        ("torchjd:weighting=CAGrd,c=1", "did you mean 'CAGrad'"),
        ("torchjd:weighting=CAGrad", "needs the option `c`"),
        ("torchjd:weighting=CAGrad,c=1,norm_ep=1", "did you mean 'norm_eps'"),
        ("torchjd:weighting=SDMGrad", "needs the gradients of two independent batches"),
        ("sum+smrt", "only smart, swep, recadam can be added"),
    ],
)
def test_mistakes_are_answered(text, said):
    with pytest.raises(ValueError, match=said):
        Spec.parse(text)


@pytest.mark.parametrize(
    ("text", "control"),
    [
        ("pcgrad", "sum"),
        ("pcgrad:normalize=true", "sum:normalize=True"),
        ("pcgrad:memory=sketch", "sum"),
        ("sum:normalize=true", "sum"),
        ("mean:normalize=true", "mean"),
        ("config", "sum"),
        ("famo:lr=0.1", "sum"),
        ("averaged:decay=0.9", "sum"),
        ("sequential_averaged:average=swa", "sequential"),
        ("dotprod:weight=0.2,every=10", "paired_sum:every=10"),
        ("sequential_reptile:inner_steps=50", "sequential_reptile:inner_steps=50,outer_lr=1"),
        ("reptile", "reptile:outer_lr=1"),
        ("fomaml", "sequential"),
        ("sam", "sequential"),
        ("sam:batches=2,radius=0.1,every=4", "paired_sum:every=4"),
        ("sum+smart", "sum"),
        ("pcgrad+recadam", "pcgrad"),
    ],
)
def test_the_control_differs_by_the_idea_alone(text, control):
    assert str(Spec.parse(text).control()) == control


@pytest.mark.parametrize(
    "text", ["sum", "stl", "paired_sum", "sequential", "sequential_reptile:outer_lr=1"]
)
def test_controls_need_none(text):
    assert Spec.parse(text).control() is None


def test_controls_are_added_once_and_before_their_methods():
    specs = [Spec.parse(t) for t in ("pcgrad", "dotprod", "gradvac", "sequential_reptile")]
    names = [str(spec) for spec in with_controls(specs, Spec.parse("sum"))]
    assert names == [
        "sum", "pcgrad", "paired_sum", "paired_sum@1.1", "dotprod", "gradvac",
        "sequential_reptile:outer_lr=1", "sequential_reptile",
    ]  # fmt: skip


SPELLINGS = [
    ("sequential_reptile", "sequential-reptile"),
    ("sequential_reptile", "SequentialReptile"),
    ("dotprod", "DotProd"),
    ("dotprod", "Dot-Prod"),
    ("multitask_reptile", "MultiTaskReptile"),
    ("stl", "STL"),
    ("sum+smart", "Sum+SMART"),
    ("sum+recadam", "sum+RecAdam"),
]


@pytest.mark.parametrize(("name", "spelled"), SPELLINGS)
def test_the_controls_of_a_method_do_not_depend_on_how_its_name_is_spelled(name, spelled):
    known, given = Spec.parse(name), Spec.parse(f" {spelled} ")
    assert given == known
    assert str(given) == name
    assert given.controls() == known.controls()
    assert with_controls([given, known], Spec.parse("SUM")) == with_controls([known], Spec.parse("sum"))


@pytest.mark.parametrize("method", [name for name in (*METHODS, "stl") if name != "torchjd"])
def test_every_spelling_of_every_method_is_read_as_its_name_everywhere(method, tmp_path):
    """In YAML, as an override, in Python and in a comparison: one method, one folder, one result."""
    plain = f"method: {method}\ntasks: {{a: sst}}\n"
    for spelled in (method.upper(), method.replace("_", "-"), method.title().replace("_", "")):
        (tmp_path / "a.yaml").write_text(plain.replace(method, spelled))
        assert read_config(tmp_path / "a.yaml").method.name == method
        assert read_config(tmp_path / "a.yaml", [f"method={spelled}"]).method.name == method
        assert read_config(tmp_path / "a.yaml", [f"method.name={spelled}"]).method.name == method
        assert MethodConfig(name=spelled).name == method
        assert Spec.parse(spelled).folder == method


def test_torchjd_may_be_spelled_as_its_makers_do(tmp_path):
    (tmp_path / "a.yaml").write_text("method: {name: TorchJD, weighting: UPGrad}\ntasks: {a: sst}\n")
    assert read_config(tmp_path / "a.yaml").method.name == "torchjd"
    assert str(Spec.parse("TorchJD:weighting=CAGrad,c=0.5")) == "torchjd:weighting=CAGrad,c=0.5"


def test_other_names_of_a_configuration_are_made_canonical_too():
    """A report tells recadam by its name, a run its sampler."""
    config = check_config(
        {
            "tasks": {"a": "sst"},
            "regularize": "SMART",
            "sampler": "Round-Robin",
            "train": {"optimizer": {"name": "RecAdam"}},
        }
    )
    names = (config.regularize[0].name, config.sampler.name, config.train.optimizer.name)
    assert names == ("smart", "round_robin", "recadam")


def test_stl_takes_no_options():
    with pytest.raises(ValueError, match="method 'stl' has no option 'weight'"):
        Spec.parse("STL:weight=1")


def test_dotprod_must_also_beat_a_longer_step():
    """Pitfall 36: the pair control at 1.1 x the learning rate explained a gain of DotProd."""
    plain, longer = Spec.parse("dotprod:every=4").controls()
    assert (str(plain), str(longer)) == ("paired_sum:every=4", "paired_sum:every=4@1.1")
    assert Spec.parse(str(longer)) == longer
    assert longer.config(BASE, 0, BUDGET).train.lr == pytest.approx(1.1 * BASE.train.lr)
    with pytest.raises(ValueError, match="give a number > 0"):
        Spec.parse("sum@fast")


def test_every_run_has_the_same_budget():
    for text in ("sum", "dotprod", "sum+smart", "sum+recadam"):
        config = Spec.parse(text).config(BASE, seed=3, budget=BUDGET)
        assert (config.train.gradients, config.train.epochs, config.train.seed) == (120, None, 3)
    assert Spec.parse("sum+smart").config(BASE, 0, BUDGET).regularize[0].name == "smart"
    assert Spec.parse("sum+recadam").config(BASE, 0, BUDGET).train.optimizer.name == "recadam"


def test_methods_are_split_at_commas_or_semicolons():
    assert parse_methods("pcgrad, gradvac") == [Spec("pcgrad"), Spec("gradvac")]
    dotprod = Spec("dotprod", (("weight", 1), ("every", 4)))
    assert parse_methods("dotprod:weight=1,every=4;sum") == [dotprod, Spec("sum")]
    assert parse_methods("dotprod:weight=1,every=4") == [dotprod]
    with pytest.raises(ValueError, match="is empty"):
        parse_methods(" , ")


@pytest.mark.parametrize(
    ("method", "short"),
    [
        ("sequential_reptile:inner_steps=20,outer_lr=0.3", "seq. reptile (K 20, eta .3)"),
        ("paired_sum@1.1", "paired sum (lr x1.1)"),
        ("sum+smart", "sum + smart"),
        ("stl", "stl"),
    ],
)
def test_names_are_short_and_keep_their_options(method, short):
    assert Spec.parse(method).short == short


def test_two_methods_never_share_a_name():
    assert len(set(short_names(["sum", "pcgrad", "paired_sum", "paired_sum@1.1"]).values())) == 4
