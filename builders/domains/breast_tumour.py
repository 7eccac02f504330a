"""Breast-tumour diagnosis: a pathologist reads cell-nucleus measurements of a fine-needle aspirate (UCI 17).

The outcome is the diagnosis of the 569 aspirates: M against B. The table has no header; its columns are named as in its
documentation, which gives no units. "Worst" is the mean of the three largest values of a feature in the image.
"""

from __future__ import annotations

from builders.domain import Domain, Row, Source
from builders.prose import number
from builders.tables import read_csv

FEATURES = (
    "Radius",
    "Texture",
    "Perimeter",
    "Area",
    "Smoothness",
    "Compactness",
    "Concavity",
    "Concave Points",
    "Symmetry",
    "Fractal Dimension",
)
COLUMNS = (
    "ID",
    "Diagnosis",
    *(f"Mean {name}" for name in FEATURES),
    *(f"{name} SE" for name in FEATURES),
    *(f"Worst {name}" for name in FEATURES),
)


def evidence(row: Row) -> str:
    shown = {name: number(row[name]) for name in DOMAIN.covariates}
    return (
        f"The cell nuclei in the aspirate have a mean radius of {shown['Mean Radius']}, a mean area of "
        f"{shown['Mean Area']}, and a mean texture (spread of the gray levels) of {shown['Mean Texture']}. "
        f"Their outlines show a mean smoothness of {shown['Mean Smoothness']}, a mean concavity of "
        f"{shown['Mean Concavity']}, and a mean concave-points value of {shown['Mean Concave Points']}. "
        f"Averaged over the three largest values in the image, the radius is {shown['Worst Radius']}, the area "
        f"{shown['Worst Area']}, and the concave-points value {shown['Worst Concave Points']}."
    )


DOMAIN = Domain(
    name="breast_tumour",
    status="seen",
    setup="You are a pathologist reviewing cell-nucleus measurements from a breast fine-needle aspirate.",
    event="the breast tumour is malignant",
    source=Source(
        id="uci:17",
        title="Breast Cancer Wisconsin (Diagnostic)",
        creators="Wolberg, W., Mangasarian, O., Street, N., and Street, W. (1993)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/17",
        archive="https://archive.ics.uci.edu/static/public/17/breast+cancer+wisconsin+diagnostic.zip",
        member="wdbc.data",
        sha256="d606af411f3e5be8a317a5a8b652b425aaf0ff38ca683d5327ffff94c3695f4a",
        rows=569,
        copies={"wdbc.data": "d606af411f3e5be8a317a5a8b652b425aaf0ff38ca683d5327ffff94c3695f4a"},
    ),
    covariates=(
        "Mean Radius",
        "Mean Texture",
        "Mean Area",
        "Mean Smoothness",
        "Mean Concavity",
        "Mean Concave Points",
        "Worst Radius",
        "Worst Area",
        "Worst Concave Points",
    ),
    read=lambda files: read_csv(files[0], names=COLUMNS),
    outcome=lambda row: {"M": 1, "B": 0}.get(row["Diagnosis"]),
    evidence=evidence,
)
