"""`core.watch`: items pass through unchanged, and are counted now and then."""

from __future__ import annotations

from gradaccord.core.watch import NOBODY, Watch


def test_items_are_counted_on_the_way() -> None:
    told: list[tuple[str, float, float]] = []
    watch = Watch(at=lambda *now: told.append(now))
    assert list(watch.each("reading", range(7), 7, every=3)) == list(range(7))
    assert told == [("reading", 0, 7), ("reading", 3, 7), ("reading", 6, 7)]
    assert list(NOBODY.each("reading", "ab", 2)) == ["a", "b"]
