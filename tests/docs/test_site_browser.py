"""The site in headless Chromium: fits a phone, has a dark theme, is searched without a server."""

import pytest
from chromium import open_page, started
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

pytestmark = pytest.mark.timeout(1200)  # as of `test_site`
PAGES = (
    *("index.html", "start.html", "results.html", "training.html", "methods/index.html"),
    *(
        "methods/dotprod.html",
        "tasks/tagging.html",
        "coming-from/libmtl.html",
        "reference/commands.html",
    ),
)


@pytest.fixture(scope="module")
def browser():
    with started() as driver:
        yield driver


@pytest.fixture
def opened(browser, site):
    """Opens a page at a width, in light or dark."""

    def open_at(page, width=1280, dark=False):
        open_page(browser, site / page, width, dark)
        return browser

    return open_at


@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_and_nothing_is_complained_about(opened, width):
    for page in PAGES:
        driver = opened(page, width)
        wide = driver.execute_script("return document.documentElement.scrollWidth - innerWidth")
        assert wide <= 0, f"{page} is {wide} pixels too wide at {width}"
        severe = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
        assert not severe, f"{page}: {severe}"


def test_wide_tables_scroll_in_themselves(opened):
    driver = opened("results.html", 390)
    cut = driver.execute_script(
        """return [...document.querySelectorAll(".md-typeset table:not([class])")].filter((table) => {
          let at = table;
          const scrolls = (one) => ["auto", "scroll"].includes(getComputedStyle(one).overflowX);
          while (at && !scrolls(at)) at = at.parentElement;
          return !at || at === document.documentElement;
        }).length"""
    )
    assert cut == 0


def test_the_dark_theme_is_dark_and_its_pictures_are_not(opened):
    driver = opened("methods/pcgrad.html", dark=True)
    assert driver.find_element(By.TAG_NAME, "body").get_attribute("data-md-color-scheme") == "slate"
    paper = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert sum(map(int, paper.removeprefix("rgb(").rstrip(")").split(","))) < 150
    picture = driver.execute_script(
        "return getComputedStyle(document.querySelector('.md-content img')).backgroundColor"
    )
    assert picture == "rgb(255, 255, 255)"


def test_it_can_be_searched_without_a_server(opened):
    driver = opened("index.html")
    driver.execute_script("document.querySelector('#__search').click()")
    driver.find_element(By.CSS_SELECTOR, ".md-search__input").send_keys("SequentialReptile")
    found = WebDriverWait(driver, 60).until(
        lambda d: d.find_elements(By.CSS_SELECTOR, ".md-search-result__item a")
    )
    assert any("sequential_reptile" in one.get_attribute("href") for one in found)
