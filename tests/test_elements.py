"""The jar as users install it codes elements of RDDs: generated codecs and the library that is inside it work there."""

from __future__ import annotations

import zipfile
from typing import Any

import pytest
from e2e import paths
from e2e.launch import Launch

FORY, FIRST = 1, 3


def assert_round_trips(seen: dict[str, Any]) -> None:
    """Everything came back equal, by the way that is meant for it."""
    assert all(seen["equal"].values()), seen
    assert {name for name, id_ in seen["ids"].items() if id_ >= FIRST} == {"flat", "module"}
    assert {name for name, id_ in seen["ids"].items() if id_ == FORY} == {"list", "map", "nested", "properties"}


@pytest.mark.usefixtures("only_with_plugin")
def test_elements_round_trip_with_the_jar(launch: Launch, spark_version: str) -> None:
    with launch(spark_version) as child:
        assert_round_trips(child.call("elements.round_trips"))


@pytest.mark.usefixtures("only_with_plugin")
def test_elements_round_trip_on_jdk_25(launch: Launch) -> None:
    home = paths.java_home(25)
    if home is None:
        pytest.skip("no JDK 25 below /usr/lib/jvm")
    with launch("4.3", environment={"JAVA_HOME": str(home)}) as child:
        assert_round_trips(child.call("elements.round_trips"))


def test_the_jar_has_what_it_bundles_under_its_own_name_with_its_licences() -> None:
    with zipfile.ZipFile(paths.plugin_jar()) as jar:
        names = set(jar.namelist())
        notice = jar.read("META-INF/NOTICE").decode()
        manifest = jar.read("META-INF/MANIFEST.MF").decode()
    assert "io/warmset/shaded/fory/Fory.class" in names
    assert not [name for name in names if "org/apache/fory" in name]
    assert {"META-INF/LICENSE", "META-INF/licenses/LICENSE-janino.txt", "META-INF/licenses/LICENSE-kryo.txt"} <= names
    assert "Apache Fory" in notice
    assert "Multi-Release: true" in manifest and "io.warmset.spark" in manifest
