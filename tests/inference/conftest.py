"""Nothing here reads or writes the user's caches, and nothing asks a Hub."""

import pytest


@pytest.fixture(scope="session", autouse=True)
def isolated(hf_caches: dict[str, str]) -> None:
    """Every test of this folder runs with empty caches and offline."""
