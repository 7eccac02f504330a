"""Term-deposit marketing: a marketing analyst reads a client of a Portuguese bank before a call (UCI 222, bank-full).

The outcome is ``y`` of the 45,211 rows. ``duration`` is known only after the call and is not used; ``campaign`` counts
the contacts of the current campaign with the last one included, and is told as the number of the call at hand. Rows
with an unknown job or education, or with an earlier campaign whose result is unknown, are not used.
"""

from __future__ import annotations

from builders.domain import Domain, Row, Source
from builders.prose import a_or_an, count
from builders.tables import read_csv

NOT_CONTACTED = "-1"
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
JOB = {
    "admin.": "client in administrative work",
    "blue-collar": "client in blue-collar work",
    "entrepreneur": "entrepreneur",
    "housemaid": "client in domestic service",
    "management": "client in management",
    "retired": "retired client",
    "self-employed": "self-employed client",
    "services": "client in the service sector",
    "student": "student",
    "technician": "technician",
    "unemployed": "unemployed client",
}
RESULT = {
    "success": "with success",
    "failure": "without success",
    "other": "with a result recorded only as “other”",
}


def outcome(row: Row) -> int | None:
    result_unknown = row["poutcome"] == "unknown" and row["pdays"] != NOT_CONTACTED
    if "unknown" in (row["job"], row["education"]) or result_unknown:
        return None
    return {"yes": 1, "no": 0}.get(row["y"])


def _balance(cell: str) -> str:
    if cell == "0":
        return "an average yearly balance of zero"
    if cell.startswith("-"):
        return f"an average yearly overdraft of {count(cell[1:], 'euro')}"
    return f"an average yearly balance of {count(cell, 'euro')}"


def _loans(row: Row) -> str:
    housing, personal = row["housing"] == "yes", row["loan"] == "yes"
    if housing and personal:
        return "both a housing loan and a personal loan"
    if housing:
        return "a housing loan but no personal loan"
    return "a personal loan but no housing loan" if personal else "neither a housing loan nor a personal loan"


def _previous(row: Row) -> str:
    if row["pdays"] == NOT_CONTACTED:
        return "was never contacted in an earlier campaign"
    days = count(row["pdays"], "day")
    return f"was last contacted {days} ago, in an earlier campaign that ended {RESULT[row['poutcome']]}"


def _call(cell: str) -> str:
    ordinal = int(cell)
    return f"the {ORDINALS[ordinal - 1]} contact" if ordinal <= len(ORDINALS) else f"contact number {ordinal}"


def evidence(row: Row) -> str:
    return (
        f"{a_or_an(row['age'] + '-year-old ' + JOB[row['job']]).capitalize()} with {row['education']} education has "
        f"{_balance(row['balance'])}. The client has {_loans(row)} and {_previous(row)}. "
        f"A call now would be {_call(row['campaign'])} of the current campaign."
    )


DOMAIN = Domain(
    name="term_deposit",
    status="seen",
    setup=(
        "You are a marketing analyst at a retail bank judging whether a client will subscribe to a term deposit if "
        "called."
    ),
    event="the client subscribes to a term deposit if contacted",
    source=Source(
        id="uci:222",
        title="Bank Marketing",
        creators="Moro, S., Rita, P., and Cortez, P. (2014)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/222",
        archive="https://archive.ics.uci.edu/static/public/222/bank+marketing.zip",
        member="bank.zip/bank-full.csv",
        sha256="d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d",
        rows=45211,
        copies={"bank-full.csv": "d1513ec63b385506f7cfce9f2c5caa9fe99e7ba4e8c3fa264b3aaf0f849ed32d"},
    ),
    covariates=("age", "job", "education", "balance", "housing", "loan", "campaign", "pdays", "poutcome"),
    read=lambda files: read_csv(files[0], separator=";"),
    outcome=outcome,
    evidence=evidence,
)
