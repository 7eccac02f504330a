"""Steel-plate fault detection: a quality inspector reads the automated measurements of a flagged region (UCI 198).

The outcome of the 1,941 regions is 1 for ``Z_Scratch`` and ``K_Scatch`` (spelt so in the source) and 0 for the five
other kinds of fault. The table has no header; its columns are named as in its file ``Faults27x7_var``. Positions
and lengths are in pixels (the area never exceeds the frame they span); the unit of the plate thickness is not known.
"""

from __future__ import annotations

from builders.domain import Domain, Row, Source
from builders.prose import count, number
from builders.tables import read_csv

COLUMNS = (
    "X_Minimum",
    "X_Maximum",
    "Y_Minimum",
    "Y_Maximum",
    "Pixels_Areas",
    "X_Perimeter",
    "Y_Perimeter",
    "Sum_of_Luminosity",
    "Minimum_of_Luminosity",
    "Maximum_of_Luminosity",
    "Length_of_Conveyer",
    "TypeOfSteel_A300",
    "TypeOfSteel_A400",
    "Steel_Plate_Thickness",
    "Edges_Index",
    "Empty_Index",
    "Square_Index",
    "Outside_X_Index",
    "Edges_X_Index",
    "Edges_Y_Index",
    "Outside_Global_Index",
    "LogOfAreas",
    "Log_X_Index",
    "Log_Y_Index",
    "Orientation_Index",
    "Luminosity_Index",
    "SigmoidOfAreas",
    "Pastry",
    "Z_Scratch",
    "K_Scatch",
    "Stains",
    "Dirtiness",
    "Bumps",
    "Other_Faults",
)


def _extent(row: Row, axis: str) -> str:
    return str(int(row[f"{axis}_Maximum"]) - int(row[f"{axis}_Minimum"]))


def evidence(row: Row) -> str:
    steel = "A400" if row["TypeOfSteel_A400"] == "1" else "A300"
    width, length = (count(_extent(row, axis), "pixel") for axis in "XY")
    return (
        f"On a plate of {steel} steel with a recorded thickness of {row['Steel_Plate_Thickness']}, the flagged region "
        f"covers {count(row['Pixels_Areas'], 'pixel')}. Its frame measures {width} along X, from position "
        f"{number(row['X_Minimum'])} to {number(row['X_Maximum'])}, and {length} along Y. Luminosity inside the region "
        f"ranges from {row['Minimum_of_Luminosity']} to {row['Maximum_of_Luminosity']}."
    )


DOMAIN = Domain(
    name="steel_fault",
    status="seen",
    setup=(
        "You are a quality-control inspector judging, from automated surface measurements, whether a flagged region of "
        "a steel plate is physically scratched."
    ),
    event="the inspected region is a genuine surface scratch in the steel (not a clean or otherwise-marked surface)",
    source=Source(
        id="uci:198",
        title="Steel Plates Faults",
        creators="Buscema, M., Terzi, S., and Tastle, W. (2010)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/198",
        archive="https://archive.ics.uci.edu/static/public/198/steel+plates+faults.zip",
        member="Faults.NNA",
        sha256=None,  # the quotes around each line of the copy at hand were removed
        rows=1941,
        copies={"Faults.NNA": "08994f5b0185a8e6cc22afe9910fd36834990fb1ca30852ed79012a832fbff55"},
    ),
    covariates=(
        "X_Minimum",
        "X_Maximum",
        "Y_Minimum",
        "Y_Maximum",
        "Pixels_Areas",
        "Minimum_of_Luminosity",
        "Maximum_of_Luminosity",
        "TypeOfSteel_A400",
        "Steel_Plate_Thickness",
    ),
    read=lambda files: read_csv(files[0], separator="\t", names=COLUMNS),
    outcome=lambda row: int("1" in (row["Z_Scratch"], row["K_Scatch"])),
    evidence=evidence,
)
