"""The frozen cases and their derivation from the source tables."""

import csv
import dataclasses
import gzip
import hashlib
import io
import json
import random
import re
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from builders.cases import FROZEN, derive_all, derive_cases, in_order, order
from builders.domain import Domain
from builders.domains import DOMAINS, article_popularity
from builders.errors import UserError
from builders.schema import CASES
from builders.tables import table_files

Case = dict[str, Any]

SEEN = (
    "credit_default", "loan_credit", "corporate_bankruptcy", "term_deposit", "income_support", "student_dropout",
    "hospital_readmission", "breast_tumour", "predictive_maintenance", "article_popularity", "steel_fault",
    "email_spam", "phishing_website", "telecom_churn", "employee_attrition",
)  # fmt: skip
HELD_OUT = ("wildfire", "gamma_ray", "room_occupancy", "purchase_intent", "heart_disease")

OUTCOME_WORDS = {
    "credit_default": "default",
    "loan_credit": r"good|bad\b|risk",
    "corporate_bankruptcy": "bankrupt|insolv|fail|distress",
    "term_deposit": "subscri|deposit",
    "income_support": r"50K|earns|earning|income|poor",
    "student_dropout": "drop|graduat|withdr|left|leav",
    "hospital_readmission": r"readmi|30 days|again",
    "breast_tumour": "malign|benign|cancer|tumou?r",
    "predictive_maintenance": "fail|fault|broke|defect",
    "article_popularity": "popular|viral|widely",
    "steel_fault": "scratch|clean|fault|defect|stain|bump",
    "email_spam": "spam|unsolicited|bulk|legitimate",
    "phishing_website": "phish|legitimate|deceiv|credential|fake",
    "telecom_churn": "churn|left|leav|cancel",
    "employee_attrition": "attrition|leav|left|quit|resign",
    "wildfire": "fire|burn",
    "gamma_ray": "gamma|hadron|signal|background|proton",
    "room_occupancy": "occup|empty|person|people",
    "purchase_intent": "purchas|bought|buy|order|revenue",
    "heart_disease": "disease|healthy|diagnos",
}
"""What would give the outcome away in the evidence of a domain."""


def by_domain(cases: list[Case]) -> dict[str, list[Case]]:
    return {name: [case for case in cases if case["domain"] == name] for name in (*SEEN, *HELD_OUT)}


def frozen_lines(*domains: str) -> str:
    lines = FROZEN.read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if json.loads(line)["domain"] in domains)


def test_the_domains_are_the_papers_twenty_in_order() -> None:
    expected = [(name, "seen") for name in SEEN] + [(name, "held_out") for name in HELD_OUT]
    assert [(domain.name, domain.status) for domain in DOMAINS] == expected


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_a_domain_names_its_source_in_full(domain: Domain) -> None:
    source = domain.source
    assert 4 <= len(domain.covariates) <= 9 and len(set(domain.covariates)) == len(domain.covariates)
    assert source.page.startswith("https://") and source.archive.startswith("https://")
    assert source.title and re.search(r"\((19|20)\d\d\)|IBM", source.creators) and source.licence
    assert all(re.fullmatch(r"[0-9a-f]{64}", sha256) for sha256 in source.copies.values())
    assert source.sha256 is None or re.fullmatch(r"[0-9a-f]{64}", source.sha256)


def test_the_frozen_file_has_two_hundred_rows_of_the_schema(cases: list[Case]) -> None:
    assert len(cases) == 200
    assert all(list(case) == list(CASES) for case in cases)
    text = FROZEN.read_text(encoding="utf-8")
    assert text == "".join(json.dumps(case, ensure_ascii=False) + "\n" for case in cases)


def test_every_domain_has_ten_numbered_cases_five_of_each_outcome(cases: list[Case]) -> None:
    assert [case["case_id"] for case in cases] == [f"{n}-{i:02d}" for n in (*SEEN, *HELD_OUT) for i in range(10)]
    for group in by_domain(cases).values():
        assert Counter(case["outcome"] for case in group) == {0: 5, 1: 5}


def test_splits_are_balanced_by_outcome_and_held_out_domains_are_test_only(cases: list[Case]) -> None:
    assert Counter(case["split"] for case in cases) == {"train": 90, "validation": 30, "test": 80}
    per_outcome = {"train": 3, "validation": 1, "test": 1}
    for name, group in by_domain(cases).items():
        assert {case["domain_status"] for case in group} == {"seen" if name in SEEN else "held_out"}
        for outcome in (0, 1):
            counts = Counter(case["split"] for case in group if case["outcome"] == outcome)
            assert counts == (per_outcome if name in SEEN else {"test": 5})


def test_a_case_repeats_its_domains_strings_and_source(cases: list[Case]) -> None:
    for domain in DOMAINS:
        for case in by_domain(cases)[domain.name]:
            assert (case["setup"], case["event"], case["source"]) == (domain.setup, domain.event, domain.source.id)
            assert tuple(json.loads(case["covariates"])) == domain.covariates


def test_no_row_is_drawn_twice_and_no_two_cases_have_the_same_evidence(cases: list[Case]) -> None:
    assert len({(case["domain"], case["source_row"]) for case in cases}) == 200
    assert len({case["evidence"] for case in cases}) == 200


@pytest.mark.parametrize("name", OUTCOME_WORDS)
def test_no_evidence_has_an_outcome_word(cases: list[Case], name: str) -> None:
    found = [re.search(OUTCOME_WORDS[name], case["evidence"], re.IGNORECASE) for case in by_domain(cases)[name]]
    assert not [match[0] for match in found if match]


def test_evidence_is_clean_prose(cases: list[Case]) -> None:
    for case in cases:
        text = case["evidence"]
        assert text.endswith(".") and text[0].isupper() and text == text.strip()
        assert not re.search(r"\s\s|[\n\t\r]|\.\.|,,| [,.;]|--|[{}\[\]<>_?]", text), text
        assert not re.search(r"\b(nan|NaN|None|NULL|null|inf|True|TRUE|False|FALSE)\b", text), text
        assert not re.search(r"\ba (?:8|11\b|18\b|[aei]|o(?!ne))|\ban (?!8|11\b|18\b|[aeiou])", text, re.IGNORECASE), (
            text
        )


def test_every_number_in_the_evidence_is_set_with_thousands_separators_and_sensible_decimals(cases: list[Case]) -> None:
    for case in cases:
        for shown in re.findall(r"(?<![\w.])\d[\d,]*(?:\.\d+)?", case["evidence"].replace(", ", " ")):
            assert re.fullmatch(r"\d{1,3}(,\d{3})*(\.0*\d{1,4})?", shown.rstrip(",")), (case["case_id"], shown)


def test_the_draw_is_ordered_by_hash_of_seed_domain_and_row() -> None:
    assert order("wildfire", "7") == hashlib.sha256(b"124:wildfire:7").digest()


def test_three_small_tables_give_the_frozen_cases(tables: Path) -> None:
    names = ("breast_tumour", "wildfire", "heart_disease")
    derived = derive_all(tables, [domain for domain in DOMAINS if domain.name in names])
    assert derived == frozen_lines(*names)


@pytest.mark.slow
def test_all_tables_give_the_frozen_file_byte_for_byte(tables: Path) -> None:
    assert derive_all(tables).encode() == FROZEN.read_bytes()


def test_the_order_of_a_keyed_table_does_not_matter_to_the_draw(cases: list[Case]) -> None:
    """The first five rows of each outcome by hash, whatever came first in the table."""
    rows = [{"id": str(number), "x": str(number), "y": str(number % 2)} for number in range(60)]

    def toy(read_rows: list[dict[str, str]]) -> Domain:
        return dataclasses.replace(
            DOMAINS[15],
            name="toy",
            covariates=("x",),
            read=lambda files: read_rows,
            outcome=lambda row: int(row["y"]),
            evidence=lambda row: f"The value is {row['x']}.",
            key=lambda row: row["id"],
            source=dataclasses.replace(DOMAINS[15].source, partial=True, member="toy.csv", copies={}),
        )

    shuffled = random.Random(1).sample(rows, len(rows))
    drawn = derive_cases(toy(rows), Path("/nowhere"))
    assert derive_cases(toy(shuffled), Path("/nowhere")) == drawn
    for outcome in (0, 1):
        first = sorted((str(n) for n in range(60) if n % 2 == outcome), key=lambda key: order("toy", key))[:5]
        assert {case["source_row"] for case in drawn if case["outcome"] == outcome} == set(first)


@pytest.fixture(scope="module")
def articles(tables: Path, cases: list[Case]) -> list[dict[str, str]]:
    """The frozen rows and a few hundred others of both pieces of the online-news table, read by the csv module."""
    frozen = {case["source_row"] for case in by_domain(cases)["article_popularity"]}
    pieces = [gzip.decompress((tables / f"{name}.gz").read_bytes()) for name in article_popularity.DOMAIN.source.copies]
    rows = [row for piece in pieces for row in csv.DictReader(io.StringIO(piece.decode()), skipinitialspace=True)]
    return [row for number, row in enumerate(rows) if row["url"] in frozen or number % 50 == 0]


def write_original(folder: Path, rows: list[dict[str, str]]) -> None:
    with (folder / "OnlineNewsPopularity.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def test_the_pieces_and_the_full_original_give_the_same_articles(
    tables: Path, articles: list[dict[str, str]], cases: list[Case], tmp_path: Path
) -> None:
    frozen = by_domain(cases)["article_popularity"]
    best = min(order("article_popularity", case["source_row"]) for case in frozen)
    winners = (
        url for url in map("http://mashable.com/new/{}/".format, count()) if order("article_popularity", url) < best
    )
    extra = [articles[n] | {"url": next(winners), "shares": shares} for n, shares in enumerate(("90", "9000"), start=5)]
    write_original(tmp_path, random.Random(2).sample([*articles, *extra], len(articles) + len(extra)))

    assert derive_cases(article_popularity.DOMAIN, tables, cases) == frozen
    assert derive_cases(article_popularity.DOMAIN, tmp_path, cases) == frozen
    drawn_anew = {case["source_row"] for case in derive_cases(article_popularity.DOMAIN, tmp_path)}
    assert {row["url"] for row in extra} <= drawn_anew


def test_a_frozen_row_that_the_table_lacks_is_a_clear_error(
    articles: list[dict[str, str]], cases: list[Case], tmp_path: Path
) -> None:
    lost = by_domain(cases)["article_popularity"][4]["source_row"]
    write_original(tmp_path, [row for row in articles if row["url"] != lost])
    message = f"article_popularity: row {re.escape(lost)} of the frozen cases is not in the table"
    with pytest.raises(UserError, match=message):
        derive_cases(article_popularity.DOMAIN, tmp_path, cases)


def test_a_table_with_too_few_rows_is_a_clear_error(tables: Path) -> None:
    wildfire = next(domain for domain in DOMAINS if domain.name == "wildfire")
    short = dataclasses.replace(wildfire, read=lambda files: wildfire.read(files)[:-1])
    with pytest.raises(UserError, match="wildfire: the table has 243 rows, 244 expected"):
        derive_cases(short, tables)
    one_sided = dataclasses.replace(wildfire, outcome=lambda row: 1)
    with pytest.raises(UserError, match="wildfire: only 5 of 10 rows can be drawn"):
        derive_cases(one_sided, tables)


def test_rows_with_a_missing_covariate_or_an_open_outcome_are_not_drawn(tables: Path, cases: list[Case]) -> None:
    heart = DOMAINS[-1]
    rows = heart.read(table_files(heart.source, tables))
    first = {case["source_row"] for case in by_domain(cases)["heart_disease"]}
    holed = [dict(row) for row in rows]
    for number in first:
        holed[int(number) - 1]["thal"] = "?"
    drawn = derive_cases(dataclasses.replace(heart, read=lambda files: holed), tables)
    assert not first & {case["source_row"] for case in drawn}
    opened = dataclasses.replace(
        heart, read=lambda files: [row | {"num": "?"} if row["sex"] == "0.0" else row for row in rows]
    )
    assert not [case for case in derive_cases(opened, tables) if "woman" in case["evidence"]]


def test_cases_of_any_order_come_back_to_the_frozen_one(cases: list[dict[str, Any]]) -> None:
    by_split = sorted(cases, key=lambda case: str(case["split"]))
    assert by_split != cases and in_order(by_split) == cases
