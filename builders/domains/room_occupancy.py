"""Room occupancy: a smart-building controller reads an office's sensors (UCI 357).

All rows of ``datatraining.txt`` count; its first column, which the header leaves out, numbers them.
"""

from __future__ import annotations

from datetime import datetime

from builders.domain import Domain, Row, Source
from builders.prose import number, rounded
from builders.tables import read_csv

_COLUMNS = ("row", "date", "Temperature", "Humidity", "Light", "CO2", "HumidityRatio", "Occupancy")


def evidence(row: Row) -> str:
    moment = datetime.fromisoformat(row["date"])
    return (
        f"At {moment:%H:%M} on a {moment:%A}, the room is at {number(row['Temperature'], 1)} °C "
        f"with a relative humidity of {number(row['Humidity'], 1)}%. "
        f"The light sensor reads {rounded(row['Light'], 1)} lux, and the CO₂ concentration is "
        f"{rounded(row['CO2'], 1)} ppm."
    )


DOMAIN = Domain(
    name="room_occupancy",
    status="held_out",
    setup=(
        "You are a smart-building controller deciding whether an office room is currently occupied from its sensor "
        "readings."
    ),
    event="the room is occupied",
    source=Source(
        id="uci:357",
        title="Occupancy Detection",
        creators="Candanedo, L. (2016)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/357",
        archive="https://archive.ics.uci.edu/static/public/357/occupancy+detection.zip",
        member="datatraining.txt",
        sha256="b2c4d0ce2b9e4e453c476f7125ef31aeec2d1f5c7f5572d0e80de3df6521ab56",
        rows=8143,
        copies={"occupancy-datatraining.txt": "b2c4d0ce2b9e4e453c476f7125ef31aeec2d1f5c7f5572d0e80de3df6521ab56"},
    ),
    covariates=("date", "Temperature", "Humidity", "Light", "CO2"),
    read=lambda files: read_csv(files[0], names=_COLUMNS, skip=1),
    outcome=lambda row: {"1": 1, "0": 0}.get(row["Occupancy"]),
    evidence=evidence,
    key=lambda row: row["row"],
)
