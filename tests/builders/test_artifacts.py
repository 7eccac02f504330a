"""Names of artifacts, resolved to folders."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from builders.artifacts import folder_digest, load_rows, resolve
from builders.benchmark import write_benchmark
from builders.errors import UserError
from builders.folders import Written, write_parquet
from builders.schema import BENCHMARK

Build = tuple[Path, list[Written]]


def model_folder(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True)
    for name, text in {"config": "{}", "model": "weights", **files}.items():
        (folder / f"{name}.json").write_text(text)
    return folder


def test_a_local_dataset_folder_is_read_in_place(small_build: Build) -> None:
    folder, _ = small_build
    artifact = resolve(str(folder), "dataset")
    assert (artifact.id, artifact.path, artifact.revision) == (folder.name, folder.resolve(), folder_digest(folder))


def test_a_local_folder_may_be_given_relative_or_with_a_slash(
    small_build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = small_build
    monkeypatch.chdir(folder.parent)
    for reference in (folder.name, f"./{folder.name}/", f"{folder.name}/../{folder.name}"):
        assert resolve(reference, "dataset") == resolve(str(folder), "dataset")


def test_a_local_model_folder_is_pinned_by_its_digest(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "tiny")
    artifact = resolve(str(folder), "model")
    assert (artifact.id, artifact.path, artifact.revision) == ("tiny", folder, folder_digest(folder))


@pytest.mark.parametrize(
    "reference", ["nonsense", "a/b/c", "./missing", "/missing", "~/missing-folder", "", "@v1", "./a/b@v1"]
)
@pytest.mark.parametrize("kind", ["dataset", "model"])
def test_what_is_no_folder_and_no_hub_id_is_refused(
    reference: str, kind: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError) as error:
        resolve(reference, kind)
    assert (
        str(error.value) == f"{reference}: no such folder, and not a Hub id of the form org/name or org/name@revision"
    )


def test_a_file_is_no_artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "org").mkdir()
    (tmp_path / "org" / "name").write_text("a file")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="org/name: no such folder"):
        resolve("org/name", "dataset")


@pytest.mark.parametrize(
    ("reference", "kind", "message"),
    [
        ("nobody/nothing", "dataset", "nobody/nothing: not cached here, and the Hub cannot be reached"),
        ("nobody/nothing@v1.0.0", "model", "nobody/nothing@v1.0.0: not cached here, and the Hub cannot be reached"),
        ("no body/nothing", "model", "no body/nothing: not a valid Hub id"),
    ],
)
def test_a_hub_id_that_is_not_cached_is_one_line_when_offline(
    tmp_path: Path, repository: Path, reference: str, kind: str, message: str
) -> None:
    imports = "from builders.artifacts import resolve; from builders.cli import run"
    code = f"{imports}; run(lambda: resolve({reference!r}, {kind!r}))"
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=repository,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 2, result.stderr
    assert result.stderr.startswith(f"error: {message}") and result.stderr.count("\n") == 1, result.stderr


def test_a_digest_changes_with_names_and_contents_and_with_nothing_else(tmp_path: Path) -> None:
    first = folder_digest(model_folder(tmp_path / "a"))
    assert first.startswith("sha256-") and len(first) == len("sha256-") + 16
    assert folder_digest(model_folder(tmp_path / "elsewhere" / "b")) == first
    others = [
        model_folder(tmp_path / "changed", model="weights2"),
        model_folder(tmp_path / "added", tokenizer=""),
        model_folder(tmp_path / "exchanged", config="weights", model="{}"),
    ]
    renamed = model_folder(tmp_path / "renamed")
    (renamed / "config.json").rename(renamed / "configs.json")
    moved = model_folder(tmp_path / "moved")
    (moved / "sub").mkdir()
    (moved / "config.json").rename(moved / "sub" / "config.json")
    digests = [first, *map(folder_digest, [*others, renamed, moved])]
    assert len(set(digests)) == len(digests)


def test_hidden_files_and_folders_do_not_count_in_a_digest(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / ".cache" / "model")
    before = folder_digest(folder)
    (folder / ".gitattributes").write_text("x")
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("x")
    os.utime(folder / "config.json", (0, 0))
    assert folder_digest(folder) == before


@pytest.mark.parametrize("config", BENCHMARK)
def test_the_rows_of_a_built_folder_are_loaded(
    small_build: Build, few_cases: list[dict[str, Any]], datasets_cache: Path, config: str
) -> None:
    folder, files = small_build
    rows = load_rows(resolve(str(folder), "dataset"), config, "test")
    assert rows.num_rows == next(file.rows for file in files if (file.config, file.split) == (config, "test"))
    assert rows.features == BENCHMARK[config]


def test_without_a_split_all_splits_are_loaded_in_order(small_build: Build, datasets_cache: Path) -> None:
    rows = load_rows(resolve(str(small_build[0]), "dataset"), "cases")
    assert rows["split"] == ["train"] * 6 + ["validation"] * 2 + ["test"] * 12


def test_a_rebuilt_folder_is_read_anew(few_cases: list[dict[str, Any]], tmp_path: Path, datasets_cache: Path) -> None:
    out = tmp_path / "benchmark"
    loaded = []
    for cases in (few_cases, few_cases[:10]):
        write_benchmark(out, cases, ("cases",))
        loaded.append(load_rows(resolve(str(out), "dataset"), "cases")["case_id"][:])
    assert loaded == [
        [case["case_id"] for split in ("train", "validation", "test") for case in cases if case["split"] == split]
        for cases in (few_cases, few_cases[:10])
    ]


def test_an_unknown_config_names_those_there_are(small_build: Build, datasets_cache: Path) -> None:
    with pytest.raises(UserError, match=r"no config 'nope'; there are cases, .*decidability"):
        load_rows(resolve(str(small_build[0]), "dataset"), "nope")


def test_an_unknown_split_names_those_there_are(small_build: Build, datasets_cache: Path) -> None:
    with pytest.raises(UserError, match=r"config cases has no split 'dev'; there are train, validation, test"):
        load_rows(resolve(str(small_build[0]), "dataset"), "cases", "dev")


@pytest.mark.parametrize("content", [{}, {"notes.bin": "no dataset"}, {"cases/test-00000-of-00001.parquet": "garbage"}])
def test_a_folder_that_is_no_dataset_is_refused(tmp_path: Path, datasets_cache: Path, content: dict[str, str]) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, text in content.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    with pytest.raises(UserError, match=str(folder)) as error:
        load_rows(resolve(str(folder), "dataset"), "default")
    assert "\n" not in str(error.value)


def test_a_rebuilt_folder_of_the_same_size_gives_its_own_rows(datasets_cache: Path, tmp_path: Path) -> None:
    """Same name, same card, same bytes in each file: only the rows tell the two builds apart."""
    columns, read, sizes = BENCHMARK["elicitation"], [], set()
    for text in ("Aaaaa.", "Bbbbb."):
        row = {name: text if name == "prompt" else None for name in columns}
        file = write_parquet(tmp_path / "built", "elicitation", "test", [row], columns)
        (tmp_path / "built/README.md").write_text(
            f"---\nconfigs:\n- {{config_name: elicitation, data_files: {file.path}}}\n---\n"
        )
        sizes.add(file.file_bytes)
        read.append(load_rows(resolve(str(tmp_path / "built"), "dataset"), "elicitation")["prompt"][:])
    assert read == [["Aaaaa."], ["Bbbbb."]] and len(sizes) == 1
