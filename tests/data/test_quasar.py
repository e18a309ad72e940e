"""`text.quasar`: questions joined with their contexts."""

from __future__ import annotations

from data_files import jsonl, put

from gradaccord import data


def test_quasar_t_joins_questions_and_contexts_and_finds_the_answers(tmp_path):
    for split in ("train", "dev"):
        questions = (
            {"uid": "1", "question": "Capital of Italy", "answer": "rome", "tags": []},
            {"uid": "2", "question": "Capital of Mali", "answer": "bamako", "tags": []},
        )
        contexts = (
            {"uid": "1", "contexts": [[0.9, "Rome is old"], [0.5, "to rome , not Romelike"]]},
            {"uid": "2", "contexts": [[0.9, "no such town"]]},
        )
        put(tmp_path, f"quasar-t/questions/{split}_questions.json.gz", jsonl(*questions))
        put(tmp_path, f"quasar-t/contexts/short/{split}_contexts.json.gz", jsonl(*contexts))
    quasar = data.load("quasar-t", tmp_path)
    first = quasar.split("train")[0]
    assert (first.answers, first.starts) == (("Rome", "rome"), (0, 15))
    assert quasar.notes == {"train: questions left out whose answer is in no context": 1}
    assert quasar.counts == {"train": 1, "dev": 2}
    assert (quasar.split("dev")[1].answers, quasar.split("dev")[1].starts) == (("bamako",), ())
