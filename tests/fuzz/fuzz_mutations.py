"""How hypothesis damages a file: bytes, whole contents, and values inside JSON."""

from __future__ import annotations

import copy
import json
from typing import Any

from hypothesis import strategies as st

DEEP = 100_000
# Values of every type, and those that arithmetic, slicing and lookups stumble over.
VALUES = st.sampled_from(
    [
        None, True, False, 0, 1, -1, 2, 10**9, 2**63, 10**400, -(10**30), 0.5, -1.5, float("inf"),
        float("nan"), "", " ", "0", "1", "x", "O", "B-", "-1", "1e999", "\ud800", "\x00", "ß\u2028",
        "[", "[1]", "{}", '{"text": 1}', "@placeholder", [], [None], [0], ["x"], [[]], [[0, 1]], [[0]],
        [1.5, 2], [{}], {}, {"text": None}, {"text": []}, {"text": ["x"], "answer_start": [None]},
        {"": ""}, {"x": {"x": 1}}, [-1, -1], [5, 2], ["\ud800"],
    ]
)  # fmt: skip
PIECES = st.sampled_from(
    [
        b"", b"\x00", b"\xff", b"\n", b"\n\n", b"\r\n", b"\t", b",", b'"', b"[", b"{", b"}", b"-1",
        b"1e999", b"\xef\xbb\xbf", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x7f\xff\xff\xff", b": ",
        b"- ", b"null", b"&a ", b"*a ", b"!!python/object ", b"../", b"9" * 5000, b"\xed\xa0\x80",
    ]
)  # fmt: skip
WHOLE = st.sampled_from(
    [
        b"", b" ", b"\n", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", b"\x00", b"\x00" * 64, b"[]", b"{}",
        b"null", b"1",
        b'"x"', b"[" * DEEP, b'{"a":' * DEEP, b"[1]", b'{"data": 1}', b'{"data": [1]}', b"\x1f\x8b",
        b"PK\x03\x04",
        b"9" * 5000, b"\xff\xfe[\x00", b"\t", b"\t\n\t", b",\n,",
    ]
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Some bytes changed, cut out, doubled or put in; now and then another content altogether."""
    if draw(st.integers(0, 9)) == 0:
        return draw(WHOLE)
    found = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(found) - 1, 0)))
        end = min(len(found), place + draw(st.sampled_from([0, 1, 1, 2, 4, 8, 64])))
        what = draw(st.sampled_from(["flip", "byte", "cut", "piece", "double", "end"]))
        if what == "flip" and found:
            found[place] ^= 1 << draw(st.integers(0, 7))
        elif what == "byte" and found:
            found[place] = draw(st.integers(0, 255))
        elif what == "cut":
            del found[place:end]
        elif what == "piece":
            found[place:end] = draw(PIECES)
        elif what == "double":
            found[place:place] = found[place:end]
        elif what == "end":
            del found[place:]
    return bytes(found)


@st.composite
def changed(draw: st.DrawFn, value: Any) -> Any:
    """A JSON value with one or two of its members replaced, removed, or doubled."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 2))):
        places = list(_places(value))
        if not places:
            return draw(VALUES)
        holder, key = places[draw(st.integers(0, len(places) - 1))]
        what = draw(st.sampled_from(["value", "value", "value", "remove", "double"]))
        if what == "remove":
            del holder[key]
        elif what == "double" and isinstance(holder, list):
            holder.insert(key, holder[key])
        else:
            holder[key] = copy.deepcopy(draw(VALUES))
    return value


def _places(value: Any) -> Any:
    if isinstance(value, dict | list):
        for key in [*value] if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def as_bytes(value: Any) -> bytes:
    """JSON as Python writes it, lone surrogates and all."""
    return json.dumps(value).encode()


@st.composite
def damaged_json(draw: st.DrawFn, content: bytes) -> bytes:
    """A JSON text with members changed, or damaged as bytes."""
    if draw(st.integers(0, 2)) == 0:
        return draw(damaged(content))
    return as_bytes(draw(changed(json.loads(content))))


@st.composite
def damaged_lines(draw: st.DrawFn, content: bytes) -> bytes:
    """JSON lines with the members of some line changed, or damaged as bytes."""
    if draw(st.integers(0, 2)) == 0:
        return draw(damaged(content))
    rows = [json.loads(line) for line in content.splitlines()]
    place = draw(st.integers(0, len(rows) - 1))
    rows[place] = draw(changed(rows[place]))
    return b"\n".join(map(as_bytes, rows))
