"""The page at "/" of the metrics port: what it serves, and what a real browser makes of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
from pathlib import Path

import pytest

from daemon import Daemon, wait_for
from jobs import ENDLESS, QUICK

MOST_STREAMS = 4
# Beginnings of the addresses of other servers' scripts and styles.
FOREIGN = ("http:", "https:", "//")


@contextlib.contextmanager
def asked(daemon, path):
    connection = http.client.HTTPConnection(daemon.metrics_address, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", path)
        yield connection.getresponse()


def body(daemon, path):
    with asked(daemon, path) as answer:
        assert answer.status == 200, path
        return answer.read().decode()


def test_the_page_needs_nothing_from_elsewhere(daemon):
    for path in ("/", "/page.css", "/page.js"):
        text = body(daemon, path)
        text = text.replace("http://www.w3.org/2000/svg", "")  # A name, not an address.
        assert not any(f'"{scheme}' in text or f"({scheme}" in text for scheme in FOREIGN), path


def test_the_state_has_jobs_and_their_epochs(daemon):
    job = daemon.json(*QUICK)
    def current():
        shown = json.loads(body(daemon, "/api/state"))["jobs"][0]
        return shown if shown["id"] == job["id"] and shown["state"] == "SUCCEEDED" else None
    shown = wait_for(current, "the page to know the job")
    assert [epoch["loss"] for epoch in shown["epochs"]] == \
        [epoch["loss"] for epoch in job["report"]["epochs"]]
    assert shown["strategy"]
    assert str(daemon.data_dir) not in json.dumps(shown)


def test_streams_leave_the_metrics_alone(daemon):
    with contextlib.ExitStack() as streams:
        for _ in range(MOST_STREAMS):
            stream = streams.enter_context(asked(daemon, "/api/events"))
            assert stream.status == 200
            assert stream.readline().startswith(b'data: {"jobs":')
        with asked(daemon, "/api/events") as refused:
            assert refused.status == 503
        for _ in range(20):
            assert "hearth_build_info" in daemon.metrics()
        assert "<title>Hearth</title>" in body(daemon, "/")


def test_a_daemon_with_streams_stops(start_daemon):
    daemon = start_daemon()
    with asked(daemon, "/api/events") as stream:
        stream.readline()
        daemon.stop()


in_browser = pytest.mark.full("page")


@pytest.fixture(scope="module")
def browser():
    pytest.importorskip("selenium", reason="selenium is not installed")
    from selenium import webdriver
    driver = shutil.which("chromedriver")
    if driver is None or shutil.which("chromium") is None:
        pytest.skip("no browser (Debian: chromium and chromium-driver)")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--force-prefers-reduced-motion"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options, webdriver.ChromeService(driver))
    yield started
    started.quit()


@pytest.fixture
def page(browser, daemon):
    """The page, with a job that runs; the others have ended."""
    daemon.json(*QUICK)
    job = daemon.json(*ENDLESS, "--strategy", "gnndrive", "--cpu-cache", "64KiB", "--fanouts",
                      "5,5", "--hidden", "16", "--detach")["id"]
    daemon.wait_for_batches(job, 1)
    browser.set_window_size(1100, 1400)
    browser.get(f"http://{daemon.metrics_address}/")
    wait_for(lambda: text(browser, "connection") == "Live.", "the page to be live")
    yield browser, job
    errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    daemon.hearth("job", "cancel", job)
    daemon.wait_for_state(job, "CANCELLED")
    assert not errors


def text(browser, element):
    return browser.find_element("id", element).text


def rows(browser, table):
    return [[cell.text for cell in row.find_elements("css selector", "th, td")]
            for row in browser.find_elements("css selector", f"#{table} tbody tr")]


@in_browser
def test_it_shows_a_running_job_live(page):
    browser, job = page
    assert text(browser, "job-title").startswith(f"{job}: sage on planted, gnndrive, running")
    wait_for(lambda: text(browser, "bound").startswith("Bound by "), "what the job is bound by")
    stages = rows(browser, "stages")
    assert "train" in [stage[0] for stage in stages]
    assert all(cell.endswith("%") for stage in stages for cell in stage[1:4])
    wait_for(lambda: rows(browser, "cache"), "hits by level")
    before = text(browser, "loss-text")
    wait_for(lambda: text(browser, "loss-text") != before, "another epoch")
    assert browser.find_elements("css selector", "#loss polyline")
    assert browser.find_elements("css selector", "#metric polyline")
    disk = {row[0]: row[1] for row in rows(browser, "disk")}
    assert disk["Read"].endswith("/s") and disk["Failed reads"] == "0"
    assert rows(browser, "memory")
    picture = os.environ.get("HEARTH_PAGE_PICTURE")
    if picture:
        wait_for(lambda: len(rows(browser, "epochs")) >= 25 or None, "a curve to look at")
        Path(picture).write_bytes(browser.get_screenshot_as_png())


@in_browser
def test_a_change_of_state_is_told_and_shown(page, daemon):
    browser, job = page
    daemon.hearth("job", "cancel", job)
    # Not seen, so it has no visible text.
    news = browser.find_element("id", "news")
    wait_for(lambda: f"{job} cancelled" in news.get_attribute("textContent"), "the news")
    assert [job, "cancelled"] in [row[:2] for row in rows(browser, "jobs")]


@in_browser
def test_a_job_is_chosen_by_keyboard_and_keeps_the_focus(page):
    from selenium.webdriver.common.keys import Keys
    browser, _ = page
    buttons = browser.find_elements("css selector", "#jobs button")
    other = buttons[-1]
    for _ in range(50):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        if browser.switch_to.active_element == other:
            break
    assert browser.switch_to.active_element == other
    name = other.text
    other.send_keys(Keys.ENTER)
    assert other.get_attribute("aria-pressed") == "true"
    seen = text(browser, "daemon")
    wait_for(lambda: text(browser, "daemon") != seen, "another second")
    assert browser.switch_to.active_element == other
    assert name in browser.find_element("css selector", "#jobs button[aria-pressed=true]").text


@in_browser
def test_a_screen_reader_finds_its_way(page):
    browser, _ = page
    assert browser.find_element("css selector", "html").get_attribute("lang") == "en"
    for landmark in ("header", "main", "footer"):
        assert len(browser.find_elements("css selector", f"body > {landmark}")) == 1
    for table in browser.find_elements("css selector", "table"):
        heads = table.find_elements("css selector", "thead th")
        assert heads and all(head.get_attribute("scope") == "col" for head in heads)
    for svg in browser.find_elements("css selector", "svg"):
        assert svg.accessible_name and svg.aria_role in ("img", "image")
    for node in browser.find_elements("css selector", "button, a"):
        assert node.accessible_name
    assert browser.find_element("id", "news").get_attribute("aria-live") == "polite"


@in_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_on_a_phone_light_and_dark(page, scheme):
    browser, _ = page
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                            {"width": 360, "height": 740, "deviceScaleFactor": 2, "mobile": True})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": scheme}]})
    try:
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 360
        contrasts = browser.execute_script(CONTRASTS)
        assert contrasts and min(contrasts) >= 4.5, contrasts
        ground = browser.execute_script(
            "return getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


# The contrast ratio of each element's text on what is behind it (WCAG 2.1).
CONTRASTS = """
const luminance = (color) => {
  const [r, g, b] = color.match(/[\\d.]+/g).slice(0, 3).map((value) => {
    value /= 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (node) => {
  for (; node; node = node.parentElement) {
    const color = getComputedStyle(node).backgroundColor;
    if (!color.endsWith(", 0)")) return color;
  }
};
return [...document.querySelectorAll("h1, h2, h3, p, th, td, button, a, figcaption, svg text")]
  .filter((node) => node.textContent.trim() && node.checkVisibility())
  .map((node) => {
    const style = getComputedStyle(node);
    const ink = luminance(node.closest("svg") ? style.fill : style.color);
    const back = luminance(ground(node));
    return (Math.max(ink, back) + 0.05) / (Math.min(ink, back) + 0.05);
  });
"""


@in_browser
def test_it_says_when_the_daemon_is_gone_and_comes_back(browser, start_daemon):
    daemon: Daemon = start_daemon()
    browser.get(f"http://{daemon.metrics_address}/")
    wait_for(lambda: text(browser, "connection") == "Live.", "the page to be live")
    daemon.kill()
    wait_for(lambda: "does not answer" in text(browser, "connection"), "the page to notice")
    daemon.start()
    wait_for(lambda: text(browser, "connection") == "Live.", "the page to be live again")
    browser.get_log("browser")
