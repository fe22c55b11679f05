"""docs/operations.md has every flag of `grokd serve` with its default, and no other."""
import re
import subprocess

from grokd_server import ROOT


def flags_of_help(text):
    """{flag: default}; switches have "off", or "on" where the name of the switch is --no-..."""
    found = {}
    for names, rest in re.findall(r"^  (--[\w-]+(?:,--[\w-]+)?)(.*)$", text, re.M):
        name = names.split(",")[-1]
        declared = re.match(r"(?:\{false\})?(?: ([A-Z]+\S*(?: in \[[^]]*\])?\S*))?", rest).group(1)
        if "," in names:
            found[name] = "on"
        elif not declared:
            found[name] = "off"
        elif "REQUIRED" in rest[:40]:
            found[name] = "required"
        else:
            default = re.search(r"=(\S*)", re.sub(r" {2,}.*", "", rest))
            found[name] = default.group(1) if default else "none"
    found.pop("--help", None)
    return {name: "none" if value == "[]" else value for name, value in found.items()}


def flags_of_docs(text):
    section = text.split("## Every flag of `grokd serve`")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `(--[\w-]+)` \| (\S+) \|", section, re.M))


def test_the_docs_have_every_flag_and_its_default(program):
    text = subprocess.run([program, "serve", "--help"], capture_output=True, text=True, timeout=60).stdout
    helped, documented = flags_of_help(text), flags_of_docs((ROOT / "docs/operations.md").read_text())
    assert len(helped) > 40
    assert documented == helped
