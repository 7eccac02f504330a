"""Student dropout: an academic advisor reads an undergraduate's first-year record (UCI 697).

The outcome is ``Target`` = Dropout against Graduate; students still enrolled have no outcome yet and are not used.
"""

from __future__ import annotations

from builders.domain import Domain, Row, Source
from builders.prose import a_or_an, number
from builders.tables import read_csv


def _courses(row: Row) -> str:
    taken = {}
    for name, column in (("first-semester", "1st"), ("second-semester", "2nd")):
        enrolled, approved = (row[f"Curricular units {column} sem ({part})"] for part in ("enrolled", "approved"))
        if enrolled != "0":
            taken[name] = f"{approved if approved != '0' else 'none'} of {enrolled}"
    if not taken:
        return "enrolled in no courses"
    passed = f"passed {' and '.join(f'{share} {name}' for name, share in taken.items())} courses"
    if len(taken) == 1:
        other = "second-semester" if "first-semester" in taken else "first-semester"
        return f"{passed} and enrolled in no {other} courses"
    return passed


def evidence(row: Row) -> str:
    scholarship = "holds a scholarship" if row["Scholarship holder"] == "1" else "does not hold a scholarship"
    fees = "are up to date" if row["Tuition fees up to date"] == "1" else "are not up to date"
    debt = "owes" if row["Debtor"] == "1" else "does not owe"
    age = a_or_an(f"{row['Age at enrollment']}-year-old student").capitalize()
    return (
        f"{age} entered with an admission grade of {number(row['Admission grade'])} out of 200 and {scholarship}. "
        f"Tuition fees {fees}, and the student {debt} the university money. In the first year, the student "
        f"{_courses(row)}."
    )


DOMAIN = Domain(
    name="student_dropout",
    status="seen",
    setup="You are an academic advisor reviewing a university student’s record to gauge their risk of dropping out.",
    event="the student drops out before completing their degree",
    source=Source(
        id="uci:697",
        title="Predict Students' Dropout and Academic Success",
        creators="Realinho, V., Vieira Martins, M., Machado, J., and Baptista, L. (2021)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/697",
        archive="https://archive.ics.uci.edu/static/public/697/predict+students+dropout+and+academic+success.zip",
        member="data.csv",
        sha256=None,  # the copy at hand has its line ends changed
        rows=4424,
        copies={"student-dropout.csv": "19737f02127e85ef29af536e46888a7721b6c530c3e1c6aedfbb09109c030a71"},
    ),
    covariates=(
        "Age at enrollment",
        "Admission grade",
        "Scholarship holder",
        "Tuition fees up to date",
        "Debtor",
        "Curricular units 1st sem (enrolled)",
        "Curricular units 1st sem (approved)",
        "Curricular units 2nd sem (enrolled)",
        "Curricular units 2nd sem (approved)",
    ),
    read=lambda files: read_csv(files[0], separator=";"),
    outcome=lambda row: {"Dropout": 1, "Graduate": 0}.get(row["Target"]),
    evidence=evidence,
)
