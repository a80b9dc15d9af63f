import json
from pathlib import Path

expected = sorted(set(Path("/app/text.txt").read_text().split()))
out = Path("/app/out")


def text(name):
    file = out / name
    return file.read_text() if file.is_file() else ""


rewards = {"words": float(text("words.txt").split() == expected), "count": float(text("count.txt").strip() == "5")}
Path("/logs/verifier/reward.json").write_text(json.dumps(rewards))
