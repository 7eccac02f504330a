"""Telecom churn: a retention analyst reads a subscriber's account (IBM Telco customer churn sample).

All rows count: of the columns used none has a blank cell (``TotalCharges`` has some, at tenure 0, and is not used).
"""

from __future__ import annotations

from builders.domain import Domain, Row, Source
from builders.prose import count, number
from builders.tables import read_csv

_SENIOR = {"1": "A senior citizen", "0": "A customer who is not a senior citizen"}
_CONTRACT = {"Month-to-month": "month-to-month", "One year": "one-year", "Two year": "two-year"}
_INTERNET = {"DSL": "DSL internet", "Fiber optic": "fiber-optic internet"}
_EXTRAS = {
    ("Yes", "Yes"): "includes both online security and technical support",
    ("Yes", "No"): "includes online security but not technical support",
    ("No", "Yes"): "includes technical support but not online security",
    ("No", "No"): "includes neither online security nor technical support",
}
_PAYMENT = {
    "Electronic check": "by electronic check",
    "Mailed check": "by mailed check",
    "Bank transfer (automatic)": "automatically by bank transfer",
    "Credit card (automatic)": "automatically by credit card",
}


def _services(row: Row) -> str:
    has_phone = row["PhoneService"] == "Yes"
    if row["InternetService"] == "No":
        return f"The account has {'phone but no internet' if has_phone else 'neither phone nor internet'} service."
    internet = _INTERNET[row["InternetService"]]
    lines = f"phone service and {internet}" if has_phone else f"{internet} but no phone service"
    return f"The account has {lines}, and the internet plan {_EXTRAS[row['OnlineSecurity'], row['TechSupport']]}."


def evidence(row: Row) -> str:
    tenure = "less than a month" if row["tenure"] == "0" else count(row["tenure"], "month")
    return (
        f"{_SENIOR[row['SeniorCitizen']]} has been with the company for {tenure} and is on "
        f"a {_CONTRACT[row['Contract']]} contract. {_services(row)} "
        f"The monthly charge of ${number(row['MonthlyCharges'], 2)} is paid {_PAYMENT[row['PaymentMethod']]}."
    )


DOMAIN = Domain(
    name="telecom_churn",
    status="seen",
    setup="You are a customer-retention analyst at a telecom company reviewing a subscriber’s account.",
    event="the customer churns next cycle",
    source=Source(
        id="ibm:telco-churn",
        title="Telco Customer Churn",
        creators="IBM",
        licence="Apache-2.0",
        page="https://github.com/IBM/telco-customer-churn-on-icp4d",
        archive=(
            "https://raw.githubusercontent.com/IBM/telco-customer-churn-on-icp4d/master/data/Telco-Customer-Churn.csv"
        ),
        member="",
        sha256=None,  # the line ends of the repository's file differ from those of the copy at hand
        rows=7043,
        copies={"telco-churn.csv": "88be4b93fbe0cc83421af1c503794c97c342eca914c1576db7c276e61d61358a"},
    ),
    covariates=(
        "SeniorCitizen",
        "tenure",
        "Contract",
        "PhoneService",
        "InternetService",
        "OnlineSecurity",
        "TechSupport",
        "MonthlyCharges",
        "PaymentMethod",
    ),
    read=lambda files: read_csv(files[0]),
    outcome=lambda row: {"Yes": 1, "No": 0}.get(row["Churn"]),
    evidence=evidence,
)
