"""The data of spark-ml: the same rows each time, in a form that Spark reads as vectors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from harness import data, learnable


def features(rows: object) -> np.ndarray:
    return np.array(rows.column("features").field("values").flatten()).reshape(-1, learnable.WIDTH)


def test_rows_depend_on_their_chunk_alone():
    first, again, other = (learnable.Model().rows(number, 100) for number in (3, 3, 4))
    assert first.equals(again)
    assert not first.equals(other)


def test_single_precision_is_a_choice():
    full, rounded = (features(learnable.Model(single).rows(3, 100)) for single in (False, True))
    assert np.array_equal(rounded, full.astype(np.float32))
    assert not np.array_equal(rounded, full)


def test_labels_can_be_learned_but_not_at_once():
    rows = learnable.Model().rows(0, 20_000)
    numbers, label = features(rows), np.array(rows.column("label"))
    assert 0.2 < label.mean() < 0.8
    weights = np.linalg.lstsq(numbers - numbers.mean(axis=0), label - label.mean())[0]
    right = ((numbers - numbers.mean(axis=0)) @ weights > 0) == (label > label.mean())
    assert right.mean() > 0.75, "a linear model predicts most labels"
    assert np.linalg.cond(np.corrcoef(numbers.T)) > 1000, "gradient descent is not done in a few iterations"


def test_files_name_spark_vectors(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(learnable, "DATA", tmp_path)
    directory = learnable.table(300, 3)
    assert [file.name for file in sorted(directory.iterdir())] == [f"part-{number:05}.parquet" for number in range(3)]
    file = pq.ParquetFile(directory / "part-00001.parquet")
    assert file.metadata.num_rows == 100
    kinds = json.loads(file.metadata.metadata[learnable.SPARK_SCHEMA_KEY])["fields"]
    assert kinds[0]["type"]["class"] == "org.apache.spark.ml.linalg.VectorUDT"
    assert learnable.table(300, 3) == directory
    assert tmp_path != data.DATA
