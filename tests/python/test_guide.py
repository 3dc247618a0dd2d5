"""The Python of docs/guide/python.md and the README runs as it stands there, with less data and other directories."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import warmset

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide" / "python.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_blocks_run_one_after_the_other(tmp_path: Path):
    blocks = BLOCK.findall(GUIDE.read_text())
    assert len(blocks) == 5
    # Of the last two tests/python/test_torch.py runs PyTorch's, tests/python/test_spark.py the lines of Spark's.
    code = "\n".join(blocks[:3])
    assert "import torch" in blocks[3] and "warmset.spark" in blocks[4]
    for theirs, ours in {"/mnt/nvme/warm": str(tmp_path / "warm"), "4GiB": "128MiB", "1_000_000": "20_000"}.items():
        assert theirs in code, f"the guide no longer has {theirs}"
        code = code.replace(theirs, ours)
    seen: dict = {}
    exec(compile(code, str(GUIDE), "exec"), seen)
    assert seen["store"].verify() == []
    assert sorted(seen["store"]) == ["X", "labels", "log", "points"]
    right = seen["model"].predict(seen["X"]) == (np.asarray(seen["X"])[:, 0] > 0)
    assert right.mean() > 0.9


def test_the_readme_scans_more_than_memory(tmp_path: Path):
    (code,) = [block for block in BLOCK.findall((ROOT / "README.md").read_text()) if "warmset.Store" in block]
    assert "target/try/store" in code
    seen: dict = {}
    exec(compile(code.replace("target/try/store", str(tmp_path / "store")), "README.md", "exec"), seen)
    scanned = sum(part.sum() for part in seen["store"].scan("X"))
    with pytest.raises(warmset.NoSpaceError):
        seen["store"]["X"]
    expected = np.random.default_rng(0).normal(size=(400_000, 64)).sum()
    assert abs(scanned - expected) < 1e-6 * 400_000
