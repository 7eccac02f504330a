"""Corporate bankruptcy: a credit analyst reads nine accounting ratios of a Polish company (UCI 365, 5th-year file).

The outcome is ``class`` of the 5,910 companies: 1 where the company went bankrupt within the year after the accounts.
The ratios are Attr1 net profit / total assets, Attr2 total liabilities / total assets, Attr4 current assets /
short-term liabilities, Attr20 inventory * 365 / sales, Attr21 sales / sales of the year before, Attr36 total sales /
total assets, Attr39 profit on sales / sales, Attr44 receivables * 365 / sales, and Attr46 (current assets - inventory)
/ short-term liabilities. A row in which any but the two profit ratios is negative has a broken entry and is not used.
"""

from __future__ import annotations

from decimal import Decimal

from builders.domain import Domain, Row, Source
from builders.prose import number
from builders.tables import read_arff

NEVER_NEGATIVE = ("Attr2", "Attr4", "Attr20", "Attr21", "Attr36", "Attr44", "Attr46")


def outcome(row: Row) -> int | None:
    if any(row[name].startswith("-") for name in NEVER_NEGATIVE):
        return None
    return {"1": 1, "0": 0}.get(row["class"])


def _percent(cell: str) -> str:
    percent = abs(Decimal(cell)) * 100
    return f"{number(str(percent), 1 if percent >= Decimal('0.1') else None)}%"


def _net_result(cell: str) -> str:
    if Decimal(cell) == 0:
        return "broke even"
    return f"made a net {'loss' if cell.startswith('-') else 'profit'} equal to {_percent(cell)} of its total assets"


def _sales_result(cell: str) -> str:
    if Decimal(cell) == 0:
        return "neither a profit nor a loss on its sales"
    return f"a {'loss' if cell.startswith('-') else 'profit'} on sales of {_percent(cell)}"


def _days(cell: str, what: str) -> str:
    return f"no {what}" if Decimal(cell) == 0 else f"{what} worth {number(cell, 1)} days of sales"


def evidence(row: Row) -> str:
    liabilities = f"amount to {_percent(row['Attr2'])} of total assets" if Decimal(row["Attr2"]) else "are nil"
    inventory, receivables = _days(row["Attr20"], "inventories"), _days(row["Attr44"], "receivables")
    return (
        f"The company {_net_result(row['Attr1'])} and {_sales_result(row['Attr39'])}. Its liabilities {liabilities}; "
        f"current assets cover short-term liabilities {number(row['Attr4'], 2)} times, or {number(row['Attr46'], 2)} "
        f"times without inventories. Sales were {number(row['Attr36'], 2)} times total assets and "
        f"{number(row['Attr21'], 2)} times those of the year before. The company holds {inventory} and {receivables}."
    )


DOMAIN = Domain(
    name="corporate_bankruptcy",
    status="seen",
    setup=(
        "You are a corporate credit analyst assessing whether a company is financially distressed from its accounting "
        "ratios."
    ),
    event="the company goes bankrupt within the forecast horizon",
    source=Source(
        id="uci:365",
        title="Polish Companies Bankruptcy",
        creators="Tomczak, S. (2016)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/365",
        archive="https://archive.ics.uci.edu/static/public/365/polish+companies+bankruptcy+data.zip",
        member="5year.arff",
        sha256=None,  # no digest of the original is known
        rows=5910,
        copies={"polish-5year.arff": "e403fd559a71f2614a19260a63af215b30c787f5a661b52798c4ac4e0c1271ca"},
    ),
    covariates=("Attr1", "Attr2", "Attr4", "Attr20", "Attr21", "Attr36", "Attr39", "Attr44", "Attr46"),
    read=lambda files: read_arff(files[0]),
    outcome=outcome,
    evidence=evidence,
)
