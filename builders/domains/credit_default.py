"""Credit-card default: a bank's credit-risk analyst reads a cardholder's account in Taiwan, 2005 (UCI 350).

The outcome is ``default payment next month`` (October). The repayment status of a month is a code: -1 paid in full, n
months behind, and, undocumented in the table but explained by its author, 0 revolving credit with the minimum paid and
-2 no use of the card. A row that calls a month unused although its statement shows a balance is not used.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

from builders.domain import Domain, Row, Source
from builders.prose import a_or_an, listed, number
from builders.tables import read_csv

OLE_MAGIC = bytes.fromhex("D0CF11E0")
MONTHS = {"PAY_0": "September", "PAY_2": "August", "PAY_3": "July"}
STATEMENTS = {"PAY_0": "BILL_AMT1", "PAY_2": "BILL_AMT2", "PAY_3": "BILL_AMT3"}
REPAYMENT = {
    "-2": "went unused",
    "-1": "was paid in full",
    "0": "carried a revolving balance with the minimum paid",
    "1": "was one month behind",
    "2": "was two months behind",
    "3": "was three months behind",
    "4": "was four months behind",
    "5": "was five months behind",
    "6": "was six months behind",
    "7": "was seven months behind",
    "8": "was eight months behind",
    "9": "was nine or more months behind",
}


def read(files: Sequence[bytes]) -> list[Row]:
    """The rows of the CSV export or of the original ``.xls``, whose first line (X1, X2, ...) is skipped."""
    if not files[0].startswith(OLE_MAGIC):
        return read_csv(files[0])
    import pandas as pd

    frame = pd.read_excel(io.BytesIO(files[0]), dtype=str, header=1, keep_default_na=False)
    frame.columns = frame.columns.str.strip()
    frame = frame.apply(lambda column: column.str.strip().str.removesuffix(".0"))
    rows: list[Row] = frame.to_dict("records")
    return rows


def outcome(row: Row) -> int | None:
    if any(row[status] == "-2" and int(row[bill]) > 0 for status, bill in STATEMENTS.items()):
        return None
    return {"1": 1, "0": 0}.get(row["default payment next month"])


def _repayment(row: Row) -> str:
    months: dict[str, list[str]] = {}
    for column, month in MONTHS.items():
        months.setdefault(REPAYMENT[row[column]], []).append(month)
    if len(months) == 1:
        return f"{next(iter(months))} in each month from July to September"
    phrases = [f"{status} in {listed(which)}" for status, which in months.items()]
    if all(phrase.startswith("was ") for phrase in phrases):
        return f"was {listed([phrase.removeprefix('was ') for phrase in phrases])}"
    return listed(phrases)


def _statement(cell: str) -> str:
    if cell == "0":
        return "no balance"
    if cell.startswith("-"):
        return f"a credit of NT${number(cell[1:])}"
    return f"a balance of NT${number(cell)}"


def _statements(row: Row) -> str:
    latest, previous = _statement(row["BILL_AMT1"]), _statement(row["BILL_AMT2"])
    if latest == previous:
        return f"The September and August statements both showed {latest}"
    return f"The September statement showed {latest} and the August statement {previous}"


def _payments(row: Row) -> str:
    latest, previous = row["PAY_AMT1"], row["PAY_AMT2"]
    if latest == previous:
        return f"NT${number(latest)} in each of the two months" if latest != "0" else "nothing in either month"
    september, august = (f"NT${number(cell)}" if cell != "0" else "nothing" for cell in (latest, previous))
    return f"{september} in September and {august} in August"


def evidence(row: Row) -> str:
    customer = a_or_an(f"{row['AGE']}-year-old customer").capitalize()
    return (
        f"{customer} has a credit limit of NT${number(row['LIMIT_BAL'])}. "
        f"The account {_repayment(row)}. {_statements(row)}; the customer paid {_payments(row)}."
    )


DOMAIN = Domain(
    name="credit_default",
    status="seen",
    setup="You are a credit-risk analyst at a bank reviewing a customer’s credit-card account to judge repayment risk.",
    event="the cardholder defaults on their next payment",
    source=Source(
        id="uci:350",
        title="Default of Credit Card Clients",
        creators="Yeh, I. (2009)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/350",
        archive="https://archive.ics.uci.edu/static/public/350/default+of+credit+card+clients.zip",
        member="default of credit card clients.xls",
        sha256=None,  # the copy at hand is a CSV export
        rows=30000,
        copies={"credit-default.csv": "4edce6da569b2c30788a85fd98a9bafb1a983e8ca1a7aac875dd7ff853cbd0bb"},
    ),
    covariates=(
        "LIMIT_BAL",
        "AGE",
        "PAY_0",
        "PAY_2",
        "PAY_3",
        "BILL_AMT1",
        "BILL_AMT2",
        "PAY_AMT1",
        "PAY_AMT2",
    ),
    read=read,
    outcome=outcome,
    evidence=evidence,
)
