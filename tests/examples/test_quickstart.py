"""`examples/quickstart.py` runs without a network, and what it shows is so."""

import re
import subprocess
import sys
from pathlib import Path


SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "quickstart.py"


def test_shows_what_it_says(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], cwd=tmp_path, capture_output=True, encoding="utf-8", check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    pairs = re.findall(r"the same ([\d.]+) ([\d.]+) +another ([\d.]+) to ([\d.]+)", done.stdout)
    assert len(pairs) == 3
    for same, other, _, highest in pairs:
        assert min(float(same), float(other)) > float(highest) + 0.1
    # a word of a query is nearest to itself in the same meaning
    assert re.search(
        r"my brother \[left\] the town .\n +he \[left\] the house|my brother \[left\] the town .\n +she \[left\]",
        done.stdout,
    )
    assert "[left] side" in done.stdout or "[left] hand" in done.stdout
    assert re.search(r"my fellow <MASK> .+  Americans, citizens", done.stdout)
    assert not list(tmp_path.iterdir())
