"""Pages written from code are as the code says."""

import pytest
from generated import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_page_is_what_the_code_says(name: str) -> None:
    """Red: ``python tests/generated.py`` writes it anew."""
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name]()
