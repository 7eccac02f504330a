"""A dataset's card is enough for Croissant: written from its YAML alone, the file is valid and reads every row.

The Hub writes the Croissant file itself, from the card and the parquet files; nothing is uploaded.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import mlcroissant as mlc
import pyarrow.parquet as pq
import pytest
from datasets import Features, Value

from builders.hub.checks import described_splits, read_card
from builders.hub.release import Release, releases

LICENSES = {
    "apache-2.0": "https://choosealicense.com/licenses/apache-2.0/",
    "cc-by-4.0": "https://choosealicense.com/licenses/cc-by-4.0/",
    "odbl": "https://choosealicense.com/licenses/odbl/",
}
TYPES = {
    "string": mlc.DataType.TEXT, "bool": mlc.DataType.BOOL, "float64": mlc.DataType.FLOAT,
    **dict.fromkeys(("int8", "int32", "int64"), mlc.DataType.INTEGER),
}  # fmt: skip


def croissant(release: Release) -> dict[str, Any]:
    """What a card says of a dataset, as Croissant: a file and a record set for each split of a config."""
    card = read_card(release)
    files, records = [], []
    for path, config, split, features, _ in described_splits(release, card):
        name = f"{config}-{split}"
        content = release.folder / path
        digest = hashlib.sha256(content.read_bytes()).hexdigest()
        files.append(
            mlc.FileObject(
                id=f"{name}.parquet", name=f"{name}.parquet", content_url=str(content), sha256=digest,
                encoding_formats=["application/x-parquet"],
            )
        )  # fmt: skip
        records.append(mlc.RecordSet(id=name, name=name, fields=list(fields(name, features))))
    named = card["license"] if isinstance(card["license"], list) else [card["license"]]
    metadata = mlc.Metadata(
        name=release.repo_id.partition("/")[2], description=card["pretty_name"], url=f"https://hub/{release.repo_id}",
        license=[LICENSES[each] for each in named], distribution=files, record_sets=records,
    )  # fmt: skip
    return dict(metadata.to_json())


def fields(name: str, features: Features) -> list[mlc.Field]:
    return [
        mlc.Field(
            id=f"{name}/{column}", name=column, data_types=TYPES[kind.dtype],
            source=mlc.Source(file_object=f"{name}.parquet", extract=mlc.Extract(column=column)),
        )
        for column, kind in features.items()
        if isinstance(kind, Value)
    ]  # fmt: skip


@pytest.mark.parametrize("folder", ["benchmark_copy", "outputs"])
def test_a_card_makes_a_valid_croissant_file_that_reads_the_rows(
    folder: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    (release,) = releases(request.getfixturevalue(folder), "acme")
    path = tmp_path / "croissant.json"
    path.write_text(json.dumps(croissant(release), default=str))
    dataset = mlc.Dataset(jsonld=str(path))
    assert not dataset.metadata.ctx.issues.errors
    for place, config, split, _, examples in described_splits(release, read_card(release)):
        found = list(dataset.records(f"{config}-{split}"))
        key = "case_id" if config == "cases" else "item_id"
        assert len(found) == examples
        ids = pq.read_table(release.folder / place)[key].to_pylist()
        assert [each[f"{config}-{split}/{key}"].decode() for each in found] == ids
