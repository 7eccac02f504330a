"""The release as others use it: everything of a small run published, then used by id by somebody without this checkout.

The run, the publication and every use go through the real clients and a Hub on loopback.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import evaluate
import pyarrow.parquet as pq
import pytest
from huggingface_hub import CommitOperationAdd, HfApi

from tests.hub.running import Hub, running_hub
from tests.talking import teach

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
BASE, TAG = "acme/tiny-llama", "v1.0.0"
RECIPE = f"""\
model: {BASE}
generation:
  {{guided: true, dtype: float32, batch_size: 32, limit: 2, cells: 4, elicited: {{train: 3, validation: 2}},
    max_tokens: {{direct: 64}}}}
training:
  {{adapters: [decidability-direct, complete-direct], quantization: none, dtype: float32, max_steps: {{direct: 2}},
    batch_size: 2, accumulation: 1, gradient_checkpointing: false, eval_steps: 2, eval_rows: 2, save_steps: 1}}
"""
KNOWN = f"""\
model: {BASE}
generation: {{guided: true, dtype: float32, batch_size: 16, limit: 2, cells: 3, orderings: 1, max_tokens: {{cot: 200}}}}
grpo:
  {{tasks: [weather], dtype: float32, max_steps: {{weather: 2}}, batch_size: 32, accumulation: 1, eval_rows: 2,
    max_tokens: 48, warmup_steps: 0, learning_rate: 0.001, gradient_checkpointing: false}}
"""
REPOS = {
    "acme/coherent-decisions": "dataset",
    "acme/coherence": "space",
    "acme/coherent-decisions-outputs-tiny-llama": "dataset",
    "acme/coherent-decisions-sft-tiny-llama": "dataset",
    "acme/tiny-llama-complete-direct-full-hedge": "model",
    "acme/tiny-llama-decidability-direct-full-hedge": "model",
    "acme/posterior-decisions": "dataset",
    "acme/posterior-decisions-outputs-tiny-llama": "dataset",
    "acme/tiny-llama-weather-sequential": "model",
}
OUTPUTS, ADAPTER, REWARDED = list(REPOS)[2], list(REPOS)[4], list(REPOS)[8]
ELSEWHERE = (
    "import sys; sys.path.append({site!r})\nimport importlib.util\nassert not importlib.util.find_spec('builders')\n"
)
"""With ``python -S`` no editable installation is on the path, so none of this project's packages."""


@dataclass(frozen=True)
class Published:
    """A small run of each paper's, and the Hub that they were published to."""

    hub: Hub
    recipe: Path
    run: Path
    known_recipe: Path
    known: Path

    @property
    def api(self) -> HfApi:
        return HfApi(self.hub.url, token=self.hub.token)


def command(environment: dict[str, str], *arguments: str | Path, code: int = 0) -> str:
    """What a command of this project prints."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=1200,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def elsewhere(environment: dict[str, str], script: str, folder: Path) -> str:
    """What a script prints that has the libraries, but nothing of this checkout."""
    site = next(path for path in sys.path if path.endswith("site-packages"))
    done = subprocess.run(
        [sys.executable, "-S", "-c", ELSEWHERE.format(site=site) + script],
        cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def published(wide: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    folder = tmp_path_factory.mktemp("release")
    # Its heads are wide enough for vLLM on a CPU; it answers now and then, and has room for 300 records.
    model = Path(shutil.copytree(wide, folder / "tiny-llama"))
    teach(model, context=8192)
    recipe, run, space = folder / "tiny.yaml", folder / "run", folder / "coherence"
    known_recipe, known = folder / "known.yaml", folder / "known"
    recipe.write_text(RECIPE)
    known_recipe.write_text(KNOWN)
    with running_hub(folder / "hub") as hub:
        api = HfApi(hub.url, token=hub.token)
        api.create_repo(BASE)
        adds = [CommitOperationAdd(path.name, str(path)) for path in sorted(model.iterdir())]
        api.create_commit(BASE, adds, commit_message="a base model")
        for each, what, out in ((recipe, "full-hedge", run), (known_recipe, "sequential", known)):
            command(hub.environment, "reproduce.py", "--recipe", each, "--train", what, "--out", out)
        command(hub.environment, "-m", "evaluate_metrics", "space", "--out", space)
        said = command(hub.environment, "push_to_hub.py", run, space, known, "--org", "acme", "--tag", TAG)
        assert "published: 9 repos, 9 with something to commit" in said and hub.token not in said
        yield Published(hub, recipe, run, known_recipe, known)


def test_every_repo_is_there_tagged_and_linked(published: Published) -> None:
    for repo_id, kind in REPOS.items():
        assert published.api.repo_info(repo_id, repo_type=kind, revision=TAG).sha
    (collection,) = published.api.list_collections(owner="acme")
    items = published.api.get_collection(collection.slug).items
    assert {each.item_id: each.item_type for each in items} == REPOS


def test_nothing_is_committed_twice(published: Published) -> None:
    said = command(published.hub.environment, "push_to_hub.py", published.run, "--org", "acme", "--tag", TAG)
    assert "published: 5 repos, 0 with something to commit" in said


@pytest.mark.parametrize("repo_id", REPOS)
def test_every_snippet_of_a_card_runs_as_printed(repo_id: str, published: Published, tmp_path: Path) -> None:
    card = published.api.hf_hub_download(repo_id, "README.md", repo_type=REPOS[repo_id], local_dir=tmp_path)
    snippets = re.findall(r"^```python\n(.*?)^```", Path(card).read_text(), re.DOTALL | re.MULTILINE)
    assert snippets and "org/" not in "".join(snippets)
    for snippet in snippets:
        assert elsewhere(published.hub.new_environment(), snippet, tmp_path).strip()


def test_a_stranger_loads_everything_by_id_at_a_version(published: Published, tmp_path: Path) -> None:
    script = f"""
from datasets import load_dataset
import evaluate
prompts = load_dataset("acme/coherent-decisions", "decidability", split="test", revision="{TAG}")
outputs = load_dataset("{OUTPUTS}", "sft-direct-decidability-full-hedge", split="test", revision="{TAG}")
place = {{item_id: index for index, item_id in enumerate(prompts["item_id"])}}
rows = prompts.select([place[item_id] for item_id in outputs["item_id"]])
metric = evaluate.load("acme/coherence", "decidability", revision="{TAG}")
print(len(rows), metric.compute(predictions=outputs["text"], references=rows)["answers"])
"""
    assert elsewhere(published.hub.new_environment(), script, tmp_path) == "8 8\n"


def test_the_results_of_an_adapter_are_in_its_card(published: Published) -> None:
    from huggingface_hub import ModelCard

    card = ModelCard(
        Path(published.api.hf_hub_download(ADAPTER, "README.md", local_dir=published.run / "seen")).read_text()
    )
    results = {each.metric_name: each for each in card.data.eval_results or ()}
    assert results["parse rate"].dataset_type == "acme/coherent-decisions"
    assert results["parse rate"].metric_type == "acme/coherence"
    assert card.data.base_model == BASE and ".eval_results/coherent-decisions.yaml" in published.api.list_repo_files(
        ADAPTER
    )


def test_scoring_again_gives_the_published_tables(published: Published, tmp_path: Path) -> None:
    environment, where = published.hub.new_environment(), ["--recipe", published.recipe, "--out", tmp_path / "again"]
    said = command(environment, "reproduce.py", "--from-hub", f"acme@{TAG}", *where)
    assert re.search(r"equal: [\d,]+ cells of the published tables, each recomputed", said)
    assert not (tmp_path / "again" / "outputs").exists()
    offline = environment | {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
    said = command(offline, "reproduce.py", "--from-hub", f"acme@{TAG}", *where)
    assert "equal: " in said
    said = command(offline, "reproduce.py", "--from-hub", "acme@v9.9.9", *where, code=2)
    assert said.startswith("error: ") and "v9.9.9" in said


def test_a_rewarded_adapter_has_its_regrets_in_its_card(published: Published, tmp_path: Path) -> None:
    from huggingface_hub import ModelCard

    card = ModelCard(Path(published.api.hf_hub_download(REWARDED, "README.md", local_dir=tmp_path)).read_text())
    results = {each.metric_name: each for each in card.data.eval_results or ()}
    assert {"total regret, independent", "total regret, two-turn", "parse rate, independent"} <= results.keys()
    assert results["total regret, two-turn"].dataset_type == "acme/posterior-decisions"
    assert card.data.base_model == BASE and card.data.datasets == ["acme/posterior-decisions"]
    assert ".eval_results/posterior-decisions.yaml" in published.api.list_repo_files(REWARDED)


@pytest.mark.parametrize("stage", ["outputs", "adapters", "beliefs", "cases"])
def test_regrets_follow_from_any_published_stage(stage: str, published: Published, tmp_path: Path) -> None:
    where = ["--recipe", published.known_recipe, "--out", tmp_path / "again", "--from", stage]
    said = command(published.hub.new_environment(), "reproduce.py", "--from-hub", f"acme@{TAG}", *where)
    assert re.search(r"equal: [\d,]+ cells of the published tables, each recomputed", said)
    taken = [(tmp_path / "again" / name).exists() for name in ("outputs", "adapters", "posterior")]
    assert taken == [stage != "outputs", stage in ("beliefs", "cases"), stage == "cases"]


@pytest.mark.parametrize("stage", ["adapters", "beliefs", "cases"])
def test_any_later_part_of_the_pipeline_gives_them_too(stage: str, published: Published, tmp_path: Path) -> None:
    arguments = [
        "--from-hub",
        f"acme@{TAG}",
        "--from",
        stage,
        "--recipe",
        published.recipe,
        "--out",
        tmp_path / "again",
    ]
    said = command(published.hub.new_environment(), "reproduce.py", *arguments)
    assert "equal: " in said
    config = "outputs/sft-direct-complete-full-hedge/test-00000-of-00001.parquet"
    ours, theirs = (pq.read_table(folder / config) for folder in (tmp_path / "again", published.run))
    assert ours["text"].equals(theirs["text"])
    taken = (tmp_path / "again" / "adapters").exists(), (tmp_path / "again" / "benchmark").exists()
    assert taken == {"adapters": (False, False), "beliefs": (True, False), "cases": (True, True)}[stage]


def test_a_published_table_that_does_not_follow_is_found_out(published: Published, tmp_path: Path) -> None:
    table = (published.run / "report" / "measures.csv").read_text()
    line = next(line for line in table.splitlines() if ",joint_accuracy,0" in line)
    head, value = line.split(",joint_accuracy,", 1)
    changed = table.replace(line, f"{head},joint_accuracy,0.99{value[value.index(',') :]}")
    for repo_id, kind in REPOS.items():
        published.api.create_branch(repo_id, branch="wishful", repo_type=kind)
    added = [CommitOperationAdd("report/measures.csv", changed.encode())]
    published.api.create_commit(OUTPUTS, added, commit_message="wish", repo_type="dataset", revision="wishful")
    arguments = ["--from-hub", "acme@wishful", "--recipe", published.recipe, "--out", tmp_path / "again"]
    said = command(published.hub.new_environment(), "reproduce.py", *arguments, code=1)
    assert re.search(r"different: 1 of [\d,]+ cells of the published tables\n  measures\.csv: .* was 0\.99, is ", said)


@pytest.mark.parametrize("engine", ["transformers", "vllm"])
def test_an_adapter_answers_by_its_id(engine: str, published: Published, tmp_path: Path) -> None:
    if engine == "vllm":
        pytest.importorskip("vllm")
    by_id = ["--model", BASE, "--adapter", f"{ADAPTER}@{TAG}", "--benchmark", f"acme/coherent-decisions@{TAG}"]
    what = ["--task", "complete", "--style", "direct", "--repetition", "1", "--limit", "1", "--cells", "2"]
    how = ["--engine", engine, "--dtype", "float32", "--max-tokens", "16", "--out", tmp_path]
    command(published.hub.new_environment(), "-m", "inference", "generate", *by_id, *what, *how)
    rows = pq.read_table(tmp_path / "sft-direct-complete-full-hedge").to_pylist()
    commit = published.api.repo_info(ADAPTER, revision=TAG).sha
    assert [(row["engine"], row["adapter"], row["adapter_revision"]) for row in rows] == [(engine, ADAPTER, commit)] * 2


def test_the_metric_needs_evaluate_and_numpy_alone(published: Published, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", f"evaluate=={evaluate.__version__}", "numpy"], check=True)
    script = """
import evaluate
row = {"case_id": "a", "cost_fp": 1, "cost_fn": 10, "act_word": "ACT", "hold_word": "HOLD", "condition": "D"}
answer = "<final>\\nProbability: 0.25\\nChoice: D\\nDecision: ACT\\n</final>"
result = evaluate.load("acme/coherence", "decidability").compute(predictions=[answer], references=[row])
print(result["joint_accuracy"])
"""
    environment = os.environ | published.hub.new_environment()
    done = subprocess.run([python, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stdout == "1.0\n", done.stderr
