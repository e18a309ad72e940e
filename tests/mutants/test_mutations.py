import ast

import mutations
import pytest
from mutations import SOURCE, mutants_of, sample


def changes(tmp_path, monkeypatch, text):
    monkeypatch.setattr(mutations, "SOURCE", tmp_path)
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    return {(each.function, each.before, each.after) for each in mutants_of("a.py")}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a = b < c", {("b < c", "(b <= c)")}),
        ("a = b is None", {("b is None", "(b is not None)")}),
        ("a = b + c", {("b + c", "(b - c)")}),
        ("a -= b", {("a -= b", "a += b")}),
        ("a = b and c", {("b and c", "(b or c)")}),
        ("if b: pass", {("b", "(not (b))")}),
        ("a = not b", {("not b", "(b)")}),
        ("a = f(1, True)", {("f(1, True)", "f(2, True)"), ("f(1, True)", "f(1, False)")}),
        ("a = [b for b in c if not b]", {("not b", "(b)")}),
        ("a: 1 | 2 = b", set()),
        ("raise ValueError(1 + 1)", set()),
        ("a = f'{b + 1}'", set()),
        ("assert a < b", set()),
        ("a = 'b' + c", set()),
        ("@f(1)\ndef g(a: int | None) -> 1: pass", set()),
    ],
)
def test_operators_comparisons_conditions_and_numbers_change(tmp_path, monkeypatch, text, found):
    assert {(before, after) for _, before, after in changes(tmp_path, monkeypatch, text)} == found


def test_a_mutant_knows_the_outermost_function_that_it_is_in(tmp_path, monkeypatch):
    text = "class A:\n  b = 1\n  def f(self):\n    def g():\n      return -a\n    return g\n"
    assert changes(tmp_path, monkeypatch, text) == {("", "1", "2"), ("A.f", "-a", "(a)")}


def test_the_sample_is_the_same_each_time_and_each_mutant_is_a_whole_file():
    drawn = sample(20)
    assert drawn == sample(20)
    assert {each.id for each in drawn} < {each.id for each in sample(30)}
    for each in drawn:
        before = (SOURCE / each.file).read_text(encoding="utf-8")
        assert ast.dump(ast.parse(each.source)) != ast.dump(ast.parse(before))
