"""docs/pictures: made anew by the program as it is now, they are what is committed; light and dark screens can read them."""
import os
import pathlib
import re
import subprocess
import xml.etree.ElementTree

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURES = sorted((ROOT / "docs/pictures").glob("*.svg"))


def test_what_is_committed_is_what_the_program_shows(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("not root: the users of the pictures live in a mount namespace")
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode != 0:
        pytest.skip("no mount namespace may be made here")
    made = subprocess.run([ROOT / "scripts/make-pictures", "--thole", os.environ["THOLE"], "--into", tmp_path],
                          capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    now = {path.name: path.read_text() for path in tmp_path.glob("*.svg")}
    stale = [path.name for path in PICTURES if now.get(path.name) != path.read_text()]
    assert now.keys() == {path.name for path in PICTURES}
    assert not stale, "stale: sudo scripts/make-pictures, look at them, commit them"


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_every_picture_says_in_words_what_it_shows(picture):
    root = xml.etree.ElementTree.parse(picture).getroot()
    title, about = list(root)[:2]
    assert root.get("role") == "img"
    assert (title.tag.rpartition("}")[2], about.tag.rpartition("}")[2]) == ("title", "desc")
    assert title.text.strip()
    assert "GPU" in about.text


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a, b):
    """As WCAG defines it; 4.5 is enough for small text."""
    light, dark = sorted((luminance(a), luminance(b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_every_text_can_be_read_on_light_and_dark_screens(picture):
    text = picture.read_text()
    style, _, body = text.partition("</style>")
    other = style.split("@media (prefers-color-scheme:")[1]
    assert other.startswith("dark" if picture.stem.startswith("topo-") else "light")
    if not picture.stem.startswith("topo-"):          # a terminal: its colours are classes on one ground
        schemes = [dict(re.findall(r"\.(\w+)\{fill:(#\w+)\}", part)) for part in (style.split("@media")[0], other)]
        used = set(re.findall(r'<text [^>]*class="(\w+)"', body))
        assert used and "fg" in used
        for scheme in schemes:
            for name in used:
                assert contrast(scheme[name], scheme["bar" if name == "title" else "bg"]) > 4.5, (name, scheme[name])
        return
    twin = dict(re.findall(r'\[fill="(#\w+)"\]\{fill:(#\w+)\}', other))
    assert set(re.findall(r'(?:fill|stroke)="(#\w+)"', body)) <= twin.keys(), "every colour has its twin"
    boxes = [(float(x), float(y), float(w), float(h), fill) for x, y, w, h, fill in re.findall(
        r'<rect class="\w+"(?: x="([\d.]+)" y="([\d.]+)")? width="([\d.]+)" height="([\d.]+)"[^>]*? fill="(#\w+)"', body)
             if x] + [(0, 0, 1e5, 1e5, "#ffffff")]
    texts = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*? fill="(#\w+)"', body)
    assert len(texts) > 10
    for x, y, colour in ((float(x), float(y), colour) for x, y, colour in texts):
        _, ground = min((w * h, fill) for left, top, w, h, fill in boxes if left <= x <= left + w and top <= y <= top + h)
        assert contrast(colour, ground) > 4.5 and contrast(twin[colour], twin[ground]) > 4.5, (colour, ground)
