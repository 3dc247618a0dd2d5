"""The Warmset tab in a real browser, against a live PySpark application with the plugin on.

Headless Chromium over a cache of twice the memory: reachable, true, inert, and legible in a wide
and a narrow window and in both themes. Screenshots go to the test's temporary directory, or to
WARMSET_SCREENSHOTS to be looked at.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from e2e.browser import headless, needs_a_browser
from e2e.child import SparkChild
from e2e.launch import Launch
from e2e.web import fetch
from scenarios.ui import HOSTILE, PLAIN
from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.ui import WebDriverWait

ROWS = 3_000_000
MEMORY_BYTES = 48 << 20
CONF = {
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.warmset.memory": str(MEMORY_BYTES),
    "spark.warmset.stats.interval": "200ms",
    "spark.metrics.namespace": "ns",
}
T = TypeVar("T")
WIDE, NARROW = (1500, 1400), (520, 1400)

pytestmark = [
    pytest.mark.usefixtures("only_with_plugin"),
    needs_a_browser,
]


@pytest.fixture(scope="module")
def child(launch: Launch, spark_version: str) -> Iterator[SparkChild]:
    """A driver with its UI on."""
    with launch.warm(spark_version, CONF) as started:
        yield started


@pytest.fixture(scope="module")
def base(child: SparkChild) -> str:
    """The address of the UI of an application that has cached more than its memory."""
    seen = child.call("ui.fill", rows=ROWS)
    assert seen["sums"] == [n * (n - 1) // 2 for n in (ROWS, ROWS // 4, ROWS)]
    return seen["url"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    """A browser for all tests here."""
    with headless(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture
def tab(browser: WebDriver, base: str) -> WebDriver:
    """The tab, freshly loaded in a wide window and the light theme."""
    browser.set_window_size(*WIDE)
    browser.get(f"{base}/warmset/")
    browser.execute_script("localStorage.setItem('spark-theme', 'light')")
    browser.get(f"{base}/warmset/")
    return browser


def settled(child: SparkChild, base: str, seconds_max: float = 30.0) -> dict[str, Any]:
    """The tab's totals, once they are what the store says at that time too."""
    deadline = time.monotonic() + seconds_max
    while True:
        totals = fetch(f"{base}/warmset/json/")["totals"]
        stats = child.call("ui.stats")
        if totals == stats:
            return stats
        differing = {k: (totals.get(k), v) for k, v in stats.items() if totals.get(k) != v}
        assert time.monotonic() < deadline, f"the tab and the store do not agree: {differing}"
        time.sleep(0.3)


def looked_at(child: SparkChild, base: str, look: Callable[[], T]) -> tuple[dict[str, Any], T]:
    """The store's figures, and what `look` saw while they stayed as they are."""
    deadline = time.monotonic() + 60
    while True:
        stats = settled(child, base)
        seen = look()
        if child.call("ui.stats") == stats:
            return stats, seen
        assert time.monotonic() < deadline, "the store is never at rest"


def mib(value: int) -> str:
    """Bytes as the tab writes them, from 1 MiB up to 1023 MiB."""
    return f"{value / (1 << 20):.1f} MiB"


def keep_picture(browser: WebDriver, name: str, spark_version: str, tmp_path: Path) -> None:
    """Saves a screenshot of the page down to its end."""
    width = browser.get_window_size()["width"]
    browser.set_window_size(width, browser.execute_script("return document.documentElement.scrollHeight") + 160)
    directory = Path(os.environ.get("WARMSET_SCREENSHOTS", tmp_path))
    path = directory / f"warmset-tab-{name}-spark-{spark_version}.png"
    assert browser.save_screenshot(str(path))
    assert path.stat().st_size > 10_000


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(r, g, b)`, as WCAG 2.1 defines it."""
    channels = [int(c) / 255 for c in re.findall(r"\d+", colour)[:3]]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    """The contrast ratio of two colours, as WCAG 2.1 defines it."""
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


# Before the session of all other tests, which then has its JVM.
def test_where_warmset_is_not_used_the_tab_says_why(
    launch: Launch, spark_version: str, browser: WebDriver, tmp_path: Path
) -> None:
    with launch.warm(spark_version, CONF | {"spark.warmset.dir": f"{tmp_path}/<b>nowhere</b>"}) as stock:
        browser.get(f"{stock.call('ui.url')}/warmset/")
        said = browser.find_element(By.CSS_SELECTOR, ".alert-warning").text
        assert "Warmset is not used" in said and "<b>nowhere</b> is not an existing directory" in said


def test_the_navigation_leads_to_the_tab(browser: WebDriver, base: str) -> None:
    browser.set_window_size(*WIDE)
    browser.get(f"{base}/jobs/")
    browser.find_element(By.LINK_TEXT, "Warmset").click()
    WebDriverWait(browser, 10).until(lambda b: b.find_elements(By.ID, "warmset-budget"))
    assert browser.find_element(By.CSS_SELECTOR, ".container-fluid h3").text == "Warmset"


def test_the_numbers_are_the_stores(child: SparkChild, base: str, tab: WebDriver) -> None:
    def look() -> tuple[dict[str, str], str]:
        tab.refresh()
        row = tab.find_element(By.CSS_SELECTOR, "#warmset-executors tbody tr")
        heads = [head.text for head in tab.find_elements(By.CSS_SELECTOR, "#warmset-executors thead th")]
        cells = [cell.text for cell in row.find_elements(By.TAG_NAME, "td")]
        foot = tab.find_element(By.CSS_SELECTOR, "#warmset-executors tfoot tr").text
        return dict(zip(heads, cells, strict=True)), foot

    stats, (shown, foot) = looked_at(child, base, look)
    assert stats["budget_bytes"] == MEMORY_BYTES
    assert stats["live_bytes"] > stats["resident_bytes"] > 0
    assert shown["Executor"] == "driver"
    for head, key in {"Budget": "budget_bytes", "In use": "used_bytes", "Resident": "resident_bytes"}.items():
        assert shown[head] == mib(stats[key])
    for head, key in {"Promoted": "promotions_total", "Demoted": "demotions_total", "Waits": "waits_total"}.items():
        assert shown[head] == f"{stats[key]:,}"
    assert (shown["I/O"], shown["Pages"]) == (stats["io_backend"], stats["page_policy"])
    assert mib(stats["resident_bytes"]) in foot


def test_the_caches_are_named_and_add_up(child: SparkChild, base: str) -> None:
    stats, rows = looked_at(child, base, lambda: fetch(f"{base}/warmset/json/")["caches"])
    caches = {row["name"]: row for row in rows}
    assert set(caches) == {PLAIN, HOSTILE}
    assert all(row["partitions"] == row["partitions_all"] == 4 for row in caches.values())
    assert sum(row["bytes"] for row in caches.values()) == stats["live_bytes"]
    assert sum(row["resident_bytes"] for row in caches.values()) == stats["resident_bytes"]
    assert caches[PLAIN]["bytes"] > caches[HOSTILE]["bytes"]


def test_a_hostile_name_is_inert(tab: WebDriver) -> None:
    link = tab.find_element(By.LINK_TEXT, HOSTILE)
    with pytest.raises(NoAlertPresentException):
        _ = tab.switch_to.alert.text
    scripts = tab.find_elements(By.CSS_SELECTOR, ".warmset script")
    assert not scripts
    link.click()
    assert "/storage/rdd/" in tab.current_url
    with pytest.raises(NoAlertPresentException):
        _ = tab.switch_to.alert.text


def test_the_browser_has_nothing_to_complain_of(tab: WebDriver) -> None:
    complaints = [entry for entry in tab.get_log("browser") if entry["level"] == "SEVERE"]
    assert not [entry for entry in complaints if "favicon" not in entry["message"]]


def test_columns_sort_and_explain_themselves(tab: WebDriver) -> None:
    head = tab.find_element(By.XPATH, "//table[@id='warmset-caches']//th[.='Cached']")
    names = []
    for _ in range(2):
        head.click()
        names.append(tab.find_element(By.CSS_SELECTOR, "#warmset-caches tbody tr td").text)
    assert set(names) == {PLAIN, HOSTILE}, "a click on a head does not turn the order around"
    assert "Total" in tab.find_element(By.CSS_SELECTOR, "#warmset-caches tfoot tr").text
    ActionChains(tab).move_to_element(head.find_element(By.TAG_NAME, "span")).perform()
    WebDriverWait(tab, 10).until(lambda b: "encoded" in b.find_element(By.CLASS_NAME, "tooltip").text)


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_legible(tab: WebDriver, size: tuple[int, int], theme: str, spark_version: str, tmp_path: Path) -> None:
    tab.set_window_size(*size)
    tab.execute_script(f"localStorage.setItem('spark-theme', '{theme}')")
    tab.refresh()
    page = tab.execute_script("const d = document.documentElement; return [d.scrollWidth, d.clientWidth]")
    assert page[0] <= page[1], "the page is wider than the window"
    background = tab.execute_script("return getComputedStyle(document.body).backgroundColor")
    texts = tab.find_elements(By.CSS_SELECTOR, ".warmset-chart text")
    assert {"0 B", "bytes"} <= {text.text.strip() for text in texts}
    for text in texts:
        assert contrast(text.value_of_css_property("fill"), background) > 4.5
    for line in ("used", "resident", "flash", "budget"):
        stroke = tab.find_element(By.CSS_SELECTOR, f".warmset-chart path.{line}").value_of_css_property("stroke")
        assert contrast(stroke, background) > 2.9, f"{line} is hard to see"
    inside = tab.execute_script(
        "const s = document.querySelector('.warmset-chart').getBoundingClientRect();"
        "return [...document.querySelectorAll('.warmset-chart text')].every(t => {"
        "  const r = t.getBoundingClientRect();"
        "  return r.left >= s.left && r.right <= s.right && r.top >= s.top && r.bottom <= s.bottom; })"
    )
    assert inside, "a label of the chart is cut off"
    keep_picture(tab, f"{theme}-{size[0]}", spark_version, tmp_path)


def test_the_metrics_are_sparks_too(child: SparkChild, base: str) -> None:
    prefix = "ns.driver.plugin.io.warmset.spark.WarmsetPlugin."

    def look() -> dict[str, Any]:
        time.sleep(1.1)
        return fetch(f"{base}/metrics/json/")["gauges"]

    stats, gauges = looked_at(child, base, look)
    numbers = {key: value for key, value in stats.items() if isinstance(value, int)}
    assert {key: gauges[prefix + key]["value"] for key in numbers} == numbers
