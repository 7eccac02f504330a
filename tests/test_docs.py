"""README, licences, citation: what they say is true of the tree."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import yaml

from builders.domains import DOMAINS
from builders.provenance import attribution_table

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_licence_table_is_that_of_the_sources() -> None:
    assert attribution_table(DOMAINS) in (ROOT / "DATA_LICENSES.md").read_text(encoding="utf-8")


def test_the_readme_links_and_names_only_what_exists() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
    tree = README.split("## Layout\n\n")[1].split("\nStages talk")[0]
    parents: list[str] = []
    for line in filter(None, tree.splitlines()):
        depth, name = (len(line) - len(line.lstrip()) - 4) // 2, line.split()[0]
        parents[depth:] = [name]
        assert name == "..." or (ROOT / "".join(parents)).exists(), name


def test_the_readme_has_no_placeholder_left() -> None:
    assert not re.search(r"\b(PICTURE|MEASURED|SPEED|TIME|TODO|TBD)\b", README)


def test_ci_installs_from_pyproject_and_runs_the_readmes_test_command() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert "pip\" install -q -e '.[test]'" in script
    assert "-m pytest" in script
    assert ".venv/bin/pip install -e '.[test]' && .venv/bin/python -m pytest" in README


def test_citation_and_pyproject_have_one_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert citation["version"] == project["version"]
    assert {"Training Language Models to Be Coherent Decision-Makers"} < {
        each["title"] for each in citation["references"]
    }


def test_every_registry_of_packages_stays_unnamed() -> None:
    hosts = re.compile(r"(pypi|pythonhosted|pytorch)\.org")
    for path in ROOT.rglob("*"):
        relative = path.relative_to(ROOT)
        if path.is_file() and path.suffix in {".py", ".md", ".toml", ".yaml", ".cff"} and ".venv" not in relative.parts:
            assert path == Path(__file__) or not hosts.search(path.read_text(encoding="utf-8")), relative
