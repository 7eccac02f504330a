"""Heart disease: a cardiologist reads a patient's test results (UCI 45, the processed Cleveland table).

The outcome is ``num`` > 0; rows with a missing cell (``?``) in the columns used do not count. The table has no header;
the column names are those of its documentation. ``ca`` is not used: the vessels are seen in the catheter laboratory,
with the angiogram that defines the outcome.
"""

from __future__ import annotations

from builders.domain import Domain, Row, Source
from builders.prose import a_or_an, number
from builders.tables import read_csv

_COLUMNS = "age sex cp trestbps chol fbs restecg thalach exang oldpeak slope ca thal num".split()
_SEX = {"1.0": "man", "0.0": "woman"}
_CHEST_PAIN = {
    "1.0": "typical angina",
    "2.0": "atypical angina",
    "3.0": "non-anginal chest pain",
    "4.0": "no chest-pain symptoms",
}
_ANGINA = {"1.0": "with exercise-induced angina", "0.0": "without exercise-induced angina"}
_THALLIUM = {"3.0": "is normal", "6.0": "shows a fixed defect", "7.0": "shows a reversible defect"}


def _st_segment(depression: str) -> str:
    if number(depression) == "0":
        return "the ST segment showed no depression relative to rest"
    return f"the ST segment was depressed by {number(depression, 1)} mm relative to rest"


def evidence(row: Row) -> str:
    patient = a_or_an(f"{number(row['age'])}-year-old {_SEX[row['sex']]}").capitalize()
    return (
        f"{patient} has {_CHEST_PAIN[row['cp']]}, with a resting blood pressure of {number(row['trestbps'])} mm Hg "
        f"and a serum cholesterol of {number(row['chol'])} mg/dl. On the exercise test the patient reached a maximum "
        f"heart rate of {number(row['thalach'])} beats per minute {_ANGINA[row['exang']]}, and "
        f"{_st_segment(row['oldpeak'])}. The thallium scan {_THALLIUM[row['thal']]}."
    )


DOMAIN = Domain(
    name="heart_disease",
    status="held_out",
    setup="You are a cardiologist reviewing a patient’s diagnostic test results.",
    event="the patient has heart disease",
    source=Source(
        id="uci:45",
        title="Heart Disease",
        creators="Janosi, A., Steinbrunn, W., Pfisterer, M., and Detrano, R. (1989)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/45",
        archive="https://archive.ics.uci.edu/static/public/45/heart+disease.zip",
        member="processed.cleveland.data",
        sha256="a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8",
        rows=303,
        copies={"processed.cleveland.data": "a74b7efa387bc9d108d7d0115d831fe9b414b29ae7124f331b622b4efa0427c8"},
    ),
    covariates=("age", "sex", "cp", "trestbps", "chol", "thalach", "exang", "oldpeak", "thal"),
    read=lambda files: read_csv(files[0], names=_COLUMNS),
    outcome=lambda row: {"0": 0, "1": 1, "2": 1, "3": 1, "4": 1}.get(row["num"]),
    evidence=evidence,
)
