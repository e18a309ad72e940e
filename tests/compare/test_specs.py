"""What is compared, its control, and the statistics of it."""

import math

import numpy as np
import pytest
from scipy.stats import ttest_rel

from gradaccord.compare.specs import Spec, split_methods, with_controls
from gradaccord.compare.statistics import Difference, Mean, holm
from gradaccord.compare.sweep import Range, sweep
from gradaccord.methods.registry import METHODS
from gradaccord.train.config import Method
from gradaccord.train.config_file import check_config, read_config

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
        ("torchjd:weighting=CAGrad", "'CAGrad' needs the option `c`"),
        ("torchjd:weighting=CAGrad,c=1,norm_ep=1", "did you mean 'norm_eps'"),
        ("torchjd:weighting=SDMGrad", "needs the gradients of two independent batches"),
        ("sum+smrt", "what can be added is smart, swep, recadam"),
    ],
)
def test_mistakes_are_answered(text, said):
    with pytest.raises(ValueError, match=said):
        Spec.parse(text)


@pytest.mark.parametrize(
    ("text", "control"),
    [
        ("pcgrad", "sum"),
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
        assert Method(name=spelled).name == method
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
    with pytest.raises(ValueError, match="Method 'stl' has no option 'weight'"):
        Spec.parse("STL:weight=1")


def test_dotprod_must_also_beat_a_longer_step():
    """Pitfall 36: the pair control at 1.1 x the learning rate explained a gain of DotProd."""
    plain, longer = Spec.parse("dotprod:every=4").controls()
    assert (str(plain), str(longer)) == ("paired_sum:every=4", "paired_sum:every=4@1.1")
    assert Spec.parse(str(longer)) == longer
    assert longer.config(BASE, 0, 1).train.lr == pytest.approx(1.1 * BASE.train.lr)
    with pytest.raises(ValueError, match="give a number > 0"):
        Spec.parse("sum@fast")


def test_every_run_has_the_same_budget():
    for text in ("sum", "dotprod", "sum+smart", "sum+recadam"):
        config = Spec.parse(text).config(BASE, seed=3, gradients=120)
        assert (config.train.gradients, config.train.epochs, config.train.seed) == (120, None, 3)
    assert Spec.parse("sum+smart").config(BASE, 0, 1).regularize[0].name == "smart"
    assert Spec.parse("sum+recadam").config(BASE, 0, 1).train.optimizer.name == "recadam"


def test_methods_are_split_at_commas_or_semicolons():
    assert split_methods("pcgrad, gradvac") == ["pcgrad", "gradvac"]
    assert split_methods("dotprod:weight=1,every=4;sum") == ["dotprod:weight=1,every=4", "sum"]
    assert split_methods("dotprod:weight=1,every=4") == ["dotprod:weight=1,every=4"]
    with pytest.raises(ValueError, match="is empty"):
        split_methods(" , ")


def test_p_values_are_those_of_scipy():
    generator = np.random.default_rng(0)
    ours, theirs = generator.normal(1, 1, 6), generator.normal(0, 1, 6)
    difference = Difference.between(dict(enumerate(ours)), dict(enumerate(theirs)))
    assert difference.p == pytest.approx(ttest_rel(ours, theirs).pvalue, rel=1e-10)
    assert difference.mean.value == pytest.approx((ours - theirs).mean())
    assert difference.mean.error == pytest.approx((ours - theirs).std(ddof=1) / math.sqrt(6))


def test_only_seeds_that_both_have_count():
    difference = Difference.between({0: 1.0, 1: 3.0, 2: 5.0}, {1: 1.0, 2: 2.0, 7: 9.0})
    assert difference.mean.count == 2
    assert difference.mean.value == 2.5


def test_one_seed_has_no_error_and_no_p():
    assert math.isnan(Mean.of([3.0]).error)
    assert math.isnan(Difference.between({0: 1.0}, {0: 2.0}).p)
    assert str(Mean.of([])) == "–"


@pytest.mark.parametrize(
    ("ours", "theirs", "why"),
    [
        ([71.0, 73.0], [70.0, 72.0], "2 pairs"),  # equal differences: p was 0
        ([71.0, 74.0], [70.0, 72.0], "2 pairs"),
        ([71.0, 73.0, 75.0], [70.0, 72.0, 74.0], "equal differences"),
        ([70.1, 80.2, 90.3], [69.1, 79.2, 89.3], "equal differences"),  # to rounding
        ([70.0, 71.0, 72.0], [70.0, 71.0, 72.0], "equal differences"),
    ],
)
def test_two_seeds_or_equal_differences_have_no_p_value(ours, theirs, why):
    difference = Difference.between(dict(enumerate(ours)), dict(enumerate(theirs)))
    assert math.isnan(difference.p)
    assert difference.no_p == why
    assert not difference.clear
    assert str(difference) == f"{np.mean(np.subtract(ours, theirs)):+.2f} (no p: {why})"


def reference_holm(ps):
    """Holm (1979) as he states it: reject from the smallest p on while p < level / tests left.

    The corrected p is the lowest level at which a test is rejected, found here by trying levels.
    """
    order = np.argsort(ps)
    found = np.ones(len(ps))
    for place, index in enumerate(order):
        levels = [ps[i] * (len(ps) - k) for k, i in enumerate(order[: place + 1])]
        found[index] = min(max(levels), 1.0)
    return found


def test_holm_is_the_published_procedure_on_a_hand_computed_example():
    # p = 0.01, 0.04, 0.03, 0.005 (the example of R's p.adjust): 0.03, 0.06, 0.06, 0.02
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02], abs=1e-15)
    assert holm([]) == []
    assert holm([0.7, 0.6]) == [1.0, 1.0]


def test_holm_rejects_what_the_step_down_procedure_rejects_at_every_level():
    generator = np.random.default_rng(0)
    for count in (1, 2, 5, 40):
        ps = list(generator.uniform(0, 1, count) ** 3)
        corrected = holm(ps)
        assert corrected == pytest.approx(reference_holm(ps), rel=1e-12)
        for level in (0.01, 0.05, 0.2):
            left = sorted(ps)
            while left and left[0] <= level / len(left):
                left.pop(0)
            assert sum(p <= level for p in corrected) == count - len(left)


def test_tests_without_a_p_value_are_not_counted_by_holm():
    got = holm([0.01, math.nan, 0.02])
    assert (got[0], got[2]) == (0.02, 0.02)
    assert math.isnan(got[1])


def test_ranges():
    assert Range.parse("method.every=2,5,10").values == (2, 5, 10)
    wide = Range.parse("train.lr=1e-5..1e-3")
    assert (wide.low, wide.high, wide.log, wide.whole) == (1e-5, 1e-3, True, False)
    whole = Range.parse("method.inner_steps=10..60")
    assert (whole.whole, whole.log) == (True, False)
    for text, said in (
        ("a", "no values"),
        ("a=5..1", "is empty"),
        ("a=x..y", "not between two numbers"),
    ):
        with pytest.raises(ValueError, match=said):
            Range.parse(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("trian.lr=1e-5..1e-3", "the top level has no key 'trian': did you mean 'train'"),
        ("train.lr.low=1..2", "goes into 'lr', which holds 2e-05"),
    ],
)
def test_a_range_of_what_does_not_exist_is_told(text, said, tmp_path):
    pytest.importorskip("optuna")
    with pytest.raises(ValueError, match=said):
        sweep(BASE, [Range.parse(text)], trials=1, seeds=1, folder=tmp_path, data=None, jobs=1)
