"""The page at "/" of the metrics port: what it serves, and what a real browser makes of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from daemon import Daemon, wait_for
from jobs import ENDLESS, QUICK

# Nine trials, of which asha stops most.
SWEEP = ("sweep", "submit", "--dataset", "planted", "--model", "sage", "--fanouts", "5,5",
         "--batch-size", "64", "--dropout", "0.2", "--seed", "1", "--space", "lr=log:1e-5:1e-1",
         "--space", "hidden=int:8:32", "--algorithm", "asha", "--trials", "9", "--epochs", "9")

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
    for path in ("/", "/page.css", "/page.js", "/tables.js", "/charts.js"):
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
    report = job["report"]
    assert (shown["metric"], shown["test_metric"]) == (report["metric"], report["test_metric"])
    kept = report["epochs"][report["kept_epoch"] - 1]
    assert (shown["best_epoch"], shown["best_valid_metric"]) == (kept["epoch"], kept["valid_metric"])


@pytest.fixture(scope="module")
def sweep(daemon):
    """A sweep that has ended."""
    return daemon.json(*SWEEP)


def test_the_state_has_a_sweep_as_one_with_its_trials(daemon, sweep):
    def current():
        shown = json.loads(body(daemon, "/api/state"))
        newest = shown["sweeps"][0] if shown["sweeps"] else {}
        return shown if newest.get("id") == sweep["id"] and newest["state"] == "DONE" else None
    state = wait_for(current, "the page to know the sweep")
    shown = state["sweeps"][0]
    assert (shown["algorithm"], shown["dataset"], shown["model"]) == ("asha", "planted", "sage")
    for figure in ("metric", "best_trial", "best_metric"):
        assert shown[figure] == sweep[figure]
    assert shown["test_metric"] == sweep["best_test_metric"]
    assert sum(shown["counts"].values()) == 9 and shown["counts"]["stopped"] >= 1
    trials = {trial["number"]: trial for trial in sweep["trials"]}
    assert [trial["rank"] for trial in shown["trials"] if "rank" in trial] == \
        sorted(trial["rank"] for trial in trials.values() if trial["rank"])
    for trial in shown["trials"]:
        whole = trials[trial["number"]]
        assert f"TRIAL_{trial['state'].upper()}" == whole["state"]
        assert trial["epochs"] == whole["epochs"]
        assert trial["parameters"] == ", ".join(
            f"{setting['name']} {setting['value']}" for setting in whole["parameters"])
        assert [epoch for epoch, _ in trial["curve"]] == list(range(1, trial["epochs"] + 1))
        assert max(value for _, value in trial["curve"]) == trial["metric"] == whole["metric"]
    # Its jobs are not jobs of their own.
    assert not [job for job in state["jobs"] if job.get("sweep")]


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
    wait_for(lambda: row_of(browser, "active", job), "the job to be listed")
    yield browser, job
    errors = [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    daemon.hearth("job", "cancel", job)
    daemon.wait_for_state(job, "CANCELLED")
    assert not errors


@pytest.fixture(scope="module")
def failed(daemon, graph_folder, tmp_path_factory):
    """A job that has failed: its folder has an edge from a node that is not there."""
    folder = tmp_path_factory.mktemp("source") / "damaged"
    shutil.copytree(graph_folder, folder)
    edges = np.load(folder / "edge_index.npy")
    edges[0, 0] = 10**6
    np.save(folder / "edge_index.npy", edges)
    daemon.hearth("dataset", "import", "damaged", "--source", str(folder), code=1)
    return daemon.json("job", "list")["jobs"][0]


@pytest.fixture
def full_page(sweep, failed, page):
    """The page of `page`; a sweep has ended, too, and a job has failed."""
    return page


def text(browser, element):
    return browser.find_element("id", element).text


def rows(browser, table):
    """The texts of all cells, at one moment."""
    return browser.execute_script(
        "return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)]"
        ".map((row) => [...row.cells].map((cell) => cell.innerText.trim()))", table)


def row_of(browser, table, name):
    """The cells of the job's or sweep's row, by the table's heads."""
    heads = [head.text for head in browser.find_elements("css selector", f"#{table} thead th")]
    return next((dict(zip(heads, row)) for row in rows(browser, table) if row[0] == name), None)


def bottom(browser, selector):
    return browser.execute_script(
        "return document.querySelector(arguments[0]).getBoundingClientRect().bottom + scrollY",
        selector)


@in_browser
def test_it_shows_a_running_job_live(page):
    browser, job = page
    assert text(browser, "job-title") == job
    assert text(browser, "job-about") == "sage on planted · gnndrive · running"
    wait_for(lambda: "Bottleneck" in text(browser, "figures"), "what the job is bound by")
    wait_for(lambda: "Cache hits" in text(browser, "figures"), "the share of hits")
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


@in_browser
def test_the_curves_that_a_script_reports_are_shown(browser, daemon):
    pytest.importorskip("torch", reason="torch is not installed")
    import hearth
    import hearth.torch
    with (hearth.Client(f"unix:{daemon.data_dir}/hearth.sock") as client,
          hearth.torch.NeighborLoader(client, dataset="planted", num_neighbors=[5, 5],
                                      layout="tensors") as loader):
        for epoch in (1, 2):
            for batch in loader:
                del batch
            loader.report(epoch, loss=1 / epoch, metric=0.5)
        browser.get(f"http://{daemon.metrics_address}/")
        wait_for(lambda: text(browser, "job-title") == loader.job.id, "the feed to be shown")
        assert text(browser, "job-about").startswith("feed on planted")
        wait_for(lambda: len(rows(browser, "epochs")) == 2, "both epochs")
        for curve in ("#loss polyline", "#metric polyline"):
            assert browser.find_elements("css selector", curve)


@in_browser
def test_what_runs_comes_first_with_its_curves(full_page):
    browser, job = full_page
    browser.set_window_size(1100, 900)
    assert row_of(browser, "active", job)["State"].startswith("running epoch ")
    assert row_of(browser, "ended", job) is None
    ended = ("succeeded", "failed", "cancelled", "done")
    assert all(row[4].startswith(ended) for row in rows(browser, "ended"))
    wait_for(lambda: "Bottleneck" in text(browser, "figures"), "what the job is bound by")
    assert bottom(browser, "#active") < bottom(browser, "#figures") < bottom(browser, "#loss")
    assert bottom(browser, "#metric") == bottom(browser, "#loss") < 800
    assert bottom(browser, "#job") < bottom(browser, "#ended")


@in_browser
def test_the_test_metric_is_in_the_list(page, daemon):
    browser, _ = page
    job = daemon.json(*QUICK)
    row = wait_for(lambda: row_of(browser, "ended", job["id"]), "the job to be listed")
    report = job["report"]
    assert row["Test"] == f"{report['test_metric']:.4g} {report['metric']}"
    kept = report["epochs"][report["kept_epoch"] - 1]["valid_metric"]
    assert row["Validation"] == f"{kept:.4g} {report['metric']}"


@in_browser
def test_a_sweep_is_one_row_that_opens_by_keyboard(full_page, sweep):
    from selenium.webdriver.common.keys import Keys
    browser, _ = full_page
    row = row_of(browser, "ended", sweep["id"])
    assert (row["Dataset"], row["Model"], row["Strategy"]) == ("planted", "sage", "asha search")
    assert "9 trials" in row["State"] and "stopped early" in row["State"]
    assert row["Validation"].split()[0] == f"{sweep['best_metric']:.4g}"
    assert row["Test"].split()[0] == f"{sweep['best_test_metric']:.4g}"
    listed = len(rows(browser, "ended"))
    toggle = tab_to(browser, f"#ended tr[data-key={sweep['id']}] button")
    assert toggle.get_attribute("aria-expanded") == "false"
    toggle.send_keys(Keys.ENTER)
    assert toggle.get_attribute("aria-expanded") == "true"
    assert browser.switch_to.active_element == toggle
    trials = [row for row in rows(browser, "ended") if row[0].startswith("Trial ")]
    assert len(trials) == 9 and len(rows(browser, "ended")) == listed + 9
    assert sum("stopped by the sweep" in row[2] for row in trials) == \
        sum(trial["state"] == "TRIAL_STOPPED" for trial in sweep["trials"])
    assert all("cancelled" not in cell for row in trials for cell in row)
    # Its curves are shown, one for each trial.
    assert text(browser, "job-title") == sweep["id"]
    assert len(browser.find_elements("css selector", "#metric polyline")) == 9
    toggle.send_keys(Keys.SPACE)
    assert toggle.get_attribute("aria-expanded") == "false"
    assert len(rows(browser, "ended")) == listed


@in_browser
def test_why_a_job_failed_is_told(full_page, failed):
    browser, _ = full_page
    row = row_of(browser, "ended", failed["id"])
    assert row["State"] == f"failed {failed['error']['message']}"
    browser.find_element("css selector", f"#ended tr[data-key={failed['id']}] button").click()
    assert text(browser, "job-why") == failed["error"]["message"]


@in_browser
def test_a_change_of_state_is_told_and_shown(page, daemon):
    browser, job = page
    daemon.hearth("job", "cancel", job)
    # Not seen, so it has no visible text.
    news = browser.find_element("id", "news")
    wait_for(lambda: f"{job} cancelled" in news.get_attribute("textContent"), "the news")
    assert row_of(browser, "ended", job)["State"].startswith("cancelled")


def tab_to(browser, selector):
    """Moves the focus to an element by the tabulator key."""
    from selenium.webdriver.common.keys import Keys
    wanted = browser.find_element("css selector", selector)
    for _ in range(100):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        if browser.switch_to.active_element == wanted:
            break
    assert browser.switch_to.active_element == wanted
    return wanted


@in_browser
def test_a_job_is_chosen_by_keyboard_and_keeps_the_focus(page):
    from selenium.webdriver.common.keys import Keys
    browser, _ = page
    other = tab_to(browser, "#ended tbody tr:last-child button")
    name = other.text
    other.send_keys(Keys.ENTER)
    assert other.get_attribute("aria-pressed") == "true"
    seen = text(browser, "daemon")
    wait_for(lambda: text(browser, "daemon") != seen, "another second")
    assert browser.switch_to.active_element == other
    assert name in browser.find_element("css selector", "#ended button[aria-pressed=true]").text
    assert text(browser, "job-title") == name


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
        assert node.accessible_name or not node.is_displayed()
    assert browser.find_element("id", "news").get_attribute("aria-live") == "polite"


@in_browser
@pytest.mark.parametrize("width", [360, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_on_a_phone_light_and_dark(full_page, sweep, scheme, width):
    browser, job = full_page
    browser.find_element("css selector", f"#ended tr[data-key={sweep['id']}] button").click()
    with screen(browser, scheme, width):
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert not browser.execute_script(CUT_OFF)
        assert_contrast(browser)
        ground = browser.execute_script(
            "return getComputedStyle(document.body).backgroundColor")
        assert (ground == "rgb(255, 255, 255)") == (scheme == "light")
        browser.find_element("css selector", f"#active tr[data-key={job}] button").click()
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        assert not browser.execute_script(CUT_OFF)
        assert_contrast(browser)


@in_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_on_a_wide_screen_light_and_dark(full_page, daemon, scheme):
    browser, _ = full_page
    with screen(browser, scheme, 1100):
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 1100
        assert not browser.execute_script(CUT_OFF)
        assert_contrast(browser)
    picture = os.environ.get("HEARTH_PAGE_PICTURE")
    if picture and scheme == "light":
        take_picture(browser, daemon, Path(picture))


def take_picture(browser, daemon, path):
    """A slower job and a sweep beside it, both with curves to look at."""
    for running in daemon.json("job", "list", "--state", "running")["jobs"]:
        daemon.hearth("job", "cancel", running["id"])
    job = daemon.json(*ENDLESS, "--strategy", "gnndrive", "--cpu-cache", "64KiB", "--fanouts", "5,5",
                      "--hidden", "16", "--lr", "0.0002", "--epochs", "60", "--detach")["id"]
    daemon.json(*SWEEP, "--epochs", "27", "--detach")
    wait_for(lambda: text(browser, "job-title") == job, "the job to be shown")
    wait_for(lambda: len(rows(browser, "epochs")) >= 30, "a curve to look at")
    browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    browser.set_window_size(1100, 1420)
    seen = text(browser, "daemon")
    wait_for(lambda: text(browser, "daemon") != seen, "curves of the new size")
    path.write_bytes(browser.get_screenshot_as_png())


@contextlib.contextmanager
def screen(browser, scheme, width):
    """A screen of that width, with light or dark colors."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": 740, "deviceScaleFactor": 2, "mobile": width < 700})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": scheme}]})
    try:
        yield
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def assert_contrast(browser):
    contrasts = browser.execute_script(CONTRASTS)
    poor = {text: contrast for text, contrast in contrasts if contrast < 4.5}
    assert len(contrasts) > 50 and not poor


# Cells, buttons and figures whose text goes over their own or the window's edge, and
# names that are centered.
CUT_OFF = """
return [...document.querySelectorAll("th, td, button, dd, dt, figcaption, h2, p, svg text")]
  .filter((node) => node.checkVisibility() && !node.closest(".unseen, thead, .skip"))
  .filter((node) => {
    const box = node.getBoundingClientRect();
    return box.width && (box.left < -1 || box.right > innerWidth + 1 ||
      node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).display !== "inline" &&
      !(node instanceof SVGElement) || getComputedStyle(node).textAlign === "center");
  }).map((node) => node.textContent);
"""


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
const kinds = "h1, h2, h3, p, th, td, td span, small, dt, dd, button, a, figcaption span, summary, svg text";
return [...document.querySelectorAll(kinds)]
  .filter((node) => node.textContent.trim() && node.checkVisibility())
  .map((node) => {
    const style = getComputedStyle(node);
    const ink = luminance(node.closest("svg") ? style.fill : style.color);
    const back = luminance(ground(node));
    return [node.textContent, (Math.max(ink, back) + 0.05) / (Math.min(ink, back) + 0.05)];
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
