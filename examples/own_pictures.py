"""Few-shot learning on your own pictures: a folder for each class is all it takes.

Needs `pip install 'gradaccord[train,report]'`. The pictures stand for yours, in the folder `pictures`.
"""

import random
import shlex
import subprocess
import sys
from pathlib import Path

from PIL import Image, ImageDraw

# %% Twenty classes with twelve pictures each: shapes of their own, drawn with a shaky hand.
draw = random.Random(0)
for name in range(20):
    corners = [(draw.uniform(4, 24), draw.uniform(4, 24)) for _ in range(5)]
    folder = Path("pictures") / f"shape{name:02}"
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(12):
        picture = Image.new("L", (28, 28), 255)
        shaky = [(x + draw.gauss(0, 1), y + draw.gauss(0, 1)) for x, y in corners]
        ImageDraw.Draw(picture).line([*shaky, shaky[0]], fill=0, width=2)
        picture.save(folder / f"{number}.png")

# %% MAML on three classes at a time, with one picture of each; then tests on classes never seen.
COMMANDS = """
gradaccord fewshot train --data pictures --ways 3 --shots 1 --iterations 40 --filters 16 --test-tasks 100 --out shapes
gradaccord fewshot eval shapes --shots 5 --tasks 50
"""  # noqa: E501
for command in COMMANDS.strip().splitlines():
    print(f"$ {command}", flush=True)
    subprocess.run([sys.executable, "-m", *shlex.split(command)], check=True)
