"""The SFT sets: counts, leakage, literal targets, what is kept and refused, and the command line."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet as pq
import pytest
import yaml

import builders.targets
from builders.artifacts import Artifact, resolve
from builders.construction import ConstructionError
from builders.errors import UserError
from builders.folders import Written, parquet_path, write_parquet
from builders.holdouts import HOLDOUTS, holdout
from builders.schema import COMPLETE, OUTPUTS, SFT
from builders.sft import ALL_CONFIGS, Benchmark, Sets, config_name, write_sets
from builders.targets import Target, check_set, check_targets

Row = dict[str, Any]
Change = Callable[[Row], Row | None]

RUN = {
    "model": "org/base", "model_revision": "0123abc", "adapter": None, "adapter_revision": None, "holdout": None,
    "engine": "transformers", "engine_version": "transformers 5", "task": "elicitation", "guided": False, "seed": 1,
    "temperature": 0.7, "top_p": 0.95, "finish_reason": "stop", "prompt_tokens": 100, "completion_tokens": 20,
}  # fmt: skip


FROZEN = Benchmark()


def unchanged(row: Row) -> Row | None:
    return row


def answer(item_id: str, style: str) -> str:
    """A made-up answer: two decimals, by hash, around a number of the case."""
    case, spread = (zlib.crc32(text.encode()) for text in (item_id.split(".")[0], item_id))
    value = f"{(case % 91 + spread % 10) / 100:.2f}"
    prose = f"The case {item_id.split('.')[0]} speaks for a probability of {value}.\n\n" if style == "cot" else ""
    return f"{prose}<final>\nProbability: {value}\n</final>"


def write_outputs(folder: Path, cases: list[Row], style: str, change: Change = unchanged, config: str = "") -> Artifact:
    """An outputs folder with a base model's elicitations of the cases; a row that ``change`` makes None is left out."""
    for split in ("train", "validation", "test"):
        rows = [
            RUN | {"item_id": item_id, "style": style, "max_tokens": 100, "text": answer(item_id, style)}
            for case in cases
            if case["split"] == split
            for item_id in (f"{case['case_id']}.elicitation.{style}.r{n}" for n in range(1, 6))
        ]
        kept = [row for row in map(change, rows) if row is not None]
        if kept:
            write_parquet(folder, config or f"base-{style}-elicitation", split, kept, OUTPUTS)
    return resolve(str(folder), "dataset")


@pytest.fixture(scope="module")
def outputs(cases: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Complete elicitations in both styles; not to be changed."""
    folder = tmp_path_factory.mktemp("elicited") / "outputs"
    write_outputs(folder, cases, "cot")
    return write_outputs(folder, cases, "direct")


@pytest.fixture(scope="module")
def built(outputs: Artifact, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sets]:
    """(folder, sets) of all 32 sets."""
    folder = tmp_path_factory.mktemp("sets") / "sft"
    return folder, write_sets(folder, outputs, FROZEN)


def rows_of(folder: Path, config: str, split: str = "train") -> list[Row]:
    rows: list[Row] = pq.read_table(folder / parquet_path(config, split)).to_pylist()
    return rows


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def text_of(folder: Path, config: str, item_id: str) -> str:
    row = next(row for row in rows_of(folder, config) if row["item_id"] == item_id)
    assert [message["role"] for message in row["messages"]] == ["user", "assistant"]
    return str(row["messages"][1]["content"])


def test_a_full_elicitation_gives_32_sets_of_p1s_counts(built: tuple[Path, Sets]) -> None:
    folder, sets = built
    expected = {"train": {"belief": 450, "decision": 2700}, "validation": {"belief": 150, "decision": 900}}
    assert [(file.config, file.split) for file in sets.files] == [(c, s) for c in ALL_CONFIGS for s in expected]
    for config in ALL_CONFIGS:
        for split, counts in expected.items():
            assert Counter(row["kind"] for row in rows_of(folder, config, split)) == counts
    assert not any(each.left_out for splits in sets.beliefs.values() for each in splits.values())


def test_nothing_held_out_is_in_a_set(built: tuple[Path, Sets], cases: list[Row]) -> None:
    folder, _ = built
    by_id = {case["case_id"]: case for case in cases}
    for each in HOLDOUTS:
        for config in (config for config in ALL_CONFIGS if config.endswith(each.name)):
            for split in ("train", "validation"):
                ids = [row["item_id"] for row in rows_of(folder, config, split)]
                assert len(ids) == len(set(ids))
                case_ids, second = zip(*(item_id.split(".")[:2] for item_id in ids), strict=True)
                assert {by_id[case_id]["split"] for case_id in case_ids} == {split}
                assert {by_id[case_id]["domain_status"] for case_id in case_ids} == {"seen"}
                assert set(second) & set(each.framings) == set() and len(set(second)) == 7


def test_columns_are_null_where_nothing_is_due(built: tuple[Path, Sets]) -> None:
    folder, _ = built
    for task in ("complete", "decidability"):
        for row in rows_of(folder, config_name(task, "direct", "full-hedge")):
            decision = row["kind"] == "decision"
            assert (row["p_star"] is not None) == decision
            assert (row["condition"] is not None) == (decision and task == "decidability")
            assert (row["decision"] is not None) == (decision and row["condition"] in (None, "D"))
            assert f"Probability: {row['belief']:g}\n" in row["messages"][1]["content"]


def test_prompts_are_the_benchmarks_own(built: tuple[Path, Sets], cases: list[Row]) -> None:
    folder, _ = built
    prompts = {row["item_id"]: row for row in FROZEN.rows("decidability", "validation")}
    rows = rows_of(folder, "decidability-cot-full-payoff", "validation")
    decisions = [row for row in rows if row["kind"] == "decision"]
    for row in decisions:
        prompt = prompts[row["item_id"]]
        assert row["messages"][0]["content"] == prompt["prompt"]
        assert (row["condition"], row["p_star"]) == (prompt["condition"], prompt["p_star"])
    assert {row["condition"] for row in decisions} == set("ABCD")


CASE = "student_dropout-00"


def test_literal_direct_targets(built: tuple[Path, Sets]) -> None:
    folder, _ = built
    belief = rows_of(folder, "complete-direct-full-hedge")
    printed = next(f"{row['belief']:g}" for row in belief if row["item_id"].startswith(CASE))
    block = f"<final>\nProbability: {printed}\n"
    assert text_of(folder, "complete-direct-full-hedge", f"{CASE}.elicitation.direct.r4") == f"{block}</final>"
    text = text_of(folder, "complete-direct-full-hedge", f"{CASE}.insurance.fp1-fn10.complete.direct.r1")
    assert text == f"{block}Decision: BUY PROTECTION\n</final>"
    rows = rows_of(folder, "decidability-direct-full-hedge")
    for row in (row for row in rows if row["item_id"].startswith(f"{CASE}.insurance")):
        ending = f"Choice: {row['condition']}\nDecision: {row['decision'] or 'N/A'}\n</final>"
        assert row["messages"][1]["content"] == block + ending


def test_cot_targets_are_trace_belief_calculation_block(built: tuple[Path, Sets]) -> None:
    folder, _ = built
    rows = {row["item_id"]: row for row in rows_of(folder, "decidability-cot-full-hedge")}
    row = next(row for row in rows.values() if row["condition"] == "D" and ".insurance.fp1-fn1." in row["item_id"])
    case_id, belief = row["item_id"].split(".")[0], f"{row['belief']:g}"
    trace = f"The case {case_id} speaks for a probability of {belief}."
    opening, prose, working, block = row["messages"][1]["content"].split("\n\n")
    assert opening == (
        "The scenario states both what a false positive costs (100) and what a false negative costs (100), so Choice D "
        "applies."
    )
    assert prose == trace
    assert working.startswith(f"My probability that the event occurs is {belief}. If the event does not occur, BUY ")
    assert working.endswith(f"so the decision is {row['decision']}.")
    assert block == f"<final>\nProbability: {belief}\nChoice: D\nDecision: {row['decision']}\n</final>"

    withheld = next(row for row in rows.values() if row["condition"] == "A" and row["item_id"].startswith(case_id))
    opening, prose, working, block = withheld["messages"][1]["content"].split("\n\n")
    assert opening.endswith("but not what a false positive costs, so Choice A applies.") and prose == trace
    assert working == f"My probability that the event occurs is {belief}."
    assert block == f"<final>\nProbability: {belief}\nChoice: A\nDecision: N/A\n</final>"

    text = text_of(folder, "decidability-cot-full-hedge", f"{case_id}.elicitation.cot.r1")
    assert text == (
        f"{trace}\n\nMy probability that the event occurs is {belief}.\n\n<final>\nProbability: {belief}\n</final>"
    )
    item_id = f"{case_id}.insurance.fp1-fn1.complete.cot.r1"
    prose, working, block = text_of(folder, "complete-cot-full-hedge", item_id).split("\n\n")
    assert prose == trace and "BUY PROTECTION costs the premium of 100 whether or not" in working
    assert block == f"<final>\nProbability: {belief}\nDecision: {row['decision']}\n</final>"


def test_load_dataset_gives_the_schemas_features(built: tuple[Path, Sets], datasets_cache: Path) -> None:
    folder, _ = built
    loaded = datasets.load_dataset(str(folder), "decidability-cot-full-ratio")
    assert {name: split.num_rows for name, split in loaded.items()} == {"train": 3150, "validation": 1050}
    assert all(split.features == SFT for split in loaded.values())
    assert set(datasets.get_dataset_config_names(str(folder))) == set(ALL_CONFIGS)


def test_the_card_says_whose_beliefs_and_how_many_rows(built: tuple[Path, Sets]) -> None:
    text = (built[0] / "README.md").read_text(encoding="utf-8")
    record = yaml.safe_load(text.split("---\n")[1])["beliefs"]
    assert (record["model"], record["model_revision"], record["guided"]) == ("org/base", "0123abc", False)
    assert record["runs"]["cot"]["cases"] == {"train": 90, "validation": 30}
    assert "| `complete-cot-full-hedge` | 450 | 2,700 | 150 | 900 |" in text
    assert "- direct, validation: none." in text
    assert "In 120 of 120 traces the probability was stated in the prose as well (120 numerals)" in text


def test_the_cards_snippet_runs_and_names_the_repo(
    built: tuple[Path, Sets], datasets_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (built[0] / "README.md").read_text(encoding="utf-8")
    front = yaml.safe_load(text.split("---\n")[1])
    assert front["source_datasets"] == ["org/coherent-decisions", "org/coherent-decisions-outputs-base"]
    assert front["size_categories"] == ["10K<n<100K" if len(front["configs"]) < 24 else "100K<n<1M"]
    [code] = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    exec(code.replace("org/coherent-decisions-sft-base", str(built[0])), {})
    assert capsys.readouterr().out.startswith("<final>\nProbability: ")


def test_what_an_endpoint_tells_of_itself_breaks_no_table(cases: list[Row], tmp_path: Path) -> None:
    hidden = {"engine_version": "a | b", "temperature": None, "top_p": None, "seed": None}
    artifact = write_outputs(tmp_path / "outputs", cases, "direct", lambda row: row | hidden)
    write_sets(tmp_path / "sft", artifact, FROZEN, **ONE)
    card = (tmp_path / "sft" / "README.md").read_text(encoding="utf-8")
    assert r"| a \| b | unknown | unknown | 100 | 90 | 30 |" in card


def test_sets_built_one_after_another_are_those_built_at_once(
    outputs: Artifact, built: tuple[Path, Sets], tmp_path: Path
) -> None:
    chosen = (holdout("full-hedge"), holdout("full-ratio"))
    write_sets(tmp_path / "once", outputs, FROZEN, holdouts=chosen)
    for task in ("decidability", "complete"):
        for style in ("cot", "direct"):
            sets = write_sets(tmp_path / "steps", outputs, FROZEN, (task,), (style,), chosen)
    assert sets.kept == [
        config_name(task, style, each.name)
        for task, style in (("complete", "cot"), ("decidability", "direct"), ("decidability", "cot"))
        for each in chosen
    ]
    assert digests(tmp_path / "steps") == digests(tmp_path / "once")
    full = digests(built[0])
    assert all(full[path] == digest for path, digest in digests(tmp_path / "once").items() if path != "README.md")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["once", "steps"]


ONE: dict[str, Any] = {"tasks": ("complete",), "styles": ("direct",), "holdouts": (holdout("full-hedge"),)}
OTHER = ONE | {"tasks": ("decidability",)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "org/other"}, r"holds sets with model org/base, this build has org/other"),
        ({"model_revision": "9"}, r"holds sets with model_revision 0123abc"),
        ({"guided": True}, r"holds sets with guided False"),
        ({"text": "Probability: 0.5"}, r"holds direct sets of another elicitation than base-direct-elicitation"),
    ],
)
def test_sets_of_other_beliefs_are_refused_and_nothing_changes(
    cases: list[Row], outputs: Artifact, tmp_path: Path, change: Row, message: str
) -> None:
    out = tmp_path / "sft"
    write_sets(out, outputs, FROZEN, **ONE)
    before = digests(out)
    other = write_outputs(tmp_path / "other", cases, "direct", lambda row: row | change)
    with pytest.raises(UserError, match=message):
        write_sets(out, other, FROZEN, **OTHER)
    assert digests(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "sft"]


def test_the_same_set_of_a_later_elicitation_replaces_the_earlier(
    cases: list[Row], outputs: Artifact, tmp_path: Path
) -> None:
    write_sets(tmp_path / "sft", outputs, FROZEN, **ONE)
    later = write_outputs(tmp_path / "later", cases, "direct", lambda row: row | {"text": "Probability: 0.5"})
    write_sets(tmp_path / "sft", later, FROZEN, **ONE)
    assert {row["belief"] for row in rows_of(tmp_path / "sft", "complete-direct-full-hedge")} == {0.5}


@pytest.mark.parametrize("damage", ["beliefs: 3", "beliefs:\n  model: org/base", "nothing: true", "a: [", "{"])
def test_a_card_that_was_edited_is_refused(outputs: Artifact, tmp_path: Path, damage: str) -> None:
    write_sets(tmp_path / "sft", outputs, FROZEN, **ONE)
    (tmp_path / "sft" / "README.md").write_text(f"---\n{damage}\n---\n<!-- coherent-decisions sft -->\n")
    with pytest.raises(UserError, match=r"README.md does not say which beliefs"):
        write_sets(tmp_path / "sft", outputs, FROZEN, **OTHER)


def test_left_out_and_not_elicited_cases_are_listed_apart(cases: list[Row], tmp_path: Path) -> None:
    def change(row: Row) -> Row | None:
        if row["item_id"].startswith("student_dropout-00") and row["item_id"][-1] in "123":
            return row | {"text": "I cannot say."}
        return None if row["item_id"].startswith("steel_fault-0") else row

    sets = write_sets(tmp_path / "sft", write_outputs(tmp_path / "outputs", cases, "direct", change), FROZEN, **ONE)
    reason = "student_dropout-00 (2 of 5 beliefs can be parsed, 3 are needed)"
    steel = [case["case_id"] for case in cases if case["domain"] == "steel_fault" and case["split"] == "train"]
    notes = sets.notes()
    assert notes[0] == "direct train: 83 cases from base-direct-elicitation, 1 left out, 6 not elicited"
    assert notes[1:3] == [f"  left out: {reason}", f"  not elicited: {', '.join(steel)}"]
    card = (tmp_path / "sft" / "README.md").read_text(encoding="utf-8")
    assert "- `student_dropout-00`: 2 of 5 beliefs can be parsed, 3 are needed" in card
    assert "- not elicited (6): " + ", ".join(f"`{case_id}`" for case_id in steel) in card
    rows = rows_of(tmp_path / "sft", "complete-direct-full-hedge")
    assert len(rows) == 83 * 35
    assert not any(row["item_id"].startswith(("steel_fault", "student_dropout-00")) for row in rows)


def test_a_split_that_was_not_elicited_has_no_file(cases: list[Row], tmp_path: Path) -> None:
    train = [case for case in cases if case["split"] == "train"]
    sets = write_sets(tmp_path / "sft", write_outputs(tmp_path / "outputs", train, "direct"), FROZEN, **ONE)
    assert [file.split for file in sets.files] == ["train"]
    assert sets.notes()[1] == "direct validation: 0 cases from base-direct-elicitation, 0 left out, 30 not elicited"


def test_without_any_belief_nothing_is_written(cases: list[Row], tmp_path: Path) -> None:
    artifact = write_outputs(tmp_path / "outputs", cases, "direct", lambda row: row | {"text": "I cannot say."})
    with pytest.raises(UserError, match=r"no train case has a belief \(0 of 5 beliefs can be parsed"):
        write_sets(tmp_path / "sft", artifact, FROZEN, **ONE)
    assert [path.name for path in tmp_path.iterdir()] == ["outputs"]


def test_styles_of_two_models_are_not_mixed(cases: list[Row], tmp_path: Path) -> None:
    write_outputs(tmp_path / "outputs", cases, "cot", lambda row: row | {"model": "org/other"})
    artifact = write_outputs(tmp_path / "outputs", cases, "direct")
    with pytest.raises(UserError, match=r"base-direct-elicitation and base-cot-elicitation differ in model "):
        write_sets(tmp_path / "sft", artifact, FROZEN)


def test_a_published_benchmark_gives_the_same_rows_for_its_cases(
    small_build: tuple[Path, list[Written]], few_cases: list[Row], tmp_path: Path, datasets_cache: Path
) -> None:
    artifact = write_outputs(tmp_path / "outputs", few_cases, "direct")
    published = Benchmark(resolve(str(small_build[0]), "dataset"))
    sets = write_sets(tmp_path / "published", artifact, published, **ONE)
    write_sets(tmp_path / "frozen", artifact, FROZEN, **ONE)
    for file in sets.files:
        assert rows_of(tmp_path / "published", file.config, file.split) == rows_of(
            tmp_path / "frozen", file.config, file.split
        )


def test_a_published_benchmark_whose_text_contradicts_its_rows_is_refused(
    small_build: tuple[Path, list[Written]], few_cases: list[Row], tmp_path: Path, datasets_cache: Path
) -> None:
    folder = Path(shutil.copytree(small_build[0], tmp_path / "benchmark"))
    path = folder / parquet_path("complete", "train")
    rows = pq.read_table(path).to_pylist()
    altered = [row | {"prompt": row["prompt"].replace("a premium of 100", "a premium of 90")} for row in rows]
    write_parquet(folder, "complete", "train", altered, COMPLETE)
    artifact = write_outputs(tmp_path / "outputs", few_cases, "direct")
    with pytest.raises(UserError, match=r"benchmark: student_dropout-\d+\.insurance\.fp10-fn1\.\S+: the text implies"):
        write_sets(tmp_path / "sft", artifact, Benchmark(resolve(str(folder), "dataset")), **ONE)
    assert not (tmp_path / "sft").exists()


def test_answers_to_another_benchmark_are_refused(
    small_build: tuple[Path, list[Written]], outputs: Artifact, tmp_path: Path, datasets_cache: Path
) -> None:
    published = Benchmark(resolve(str(small_build[0]), "dataset"))
    with pytest.raises(UserError, match=r"item credit_default-07\.elicitation\.direct\.r1 is not in the benchmark"):
        write_sets(tmp_path / "sft", outputs, published, **ONE)


# --- The checks of the build ------------------------------------------------------------------------------------------


def some_targets() -> list[Target]:
    from builders.beliefs import CaseBelief
    from builders.calculation import printed_belief
    from builders.targets import make_target

    belief = CaseBelief(CASE, printed_belief([0.42]), "A trace.")
    rows = [*FROZEN.rows("elicitation", "train"), *FROZEN.rows("decidability", "train")]
    rows += FROZEN.rows("complete", "train")
    return [make_target(row, belief) for row in rows if row["case_id"] == CASE]


def altered(target: Target, old: str, new: str) -> Target:
    assert old in target.text
    user, assistant = target.row["messages"]
    messages = [user, assistant | {"content": target.text.replace(old, new)}]
    return Target(target.row | {"messages": messages}, target.prompt)


def test_honest_targets_pass_and_a_wrong_one_is_named() -> None:
    targets = some_targets()
    check_targets(targets)
    for index, target in enumerate(targets):
        faults = [
            ("Probability: 0.42", "Probability: 0.43"),
            ("</final>", ""),
            ("<final>", "<final>\nProbability: 0.1"),
        ]
        if target.row["condition"]:
            faults.append((f"Choice: {target.row['condition']}", "Choice: E"))
        for old, new in faults:
            wrong = [*targets[:index], altered(target, old, new), *targets[index + 1 :]]
            with pytest.raises(ConstructionError, match=f"^{target.row['item_id']}: "):
                check_targets(wrong[index : index + 1])


def test_a_decision_against_the_printed_belief_is_found_though_text_and_row_agree() -> None:
    target = next(target for target in some_targets() if target.row["decision"] == "INTERVENE")
    wrong = altered(target, "Decision: INTERVENE", "Decision: HOLD")
    wrong = replace(wrong, row=wrong.row | {"decision": "HOLD"})
    with pytest.raises(ConstructionError, match=r"belief_conditional_decision_error is not 0"):
        check_targets([wrong])


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"framing": "betting"}, "framing betting is held out"),
        ({"domain_status": "held_out"}, "domain student_dropout is held out"),
        ({"split": "test"}, "it is of split test, not train"),
    ],
)
def test_a_set_with_something_held_out_is_refused(change: Row, fault: str) -> None:
    targets = [target for target in some_targets() if target.prompt.get("framing") not in ("betting", "trading")]
    check_set(targets, "train", ("betting", "trading"))
    wrong = [*targets, replace(targets[-1], prompt={**targets[-1].prompt, **change})]
    with pytest.raises(ConstructionError, match=f"^{targets[-1].row['item_id']}: {fault}"):
        check_set(wrong, "train", ("betting", "trading"))
    with pytest.raises(ConstructionError, match="it is in the set twice"):
        check_set([*targets, targets[0]], "train", ("betting", "trading"))


def test_a_build_that_fails_leaves_the_earlier_sets(
    outputs: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sets(tmp_path / "sft", outputs, FROZEN, **ONE)
    before = digests(tmp_path / "sft")
    monkeypatch.setattr(builders.targets, "acts", lambda p, cost_fp, cost_fn: True)
    with pytest.raises(ConstructionError, match=r"belief_conditional_decision_error"):
        write_sets(tmp_path / "sft", outputs, FROZEN, **OTHER)
    assert digests(tmp_path / "sft") == before
    assert [path.name for path in tmp_path.iterdir()] == ["sft"]


# --- The command line -------------------------------------------------------------------------------------------------


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "builders", "sft", *arguments],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_command_writes_a_set_and_says_what(outputs: Artifact, built: tuple[Path, Sets], tmp_path: Path) -> None:
    out = tmp_path / "sft"
    chosen = ("--task", "decidability", "--style", "cot", "--holdout", "full-hedge")
    result = command("--beliefs", str(outputs.path), *chosen, "--out", str(out))
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split()[:4] == ["decidability-cot-full-hedge", "train", "3,150", "rows"]
    assert lines[2].strip() == "cot train: 90 cases from base-cot-elicitation, 0 left out, 0 not elicited"
    assert "4,200 rows in 1 sets, each target scored perfect" in lines[-1]
    place = parquet_path("decidability-cot-full-hedge", "train")
    assert digests(out)[place] == digests(built[0])[place]


@pytest.mark.parametrize(
    ("changes", "parts"),
    [
        ({"--task": "elicitation"}, ["no task 'elicitation'", "complete, decidability, or all"]),
        ({"--style": "in_context"}, ["no style 'in_context'", "direct, cot, or all"]),
        ({"--holdout": "full"}, ["no framing holdout 'full'", "full-hedge"]),
        ({"--beliefs": "nowhere"}, ["nowhere: no such folder"]),
        ({"--config": "nope"}, ["no config 'nope'", "base-cot-elicitation"]),
        ({"--config": "base-cot-elicitation"}, ["none of base-cot-elicitation is a base model's direct elicitation"]),
        ({"--benchmark": "nowhere"}, ["nowhere: no such folder"]),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    outputs: Artifact, tmp_path: Path, changes: dict[str, str], parts: list[str]
) -> None:
    arguments = {"--beliefs": str(outputs.path), "--task": "all", "--style": "direct", "--holdout": "full-hedge"}
    arguments |= {"--out": str(tmp_path / "sft")} | changes
    result = command(*(word for pair in arguments.items() for word in pair))
    assert result.returncode == 2
    assert result.stderr.startswith("error: ") and result.stderr.count("\n") == 1
    assert all(part in result.stderr for part in parts), result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_somebody_else_is_refused(outputs: Artifact, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="choose another --out"):
        write_sets(tmp_path, outputs, FROZEN, **ONE)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
