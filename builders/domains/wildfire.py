"""Wildfire: a wildfire analyst reads a day's weather in a region of Algeria (UCI 547).

All 244 rows count, numbered across the two region blocks of the file. The FWI column is not used: its name is the
outcome word.
"""

from __future__ import annotations

import re

from builders.domain import Domain, Row, Source
from builders.prose import number
from builders.tables import read_csv

_REGION = {"Bejaia": "Bejaia", "Sidi-Bel Abbes": "Sidi Bel Abbes"}


def read(data: bytes) -> list[Row]:
    """The rows of both blocks, each with its block's ``Region``.

    A block is a title line, a header, and its rows. In one row a comma is missing: ``14.6 9`` is DC 14.6 and ISI 9.
    """
    text = data.decode("utf-8-sig").replace(",14.6 9,", ",14.6,9,")
    _, *parts = re.split(r"^(.+) Region Dataset.*$", text, flags=re.MULTILINE)
    blocks = zip(parts[::2], parts[1::2], strict=True)
    return [{"Region": region, **row} for region, block in blocks for row in read_csv(block.encode())]


def evidence(row: Row) -> str:
    rain = "no rain" if number(row["Rain"]) == "0" else f"{number(row['Rain'])} mm of rain"
    return (
        f"In the {_REGION[row['Region']]} region, the noon temperature is {number(row['Temperature'])} °C, "
        f"the relative humidity is {number(row['RH'])}%, and the wind blows at {number(row['Ws'])} km/h, "
        f"with {rain} over the day. "
        f"The Fine Fuel Moisture Code stands at {number(row['FFMC'], 1)}, "
        f"the Duff Moisture Code at {number(row['DMC'], 1)}, "
        f"the Drought Code at {number(row['DC'], 1)}, and the Initial Spread Index at {number(row['ISI'], 1)}."
    )


DOMAIN = Domain(
    name="wildfire",
    status="held_out",
    setup="You are a wildfire analyst assessing fire risk from current weather conditions in a region of Algeria.",
    event="a fire occurs under these conditions",
    source=Source(
        id="uci:547",
        title="Algerian Forest Fires",
        creators="Abid, F. (2019)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/547",
        archive="https://archive.ics.uci.edu/static/public/547/algerian+forest+fires+dataset.zip",
        member="Algerian_forest_fires_dataset_UPDATE.csv",
        sha256="3be9ea1575c093cf6bfa7b56110cedc827aa8ca7953bf571530f8cd9990e0a0c",
        rows=244,
        copies={"algerian-forest-fires.csv": "3be9ea1575c093cf6bfa7b56110cedc827aa8ca7953bf571530f8cd9990e0a0c"},
    ),
    covariates=("Region", "Temperature", "RH", "Ws", "Rain", "FFMC", "DMC", "DC", "ISI"),
    read=lambda files: read(files[0]),
    outcome=lambda row: {"fire": 1, "not fire": 0}.get(row["Classes"]),
    evidence=evidence,
)
