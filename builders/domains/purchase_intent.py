"""Purchase intent: an e-commerce analyst reads a visitor's session (UCI 468).

All rows count; the outcome is ``Revenue``. ``PageValues`` is not used: it is computed from completed transactions.
"""

from __future__ import annotations

from decimal import Decimal

from builders.domain import Domain, Row, Source
from builders.prose import count, rounded
from builders.tables import read_csv

_VISITOR = {
    "New_Visitor": "A new visitor",
    "Returning_Visitor": "A returning visitor",
    "Other": "A visitor recorded as neither new nor returning",
}
_MONTH = {
    "Feb": "February",
    "Mar": "March",
    "May": "May",
    "June": "June",
    "Jul": "July",
    "Aug": "August",
    "Sep": "September",
    "Oct": "October",
    "Nov": "November",
    "Dec": "December",
}
_DAY = {"TRUE": "during a weekend", "FALSE": "on a weekday"}


def _percent(rate: str) -> str:
    shown = rounded(str(Decimal(rate) * 100), 1)
    return "less than 0.1%" if shown == "0" and Decimal(rate) else f"{shown}%"


def _product_pages(pages: str, seconds: str) -> str:
    viewed = f"viewed {count(pages, 'product page')}"
    if pages == "0":
        return viewed
    if Decimal(seconds) == 0:
        return f"{viewed}, with no measured viewing time,"
    time = count(rounded(seconds, 0).replace(",", ""), "second")
    return f"{viewed}, spending {time} on {'it' if pages == '1' else 'them'},"


def _other_pages(account: str, information: str) -> str:
    pages = [count(account, "account-management page"), count(information, "informational page")]
    if account == information == "0":
        return "and opened no account-management or informational pages"
    joint = "but" if "0" in (account, information) else "and"
    return f"and opened {f' {joint} '.join(sorted(pages, key=lambda each: each.startswith('no ')))}"


def evidence(row: Row) -> str:
    return (
        f"{_VISITOR[row['VisitorType']]} came to the site {_DAY[row['Weekend']]} in {_MONTH[row['Month']]}. "
        f"In this session the visitor {_product_pages(row['ProductRelated'], row['ProductRelated_Duration'])} "
        f"{_other_pages(row['Administrative'], row['Informational'])}. "
        f"The session’s average bounce rate is {_percent(row['BounceRates'])}, "
        f"and its average exit rate is {_percent(row['ExitRates'])}."
    )


DOMAIN = Domain(
    name="purchase_intent",
    status="held_out",
    setup=(
        "You are an e-commerce analyst judging whether a website visitor will complete a purchase during their session."
    ),
    event="the visitor completes a purchase this session",
    source=Source(
        id="uci:468",
        title="Online Shoppers Purchasing Intention Dataset",
        creators="Sakar, C. and Kastro, Y. (2018)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/468",
        archive="https://archive.ics.uci.edu/static/public/468/online+shoppers+purchasing+intention+dataset.zip",
        member="online_shoppers_intention.csv",
        sha256="b3055ee355f59134d851d32641183cb4a8b45def7124d2f50442a042f358e0d9",
        rows=12330,
        copies={"online-shoppers.csv": "b3055ee355f59134d851d32641183cb4a8b45def7124d2f50442a042f358e0d9"},
    ),
    covariates=(
        "VisitorType",
        "Month",
        "Weekend",
        "ProductRelated",
        "ProductRelated_Duration",
        "Administrative",
        "Informational",
        "BounceRates",
        "ExitRates",
    ),
    read=lambda files: read_csv(files[0]),
    outcome=lambda row: {"TRUE": 1, "FALSE": 0}.get(row["Revenue"]),
    evidence=evidence,
)
