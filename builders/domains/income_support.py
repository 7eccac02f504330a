"""Income-support targeting: an analyst screens a US census record of 1994 (UCI 2, the 32,561 rows of ``adult.data``).

The outcome is the last column: 1 for ``<=50K``, 0 for ``>50K``. The table has no header; its columns are named as in
its documentation.
"""

from __future__ import annotations

from builders.domain import Domain, Row, Source
from builders.prose import a_or_an, count, number
from builders.tables import read_csv

COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "class",
)
MARITAL = {
    "Married-civ-spouse": "is married",
    "Married-AF-spouse": "is married to a member of the armed forces",
    "Married-spouse-absent": "is married with an absent spouse",
    "Divorced": "is divorced",
    "Separated": "is separated",
    "Widowed": "is widowed",
    "Never-married": "has never married",
}
EDUCATION = {
    "Preschool": "has only preschool education",
    "1st-4th": "has at most four grades of schooling",
    "5th-6th": "has schooling up to the 5th or 6th grade",
    "7th-8th": "has schooling up to the 7th or 8th grade",
    "9th": "has schooling up to the 9th grade",
    "10th": "has schooling up to the 10th grade",
    "11th": "has schooling up to the 11th grade",
    "12th": "has schooling up to the 12th grade",
    "HS-grad": "has a high-school diploma",
    "Some-college": "has some college education",
    "Assoc-voc": "has a vocational associate degree",
    "Assoc-acdm": "has an academic associate degree",
    "Bachelors": "has a bachelor’s degree",
    "Masters": "has a master’s degree",
    "Prof-school": "has a professional-school degree",
    "Doctorate": "has a doctorate",
}
EMPLOYER = {
    "Private": "for a private employer",
    "Self-emp-not-inc": "self-employed in an unincorporated business",
    "Self-emp-inc": "self-employed in an incorporated business",
    "Federal-gov": "for the federal government",
    "State-gov": "for a state government",
    "Local-gov": "for a local government",
    "Without-pay": "without pay",
}
OCCUPATION = {
    "Adm-clerical": "in an administrative or clerical job",
    "Armed-Forces": "in the armed forces",
    "Craft-repair": "in a craft or repair trade",
    "Exec-managerial": "in an executive or managerial role",
    "Farming-fishing": "in farming or fishing",
    "Handlers-cleaners": "as a handler or cleaner",
    "Machine-op-inspct": "as a machine operator or inspector",
    "Other-service": "in a service job",
    "Priv-house-serv": "in private household service",
    "Prof-specialty": "in a professional specialty",
    "Protective-serv": "in a protective service",
    "Sales": "in sales",
    "Tech-support": "in technical support",
    "Transport-moving": "in transport or moving",
}


def _capital(row: Row) -> str:
    gain, loss = row["capital-gain"], row["capital-loss"]
    if gain == loss == "0":
        return "neither capital gains nor capital losses"
    gains = f"capital gains of US${number(gain)}" if gain != "0" else "no capital gains"
    losses = f"capital losses of US${number(loss)}" if loss != "0" else "no capital losses"
    return f"{gains} and {losses}"


def evidence(row: Row) -> str:
    person = a_or_an(f"{row['age']}-year-old person").capitalize()
    hours = count(row["hours-per-week"], "hour")
    return (
        f"{person} {MARITAL[row['marital-status']]} and {EDUCATION[row['education']]}. The person works {hours} a week "
        f"{OCCUPATION[row['occupation']]}, {EMPLOYER[row['workclass']]}. The census record shows {_capital(row)}."
    )


DOMAIN = Domain(
    name="income_support",
    status="seen",
    setup="You are an analyst screening census records to identify lower-income individuals for a support program.",
    event="the person earns at most $50K a year (low income)",
    source=Source(
        id="uci:2",
        title="Adult",
        creators="Becker, B. and Kohavi, R. (1996)",
        licence="CC BY 4.0",
        page="https://archive.ics.uci.edu/dataset/2",
        archive="https://archive.ics.uci.edu/static/public/2/adult.zip",
        member="adult.data",
        sha256="5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
        rows=32561,
        copies={"adult.data": "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d"},
    ),
    covariates=(
        "age",
        "workclass",
        "education",
        "marital-status",
        "occupation",
        "capital-gain",
        "capital-loss",
        "hours-per-week",
    ),
    read=lambda files: read_csv(files[0], names=COLUMNS),
    outcome=lambda row: {"<=50K": 1, ">50K": 0}.get(row["class"]),
    evidence=evidence,
)
