"""What the pages load: vendored libraries as recorded, nothing inline, nothing from elsewhere."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from webapp.environment import ROOT

VENDOR = ROOT / "static" / "vendor"
MANIFEST = json.loads((VENDOR / "manifest.json").read_text())["files"]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
OWN = sorted([*(ROOT / "static" / "js").glob("*.js"), *(ROOT / "static" / "css").glob("*.css")])


@pytest.mark.parametrize("entry", MANIFEST, ids=lambda entry: entry["name"])
def test_a_vendored_file_is_the_recorded_one_with_its_licence(entry):
    assert hashlib.sha256((VENDOR / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]
    assert (VENDOR / entry["license_file"]).stat().st_size > 100
    assert re.fullmatch(r"\d+\.\d+\.\d+", entry["version"])


def test_nothing_is_vendored_without_a_record():
    recorded = {name for entry in MANIFEST for name in (entry["file"], entry["license_file"])}
    assert {path.name for path in VENDOR.iterdir()} == recorded | {"manifest.json"}


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_a_template_holds_no_inline_script_style_or_handler(path: Path):
    text = path.read_text()
    assert not re.search(r"<style\b|\sstyle=|\son\w+=", text)
    for tag in re.findall(r"<script\b[^>]*>", text):
        assert "src=" in tag
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", text)
    assert "|safe" not in text and "autoescape off" not in text


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_our_scripts_and_styles_load_nothing_from_elsewhere_and_write_no_markup(path: Path):
    text = path.read_text()
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)


def test_every_token_that_is_used_is_defined():
    css = {path.name: path.read_text() for path in (ROOT / "static" / "css").glob("*.css")}
    defined = set(re.findall(r"(--[\w-]+):", css["tokens.css"]))
    used = {name for text in css.values() for name in re.findall(r"var\((--[\w-]+)\)", text)}
    assert used <= defined


def test_colours_come_from_the_tokens_alone():
    for name in ("base.css", "pages.css"):
        text = (ROOT / "static" / "css" / name).read_text()
        assert set(re.findall(r"#[0-9a-fA-F]{3,8}\b", text)) <= {"#fff"}  # paper is white
