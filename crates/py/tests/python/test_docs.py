"""The programs of the pages run, in one process each page."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("page", ["docs/python.md", "crates/py/README.md"])
def test_the_blocks_of_a_page_run(page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 1
    # Pages name files of the repository, and write below target.
    for name in ["docs", "scenarios"]:
        os.symlink(ROOT / name, tmp_path / name)
    (tmp_path / "target").mkdir()
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks:
        line = text[: text.index(block)].count("\n")
        exec(compile("\n" * line + block, page, "exec"), names)
