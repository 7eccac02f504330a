"""GRPO of tiny real models: whose advantage a token gets, what is written, how it resumes, what is refused."""

import csv
import json
import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
import yaml
from datasets import Dataset
from huggingface_hub import ModelCard
from safetensors.torch import load_file

import training.grpo_trainer
from builders.artifacts import Artifact
from builders.chat import render
from builders.errors import UserError
from builders.posterior.interventions import INTERVENTIONS
from training.base import lora_settings
from training.examples import examples
from training.grpo import Job, describe, train, with_rollouts
from training.grpo_form import COLUMNS, example
from training.grpo_trainer import Trainer, joined, make_trainer
from training.guards import Progress
from training.recipe import Grpo, Recipe

MakeRecipe = Callable[..., Recipe]
Rows = list[dict[str, Any]]
Tiny = Callable[[str], Path]
GROUP = 8


def log(folder: Path) -> list[dict[str, str]]:
    with (folder / "training-log.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_file(folder / "adapter_model.safetensors"))


# --- Credit -----------------------------------------------------------------------------------------------------------


def handmade(name: str, values: Sequence[float]) -> Callable[..., list[float | None]]:
    """A reward function that gives a group's answers these values, whatever they say."""

    def reward(credit: Sequence[str], **_: Any) -> list[float | None]:
        return [values[i % GROUP] if own == name else None for i, own in enumerate(credit)]

    reward.__name__ = name
    return reward


MakeTrainer = Callable[..., Trainer]


@pytest.fixture
def trainer_of(
    grpo_recipe: MakeRecipe, tiny: Tiny, weather_rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> MakeTrainer:
    """trainer_of(intervention, rewards, **grpo) -> a trainer of the tiny Llama with these reward functions."""

    def make(intervention: str, rewards: Sequence[Callable[..., list[float | None]]], **grpo: Any) -> Trainer:
        monkeypatch.setattr(training.grpo_trainer, "REWARDS", rewards)
        settings = grpo_recipe(**grpo).grpo
        assert settings
        rows = Dataset.from_list(examples(weather_rows, intervention, (), 0))
        model = transformers.AutoModelForCausalLM.from_pretrained(tiny("llama"), dtype=torch.float32)
        tokenizer = transformers.AutoTokenizer.from_pretrained(tiny("llama"))
        return make_trainer(
            model, tokenizer, rows, rows, settings, 1, None, lora_settings(settings), 2048, tmp_path / "trainer"
        )

    return make


def normalised(values: Sequence[float]) -> torch.Tensor:
    group = torch.tensor(values)
    return (group - group.mean()) / (group.std() + 1e-4)


FIRST, SECOND = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
HANDMADE = [handmade("belief", FIRST), handmade("decision", [math.nan] * 8), handmade("alignment", SECOND)]


def generated(trainer: Trainer, count: int = GROUP) -> tuple[Rows, dict[str, Any]]:
    rows = [dict(trainer.train_dataset[0]) for _ in range(count)]
    trainer.model.train()
    return rows, trainer._generate_and_score_completions(rows)


def test_each_turns_tokens_get_that_turns_own_advantage(trainer_of: MakeTrainer) -> None:
    trainer = trainer_of("sequential", HANDMADE)
    tokenizer: Any = trainer.processing_class
    rows, batch = generated(trainer)
    assert {len(batch[name]) for name in ("prompt_ids", "completion_ids", "advantages")} == {2 * GROUP}
    assert torch.allclose(batch["advantages"][:GROUP], normalised(FIRST))
    assert torch.allclose(batch["advantages"][GROUP:], normalised(SECOND))
    assert batch["num_items_in_batch"] == batch["completion_mask"].sum()

    prompts = [ids[mask.bool()].tolist() for ids, mask in zip(batch["prompt_ids"], batch["prompt_mask"], strict=True)]
    answers = [
        ids[mask.bool()].tolist() for ids, mask in zip(batch["completion_ids"], batch["completion_mask"], strict=True)
    ]
    for number in range(GROUP):
        first = answers[number][:-1] if answers[number][-1] == tokenizer.eos_token_id else answers[number]
        said = tokenizer.decode(first, skip_special_tokens=True)
        assert prompts[number] == render(tokenizer, rows[0]["prompt"])
        # The second turn goes on with the very answer that the first turn's tokens are, as at inference.
        assert prompts[GROUP + number] == render(tokenizer, rows[0]["second"], (rows[0]["prompt"], said))


def test_a_turn_whose_rewards_are_alike_teaches_nothing_whatever_the_other_earned(trainer_of: MakeTrainer) -> None:
    """The gradient of the joined batch is that of the second turn's tokens alone."""
    trainer = trainer_of("sequential", [handmade("belief", [0.5] * 8), HANDMADE[1], HANDMADE[2]])
    _, batch = generated(trainer)
    assert not batch["advantages"][:GROUP].any() and batch["advantages"][GROUP:].any()
    trainer.current_gradient_accumulation_steps = 1

    def gradient(part: slice) -> list[torch.Tensor]:
        trainer.model.zero_grad()
        some = {name: value[part] if value.dim() else value for name, value in batch.items()}
        trainer._compute_loss(trainer.model, some).backward()
        return [p.grad.clone() for p in trainer.model.parameters() if p.grad is not None]

    whole, first, second = (gradient(part) for part in (slice(None), slice(GROUP), slice(GROUP, None)))
    assert all(not part.any() for part in first)
    assert any(part.abs().max() > 1e-6 for part in second)
    for a, b in zip(whole, second, strict=True):
        assert torch.allclose(a, b, atol=1e-7)


def test_one_turn_is_one_batch(trainer_of: MakeTrainer) -> None:
    _, batch = generated(trainer_of("belief", HANDMADE))
    assert torch.allclose(batch["advantages"], normalised(FIRST))


def test_groups_are_normalised_each_for_itself(trainer_of: MakeTrainer) -> None:
    def by_group(credit: Sequence[str], **_: Any) -> list[float | None]:
        return [0.9 if i < GROUP else FIRST[i % GROUP] for i in range(len(credit))]

    by_group.__name__ = "belief"
    _, batch = generated(trainer_of("belief", [by_group, *HANDMADE[1:]]), 2 * GROUP)
    assert batch["advantages"][:GROUP].abs().max() < 1e-2  # nothing but the rounding of their mean
    assert torch.allclose(batch["advantages"][GROUP:], normalised(FIRST))


def test_batches_are_joined_with_prompts_padded_left_and_answers_right() -> None:
    def batch(prompt: int, answer: int) -> dict[str, Any]:
        return {
            "prompt_ids": torch.full((2, prompt), 7), "prompt_mask": torch.ones(2, prompt, dtype=torch.long),
            "completion_ids": torch.full((2, answer), 8), "completion_mask": torch.ones(2, answer, dtype=torch.long),
            "old_per_token_logps": torch.full((2, answer), -0.5), "advantages": torch.tensor([1.0, -1.0]),
            "importance_sampling_ratio": torch.full((2, 1), 1.5), "num_items_in_batch": torch.tensor(2 * answer),
        }  # fmt: skip

    both = joined(batch(2, 3), batch(4, 1), pad_token=9)
    assert both["prompt_ids"].tolist() == [[9, 9, 7, 7]] * 2 + [[7] * 4] * 2
    assert both["prompt_mask"].tolist() == [[0, 0, 1, 1]] * 2 + [[1] * 4] * 2
    assert both["completion_ids"].tolist() == [[8] * 3] * 2 + [[8, 9, 9]] * 2
    assert both["completion_mask"].tolist() == [[1] * 3] * 2 + [[1, 0, 0]] * 2
    assert both["old_per_token_logps"].tolist() == [[-0.5] * 3] * 2 + [[-0.5, 0, 0]] * 2
    assert both["importance_sampling_ratio"].shape == (4, 1)
    assert both["advantages"].tolist() == [1, -1, 1, -1] and both["num_items_in_batch"] == 8


@pytest.mark.slow
def test_rewarded_behaviour_becomes_more_frequent(trainer_of: MakeTrainer) -> None:
    """The sign of it all: answers are rewarded for their share of tokens from half of the vocabulary, which rises."""

    def share(completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float | None]:
        return [sum(each < 320 for each in ids) / len(ids) for ids in completion_ids]

    share.__name__ = "belief"
    trainer = trainer_of(
        "belief", [share, *HANDMADE[1:]], max_steps={}, epochs={"weather": 1}, learning_rate=0.05, eval_steps=10_000,
        save_steps=10_000, batch_size=32, accumulation=1, max_tokens=8,
    )  # fmt: skip
    trainer.args.max_steps = 25
    # As it is initialised, the head tells tokens so little apart that nothing behind it could be learnt.
    trainer.model.get_output_embeddings().weight.data *= 60
    trainer.train()
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    assert sum(rewards[-5:]) / 5 > sum(rewards[:5]) / 5 + 0.2, rewards


# --- Training ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("intervention", INTERVENTIONS)
def test_an_adapter_is_written_like_those_of_sft(
    grpo_recipe: MakeRecipe, known: Artifact, base: Artifact, tmp_path: Path, intervention: str
) -> None:
    losses = (2, 4, 6, 8) if intervention == "sequential" else ()
    out = train(Job("weather", intervention, losses), grpo_recipe(), known, base, tmp_path / "adapter")
    files = {path.name for path in out.iterdir()}
    assert files == {
        "adapter_config.json", "adapter_model.safetensors", "README.md", "run.json", "training-log.csv", "reward.png",
        ".training",
    }  # fmt: skip
    run = json.loads((out / "run.json").read_text())
    assert (run["task"], run["intervention"], run["losses"]) == ("weather", intervention, list(losses))
    assert (run["model"], run["model_revision"], run["steps"]) == ("tiny-llama", base.revision, 3)
    count = 4 * (len(losses) or 9)
    assert run["rows"] == {"train": count, "validation": 4} and run["recipe"]["max_steps"] == 3

    rows = log(out)
    assert tuple(rows[0]) == tuple(COLUMNS) and [row["step"] for row in rows] == ["1", "2", "3"]
    rewarded = {
        "belief": ["belief"], "decision": ["decision"], "separate": ["belief", "decision"],
        "sequential": ["belief", "alignment"],
    }[intervention]  # fmt: skip
    for name in ("belief", "decision", "alignment"):
        logged = [row[f"{name}_reward"] for row in rows]
        assert any(logged) == (name in rewarded)
        # A tiny random model never writes an answer: it earns nothing, and no group teaches anything.
        assert {float(value) for value in logged if value} <= {0.0}
    assert all(float(row["zero_variance"]) == 1 and float(row["unread"]) == 1 for row in rows)
    assert rows[1]["eval_reward"] and not rows[0]["eval_reward"]

    card = ModelCard.load(out / "README.md")
    assert card.data.base_model == "tiny-llama" and card.data.datasets == ["org/posterior-decisions"]
    assert card.data.tags == ["coherent-decisions", "lora", "grpo", "decision-making"]
    assert f'PeftModel.from_pretrained(base, "org/{run["model"]}-weather-{intervention}' in card.text
    assert ("thresholds 0.2, 0.4, 0.6, 0.8 alone" in card.text) == bool(losses)
    assert ("second = " in card.text) == (intervention == "sequential")
    shown = example("weather", intervention)
    assert shown["prompt"] in card.text and shown["cost_fp"] == 3


def stopping_at(step: int) -> Callable[..., None]:
    def on_log(self: Any, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step == step:
            raise KeyboardInterrupt

    return on_log


def rewarded_by_length(credit: Sequence[str], completion_ids: Sequence[Sequence[int]], **_: Any) -> list[float | None]:
    return [
        sum(ids) % 7 / 7 if own in ("belief", "alignment") else None
        for own, ids in zip(credit, completion_ids, strict=True)
    ]


@pytest.mark.parametrize("intervention", ["belief", pytest.param("sequential", marks=pytest.mark.slow)])
def test_an_interrupted_run_ends_the_same(
    grpo_recipe: MakeRecipe, known: Artifact, base: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    intervention: str,
) -> None:  # fmt: skip
    """Tensors equal, bit by bit, on CPU: what is drawn goes on where it stopped."""
    monkeypatch.setattr(training.grpo_trainer, "REWARDS", [rewarded_by_length])
    job, recipe = Job("weather", intervention), grpo_recipe(max_steps={"weather": 4})
    expected = train(job, recipe, known, base, tmp_path / "whole")
    out = tmp_path / "resumed"
    for step in (2, 4):
        with monkeypatch.context() as patch:
            patch.setattr(Progress, "on_log", stopping_at(step))
            with pytest.raises(KeyboardInterrupt):
                train(job, recipe, known, base, out)
        torch.rand(step)
    train(job, recipe, known, base, out)
    assert json.loads((out / "run.json").read_text())["resumed_from"] == "checkpoint-3"
    found = weights(out)
    for name, tensor in weights(expected).items():
        assert torch.equal(tensor, found[name]), name
    assert [row["step"] for row in log(out)] == ["1", "2", "3", "4"]
    assert [row["reward"] for row in log(out)] == [row["reward"] for row in log(expected)]


def test_a_repeated_command_does_nothing_and_another_run_is_refused(
    grpo_recipe: MakeRecipe, known: Artifact, base: Artifact, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, recipe = Job("weather", "belief"), grpo_recipe(max_steps={"weather": 1})
    out = train(job, recipe, known, base, tmp_path / "adapter")
    before = {path: path.read_bytes() for path in out.iterdir() if path.is_file()}
    train(job, recipe, known, base, out)
    assert capsys.readouterr().out.splitlines()[-1] == f"{out}: already trained"
    assert before == {path: path.read_bytes() for path in out.iterdir() if path.is_file()}
    for other, changed in ((Job("weather", "decision"), recipe), (job, grpo_recipe(completions=4))):
        with pytest.raises(UserError, match=r"belongs to another run \((intervention|recipe\.\w+) was"):
            train(other, changed, known, base, out)


def test_what_else_a_recipe_trains_is_no_part_of_an_adapter(known: Artifact, base: Artifact) -> None:
    job = Job("weather", "belief")
    one, two = (
        describe(job, "r", Grpo(tasks=tasks, epochs=epochs), known, base)
        for tasks, epochs in ((("weather",), {"weather": 2}), (("weather", "clinical"), {"weather": 2, "clinical": 9}))
    )
    assert one == two


# --- What is refused --------------------------------------------------------------------------------------------------


def test_a_conversation_that_does_not_fit_is_refused_before_anything_is_written(
    grpo_recipe: MakeRecipe, known: Artifact, base: Artifact, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"prompt and answer may take [\d,]+ tokens, more than the context of 300"):
        train(Job("weather", "belief"), grpo_recipe(context=300), known, base, tmp_path / "adapter")
    with pytest.raises(UserError, match="more than the context of 2,048"):
        train(Job("weather", "belief"), grpo_recipe(max_tokens=4000), known, base, tmp_path / "adapter")
    assert not (tmp_path / "adapter").exists()


def test_vllm_without_a_gpu_is_refused(grpo_recipe: MakeRecipe) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    settings = grpo_recipe().grpo
    assert settings and with_rollouts(settings).rollouts == "transformers"
    with pytest.raises(UserError, match="rollouts vllm needs a CUDA GPU"):
        with_rollouts(Grpo(rollouts="vllm"))


WORDS = [
    (
        ["--intervention", "beliefs"],
        "no intervention 'beliefs' to train; there are belief, decision, separate, sequential",
    ),
    (["--task", "whether"], "no task 'whether' to train; there are synthetic, weather, clinical"),
    (["--thresholds", "0.25"], "thresholds '0.25'; give some of 0.1, 0.2, ... 0.9"),
    (["--recipe", "smollm2-135m-cpu"], "the recipe smollm2-135m-cpu has no section grpo; give one that has"),
]


def test_the_command_line(known: Artifact, base: Artifact, hf_caches: dict[str, str], tmp_path: Path) -> None:
    recipe = tmp_path / "tiny.yaml"
    grpo = {
        "dtype": "float32", "batch_size": 8, "accumulation": 1, "max_steps": {"weather": 1}, "max_tokens": 8,
        "gradient_checkpointing": False, "eval_rows": 2, "logging_steps": 1, "tasks": ["weather"],
    }  # fmt: skip
    recipe.write_text(yaml.safe_dump({"model": str(base.path), "grpo": grpo}))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        fixed = {
            "--recipe": str(recipe), "--task": "weather", "--intervention": "separate", "--thresholds": "0.3,0.7",
            "--data": str(known.path), "--out": str(tmp_path / "adapter"),
        }  # fmt: skip
        chosen = fixed | dict(zip(words[::2], words[1::2], strict=True))
        command = [sys.executable, "-m", "training", "grpo", *(word for pair in chosen.items() for word in pair)]
        return subprocess.run(
            command, cwd=Path(__file__).parents[2], env={**hf_caches, "PATH": ""}, capture_output=True, text=True
        )

    for words, message in WORDS:
        refused = run(*words)
        assert refused.returncode == 2 and len(refused.stderr.splitlines()) == 1, refused.stderr
        assert refused.stderr.startswith(f"error: {message}")
    done = run()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == str(tmp_path / "adapter")
    assert json.loads((tmp_path / "adapter" / "run.json").read_text())["losses"] == [3, 7]
    assert [line for line in done.stdout.splitlines() if line.startswith("  step 1/1  reward 0.0000  unread 1.0000")]
