"""The PyTorch part of docs/guide/python.md runs as it stands there, with workers of all kinds."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import warmset

torch = pytest.importorskip("torch", reason="PyTorch: `make test-torch` (part of `make test-full`) has it")

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "python.md"
ROWS, COLUMNS = 60_000, 16


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> types.ModuleType:
    """What the guide's block defines, in a module that workers can import."""
    (block,) = re.findall(r"^```python\n(import torch\n.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
    directory = tmp_path_factory.mktemp("example")
    (directory / "parts.py").write_text(block[: block.index("\nnames = ")])
    sys.path.insert(0, str(directory))
    import parts

    parts.rest = block[block.index("\nnames = ") :]
    return parts


def test_the_block_of_the_guide_runs(example: types.ModuleType, tmp_path: Path):
    X = np.arange(ROWS * COLUMNS, dtype=np.float64).reshape(ROWS, COLUMNS)
    store = warmset.Store(tmp_path, memory="64MiB", worker_memory="16MiB")
    seen = {"X": X, "store": store, "np": np, **vars(example)}
    exec(compile(example.rest, str(GUIDE), "exec"), seen)
    assert sorted(store) == ["X0", "X1", "X2", "X3"]
    assert seen["epoch"] == 2


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver", None])
def test_workers_read_each_row_once_in_each_epoch(example: types.ModuleType, tmp_path: Path, method: str | None):
    store = warmset.Store(tmp_path, memory="64MiB", worker_memory="16MiB")
    names = [f"X{n}" for n in range(3)]
    for n, name in enumerate(names):
        first = np.arange(n * ROWS, (n + 1) * ROWS, dtype=np.int64)
        store.put(name, np.repeat(first[:, None], COLUMNS, axis=1), batch_rows=1000)
    loader = torch.utils.data.DataLoader(
        example.Parts(store, names),
        batch_size=None,
        num_workers=2 if method else 0,
        multiprocessing_context=method,
    )
    orders = []
    for _ in range(2):
        order = []
        for batch in loader:
            assert batch.shape == (1000, COLUMNS) and batch.dtype == torch.int64
            assert bool((batch == batch[:, :1]).all())
            order.append(int(batch[0, 0]))
        assert sorted(order) == list(range(0, 3 * ROWS, 1000))
        orders.append(order)
    if method:
        assert orders[0] != orders[1], "workers get new seeds in each epoch"


def test_a_model_learns_from_it(example: types.ModuleType, tmp_path: Path):
    dice = np.random.default_rng(1)
    X = dice.normal(size=(ROWS, 4)).astype(np.float32)
    y = X @ np.array([1.0, -2.0, 3.0, 0.5], np.float32)
    store = warmset.Store(tmp_path, memory="64MiB", worker_memory="16MiB")
    names = ["a", "b"]
    for name, rows in zip(names, np.array_split(np.column_stack([X, y]), 2), strict=True):
        store.put(name, rows, batch_rows=500)
    torch.manual_seed(3)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in torch.utils.data.DataLoader(example.Parts(store, names), batch_size=None, num_workers=2):
        loss = torch.nn.functional.mse_loss(model(batch[:, :4])[:, 0], batch[:, 4])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert float(loss.detach()) < 1e-3
    found = model.weight.detach().numpy()[0]
    assert np.allclose(found, [1.0, -2.0, 3.0, 0.5], atol=0.05)
