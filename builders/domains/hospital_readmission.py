"""Hospital readmission: a discharge planner reads the stay of a diabetic patient in a US hospital (UCI 296).

The outcome is ``readmitted`` of the 101,766 stays: 1 for ``<30``, 0 for ``>30`` and ``NO``. Stays that ended in death
or hospice care, or whose admission type or discharge destination is not known, are not used.
"""

from __future__ import annotations

from builders.domain import Domain, Row, Source
from builders.prose import count
from builders.tables import read_csv

AGE = {
    "[0-10)": "under 10 years old",
    "[10-20)": "10 to 19 years old",
    "[20-30)": "20 to 29 years old",
    "[30-40)": "30 to 39 years old",
    "[40-50)": "40 to 49 years old",
    "[50-60)": "50 to 59 years old",
    "[60-70)": "60 to 69 years old",
    "[70-80)": "70 to 79 years old",
    "[80-90)": "80 to 89 years old",
    "[90-100)": "90 to 99 years old",
}
ADMISSION = {
    "1": "was admitted as an emergency",
    "2": "was admitted as an urgent case",
    "3": "was admitted electively",
    "7": "was admitted through a trauma center",
}
DISCHARGE = {
    "1": "was discharged home",
    "2": "was transferred to another short-term hospital",
    "3": "was transferred to a skilled nursing facility",
    "4": "was transferred to an intermediate care facility",
    "5": "was transferred to another type of inpatient care institution",
    "6": "was discharged home with home health services",
    "7": "left against medical advice",
    "8": "was discharged home under the care of a home IV provider",
    "15": "was transferred within the hospital to a Medicare-approved swing bed",
    "16": "was referred to another institution for outpatient services",
    "17": "was referred to this hospital’s outpatient services",
    "22": "was transferred to a rehabilitation facility",
    "23": "was transferred to a long-term care hospital",
    "24": "was transferred to a nursing facility certified under Medicaid but not under Medicare",
    "27": "was transferred to a federal health care facility",
    "28": "was transferred to a psychiatric hospital or unit",
    "29": "was transferred to a critical access hospital",
    "30": "was transferred to another type of health care institution",
}
INSULIN = {
    "No": "Insulin was not prescribed",
    "Steady": "Insulin was prescribed at an unchanged dose",
    "Up": "The insulin dose was increased",
    "Down": "The insulin dose was decreased",
}


def outcome(row: Row) -> int | None:
    if row["admission_type_id"] not in ADMISSION or row["discharge_disposition_id"] not in DISCHARGE:
        return None
    return {"<30": 1, ">30": 0, "NO": 0}.get(row["readmitted"])


def _year_before(row: Row) -> str:
    inpatient, emergency = row["number_inpatient"], row["number_emergency"]
    if inpatient == emergency == "0":
        return "neither inpatient stays nor emergency visits"
    return f"{count(inpatient, 'inpatient stay')} and {count(emergency, 'emergency visit')}"


def evidence(row: Row) -> str:
    return (
        f"A diabetic patient {AGE[row['age']]} {ADMISSION[row['admission_type_id']]}, stayed "
        f"{count(row['time_in_hospital'], 'day')}, and {DISCHARGE[row['discharge_disposition_id']]}. "
        f"The record of the stay lists {count(row['number_diagnoses'], 'diagnosis', 'diagnoses')} and "
        f"{count(row['num_medications'], 'medication')}. {INSULIN[row['insulin']]}. "
        f"In the year before this stay, the patient had {_year_before(row)}."
    )


DOMAIN = Domain(
    name="hospital_readmission",
    status="seen",
    setup="You are a hospital discharge planner reviewing a diabetic patient’s stay to gauge their readmission risk.",
    event="the patient is readmitted within 30 days of discharge",
    source=Source(
        id="uci:296",
        title="Diabetes 130-US Hospitals for Years 1999-2008",
        creators="Clore, J., Cios, K., DeShazo, J., and Strack, B. (2014)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/296",
        archive="https://archive.ics.uci.edu/static/public/296/diabetes+130-us+hospitals+for+years+1999-2008.zip",
        member="diabetic_data.csv",
        sha256="0689e7ec031237dc63031b938805c48377748761a3b26acab621567afa24df97",
        rows=101766,
        copies={"diabetes-readmission.csv": "0689e7ec031237dc63031b938805c48377748761a3b26acab621567afa24df97"},
    ),
    covariates=(
        "age",
        "admission_type_id",
        "discharge_disposition_id",
        "time_in_hospital",
        "num_medications",
        "number_emergency",
        "number_inpatient",
        "number_diagnoses",
        "insulin",
    ),
    read=lambda files: read_csv(files[0]),
    outcome=outcome,
    evidence=evidence,
)
