"""Pages of the users' guide: short, all in the nav, linked to pages, and a site of their own."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "client/guide"
PAGES = sorted(GUIDE.glob("*.md"))
GENERATED = {"options.md"}  # As long as there are options.
MAX_LINES, MAX_CHARACTERS = 100, 6_000  # Two screens.


def pages_in_nav() -> list[str]:
    return re.findall(r"(\S+\.md)$", (ROOT / "client/mkdocs.yml").read_text(), re.MULTILINE)


@pytest.mark.parametrize("page", [one for one in PAGES if one.name not in GENERATED],
                         ids=lambda page: page.name)
def test_a_page_is_two_screens_at_most(page):
    text = page.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MAX_LINES
    assert len(text) <= MAX_CHARACTERS


def test_every_page_is_in_the_nav_once():
    assert sorted(pages_in_nav()) == [page.name for page in PAGES]


def test_the_index_leads_to_every_page():
    linked = re.findall(r"\]\(([\w-]+\.md)\)", (GUIDE / "index.md").read_text(encoding="utf-8"))
    assert {*linked, "index.md"} == {page.name for page in PAGES}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if not shutil.which("mkdocs"):
        pytest.skip("mkdocs is not installed")
    out = tmp_path_factory.mktemp("site")
    subprocess.run([ROOT / "deploy/guide/build_guide.sh", out], check=True)
    return out


def test_the_site_has_every_page(site):
    assert {page.with_suffix(".html").name for page in PAGES} == \
        {page.name for page in site.glob("*.html")}


def test_a_link_within_the_site_has_a_target(site):
    for page in site.glob("*.html"):
        text = re.sub("<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r'(?:href|src)="([^":]+)"', text):
            file, _, anchor = target.partition("#")
            there = page.parent / file if file else page
            assert there.is_file(), f"{page.name}: {target}"
            assert not anchor or f'id="{anchor}"' in there.read_text(encoding="utf-8"), \
                f"{page.name}: {target}"


def test_the_site_loads_nothing_from_elsewhere(site):
    loads = re.compile(
        r"""<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*?
              (?:src|data)=["']?(?:https?:)?//\w
          | <link\b[^>]*?href=["']?(?:https?:)?//\w
          | url\(\s*["']?(?:https?:)?//\w
          | @import
          | (?:fetch|importScripts|Worker)\(\s*["'](?:https?:)?//\w""", re.VERBOSE | re.IGNORECASE)
    for file in site.rglob("*"):
        if file.suffix in (".html", ".css", ".js"):
            assert not (found := loads.search(file.read_text(encoding="utf-8"))), \
                f"{file.name}: {found[0]}"
