"""Adding a domain is one file, the ``Domain`` literal below, and one entry in a tuple."""

import gzip
import hashlib
import json
from pathlib import Path

from builders.benchmark import config_rows, write_benchmark
from builders.cases import derive_all
from builders.conditions import assign_conditions
from builders.domain import Domain, Row, Source
from builders.prose import number
from builders.tables import read_csv

TABLE = "day,rain,frost\n" + "".join(f"{n},{n / 4},{'yes' if n % 3 else 'no'}\n" for n in range(1, 41))


def evidence(row: Row) -> str:
    return f"On day {number(row['day'])} there were {number(row['rain'])} mm of rain."


DOMAIN = Domain(
    name="frost",
    status="seen",
    setup="You are a gardener reading the weather.",
    event="the night brings frost",
    source=Source(
        id="toy:frost",
        title="Frost",
        creators="A Gardener (2026)",
        licence="CC0 1.0",
        page="https://example.org/frost",
        archive="https://example.org/frost.csv",
        member="",
        sha256=hashlib.sha256(TABLE.encode()).hexdigest(),
        rows=40,
        copies={},
    ),
    covariates=("day", "rain"),
    read=lambda files: read_csv(files[0]),
    outcome=lambda row: {"yes": 1, "no": 0}[row["frost"]],
    evidence=evidence,
)


def test_one_literal_gives_ten_cases_and_checked_prompts(tmp_path: Path) -> None:
    (tmp_path / "frost.csv.gz").write_bytes(gzip.compress(TABLE.encode()))
    cases = [json.loads(line) for line in derive_all(tmp_path, (DOMAIN,)).splitlines()]

    assert [case["case_id"] for case in cases] == [f"frost-{number:02d}" for number in range(10)]
    assert sorted(case["outcome"] for case in cases) == [0] * 5 + [1] * 5
    assert sorted(case["split"] for case in cases) == ["test"] * 2 + ["train"] * 6 + ["validation"] * 2
    for case in cases:
        day = int(case["source_row"])
        assert json.loads(case["covariates"]) == {"day": day, "rain": day / 4}
        assert case["outcome"] == (day % 3 != 0)
        assert case["evidence"] == f"On day {day} there were {number(str(day / 4))} mm of rain."

    conditions = assign_conditions(cases)
    assert len(config_rows("elicitation", cases, conditions)) == 100
    for config in ("complete", "decidability"):
        rows = config_rows(config, cases, conditions)
        assert len(rows) == 2400
        assert all(
            case["event"] in row["prompt"] for case in cases for row in rows if row["case_id"] == case["case_id"]
        )

    files = write_benchmark(tmp_path / "out", cases)
    assert sum(file.rows for file in files) == 10 + 100 + 2 * 2400


def test_the_tables_row_order_and_other_domains_leave_the_draw_alone(tmp_path: Path) -> None:
    (tmp_path / "frost.csv").write_text(TABLE)
    alone = derive_all(tmp_path, (DOMAIN,))
    assert derive_all(tmp_path, (DOMAIN, DOMAIN)) == alone * 2
