"""The documentation's site, as `make site` built it, in a headless browser; and what keeps it from being built."""

from __future__ import annotations

import functools
import http.server
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from e2e.browser import headless, needs_a_browser
from e2e.paths import REPOSITORY
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webdriver import WebDriver
from selenium.webdriver.support.ui import WebDriverWait

SITE = REPOSITORY / "target" / "site"
MKDOCS = REPOSITORY / ".venv-site" / "bin" / "mkdocs"
WIDE, NARROW = (1280, 1000), (520, 1000)
# What is wider than the window, or was asked from another host, or is a picture that did not come.
LOOK = """
const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
const elsewhere = performance.getEntriesByType("resource").map(e => e.name).filter(n => !n.startsWith(location.origin));
const broken = [...document.images].filter(i => !i.complete || i.naturalWidth == 0).map(i => i.src);
const split = [...document.querySelectorAll("td:first-child code")].filter(c => c.getClientRects().length > 1);
return [wide, elsewhere, broken, split.map(c => c.textContent), document.querySelectorAll("h1").length];
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *args: object) -> None:
        """Not to the tests' output."""


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """The site's address: a search needs a server, pages do not."""
    assert (SITE / "index.html").is_file(), "make site builds it"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    """A browser for all tests here."""
    with headless(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def pages() -> list[str]:
    """All pages of the site."""
    return sorted(str(path.relative_to(SITE)) for path in SITE.rglob("*.html") if path.name != "404.html")


@needs_a_browser
@pytest.mark.parametrize(
    "size, of", [(NARROW, pages), (WIDE, lambda: ["index.html", "reference/spark-keys.html"])], ids=["narrow", "wide"]
)
def test_pages_fit_the_window_and_are_whole(
    browser: WebDriver, base: str, size: tuple[int, int], of: Callable[[], list[str]]
) -> None:
    browser.set_window_size(*size)
    found = {}
    assert size == WIDE or len(of()) > 40
    for page in of():
        browser.get(f"{base}/{page}")
        wide, elsewhere, broken, split, titles = browser.execute_script(LOOK)
        said = [line["message"] for line in browser.get_log("browser")]
        if wide > 0 or elsewhere or broken or split or titles != 1 or said:
            found[page] = (wide, elsewhere, broken, split, titles, said)
    assert not found


@needs_a_browser
def test_a_search_finds_a_setting(browser: WebDriver, base: str) -> None:
    browser.set_window_size(*WIDE)
    browser.get(f"{base}/index.html")
    browser.find_element(By.CSS_SELECTOR, "input.md-search__input").send_keys("flashReserve")
    links = WebDriverWait(browser, 60).until(lambda it: it.find_elements(By.CSS_SELECTOR, "a.md-search-result__link"))
    assert any("reference/spark-keys.html" in link.get_attribute("href") for link in links)


@pytest.mark.parametrize(
    "link, said",
    [
        ("../../none.md", "links to none.md, which does not exist"),
        ("../reference/tier.md#nowhere", "does not contain an anchor '#nowhere'"),
    ],
)
def test_a_broken_link_stops_the_build(tmp_path: Path, link: str, said: str) -> None:
    for path in REPOSITORY.iterdir():
        if path.name not in ("docs", "etc", "target", ".git"):
            (tmp_path / path.name).symlink_to(path)
    shutil.copytree(REPOSITORY / "docs", tmp_path / "docs")
    shutil.copytree(REPOSITORY / "etc", tmp_path / "etc")
    with (tmp_path / "docs" / "guide" / "tier.md").open("a") as page:
        page.write(f"\n[a link]({link})\n")
    command = [MKDOCS, "build", "--strict", "-f", tmp_path / "etc" / "site" / "mkdocs.yml", "-d", tmp_path / "site"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0
    assert said in done.stderr
