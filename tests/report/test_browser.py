"""The page in headless Chromium: opens without a complaint, sorts, fits a phone, light and dark."""

import pytest
from chromium import open_page, started
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys


@pytest.fixture(scope="module")
def browser():
    with started() as driver:
        yield driver


@pytest.fixture
def opened(browser, written):
    """Opens the page at a width, in light or dark, on a screen or on paper."""

    def open_at(width=1200, dark=False, media="", page=written):
        open_page(browser, page, width, dark, media)
        return browser

    return open_at


def column(driver, table, index):
    rows = driver.find_elements(By.CSS_SELECTOR, f"[data-table={table}] tbody tr")
    return [row.find_elements(By.CSS_SELECTOR, "th, td")[index].text for row in rows]


def headings(driver, table):
    return driver.find_elements(By.CSS_SELECTOR, f"[data-table={table}] thead th")


def contrast(driver, selector):
    """Of an element's text with the page behind it, as WCAG defines it."""
    return driver.execute_script(
        """
        const light = (text) => {
          const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map(Number).map((c) => c / 255)
            .map((c) => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
          return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const element = document.querySelector(arguments[0]);
        const style = getComputedStyle(element);
        const ink = light(element instanceof SVGElement ? style.fill : style.color);
        const paper = light(getComputedStyle(document.body).backgroundColor);
        return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
        """,
        selector,
    )


def test_opens_without_a_complaint_and_loads_nothing(opened):
    driver = opened()
    assert driver.title == "moods: 3 methods compared"
    assert driver.get_log("browser") == []
    assert driver.execute_script("return performance.getEntriesByType('resource').length") == 0


def unfold(driver):
    driver.execute_script("for (const one of document.querySelectorAll('details')) one.open = true")


def test_the_figures_after_the_first_nine_are_folded(opened):
    driver = opened()
    for section in driver.find_elements(By.CSS_SELECTOR, "main > section"):
        shown = [f for f in section.find_elements(By.TAG_NAME, "figure") if f.is_displayed()]
        folded = [f for f in section.find_elements(By.TAG_NAME, "figure") if not f.is_displayed()]
        assert len(shown) <= 9
        assert not folded or len(shown) == 9
        if folded:
            more = section.find_element(By.CSS_SELECTOR, ".more summary")
            assert more.text == f"{len(folded)} more figures"
            more.click()
            assert all(f.is_displayed() for f in folded)


def test_every_figure_has_a_size(opened, page):
    driver = opened()
    unfold(driver)
    boxes = driver.find_elements(By.CSS_SELECTOR, "figure svg[role=img]")
    assert len(boxes) == len(page.figures)
    for box in boxes:
        assert box.size["width"] > 100, box.get_attribute("aria-label")
        assert box.size["height"] > 50, box.get_attribute("aria-label")


def test_a_click_sorts_up_and_a_second_one_down(opened):
    driver = opened()
    place = [h.text.split(" ↕")[0] for h in headings(driver, "leaderboard")].index("processor")
    before = column(driver, "leaderboard", place)
    headings(driver, "leaderboard")[place].find_element(By.TAG_NAME, "button").click()
    up = column(driver, "leaderboard", place)
    assert up == sorted(before, key=lambda text: float(text.rstrip("×")))
    assert [h.get_attribute("aria-sort") for h in headings(driver, "leaderboard")].count(
        "ascending"
    ) == 1
    headings(driver, "leaderboard")[place].find_element(By.TAG_NAME, "button").click()
    down = column(driver, "leaderboard", place)
    assert [float(t.rstrip("×")) for t in down] == sorted(
        (float(t.rstrip("×")) for t in up), reverse=True
    )
    assert headings(driver, "leaderboard")[place].get_attribute("aria-sort") == "descending"


def test_what_has_no_number_stays_last(opened):
    driver = opened()
    place = [h.text.split(" ↕")[0] for h in headings(driver, "leaderboard")].index("cosine")
    for _ in range(2):
        headings(driver, "leaderboard")[place].find_element(By.TAG_NAME, "button").click()
        shown = column(driver, "leaderboard", place)
        assert shown[-1] == "–"  # single-task runs have no task cosine
        assert "–" not in shown[:-1]


def test_every_column_of_every_table_sorts(opened, page):
    driver = opened()
    sorted_by = driver.execute_script(
        """
        const found = {};
        for (const table of document.querySelectorAll("table")) {
          const texts = () => [...table.tBodies[0].rows].map((row) => row.textContent).sort().join();
          const before = texts();
          found[table.dataset.table] = [...table.tHead.rows[0].cells].map((heading) => {
            heading.querySelector("button").click();
            return [heading.getAttribute("aria-sort"), texts() === before];
          });
        }
        return found;
        """
    )
    assert set(sorted_by) == set(page.tables)
    for table, columns in sorted_by.items():
        assert columns == [["ascending", True]] * len(page.table(table)[0]), table
    assert driver.get_log("browser") == []


def test_the_keyboard_sorts_too(opened):
    driver = opened()
    button = headings(driver, "per-task")[0].find_element(By.TAG_NAME, "button")
    button.send_keys(Keys.ENTER)
    assert column(driver, "per-task", 0) == sorted(column(driver, "per-task", 0))
    button.send_keys(Keys.SPACE)
    assert headings(driver, "per-task")[0].get_attribute("aria-sort") == "descending"
    assert driver.switch_to.active_element == button


@pytest.mark.parametrize("width", [320, 390, 768, 1200])
def test_the_page_never_scrolls_sideways(opened, width):
    driver = opened(width)
    unfold(driver)
    inner, reach = driver.execute_script("return [innerWidth, document.documentElement.scrollWidth]")
    assert inner == width
    assert reach <= width
    widest = driver.execute_script(
        "return Math.max(...[...document.querySelectorAll('figure, .scroll, details, h1, h2, h3, p')]"
        ".map((e) => e.getBoundingClientRect().right))"
    )
    assert widest <= width


def test_a_wide_table_scrolls_in_its_box_on_a_phone(opened):
    driver = opened(390)
    box = driver.find_element(By.CSS_SELECTOR, ".scroll:has([data-table=leaderboard])")
    inside, reach = driver.execute_script(
        "return [arguments[0].clientWidth, arguments[0].scrollWidth]", box
    )
    assert reach > inside
    name = driver.find_element(By.CSS_SELECTOR, "[data-table=leaderboard] tbody th")
    driver.execute_script("arguments[0].scrollLeft = 400", box)
    assert driver.execute_script("return arguments[0].scrollLeft", box) > 0
    left = driver.execute_script("return arguments[0].getBoundingClientRect().left", name)
    assert left == pytest.approx(box.rect["x"], abs=2)


def test_text_in_figures_is_readable_on_a_phone(opened):
    driver = opened(390)
    unfold(driver)
    heights = driver.execute_script(
        """
        return [...document.querySelectorAll("figure svg[role=img] text.tick")].map((text) => {
          const picture = text.ownerSVGElement;
          const shrunk = picture.getBoundingClientRect().width / picture.viewBox.baseVal.width;
          return shrunk * parseFloat(getComputedStyle(text).fontSize);
        });
        """
    )
    assert heights
    assert min(heights) >= 9.5


@pytest.mark.parametrize("dark", [False, True])
def test_text_stands_out_in_light_and_dark(opened, dark):
    driver = opened(dark=dark)
    paper = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, paper[4:-1].split(","))) < 150) == dark
    for selector in ("p", "td", ".caption", "figcaption", "nav a", "svg text.tick", "svg text.label"):
        assert contrast(driver, selector) >= 4.5, selector


@pytest.mark.parametrize("dark", [False, True])
def test_the_button_turns_light_into_dark_and_back(opened, dark):
    driver = opened(dark=dark)
    button = driver.find_element(By.ID, "theme")
    papers, labels = [], []
    for _ in range(3):
        papers.append(driver.execute_script("return getComputedStyle(document.body).backgroundColor"))
        labels.append(button.text)
        button.click()
    assert papers[0] == papers[2] != papers[1]
    assert labels == (["Light", "Dark", "Light"] if dark else ["Dark", "Light", "Dark"])


def test_paper_is_white_and_shows_all(opened):
    driver = opened(720, dark=True, media="print")
    assert driver.execute_script("return document.documentElement.scrollWidth") <= 720
    assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)"
    )
    assert not driver.find_element(By.TAG_NAME, "nav").is_displayed()
    driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert all(e.is_displayed() for e in driver.find_elements(By.TAG_NAME, "pre"))


def test_texts_of_the_data_do_nothing(opened):
    driver = opened()
    assert driver.execute_script("return typeof hurt") == "undefined"
    assert driver.execute_script("return document.scripts.length") == 1
    assert driver.execute_script("return document.images.length") == 0
