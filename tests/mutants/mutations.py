"""Small changes to the source that a test should notice: one operator, comparison or constant each."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "gradaccord"
PLACES = ("core/**/*.py", "methods/**/*.py", "runs/**/*.py", "data/samplers.py", "data/splits.py",
          "compare/statistics.py")  # fmt: skip
SEED = 20
COMPARISONS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


@dataclass(frozen=True)
class Mutant:
    """One change. function: the outermost function or method it is in, empty outside of all."""

    id: str
    file: str  # below the package
    line: int
    function: str
    before: str
    after: str
    source: bytes = field(repr=False)  # the whole file with the change


def sample(count: int) -> list[Mutant]:
    """So many of all mutants, drawn by a hash with `SEED`: an edit elsewhere draws no others."""
    everything = [each for file in files() for each in mutants_of(file)]
    drawn = sorted(everything, key=lambda each: each.id)[:count]
    return sorted(drawn, key=lambda each: (each.file, each.line, each.id))


def files() -> list[str]:
    """What is mutated."""
    found = {path for place in PLACES for path in SOURCE.glob(place)}
    return sorted(path.relative_to(SOURCE).as_posix() for path in found)


def mutants_of(file: str) -> Iterator[Mutant]:
    """All mutants of a file."""
    source = (SOURCE / file).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        end_line, end = node.end_lineno or node.lineno, node.end_col_offset or 0
        return starts[node.lineno - 1] + node.col_offset, starts[end_line - 1] + end

    seen: Counter[tuple[str, ...]] = Counter()
    for node, around, function, condition in _walk(ast.parse(source), ()):
        start, end = span(node)
        for text in _changes(node, condition):
            first, last = span(around) if isinstance(around, ast.expr) else (start, end)
            if last - first > 90:
                first, last = start, end
            shown = source[first:last], source[first:start] + text.encode() + source[end:last]
            before, after = (" ".join(part.decode().split()) for part in shown)
            where = (file, function, before, after)
            seen[where] += 1
            name = sha256("\n".join((str(SEED), *where, str(seen[where]))).encode()).hexdigest()[:8]
            changed = source[:start] + text.encode() + source[end:]
            yield Mutant(name, file, node.lineno, function, before, after, changed)


Found = Iterator[tuple[ast.expr | ast.stmt, ast.AST, str, bool]]


def _walk(node: ast.AST, names: tuple[str, ...]) -> Found:
    """Nodes that may be changed: the node around, the function, whether it is a condition."""
    for part, value in ast.iter_fields(node):
        if part in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or _left_alone(child):
                continue
            inside = names
            if isinstance(child, ast.ClassDef) or (_is_function(child) and not _in_function(names)):
                mark = "()" if _is_function(child) else ""
                inside = (*names, child.name + mark)  # type: ignore[attr-defined]
            if isinstance(child, ast.BinOp) and isinstance(child.op, ast.BitOr) and not inside:
                continue  # a type
            if isinstance(child, (ast.expr, ast.AugAssign)):
                function = ".".join(inside).replace("()", "") if _in_function(inside) else ""
                yield child, node, function, part in ("test", "ifs")
            yield from _walk(child, inside)


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))


def _in_function(names: tuple[str, ...]) -> bool:
    return any(name.endswith("()") for name in names)


def _left_alone(node: ast.AST) -> bool:
    """Messages, assertions (`strict=` of zip is one), and types."""
    match node:
        case ast.Raise() | ast.JoinedStr() | ast.Assert() | ast.keyword(arg="strict"):
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.Call(func=ast.Attribute(attr="warn") | ast.Name(id="isinstance" | "cast" | "TypeVar")):
            return True
    return False


def _changes(node: ast.AST, condition: bool) -> Iterator[str]:
    """What may stand in the place of a node; conditions are negated, too."""
    match node:
        case ast.Constant(value=bool()):
            yield str(not node.value)
        case ast.Constant(value=int() | float()):
            yield repr(node.value + 1)  # type: ignore[operator]
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            other = COMPARISONS[type(op)]()
            yield f"({ast.unparse(ast.Compare(node.left, [other], node.comparators))})"
        case ast.BinOp() if type(node.op) in OPERATORS and not _is_text(node):
            yield f"({ast.unparse(ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right))})"
        case ast.AugAssign() if type(node.op) in OPERATORS:
            other = OPERATORS[type(node.op)]()
            yield ast.unparse(ast.AugAssign(node.target, other, node.value))
        case ast.BoolOp():
            yield f"({ast.unparse(ast.BoolOp(OPERATORS[type(node.op)](), node.values))})"
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield f"({ast.unparse(node.operand)})"
    negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    swapped = isinstance(node, ast.Compare) and not isinstance(node.ops[0], ORDERS)
    if condition and not negated and not swapped:
        yield f"(not ({ast.unparse(node)}))"


def _is_text(node: ast.BinOp) -> bool:
    """Whether texts, lists or tuples are joined, where every other operator is an error."""
    joined = (ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)
    return any(
        isinstance(side, joined) or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )
