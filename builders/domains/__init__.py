"""The twenty domains of P1 Table 1, in its order. To add one: a file with a ``DOMAIN`` literal, and its entry here."""

from __future__ import annotations

from builders.domain import Domain
from builders.domains import (
    article_popularity,
    breast_tumour,
    corporate_bankruptcy,
    credit_default,
    email_spam,
    employee_attrition,
    gamma_ray,
    heart_disease,
    hospital_readmission,
    income_support,
    loan_credit,
    phishing_website,
    predictive_maintenance,
    purchase_intent,
    room_occupancy,
    steel_fault,
    student_dropout,
    telecom_churn,
    term_deposit,
    wildfire,
)

DOMAINS: tuple[Domain, ...] = (
    credit_default.DOMAIN,
    loan_credit.DOMAIN,
    corporate_bankruptcy.DOMAIN,
    term_deposit.DOMAIN,
    income_support.DOMAIN,
    student_dropout.DOMAIN,
    hospital_readmission.DOMAIN,
    breast_tumour.DOMAIN,
    predictive_maintenance.DOMAIN,
    article_popularity.DOMAIN,
    steel_fault.DOMAIN,
    email_spam.DOMAIN,
    phishing_website.DOMAIN,
    telecom_churn.DOMAIN,
    employee_attrition.DOMAIN,
    wildfire.DOMAIN,
    gamma_ray.DOMAIN,
    room_occupancy.DOMAIN,
    purchase_intent.DOMAIN,
    heart_disease.DOMAIN,
)
