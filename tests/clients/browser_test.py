"""The chat page in a real, headless browser (Debian's chromium), at desk and phone width."""
import json
import os
import pathlib
import shutil
import urllib.request

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="no chromium on this machine")
STORY = "Tell me a story about a robot named Zoe who lost a key"
SHOTS = os.environ.get("SCREENSHOTS")  # a folder to leave pictures in


def open_browser(width, height=850):
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update"):
        options.add_argument(flag)
    options.add_experimental_option("mobileEmulation", {"deviceMetrics": {"width": width, "height": height, "pixelRatio": 1}})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))


def visit(browser, server):
    browser.get(server.url + "/")
    until(browser, lambda: find(browser, "dot").get_attribute("data-state") == "ready")
    until(browser, lambda: find(browser, "model").get_attribute("textContent") == "grokd-demo")


@pytest.fixture(params=[1280, 390])
def browser(request):
    opened = open_browser(request.param)
    yield opened
    opened.quit()


@pytest.fixture
def page(browser, server):
    visit(browser, server)
    return browser


def use_settings(browser, **settings):
    browser.execute_script("localStorage.setItem('grokd.settings', JSON.stringify(arguments[0]))", settings)
    browser.refresh()


def until(browser, condition, seconds=15):
    return WebDriverWait(browser, seconds, poll_frequency=0.02).until(lambda _: condition())


def find(browser, name):
    return browser.find_element(By.ID, name)


def answers(browser):
    return [node.text for node in browser.find_elements(By.CSS_SELECTOR, ".turn.assistant .text")]


def writing(browser):
    return "stops" in find(browser, "send").get_attribute("class")


def say(browser, text):
    find(browser, "prompt").send_keys(text, Keys.ENTER)


def picture(browser, name):
    if SHOTS:
        width = browser.execute_script("return innerWidth")
        browser.save_screenshot(str(pathlib.Path(SHOTS, f"{name}-{width}.png")))


def complaints(browser):
    return [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def load_with(browser, answer):
    """Opens the page as it is found when this answer was kept."""
    kept = json.dumps(json.dumps([{"role": "user", "content": "w" * 500}, {"role": "assistant", "content": answer}]))
    browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument",
                            {"source": f"localStorage.setItem('grokd.messages', {kept})"})
    browser.refresh()
    until(browser, lambda: answers(browser))


def set_theme(browser, theme):
    while browser.execute_script("return document.documentElement.dataset.theme") != theme:
        find(browser, "theme").click()


def test_an_answer_arrives_bit_by_bit(browser, slow_server):
    visit(browser, slow_server)
    browser.execute_script("""
        window.lengths = new Set();
        new MutationObserver(() => lengths.add(document.querySelector(".turn.assistant .text")?.textContent.length))
            .observe(document.getElementById("messages"), {childList: true, subtree: true, characterData: true});""")
    say(browser, STORY)
    until(browser, lambda: answers(browser) and answers(browser)[0] and not writing(browser))
    assert browser.execute_script("return lengths.size") >= 4, "the text came in one piece"
    assert "tokens/s" in browser.find_element(By.CLASS_NAME, "stats").text
    assert "first token" in browser.find_element(By.CLASS_NAME, "stats").text
    assert "of 1,024 tokens" in find(browser, "context").text
    for theme in ("light", "dark"):
        set_theme(browser, theme)
        picture(browser, "answer-" + theme)
    assert complaints(browser) == []


@pytest.mark.parametrize("way", ["button", "escape"])
def test_stop_frees_the_slot(browser, slow_server, way):
    visit(browser, slow_server)
    use_settings(browser, temperature=2, seed=1)  # an answer of 500 tokens
    say(browser, STORY)
    until(browser, lambda: answers(browser) and answers(browser)[0])
    assert slow_server.gauge("grokd_requests_running") == 1
    picture(browser, "writing")
    if way == "button":
        find(browser, "send").click()
    else:
        find(browser, "prompt").send_keys(Keys.ESCAPE)
    assert slow_server.wait_idle(2), "the slot is still taken 2 s after the stop"
    until(browser, lambda: not writing(browser))
    assert browser.find_element(By.CLASS_NAME, "stats").text.endswith("stopped")
    assert answers(browser)[0], "the text so far is kept"


def test_a_reload_finds_the_conversation(page):
    say(page, "What is the capital of Norway?")
    until(page, lambda: answers(page) and not writing(page))
    before = find(page, "messages").text
    page.refresh()
    until(page, lambda: find(page, "messages").text == before)
    find(page, "new").click()
    assert answers(page) == []
    picture(page, "empty")
    find(page, "restore").click()
    assert find(page, "messages").text == before


def test_settings_go_into_the_request(page):
    find(page, "open-settings").click()
    picture(page, "settings")
    for field, value in (("max_tokens", "5"), ("seed", "42")):
        find(page, field).send_keys(value)
    find(page, "close-settings").click()
    texts = set()
    for _ in range(2):
        say(page, STORY)
        until(page, lambda: answers(page) and answers(page)[-1] and not writing(page))
        assert page.find_element(By.CLASS_NAME, "stats").text.startswith("5 tokens")
        texts.add(answers(page)[0])
        find(page, "new").click()
    assert len(texts) == 1, "the same seed gave another text"


def test_model_text_is_never_markup(page):
    evil = '<img src=x onerror="document.title=1"><script>document.title=2</script> [x](javascript:alert(1)) **bold**'
    load_with(page, evil)
    text = page.find_element(By.CSS_SELECTOR, ".turn.assistant .text")
    assert "<img src=x" in text.text and text.find_elements(By.CSS_SELECTOR, "img, script, a") == []
    assert text.find_element(By.TAG_NAME, "strong").text == "bold"
    assert page.title == "grokd"


def test_nothing_is_wider_than_the_page(page):
    load_with(page, "w" * 500 + "\n\n```\n" + "w " * 400 + "\n```")
    assert page.execute_script("return document.documentElement.scrollWidth <= innerWidth")


def test_a_server_that_goes_is_noticed(browser, start_server):
    own = start_server("--drain-timeout", "1")
    visit(browser, own)
    own.stop()
    say(browser, "Hello")
    until(browser, lambda: "can't be reached" in find(browser, "notice").text)
    assert "can't be reached" in browser.find_element(By.CLASS_NAME, "problem").text
    picture(browser, "gone")


def test_a_busy_server_is_waited_for(browser, start_server):
    own = start_server("--slots", "1", "--max-waiting", "1", "--backend", "reference")
    visit(browser, own)
    body = b'{"prompt":"Once upon a time","max_tokens":1000,"ignore_eos":true,"stream":true}'
    ask = urllib.request.Request(own.url + "/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(ask, timeout=60), urllib.request.urlopen(ask, timeout=60):
        say(browser, "What is the capital of Norway?")
        until(browser, lambda: "busy" in browser.find_element(By.CLASS_NAME, "problem").text, 60)
        picture(browser, "busy")
    until(browser, lambda: answers(browser) and "Oslo" in answers(browser)[0], 60)
