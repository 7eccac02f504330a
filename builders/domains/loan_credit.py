"""Loan credit risk: a loan officer at a retail bank reads an application, Germany, amounts in Deutsche Mark (UCI 144).

The outcome is the last column of the 1,000 rows: 2 (bad) against 1 (good). The table has no header; its columns are
named as in its documentation.
"""

from __future__ import annotations

from builders.domain import Domain, Row, Source
from builders.prose import a_or_an, count, number
from builders.tables import read_csv

COLUMNS = (
    "Status of existing checking account",
    "Duration in month",
    "Credit history",
    "Purpose",
    "Credit amount",
    "Savings account/bonds",
    "Present employment since",
    "Installment rate in percentage of disposable income",
    "Personal status and sex",
    "Other debtors / guarantors",
    "Present residence since",
    "Property",
    "Age in years",
    "Other installment plans",
    "Housing",
    "Number of existing credits at this bank",
    "Job",
    "Number of people being liable to provide maintenance for",
    "Telephone",
    "foreign worker",
    "class",
)
CHECKING = {
    "A11": "The checking account is overdrawn",
    "A12": "The checking account holds less than 200 Deutsche Mark",
    "A13": "The checking account holds at least 200 Deutsche Mark or has received a salary for at least a year",
    "A14": "There is no checking account",
}
HISTORY = {
    "A30": "No credits have been taken before, or all of them have been duly paid back",
    "A31": "All credits at this bank have been duly paid back",
    "A32": "Existing credits have been duly paid back so far",
    "A33": "There have been delays in paying off credits in the past",
    "A34": "The credit history is marked as critical, or there are credits at other banks",
}
PURPOSE = {
    "A40": "to buy a new car",
    "A41": "to buy a used car",
    "A42": "to buy furniture or equipment",
    "A43": "to buy a radio or television",
    "A44": "to buy domestic appliances",
    "A45": "to pay for repairs",
    "A46": "to pay for education",
    "A47": "to pay for a vacation",
    "A48": "to pay for retraining",
    "A49": "for business",
    "A410": "for a purpose outside the usual categories",
}
SAVINGS = {
    "A61": "savings are below 100 Deutsche Mark",
    "A62": "savings are between 100 and 500 Deutsche Mark",
    "A63": "savings are between 500 and 1,000 Deutsche Mark",
    "A64": "savings are at least 1,000 Deutsche Mark",
    "A65": "no savings are known",
}
EMPLOYMENT = {
    "A71": "is unemployed",
    "A72": "has been in the present job for less than a year",
    "A73": "has been in the present job for one to four years",
    "A74": "has been in the present job for four to seven years",
    "A75": "has been in the present job for at least seven years",
}
HOUSING = {"A151": "rents their home", "A152": "owns their home", "A153": "lives rent-free"}


def evidence(row: Row) -> str:
    applicant = a_or_an(f"{row['Age in years']}-year-old applicant").capitalize()
    return (
        f"{applicant} asks for {number(row['Credit amount'])} Deutsche Mark over "
        f"{count(row['Duration in month'], 'month')} {PURPOSE[row['Purpose']]}. The applicant "
        f"{EMPLOYMENT[row['Present employment since']]} and {HOUSING[row['Housing']]}. "
        f"{CHECKING[row['Status of existing checking account']]}, and {SAVINGS[row['Savings account/bonds']]}. "
        f"{HISTORY[row['Credit history']]}."
    )


DOMAIN = Domain(
    name="loan_credit",
    status="seen",
    setup="You are a loan officer at a retail bank reviewing a new loan application.",
    event="the applicant turns out to be a bad credit risk",
    source=Source(
        id="uci:144",
        title="Statlog (German Credit Data)",
        creators="Hofmann, H. (1994)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/144",
        archive="https://archive.ics.uci.edu/static/public/144/statlog+german+credit+data.zip",
        member="german.data",
        sha256=None,  # one trailing blank of the copy at hand was removed
        rows=1000,
        copies={"german.data": "b21f3d81db8071257d5ff1deaeba1fd4303b62712e6fcc9715c7a86202cb5871"},
    ),
    covariates=(
        "Status of existing checking account",
        "Duration in month",
        "Credit history",
        "Purpose",
        "Credit amount",
        "Savings account/bonds",
        "Present employment since",
        "Age in years",
        "Housing",
    ),
    read=lambda files: read_csv(files[0], separator=" ", names=COLUMNS),
    outcome=lambda row: {"2": 1, "1": 0}.get(row["class"]),
    evidence=evidence,
)
