"""The valley as one run of an entry."""

from gradaccord.reproduce.special.valley import valley


def test_seed_0_is_the_published_start_and_methods_take_other_ways(tmp_path):
    found = {
        name: valley({"method": name, "steps": 40, "lr": 0.1}, 0, data=None, folder=tmp_path)
        for name in ("sum", "pcgrad")
    }
    assert found["sum"].curve[0].values == found["pcgrad"].curve[0].values
    assert found["sum"].test != found["pcgrad"].test
