"""Employee attrition: an HR analyst reads an employee's profile (IBM HR analytics sample).

All rows count; the outcome is ``Attrition``. The rating scales are decoded as IBM describes them.
"""

from __future__ import annotations

from builders.domain import Domain, Row, Source
from builders.prose import a_or_an, count, number
from builders.tables import read_csv

_ROLE = {
    "Healthcare Representative": "healthcare representative",
    "Human Resources": "human resources employee",
    "Laboratory Technician": "laboratory technician",
    "Manager": "manager",
    "Manufacturing Director": "manufacturing director",
    "Research Director": "research director",
    "Research Scientist": "research scientist",
    "Sales Executive": "sales executive",
    "Sales Representative": "sales representative",
}
_TRAVEL = {
    "Non-Travel": "does not travel for work",
    "Travel_Rarely": "rarely travels for work",
    "Travel_Frequently": "frequently travels for work",
}
_SATISFACTION = {"1": "low", "2": "medium", "3": "high", "4": "very high"}
_BALANCE = {"1": "bad", "2": "good", "3": "better", "4": "best"}


def _tenure(company: str, role: str) -> str:
    if company == "0":
        return "has been with the company, and in the current role, for less than a year"
    stay = f"has been with the company for {count(company, 'year')}"
    if role == "0":
        return f"{stay} and in the current role for less than a year"
    if role == company:
        return f"{stay}, all in the current role"
    return f"{stay}, the last {'year' if role == '1' else role} in the current role"


def evidence(row: Row) -> str:
    employee = a_or_an(f"{row['Age']}-year-old {_ROLE[row['JobRole']]}").capitalize()
    overtime = "works overtime" if row["OverTime"] == "Yes" else "does not work overtime"
    satisfaction, balance = row["JobSatisfaction"], row["WorkLifeBalance"]
    return (
        f"{employee} {_tenure(row['YearsAtCompany'], row['YearsInCurrentRole'])}. "
        f"The employee earns ${number(row['MonthlyIncome'])} a month, {overtime}, "
        f"and {_TRAVEL[row['BusinessTravel']]}. "
        f"On scales of 1 to 4, job satisfaction is rated {satisfaction} (“{_SATISFACTION[satisfaction]}”) and "
        f"work-life balance {balance} (“{_BALANCE[balance]}”)."
    )


DOMAIN = Domain(
    name="employee_attrition",
    status="seen",
    setup="You are an HR analyst reviewing an employee’s profile to gauge their risk of leaving the company.",
    event="the employee leaves the company within the year",
    source=Source(
        id="ibm:hr-attrition",
        title="IBM HR Analytics Employee Attrition & Performance",
        creators="IBM",
        licence="ODbL 1.0 and DbCL 1.0",
        page="https://github.com/IBM/employee-attrition-aif360",
        archive="https://raw.githubusercontent.com/IBM/employee-attrition-aif360/master/data/emp_attrition.csv",
        member="",
        sha256="a5c31e38bd7fafc9bc333884eb181b06b41b8e5e488e8f7ccb27199fb3be7659",
        rows=1470,
        copies={"hr-attrition.csv": "a5c31e38bd7fafc9bc333884eb181b06b41b8e5e488e8f7ccb27199fb3be7659"},
    ),
    covariates=(
        "Age",
        "JobRole",
        "YearsAtCompany",
        "YearsInCurrentRole",
        "MonthlyIncome",
        "OverTime",
        "BusinessTravel",
        "JobSatisfaction",
        "WorkLifeBalance",
    ),
    read=lambda files: read_csv(files[0]),
    outcome=lambda row: {"Yes": 1, "No": 0}.get(row["Attrition"]),
    evidence=evidence,
)
