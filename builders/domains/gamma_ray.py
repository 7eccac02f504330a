"""Gamma ray: an astrophysicist reads the image parameters of a shower (UCI 159, MAGIC).

All rows count; class ``g`` is a gamma-ray signal, ``h`` hadronic background. The table has no header; the column names
are those of its documentation.
"""

from __future__ import annotations

from decimal import Decimal

from builders.domain import Domain, Row, Source
from builders.prose import number
from builders.tables import read_csv

_COLUMNS = "fLength fWidth fSize fConc fConc1 fAsym fM3Long fM3Trans fAlpha fDist class".split()


def _percent(ratio: str) -> str:
    return f"{number(str(Decimal(ratio) * 100), 1)}%"


def evidence(row: Row) -> str:
    return (
        f"The shower image is an ellipse with a major axis of {number(row['fLength'], 1)} mm and a minor axis of "
        f"{number(row['fWidth'], 1)} mm. The base-10 logarithm of its total light content, in photons, is "
        f"{number(row['fSize'], 2)}; the two brightest pixels hold {_percent(row['fConc'])} of that light and the "
        f"brightest alone {_percent(row['fConc1'])}. Along the major axis, the signed offset of the brightest pixel "
        f"from the image centre is {number(row['fAsym'], 1)} mm, and the cube root of the third moment is "
        f"{number(row['fM3Long'], 1)} mm. The image centre lies {number(row['fDist'], 1)} mm from the origin of the "
        f"camera plane, and the major axis makes an angle of {number(row['fAlpha'], 1)}° with the line to that origin."
    )


DOMAIN = Domain(
    name="gamma_ray",
    status="held_out",
    setup="You are an astrophysicist classifying a shower image recorded by a ground-based gamma-ray telescope.",
    event="the recorded shower is a gamma-ray signal",
    source=Source(
        id="uci:159",
        title="MAGIC Gamma Telescope",
        creators="Bock, R. (2004)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/159",
        archive="https://archive.ics.uci.edu/static/public/159/magic+gamma+telescope.zip",
        member="magic04.data",
        sha256="e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a",
        rows=19020,
        copies={"magic04.data": "e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a"},
    ),
    covariates=("fLength", "fWidth", "fSize", "fConc", "fConc1", "fAsym", "fM3Long", "fAlpha", "fDist"),
    read=lambda files: read_csv(files[0], names=_COLUMNS),
    outcome=lambda row: {"g": 1, "h": 0}.get(row["class"]),
    evidence=evidence,
)
