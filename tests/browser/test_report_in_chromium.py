"""The report in a real browser: `make test-browser` (needs Chromium and its driver).

Set SCREENSHOTS to a folder to keep the pictures.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from sklearn.linear_model import LogisticRegression, Ridge

from superteach import SuperTeacher, optim
from superteach.datasets import make_classification_pool
from superteach.goals import PerturbedFit
from superteach.report import Page, page_of
from superteach.report.plots import DARK, LIGHT

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
WIDTHS = {"wide": 1200, "phone": 375}
SHEET = 673
"""A4 less its margins, in pixels."""
COLUMNS = (
    "age", "dose", "marker", "weight", "pressure", "sodium", "potassium", "glucose", "body mass index", "visits",
)  # fmt: skip
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=//x onerror=alert(1)>',
    "a name that goes on " * 8,
    "\u202eevil",
]


def _against() -> Page:
    X, y, owner = make_classification_pool(2000, 10, 5, 0)
    learner = LogisticRegression(fit_intercept=False)
    goal = PerturbedFit(0)
    exact = SuperTeacher(learner, goal, method="match", budget="best").fit(X, y, owner)
    others = [
        SuperTeacher(learner, goal, method=method, solver=solver).fit(X, y, owner).lesson_
        for method, solver in (("dual", None), ("dual", optim.Block()), ("random", None))
    ]
    lesson = exact.lesson_
    chosen = {name: int(np.sum(owner[exact.sample_indices_] == int(name))) for name in lesson.teachers}
    return page_of(lesson, against=others, columns=COLUMNS, contributions=chosen, target="ill")


def _paper() -> Page:
    X, y, owner = make_classification_pool(1000, 6, 3, 1)
    return page_of(SuperTeacher(LogisticRegression(), PerturbedFit(0)).fit(X, y, owner).lesson_)


def _hostile() -> Page:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 4))
    y = X @ np.array([4.0, -3.0, 8.0, 1e-6])
    owner = np.array([f"{HOSTILE[place % 4]} {place}" for place in range(44)])[np.arange(400) % 44]
    goal = [40.0, 30.0, -80.0, 1e5]
    taught = SuperTeacher(Ridge(fit_intercept=False), goal, method="match", budget=0.1).fit(X, y, owner)
    lesson = taught.lesson_
    assert lesson.certificate is not None
    chosen = {name: int(np.sum(owner[taught.sample_indices_] == name)) for name in lesson.teachers}
    return page_of(lesson, columns=HOSTILE, contributions=chosen, title=HOSTILE[0], target=HOSTILE[2])


PAGES: dict[str, Callable[[], Page]] = {"against": _against, "paper": _paper, "hostile": _hostile}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each page as a file, its figures beside it."""
    places = {}
    for name, make in PAGES.items():
        places[name] = tmp_path_factory.mktemp(name) / "report.html"
        page = make()
        page.write(places[name])
        page.write_figures(places[name].parent / "figures")
    return places


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A Chromium of its own, with its console and its network on record."""
    driver = shutil.which("chromedriver")
    assert driver, "chromedriver is missing. On Debian: apt-get install -y chromium chromium-driver"
    options = webdriver.ChromeOptions()
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.binary_location = shutil.which("chromium") or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=Service(driver))
    yield started
    started.quit()


def resize(browser: Any, width: int, height: int) -> None:
    """Give the window a size in pixels; a narrow one is a phone's."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def show(browser: Any, place: Path, width: int, mode: str, media: str = "screen") -> None:
    """Open a file at a width, in a colour scheme."""
    resize(browser, width, 800)
    scheme = {"name": "prefers-color-scheme", "value": mode}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})
    browser.get(place.as_uri())


def picture(browser: Any, width: int, name: str) -> None:
    """Keep the whole page as a picture where a folder for pictures is named."""
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        Path(folder).mkdir(exist_ok=True)
        # A window as tall as the page: asked for what lies beyond its window, Chromium fails one time in thirty.
        resize(browser, width, browser.execute_script("return document.documentElement.scrollHeight"))
        drawn = browser.execute_cdp_cmd("Page.captureScreenshot", {})
        (Path(folder) / f"{name}.png").write_bytes(base64.b64decode(drawn["data"]))


def requests(browser: Any) -> list[str]:
    """What the browser asked for since the last look."""
    messages = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        message["params"]["request"]["url"] for message in messages if message["method"] == "Network.requestWillBeSent"
    ]


VIEWS = [(page, width, mode) for page in PAGES for width in WIDTHS for mode in ("light", "dark")]


@pytest.mark.parametrize(("page", "width", "mode"), VIEWS)
def test_quiet_alone_and_within_its_width(
    browser: Any, pages: dict[str, Path], page: str, width: str, mode: str
) -> None:
    """No word on the console, no request but for the file, no sideways scrolling, the right ground."""
    requests(browser)
    browser.get_log("browser")
    show(browser, pages[page], WIDTHS[width], mode)
    assert browser.get_log("browser") == []
    assert requests(browser) == [pages[page].as_uri()]
    assert browser.execute_script("return document.documentElement.scrollWidth") <= WIDTHS[width]
    assert browser.execute_script("return document.documentElement.clientWidth") == WIDTHS[width]
    assert browser.execute_script("return document.scripts.length") == 0
    paper = {"light": LIGHT, "dark": DARK}[mode]["paper"]
    expected = f"rgb({', '.join(str(int(paper[place : place + 2], 16)) for place in (1, 3, 5))})"
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == expected
    picture(browser, WIDTHS[width], f"{page}-{width}-{mode}")


# Boxes of all words of every drawing that is shown, in pixels, beside the box of the drawing.
_BOXES = """
return [...document.querySelectorAll('figure svg')].filter(svg => svg.getBoundingClientRect().width).map(svg => {
  const box = e => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
  const wide = box(svg)[2] - box(svg)[0];
  return {title: svg.querySelector('title').textContent, frame: box(svg),
          size: parseFloat(getComputedStyle(svg.querySelector('text')).fontSize) * wide / svg.viewBox.baseVal.width,
          words: [...svg.querySelectorAll('text')].map(t => [t.textContent, box(t)])};
});
"""


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("page", PAGES)
def test_words_of_figures_fit(browser: Any, pages: dict[str, Path], page: str, width: str) -> None:
    """With the fonts of this machine: no word leaves its figure or lies on another, none is too small."""
    show(browser, pages[page], WIDTHS[width], "light")
    drawings = browser.execute_script(_BOXES)
    assert len(drawings) >= 2
    for drawing in drawings:
        left, top, right, bottom = drawing["frame"]
        assert drawing["size"] >= 10.0
        for words, box in drawing["words"]:
            inside = box[0] >= left - 1 and box[1] >= top - 1 and box[2] <= right + 1 and box[3] <= bottom + 1
            assert inside, (drawing["title"], words)
        for place, (one, a) in enumerate(drawing["words"]):
            for other, b in drawing["words"][place + 1 :]:
                apart = a[2] <= b[0] + 1 or b[2] <= a[0] + 1 or a[3] <= b[1] + 4 or b[3] <= a[1] + 4
                assert apart, (drawing["title"], one, other)


@pytest.mark.parametrize("page", PAGES)
def test_on_paper(browser: Any, pages: dict[str, Path], page: str) -> None:
    """Printed from a dark screen: black on white, a few sheets, nothing wider than the sheet."""
    show(browser, pages[page], SHEET, "dark", "print")
    assert browser.execute_script("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.execute_script("return document.documentElement.scrollWidth") <= SHEET
    paper = browser.execute_cdp_cmd("Page.printToPDF", {"paperWidth": 8.27, "paperHeight": 11.69})
    content = base64.b64decode(paper["data"])
    sheets = content.count(b"/Type /Page\n") + content.count(b"/Type /Page/") + content.count(b"/Type/Page/")
    assert content.startswith(b"%PDF")
    assert 2 <= sheets <= 9
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        Path(folder).mkdir(exist_ok=True)
        (Path(folder) / f"{page}.pdf").write_bytes(content)


def test_figures_stand_alone(browser: Any, pages: dict[str, Path]) -> None:
    """Each SVG file opens by itself, without a word on the console, black on white for slides and papers."""
    files = sorted((pages["hostile"].parent / "figures").glob("*.svg"))
    assert [file.stem for file in files] == ["approach", "coefficients", "standardised", "teachers"]
    for file in files:
        browser.get_log("browser")
        show(browser, file, 800, "dark")
        assert browser.get_log("browser") == []
        assert browser.execute_script("return getComputedStyle(document.querySelector('#patch_1 path')).fill") == (
            "rgb(255, 255, 255)"
        )
        picture(browser, 800, f"{file.stem}-alone")


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_figures_take_the_colours_of_the_page(browser: Any, pages: dict[str, Path], mode: str) -> None:
    """Words and ground of every figure are those of the reader's setting."""
    show(browser, pages["against"], 1200, mode)
    colours = {"light": LIGHT, "dark": DARK}[mode]
    allowed = {f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})" for colour in colours.values()}
    script = """
return [...document.querySelectorAll('figure svg text, figure svg path')].flatMap(e => {
  const style = getComputedStyle(e); return [style.fill, style.stroke]; });
"""
    seen = set(browser.execute_script(script)) - {"none"}
    black = "rgb(0, 0, 0)"  # what is not stroked or filled anew by those that use a marker
    assert seen <= allowed | {black}
    words = "return [...document.querySelectorAll('figure svg text')].map(e => getComputedStyle(e).fill)"
    assert set(browser.execute_script(words)) <= allowed
