"""The base model's beliefs, read from outputs: which run, which cases, which trace."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from builders.artifacts import Artifact, resolve
from builders.beliefs import Elicitation, find_elicitation, read_beliefs
from builders.errors import UserError
from builders.folders import write_parquet
from builders.schema import OUTPUTS, SFT

CASE = "student_dropout-07"
RUN = {
    "model": "org/base", "model_revision": "0123abc", "adapter": None, "adapter_revision": None, "holdout": None,
    "engine": "transformers", "engine_version": "transformers 5", "style": "cot", "task": "elicitation",
    "guided": False, "seed": 1, "temperature": 0.7, "top_p": 0.95, "max_tokens": 3500, "finish_reason": "stop",
    "prompt_tokens": 100, "completion_tokens": 20,
}  # fmt: skip


def prompts(style: str, case_id: str = CASE) -> list[dict[str, Any]]:
    return [
        {"item_id": f"{case_id}.elicitation.{style}.r{repetition}", "case_id": case_id, "repetition": repetition}
        for repetition in range(1, 6)
    ]


def answered(style: str, *texts: str, finish_reason: str = "stop") -> Elicitation:
    answers = {row["item_id"]: (text, finish_reason) for row, text in zip(prompts(style), texts, strict=False)}
    return Elicitation("base-elicitation", style, dict(RUN), "sha256-0", answers)


def cot(prose: str, probability: str) -> str:
    return f"{prose}\n\n<final>\nProbability: {probability}\n</final>"


def test_the_belief_is_the_mean_of_the_parseable_elicitations() -> None:
    texts = [f"<final>\nProbability: {value}\n</final>" for value in ("0.3", "40%", "maybe", "1.7", "0.5")]
    beliefs = read_beliefs(answered("direct", *texts), prompts("direct"))
    assert beliefs.cases[CASE].belief == Decimal("0.4")
    assert (beliefs.cases[CASE].trace, beliefs.left_out) == ("", {})


def test_a_case_with_two_parseable_elicitations_is_left_out_with_the_reason() -> None:
    texts = [f"<final>\nProbability: {value}\n</final>" for value in ("0.3", "0.4", "maybe", "1.7", "")]
    beliefs = read_beliefs(answered("direct", *texts), prompts("direct"))
    assert beliefs.cases == {}
    assert beliefs.left_out == {CASE: "2 of 5 beliefs can be parsed, 3 are needed"}


def test_an_answer_that_was_cut_off_counts_by_the_parsers_rules() -> None:
    texts = ["<final>\nProbability: 0.3"] * 5
    assert read_beliefs(answered("direct", *texts), prompts("direct")).cases[CASE].belief == Decimal("0.3")
    cut = answered("direct", *texts, finish_reason="length")
    assert read_beliefs(cut, prompts("direct")).left_out == {CASE: "0 of 5 beliefs can be parsed, 3 are needed"}


def test_a_case_without_answers_is_not_elicited() -> None:
    both = [*prompts("direct"), *prompts("direct", "wildfire-03")]
    texts = ["<final>\nProbability: 0.3\n</final>"] * 5
    assert read_beliefs(answered("direct", *texts), both).left_out == {"wildfire-03": "not elicited"}


def test_the_nearest_trace_is_taken_and_its_probability_set() -> None:
    texts = [cot(f"Trace {n}: a chance of {p}.", p) for n, p in enumerate(("0.1", "0.35", "0.9", "0.2", "0.3"), 1)]
    case = read_beliefs(answered("cot", *texts), prompts("cot")).cases[CASE]
    assert (case.belief, case.trace, case.stated) == (Decimal("0.37"), "Trace 2: a chance of 0.37.", 1)


@pytest.mark.parametrize("swap", [False, True])
def test_of_two_traces_equally_near_the_lower_repetition_is_taken(swap: bool) -> None:
    values = ["0.3", "0.2", "0.4", "0.25", "0.35"][1:] if not swap else ["0.4", "0.2", "0.35", "0.25"]
    texts = [cot(f"Trace {n}.", value) for n, value in enumerate(values, 1)]
    shuffled = list(reversed(prompts("cot")[:4]))
    case = read_beliefs(answered("cot", *texts), shuffled).cases[CASE]
    assert (case.belief, case.trace) == (Decimal("0.3"), "Trace 3.")


def test_a_trace_that_is_not_usable_gives_way_to_the_next_nearest() -> None:
    texts = [
        cot("<final>\nProbability: 0.8\n</final>\nNo.", "0.3"),
        cot("", "0.31"),
        cot("A mark <|im_end|>.", "0.32"),
        cot("Far but sound.", "0.9"),
    ]
    case = read_beliefs(answered("cot", *texts), prompts("cot")).cases[CASE]
    assert (case.belief, case.trace) == (Decimal("0.458"), "Far but sound.")  # (0.3 + 0.31 + 0.32 + 0.9) / 4 = 0.4575


def test_a_case_without_a_usable_trace_is_left_out_with_the_reasons() -> None:
    texts = [cot("", "0.3"), cot("", "0.3"), cot("</s>So.", "0.3")]
    assert read_beliefs(answered("cot", *texts), prompts("cot")).left_out == {
        CASE: "none of 3 traces is usable: a mark of a chat template in the prose (1), no prose before the answer (2)"
    }


# --- The run in an outputs folder -------------------------------------------------------------------------------------


def outputs(folder: Path, **configs: list[dict[str, Any]]) -> Artifact:
    """An outputs folder; each config's rows are RUN with the given changes, one answer each."""
    for config, changes in configs.items():
        rows = [RUN | {"item_id": f"x.r{n}", "text": "0.3"} | change for n, change in enumerate(changes)]
        write_parquet(folder, config.replace("_", "-"), "train", rows, OUTPUTS)
    return resolve(str(folder), "dataset")


def test_the_one_base_elicitation_of_the_style_is_found_among_other_runs(tmp_path: Path) -> None:
    artifact = outputs(
        tmp_path,
        base_cot=[{}],
        base_direct=[{"style": "direct"}],
        base_complete=[{"task": "complete"}],
        sft=[{"adapter": "org/adapter"}],
    )
    assert find_elicitation(artifact, "cot").config == "base-cot"
    assert find_elicitation(artifact, "direct").config == "base-direct"


def test_guided_and_free_runs_are_not_guessed_between(tmp_path: Path) -> None:
    artifact = outputs(tmp_path, base=[{}], base_guided=[{"guided": True}])
    with pytest.raises(
        UserError, match=r"2 runs are cot elicitations .*\(base, base-guided\); choose one with --config"
    ):
        find_elicitation(artifact, "cot")
    assert find_elicitation(artifact, "cot", ["base-guided"]).settings["guided"] is True


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([{}, {"model_revision": "other"}], "model_revision has 2 values .0123abc, other.; a run has one"),
        ([{"item_id": "x"}, {"item_id": "x"}], "item x is answered more than once"),
        ([{"task": "complete"}], "none of its 1 runs is a base model's cot elicitation"),
    ],
)
def test_a_folder_that_is_no_elicitation_is_refused(tmp_path: Path, changes: list[Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        find_elicitation(outputs(tmp_path, run=changes), "cot")


def test_folders_and_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="no runs"):
        find_elicitation(resolve(str(tmp_path / "empty"), "dataset"), "cot")
    with pytest.raises(UserError, match="no config 'nope'; there are run"):
        find_elicitation(outputs(tmp_path / "some", run=[{}]), "cot", ["nope"])
    write_parquet(tmp_path / "sft", "complete-cot", "train", [], SFT)
    with pytest.raises(UserError, match="none of its 1 runs"):
        find_elicitation(resolve(str(tmp_path / "sft"), "dataset"), "cot")
    (tmp_path / "broken" / "run").mkdir(parents=True)
    (tmp_path / "broken" / "run" / "train-00000-of-00001.parquet").write_bytes(b"not parquet")
    with pytest.raises(UserError, match="cannot be read"):
        find_elicitation(resolve(str(tmp_path / "broken"), "dataset"), "cot")
