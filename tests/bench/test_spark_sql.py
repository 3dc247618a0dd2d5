"""spark-sql, played by engines that are told what to answer: what is searched, kept, compared, and called a fault."""

from __future__ import annotations

import importlib
import io
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest
from harness import coldstart, contest, machine, tpch
from harness.contest import Player
from harness.engines import Spec
from harness.machine import Run
from harness.process import EngineDied
from harness.progress import Progress

MIB = 1 << 20
NAMES = (
    "options", "choices", "work", "answers", "job", "search", "figures", "report", "chart", "half", "sizes",
)  # fmt: skip
SECONDS = {"warmset": 1.0, "uncompressed": 2.5, "stock": 3.0, "parquet": 2.0, "duckdb": 0.5, "comet": 1.5}


class Fake:
    """An engine that takes its seconds for each query, a tenth more with G1, and may die, lie, or not sort."""

    opened: ClassVar[list[Spec]] = []
    dies: ClassVar[dict[str, str]] = {}
    lies: ClassVar[set[str]] = set()
    fails: ClassVar[set[str]] = set()
    unsorted: ClassVar[set[str]] = set()

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        Fake.opened.append(spec)

    def call(self, step: str, timeout_s: float, **request: object) -> dict:
        name = self.spec.name
        if Fake.dies.get(name) == step:
            raise EngineDied("oom", step, "java.lang.OutOfMemoryError: Java heap space")
        store = {
            "live_bytes": 5 << 30,
            "used_bytes": 1 << 30,
            "written_bytes_total": 0,
            "pool_bytes": 4,
            "huge_bytes": 4,
        }
        storage = {"memory_bytes": 2 << 30, "disk_bytes": 1 << 30, "warmset": store if self.spec.is_warmset else None}
        if request["op"] == "query" and name in Fake.fails and step == "q2":
            return {"failed": "no such function"}
        seconds = SECONDS[name] * (1.1 if "G1" in self.spec.conf.get("spark.driver.extraJavaOptions", "") else 1.0)
        # A rounded average and an exact one; the first five columns, by which queries order rows, are equal but for Q1.
        keys = [["K"] * 5, ["L" if step == "q1" else "K"] * 5]
        ours = [["a", "2.00"], ["b", 1 / 3]]
        theirs = [["a", 2.0], ["b", "0.333333"]]
        rows = [[*key, *rest] for key, rest in zip(keys, theirs if name == "duckdb" else ours, strict=True)]
        if name in Fake.unsorted or (name == "duckdb" and step != "q1"):
            rows.reverse()
        native = {"native_operators": 3 if step == "q2" else 4, "operators": 4} if name == "comet" else {}
        return {
            **native,
            "seconds": seconds,
            "rows": [["z", 1]] if name in Fake.lies else rows,
            "storage": storage,
            "read_bytes": 0,
            "collection_s": 0.0,
        }

    def close(self) -> None:
        """Nothing was started."""


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, ModuleType]]:
    """The benchmark's own modules, by their names, without data, disk or engines."""
    folder = machine.ROOT / "bench" / "spark-sql"
    monkeypatch.syspath_prepend(str(folder))
    for name in NAMES:
        # Another benchmark's modules may have the same names.
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = {name: importlib.import_module(name) for name in NAMES}
    spec = importlib.util.spec_from_file_location("spark_sql_main", folder / "__main__.py")
    found["main"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found["main"])
    monkeypatch.setattr(found["main"], "disk_speed", lambda _: {"read_bytes_per_s": 1e9})
    monkeypatch.setattr(found["main"], "probe_s", lambda: 0.02)
    monkeypatch.setattr(found["work"], "tables", lambda scale, form: {"lineitem": tmp_path, "region": tmp_path})
    monkeypatch.setattr(contest, "open_player", lambda _, spec, limit, *__: Player(spec, limit, Fake(spec)))
    Fake.opened, Fake.dies, Fake.lies, Fake.fails, Fake.unsorted = [], {}, set(), set(), set()
    yield found
    for name in NAMES:
        del sys.modules[name]


ARGUMENTS = [
    "--parts",
    "search,rounds",
    "--engines",
    "stock,parquet",
    "--peers",
    "duckdb",
    "--only",
    "all",
    "--rounds",
    "2",
]


def run(bench: dict[str, ModuleType], tmp_path: Path, *arguments: str) -> tuple[object, list[str]]:
    """Plays what was asked for; answers with the run and its faults."""
    (tmp_path / "run").mkdir(exist_ok=True)
    options = bench["options"].parse([*ARGUMENTS, *arguments])
    found = bench["main"].Bench(options, Run(tmp_path / "run"), tmp_path, Progress(1, stream=io.StringIO()))
    faults = bench["main"].measure(found)
    found.raw |= {"faults": faults, "result": bench["figures"].result(found.raw)}
    return found, faults


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Run, "logs", lambda _: tmp_path)


def test_a_run_compares_with_the_best_stock_engine_and_its_page_shows_it(bench, tmp_path: Path):
    played, faults = run(bench, tmp_path, "--candidates", "3", "--parts", "search,rounds,limit")
    assert faults == []
    result = played.raw["result"]
    assert result["answers_equal"] is True
    assert (result["overflow_geomean"], result["fits_worst"], result["four_geomean"]) == (2.0, 2.0, 2.0)
    assert result["queries"] == 22
    assert result["limit_ratio"] == 1.0
    page = bench["report"].readme(played.raw, "raw.json")
    assert "oom" not in page and "queries **2.00** (its 2 jobs alone: 2.00 – 2.00)" in page
    assert "over Warmset: **2.00** (2.00 – 2.00, 2 and 2 jobs)" in page
    assert "against DuckDB over Parquet alone: 0.50" in page
    assert "Warmset's cache is 5.3 times that (1024 MiB of it on disk, as its setting compresses it there)" in page
    json.dumps(played.raw, allow_nan=False)


def test_every_engine_gets_the_same_number_of_trials_and_its_fastest_setting(bench, tmp_path: Path):
    played, _ = run(bench, tmp_path, "--candidates", "6", "--only", "twice", "--rounds", "1")
    trials = [each["engine"] for each in played.raw["trials"]]
    assert {trials.count(engine) for engine in ("warmset", "stock", "parquet")} == {8}
    assert {each["setting"]["collector"] for each in played.raw["jobs"] if each["setting"]} == {"Parallel"}
    assert [each["rung"] for each in played.raw["trials"]].count(1) == 6


def test_a_setting_that_dies_is_not_chosen(bench, tmp_path: Path):
    Fake.dies = {"stock": "q6"}
    played, faults = run(bench, tmp_path, "--candidates", "3", "--only", "twice")
    assert faults == [], "that a stock engine dies is a figure"
    assert all(each["died"]["reason"] == "oom" for each in played.raw["jobs"] if each["engine"] == "stock")
    assert played.raw["result"]["overflow_geomean"] == 2.0, "against Parquet"
    assert "oom at q6" in bench["report"].readme(played.raw, "raw.json")


def test_where_a_whole_job_dies_the_next_best_setting_is_tried(bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    call = Fake.call

    def dies_with_the_first(self: Fake, step: str, timeout_s: float, **request: object) -> dict:
        if self.spec.name == "stock" and "Parallel" in self.spec.conf["spark.driver.extraJavaOptions"] and step == "q2":
            raise EngineDied("oom", step, "java.lang.OutOfMemoryError: Java heap space")
        return call(self, step, timeout_s, **request)

    monkeypatch.setattr(Fake, "call", dies_with_the_first)
    played, _ = run(bench, tmp_path, "--candidates", "3", "--only", "twice", "--rounds", "1")
    jobs = [each for each in played.raw["jobs"] if each["engine"] == "stock"]
    assert [(each["died"], each["setting"]["collector"]) for each in jobs] == [(None, "G1")]
    whole = [each for each in played.raw["trials"] if each["rung"] == "whole"]
    assert len(whole) == 2 and all(each["died"]["step"] == "q2" for each in whole)


def test_what_a_killed_engine_had_answered_counts_and_one_timing_has_no_interval(bench):
    def job(engine: str, number: int, seconds: float, died: bool = False) -> dict:
        names = bench["work"].NAMES[:2] if died else bench["work"].NAMES
        first = {name: {"seconds": seconds} for name in bench["work"].NAMES}
        return {"engine": engine, "size": "twice", "round": number, "fill_s": 1.0, "complete": not died,
                "passes": [first, {name: {"seconds": seconds} for name in names}],
                "died": {"reason": "oom", "step": "q3"} if died else None}  # fmt: skip

    jobs = [job("warmset", 0, 1.0), job("stock", 0, 3.0), job("disk_only", 0, 2.0, died=True)]
    found = bench["figures"].SizeFigures.of(jobs, "twice")
    ratios = list(found.ratios().values())
    assert ratios[:3] == [2.0, 2.0, 3.0]
    assert found.best_stock_whole() == "stock", "the other finished none"
    assert found.geomeans_by_job() == pytest.approx([2.0 ** (2 / 22) * 3.0 ** (20 / 22)])
    jobs += [job("warmset", 1, 2.0), job("disk_only", 1, 2.0)]
    low, high = found.of(jobs, "twice").geomeans_by_job()
    assert (low, high) == pytest.approx((1.0, 2.0)), "the second job of Warmset's took twice as long"
    assert found.of(jobs, "twice").best_stock_whole() == "disk_only"
    cut = {**job("warmset", 2, 1.0), "passes": [{}, {}], "complete": False}
    for one in [*jobs, cut]:
        for timing in one["passes"][-1].values():
            timing["read_bytes"] = 0
    twice = found.of([*jobs, cut], "twice")
    assert bench["figures"].limits(twice, twice, [1e9])["q1"]["ratio"] == 1.5, "a job that was cut off says nothing"


def test_comet_is_a_peer_and_says_what_it_ran_itself(bench, tmp_path: Path):
    played, faults = run(
        bench, tmp_path, "--candidates", "1", "--only", "twice", "--rounds", "1", "--peers", "duckdb,comet"
    )
    assert faults == [] and played.raw["result"]["answers_equal"] is True
    assert played.raw["result"]["overflow_geomean"] == 2.0, "Parquet's, though Comet takes less: it is no stock engine"
    assert not any(each["engine"] == "comet" for each in played.raw["trials"])
    page = bench["report"].readme(played.raw, "raw.json")
    assert "against Comet over Parquet alone: 1.50" in page
    assert "Comet ran 24 of 25 queries natively from the scan to the last operator; in part: q2 (3 of 4" in page
    assert "Rows of all engines\nare compared as sets; each engine's have to come in the order" in page
    for timing in [each for one in played.raw["jobs"][0]["passes"] for each in one.values()]:
        del timing["ordered"]
    assert "(looked at in 4 of 5 jobs)" in bench["report"].readme(played.raw, "raw.json")


@pytest.mark.parametrize("limit", [1152 * MIB, 1536 * MIB, 7168 * MIB])
def test_comet_is_set_within_the_total_and_can_not_pass_for_warmset(bench, limit: int):
    choices = bench["choices"]
    found = choices.peer("comet", limit, 2, Path("/nowhere"))
    assert (found.level, found.is_warmset, found.worker) == (None, False, "harness.worker")
    assert found.python == machine.ROOT / ".venv-41" / "bin" / "python"
    sizes = [found.conf[key] for key in ("spark.driver.memory", "spark.memory.offHeap.size")]
    assert sum(int(size.removesuffix("m")) * MIB for size in sizes) <= max(limit - 512 * MIB, 576 * MIB)
    assert found.conf["spark.comet.nativeLoadRequired"] == "true"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], True),
        ([["2.00", "b"], ["1.00", "a"], ["1.00", "c"]], True),
        ([["1.000000", "b"], [1.0000001, "a"], [1, "c"]], False),
        ([["1.000000", "b"], [1.0000001, "c"], [1, "c"]], True),
        ([["9.00", "a"], ["10.00", "a"]], False),
        # A cent in ten thousand is more than rounding, and less than what counts as close.
        ([["9999.46", "b"], ["9999.45", "a"]], True),
        ([["a", "a"], ["a", None]], False),
        ([["a"]], False),
    ],
)
def test_rows_are_in_the_order_that_a_query_asks_for(bench, rows: list, expected: bool):
    assert bench["answers"].ordered(rows, ((0, True), (1, False))) is expected


def test_files_are_charged_to_the_engine_that_reads_them(bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    evicted = []
    (tmp_path / "part.parquet").write_bytes(b"-")
    monkeypatch.setattr(coldstart, "evict", lambda paths: evicted.append(sorted(set(paths))))
    monkeypatch.setattr(coldstart, "resident_fraction", lambda _: 0.0)
    plain, _ = run(bench, tmp_path, "--candidates", "1", "--only", "twice", "--rounds", "1")
    assert not evicted
    charged, _ = run(bench, tmp_path, "--candidates", "1", "--only", "twice", "--rounds", "1", "--charge-files")
    assert len(evicted) == len(charged.raw["jobs"]) and all(str(tmp_path / "part.parquet") in each for each in evicted)
    assert charged.file == plain.file.replace(".json", "-charged.json")
    pages = [bench["report"].readme(each.raw, each.file) for each in (plain, charged)]
    assert ["not charged" in page.replace("\n", " ") for page in pages] == [True, False]


def test_files_that_could_not_be_evicted_are_an_error(bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "part.parquet"
    file.write_bytes(b"-" * (1 << 20))
    bench["job"].uncharge({"lineitem": tmp_path})
    assert coldstart.resident_bytes(file) == 0
    file.read_bytes()
    monkeypatch.setattr(coldstart, "evict", lambda _: None)
    with pytest.raises(RuntimeError, match="stayed in the page cache"):
        bench["job"].uncharge({"lineitem": tmp_path})


def test_settings_of_an_earlier_run_need_no_search(bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bench["job"], "uncharge", lambda _: None)
    first, _ = run(bench, tmp_path, "--only", "twice", "--candidates", "3")
    (tmp_path / "earlier.json").write_text(json.dumps(first.raw))
    opened = len(Fake.opened)
    arguments = ("--charge-files", "--settings-from", str(tmp_path / "earlier.json"))
    charged, faults = run(bench, tmp_path, "--only", "twice", "--candidates", "3", "--rounds", "1", *arguments)
    assert faults == []
    assert [spec.name for spec in Fake.opened[opened:]] == ["warmset", "stock", "parquet", "duckdb"]
    assert charged.raw["trials"] == first.raw["trials"]
    assert "were taken from there." in bench["report"].readme(charged.raw, "raw-charged.json")


def test_what_was_tried_before_takes_part_in_a_search(bench, tmp_path: Path):
    """The candidates change from version to version; what an earlier one found may still be the best."""
    played, _ = run(bench, tmp_path, "--only", "twice", "--candidates", "3", "--rounds", "1")
    search, setting = bench["search"], bench["choices"].Setting
    (size,) = played.options.sizes
    trial = next(each for each in played.raw["trials"] if each["engine"] == "parquet")
    fast = {**trial, "setting": setting("parquet", 0.5).raw(), "fill_s": 0.0, "passes": [{"q1": {"seconds": 0.1}}]}
    elsewhere = {**fast, "setting": setting("parquet", 0.4).raw(), "limit_bytes": 7}

    def best(*more: dict) -> float:
        known = [*played.raw["trials"], *more]
        return search.best("parquet", size, played.options, known, lambda *_: pytest.fail("played again")).heap_share

    assert best(fast, elsewhere) == 0.5
    assert best(elsewhere) not in (0.4, 0.5)


def test_first_passes_have_ratios_of_their_own(bench, tmp_path: Path):
    played, _ = run(bench, tmp_path, "--only", "twice", "--candidates", "1", "--rounds", "1")
    for each in played.raw["jobs"]:
        if each["engine"] == "warmset":
            each["passes"][0]["q1"]["seconds"] *= 4
    page = bench["report"].readme(played.raw, played.file)
    assert "| q1 | 1.00 |" in page and "| 2.00 | 0.50 |" in page
    assert "First passes: 1.88, worst 0.50, below 1: q1 (0.50)." in page


def test_off_heap_has_room_for_its_cache(bench):
    choices = bench["choices"]
    limit = 7168 * MIB
    for setting in choices.drawn("off_heap", 3):
        conf = choices.spec(setting, limit, 2, Path("/nowhere")).conf
        size = int(conf["spark.memory.offHeap.size"].removesuffix("m")) * MIB
        assert size >= setting.pool_bytes(limit) - choices.UNROLL_BYTES > size // 2


def test_what_was_broken_off_goes_on_without_playing_anything_twice(bench, tmp_path: Path):
    whole, _ = run(bench, tmp_path, "--only", "twice", "--candidates", "3")
    opened = len(Fake.opened)
    again, _ = run(bench, tmp_path, "--only", "twice", "--candidates", "3")
    assert len(Fake.opened) == opened
    assert again.raw["result"] == whole.raw["result"]
    with pytest.raises(bench["main"].Unfinished):
        run(bench, tmp_path, "--only", "twice", "--candidates", "3", "--rounds", "4", "--minutes", "0")
    assert len(Fake.opened) == opened + 1, "further rounds are added, one job at a time"
    with pytest.raises(bench["main"].Unfinished):
        run(bench, tmp_path, "--only", "twice", "--candidates", "3", "--scale", "9", "--minutes", "0")
    assert len(Fake.opened) == opened + 2
    assert len(json.loads((tmp_path / "run" / "raw-search-rounds.json").read_text())["trials"]) == 1, "starts over"


def test_a_size_is_added_to_a_run_with_the_settings_that_were_found_before(bench, tmp_path: Path):
    first, _ = run(bench, tmp_path, "--only", "twice", "--rounds", "1")
    trials = len(first.raw["trials"])
    added, faults = run(bench, tmp_path, "--only", "four", "--rounds", "1", "--engines", "stock", "--peers", "-")
    assert faults == [] and len(added.raw["trials"]) == trials
    assert [name for name, *_ in added.raw["kept"]["sizes"]] == ["twice", "four"]
    assert (added.raw["kept"]["engines"], added.raw["kept"]["peers"]) == (["stock", "parquet"], ["duckdb"])
    page = bench["report"].tables(added.raw)
    assert "**`twice`**" in page and "**`four`**" in page


@pytest.mark.parametrize(
    ("trouble", "fault"),
    [
        ({"dies": {"warmset": "q5"}}, "Warmset: {'reason': 'oom'"),
        ({"fails": {"warmset"}}, "queries are missing"),
        ({"lies": {"warmset"}}, "other rows than the first engine's"),
        ({"unsorted": {"duckdb"}}, "rows not in the order that was asked for: twice: duckdb q1"),
    ],
)
def test_what_is_missing_or_wrong_fails_the_run(bench, tmp_path: Path, trouble: dict, fault: str):
    for name, value in trouble.items():
        setattr(Fake, name, value)
    _, faults = run(bench, tmp_path, "--candidates", "1", "--only", "twice", "--rounds", "1")
    assert any(fault in each for each in faults), faults


def test_a_time_below_what_is_possible_is_a_fault(bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    call = Fake.call

    def reads(self: Fake, step: str, timeout_s: float, **request: object) -> dict:
        return {**call(self, step, timeout_s, **request), "read_bytes": 3e9}

    monkeypatch.setattr(Fake, "call", reads)
    played, faults = run(bench, tmp_path, "--candidates", "1", "--rounds", "1", "--parts", "rounds,limit")
    assert any("0.33 of the least time" in each for each in faults)
    assert played.raw["result"]["limit_ratio"] is None, "a time below its bound is no distance to it"
    shown = bench["report"].limit_table(played.raw)
    assert "| bound too high |" in shown and "the 0 of TPC-H's 22 queries whose bound holds: –." in shown


def test_break_even_counts_the_queries_until_caching_is_paid(bench):
    def job(engine: str, fill_s: float, seconds: float) -> dict:
        one = {name: {"seconds": seconds} for name in bench["work"].NAMES}
        return {"engine": engine, "size": "twice", "fill_s": fill_s, "passes": [one, one], "died": None,
                "complete": True}  # fmt: skip

    jobs = [job("warmset", 41.0, 1.0), job("parquet", 1.0, 3.0), job("stock", 90.0, 4.0)]
    found = bench["figures"].SizeFigures.of(jobs, "twice")
    assert found.break_even("warmset") == 20.0
    assert found.break_even("stock") is None


def test_footprint_and_materialising_are_against_stock_engines(bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bench["sizes"].data, "table", lambda *_: tmp_path)
    played, faults = run(bench, tmp_path, "--parts", "sizes")
    result = played.raw["result"]
    assert faults == []
    assert (result["footprint_ratio"], result["materialise_ratio"]) == (pytest.approx(1 / 3, abs=1e-3), 0.4)
    assert played.raw["sizes"]["huge_fraction"] == 1.0
    assert result["answers_equal"] is None and result["overflow_geomean"] is None
    assert "| `footprint_ratio` | 0.333 |" in bench["report"].readme(played.raw, "raw-sizes.json")


@pytest.mark.parametrize("share", [0.6, 0.72, 0.8])
def test_the_limit_is_measured_in_the_heap_that_the_cache_outgrows(bench, share: float):
    setting, least, most = bench["choices"].Setting("warmset", share), 1536 * MIB, 7168 * MIB
    moved = setting.moved(least, most)
    assert moved.heap_bytes(most) == setting.heap_bytes(least)
    assert moved.pool_bytes(most) > 5 * setting.pool_bytes(least)


@pytest.mark.parametrize("limit", [1152 * MIB, 4096 * MIB])
def test_every_setting_stays_within_the_total(bench, limit: int):
    choices = bench["choices"]
    for engine in ("warmset", *choices.ENGINES):
        for setting in choices.drawn(engine, 8):
            conf = choices.spec(setting, limit, 2, Path("/nowhere")).conf
            keys = ("spark.driver.memory", "spark.warmset.memory", "spark.memory.offHeap.size")
            granted = sum(int(conf[key].removesuffix("m")) << 20 for key in keys if key in conf)
            assert granted < limit, setting.title(limit)


def test_parameters_change_from_pass_to_pass_and_not_from_engine_to_engine(bench):
    work = bench["work"]
    first, second = (work.queries("warmset", 1.0, number) for number in (0, 1))
    assert [each.name for each in first] == list(work.NAMES)
    assert work.queries("stock", 1.0, 0) == first
    changed = [one.name for one, other in zip(first, second, strict=True) if one.text != other.text]
    assert len(changed) >= len(tpch.NUMBERS)
    assert not any("{" in each.text for each in first)


@pytest.mark.parametrize(("reference_rows", "ok"), [([[1.0, "a"]], True), ([["x"]], False), (None, None)])
def test_half_the_memory_is_judged_by_rows_that_no_cache_has_touched(
    bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reference_rows: list | None, ok: bool | None
):
    half = bench["half"]
    made = {}

    class Scripted:
        def __init__(self, rows: list | None, dies_at: str | None) -> None:
            self.rows, self.dies_at = rows, dies_at

        def call(self, step: str, timeout_s: float, **request: object) -> dict:
            if step == self.dies_at:
                raise EngineDied("oom", step)
            return {"seconds": 1.0, "rows": self.rows}

    def open_player(stack: ExitStack, spec: Spec, *_: object) -> Player:
        if spec.name == half.REFERENCE:
            scripted = Scripted(reference_rows, None if reference_rows else "sums")
        else:
            scripted = Scripted([[1.0, "a"]], None if spec.is_warmset else "materialise")
        made[spec.name] = Player(spec, 1 << 30, scripted)
        return made[spec.name]

    monkeypatch.setattr(contest, "open_player", open_player)
    options = bench["options"].parse(["--quick", "--parts", "half"])
    found = half.play(options, tmp_path, tmp_path, Progress(1, stream=io.StringIO()))
    assert found["ok"] is ok
    assert made["stock"].died and made["warmset_half"].answers
    reference = made[half.REFERENCE].spec
    assert reference.level is None and not reference.is_warmset
