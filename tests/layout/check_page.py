"""Fails when the chat page's Content-Security-Policy does not name the page's own style and script, when the page
would ask another host for anything, or when model text could reach an HTML parser.

    check_page.py INDEX_HTML [--write]      --write puts the right hashes in
"""
import base64
import hashlib
import re
import sys

FORBIDDEN = {
    "an HTML parser": r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|srcdoc|eval\(|new Function",
    "an outside file": r"<(?:script|img|iframe|link)[^>]+(?:src|href)=\"(?!data:)|@import|url\((?!data:)",
    "an inline handler or style": r"<[^>]+\s(?:on[a-z]+|style)=\"",
}


def policy_hash(page, tag):
    text = re.search(rf"<{tag}[^>]*>(.*?)</{tag}>", page, re.S).group(1)
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def with_hashes(page):
    for tag in ("script", "style"):
        page = re.sub(rf"{tag}-src 'sha256-[^']*'", f"{tag}-src '{policy_hash(page, tag)}'", page, count=1)
    return page


def main(path, *options):
    with open(path, encoding="utf-8", newline="") as file:
        page = file.read()
    if "--write" in options:
        page = with_hashes(page)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(page)
    breaches = [f"{path}: uses {what}: {found.group(0)}"
                for what, pattern in FORBIDDEN.items() if (found := re.search(pattern, page))]
    if page != with_hashes(page):
        breaches.append(f"{path}: the policy's hashes are old; run tests/layout/check_page.py {path} --write")
    print("\n".join(breaches) or f"{path}: the policy fits the page")
    return bool(breaches)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
