"""Predictive maintenance: a reliability engineer reads the sensors of a simulated milling machine (UCI 601).

The outcome is ``Machine failure`` of the 10,000 rows; the failure modes TWF, HDF, PWF, OSF, and RNF give it away and
are not used.
"""

from __future__ import annotations

from builders.domain import Domain, Row, Source
from builders.prose import count, number
from builders.tables import read_csv

QUALITY = {"L": "low", "M": "medium", "H": "high"}


def evidence(row: Row) -> str:
    air, process = (number(row[f"{name} temperature [K]"], 1) for name in ("Air", "Process"))
    speed, torque = number(row["Rotational speed [rpm]"]), number(row["Torque [Nm]"], 1)
    wear = row["Tool wear [min]"]
    worn = "a new tool (no wear yet)" if wear == "0" else f"{count(wear, 'minute')} of tool wear"
    return (
        f"A machine is operating at {air} K air temperature and {process} K process temperature, at {speed} rpm and "
        f"{torque} Nm torque, with {worn}. The product being made is of the {QUALITY[row['Type']]}-quality variant."
    )


DOMAIN = Domain(
    name="predictive_maintenance",
    status="seen",
    setup="You are a reliability engineer monitoring an industrial machine’s live sensor readings.",
    event="the machine fails during operation",
    source=Source(
        id="uci:601",
        title="AI4I 2020 Predictive Maintenance Dataset",
        creators="Matzka, S. (2020)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/601",
        archive="https://archive.ics.uci.edu/static/public/601/ai4i+2020+predictive+maintenance+dataset.zip",
        member="ai4i2020.csv",
        sha256=None,  # the header of the copy at hand was put back by hand
        rows=10000,
        copies={"ai4i2020.csv": "dc6630cd9b1f0f853922fad78a1b6436570d3f1ec863f1dd5c4340ac56bc8a8e"},
    ),
    covariates=(
        "Type",
        "Air temperature [K]",
        "Process temperature [K]",
        "Rotational speed [rpm]",
        "Torque [Nm]",
        "Tool wear [min]",
    ),
    read=lambda files: read_csv(files[0]),
    outcome=lambda row: {"1": 1, "0": 0}.get(row["Machine failure"]),
    evidence=evidence,
)
