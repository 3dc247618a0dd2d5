"""Hooks of MkDocs: pages at the tree's root become pages of the site, and links between files links between pages.

In the sources a link is a path relative to its file, as code hosts show them. What the site has no page for is linked
at the code host; what the tree does not have is a warning, and `make site` fails on warnings.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
# Files at the root, and their pages.
AT_ROOT = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
HIDE_NEIGHBOURS = "---\nhide: [navigation]\n---\n"
FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=[)#])")
log = logging.getLogger("mkdocs.plugins.site")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of the root's files."""
    for source, page in AT_ROOT.items():
        text = (ROOT / source).read_text()
        # The first page has no neighbours to show beside it.
        files.append(File.generated(config, page, content=HIDE_NEIGHBOURS + text if page == "index.md" else text))
    return files


def source_of(page: str) -> str:
    """The path in the tree of a page's source."""
    return next((source for source, at in AT_ROOT.items() if at == page), f"docs/{page}")


def target_of(link: str, page: str, config: MkDocsConfig) -> str:
    """A link on a page of the site, from one in its source."""
    if re.match(r"[a-z]+:", link):
        return link
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source_of(page)), link))
    if not (ROOT / path).exists():
        log.warning("%s links to %s, which does not exist", source_of(page), path)
    elif path in AT_ROOT or path.startswith("docs/"):
        found = AT_ROOT.get(path, path.removeprefix("docs/"))
        return posixpath.relpath(found, posixpath.dirname(page) or ".")
    else:
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{config.repo_url}/{kind}/main/{path}"
    return link


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leads links to where they lead on the site; code stays as it is."""
    parts = FENCE.split(markdown)
    for number in range(0, len(parts), 2):
        parts[number] = LINK.sub(lambda found: target_of(found[1], page.file.src_uri, config), parts[number])
    return "".join(parts)
