"""Files with many rows: time and memory up to the first step, the first time and from the cache.

    python benchmarks/large_files.py [--rows 50000 500000 5000000] [--folder DIR] [--write]

Each measurement is a new process that trains a tiny encoder for two steps on a generated csv of two
short sentences a row, cut into train and dev. Time counts from the start of the process, with imports;
`its own` memory is what no file backs (RssAnon), sampled twenty times a second.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import yaml
from measure import _status, markdown, publish, setting

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("n", "r", "sta", "li")]


def write_rows(path: Path, rows: int) -> None:
    """A csv file with header: sentences of 4 to 10 words, the first with the number of its row."""
    draw = random.Random(0)
    phrases = [" ".join(draw.choices(WORDS, k=draw.randint(2, 5))) for _ in range(20_000)]
    with path.open("w", encoding="utf-8") as file:
        file.write("sentence1,sentence2,label\n")
        for row in range(rows):
            a, b, c, d = draw.choices(phrases, k=4)
            file.write(f"{a} {b} {row},{c} {d},{('no', 'maybe', 'yes')[row % 3]}\n")


def write_encoder(folder: Path) -> None:
    """A BERT of 32 dimensions with these words as vocabulary."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    known = {word: number for number, word in enumerate([*special, *WORDS, *map(str, range(10))])}
    known |= {f"##{digit}": len(known) + digit for digit in range(10)}
    tokenizer = Tokenizer(models.WordPiece(known, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )  # fmt: skip
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]",
        sep_token="[SEP]", mask_token="[MASK]", model_max_length=64,
    ).save_pretrained(folder)  # fmt: skip
    size = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    size |= {"vocab_size": len(known), "intermediate_size": 32, "max_position_embeddings": 64}
    config = BertConfig(**size)
    BertModel(config).save_pretrained(folder)


def settings(file: Path, encoder: Path) -> dict[str, object]:
    """A configuration: one task, two steps, a small evaluation."""
    task = {"files": {"train": str(file)}, "kind": "classification", "cut": 0.001}
    train = {"steps": 2, "batch_size": 32, "evaluate_every": 2, "save_every": 2}
    return {"model": str(encoder), "tasks": {"rows": task}, "method": "sum", "train": train}


def work(config: Path, out: Path) -> dict[str, float]:
    """Train; returns time and memory at the end of the first step."""
    from gradaccord.train.config_file import read_config
    from gradaccord.train.run import train_model

    found: dict[str, float] = {}
    own: list[float] = [0.0]

    def look() -> None:
        while not found:
            own[0] = max(own[0], _status("RssAnon"))
            time.sleep(0.05)

    threading.Thread(target=look, daemon=True).start()

    def show(progress: object) -> None:
        if getattr(progress, "step", 0) == 1 and not found:
            found.update(
                wall=time.time() - _started(), processor=time.process_time(),
                own=_status("RssAnon"), peak=max(own[0], _status("RssAnon")), all=_status("VmRSS"),
            )  # fmt: skip

    train_model(read_config(config), out, show=show)
    return found


def _started() -> float:
    import psutil

    return float(psutil.Process().create_time())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[50_000, 500_000, 5_000_000])
    parser.add_argument("--folder", type=Path, help="for files and cache; by default a new one")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        print(json.dumps(work(*map(Path, given.work))))
        return
    table = []
    new = tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR"))
    with new if given.folder is None else nullcontext(given.folder) as place:
        folder = Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        write_encoder(folder / "encoder")
        environment = {**os.environ, "GRADACCORD_CACHE": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
        for rows in given.rows:
            if not (folder / f"{rows}.csv").exists():
                write_rows(folder / f"{rows}.csv", rows)
            config = folder / f"{rows}.yaml"
            config.write_text(yaml.safe_dump(settings(folder / f"{rows}.csv", folder / "encoder")))
            for name in ("the first time", "from the cache"):
                out = folder / f"{rows} {name}"
                command = [sys.executable, __file__, "--work", str(config), str(out)]
                done = subprocess.run(
                    command, env=environment, stdout=subprocess.PIPE, text=True, check=True
                )
                took = json.loads(done.stdout.splitlines()[-1])
                table.append(
                    [f"{rows:,}", name, f"{took['processor']:.1f} s", f"{took['wall']:.1f} s",
                     *(f"{took[key]:,.0f} MB" for key in ("peak", "own", "all"))]
                )  # fmt: skip
                print(" | ".join(table[-1]), file=sys.stderr, flush=True)
    head = [
        "rows",
        "",
        "CPU time",
        "wall time",
        "its own memory, peak",
        "at the first step",
        "with mapped files",
    ]
    sizes = " ".join(map(str, given.rows))
    command = f"benchmarks/large_files.py --rows {sizes}"
    publish("large files", f"{markdown(head, table)}\n\n{setting(command, 1)}", given.write)


if __name__ == "__main__":
    main()
