"""Publishing as its user does it: the command line against a Hub on loopback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from huggingface_hub import HfApi, ModelCard

from builders.artifacts import Artifact, resolve
from builders.errors import UserError
from builders.folders import write_parquet
from builders.hub.files import MAX_FILE_BYTES
from builders.schema import BENCHMARK
from evaluate_metrics.regret_report import write_regret_report
from evaluate_metrics.regret_scores import Settings
from inference.card import write_outputs_card
from push_to_hub import gather, more_checks
from tests.evaluate_metrics.regret_tiny import contrary, deluded, write_tiny
from tests.hub.running import Hub, running_hub

ROOT = Path(__file__).parents[1]
REWARDED = {"task": "weather", "intervention": "belief", "losses": [], "model": "tiny/agent", "model_revision": "r0"}
ADAPTER_CARD = "---\nlicense: other\n---\n# An adapter of `org/posterior-decisions`, `org/agent-weather-belief`\n"
ID = "acme/coherent-decisions"


@pytest.fixture(scope="module")
def running(hf_caches: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """After the caches, which go offline: the Hub on loopback takes that back."""
    with running_hub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub


@pytest.fixture
def hub(running: Hub) -> Iterator[Hub]:
    """The running Hub without the repo."""
    yield running
    running.clear_faults()
    HfApi(running.url, token=running.token).delete_repo(ID, repo_type="dataset", missing_ok=True)


@pytest.fixture
def folder(benchmark: Artifact, tmp_path: Path) -> Path:
    """A small benchmark to publish, or to damage first."""
    return Path(shutil.copytree(benchmark.path, tmp_path / "benchmark"))


def start(hub: Hub, *arguments: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "push_to_hub.py", *map(str, arguments), "--org", "acme"],
        cwd=ROOT,
        env={**os.environ, **hub.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def push(hub: Hub, *arguments: str | Path) -> tuple[int, str, str]:
    process = start(hub, *arguments)
    out, err = process.communicate(timeout=120)
    assert hub.token not in out + err and "Traceback" not in err
    return process.returncode, out, err


def writes(hub: Hub) -> list[str]:
    return [f"{each.method} {each.path}" for each in hub.requests() if each.writes]


def test_a_dry_run_prints_the_plan_and_sends_nothing_that_writes(hub: Hub, folder: Path) -> None:
    before = writes(hub)
    code, out, err = push(hub, folder, "--tag", "v1.0.0", "--dry-run")
    assert code == 0, err
    assert out.startswith(f"dataset {ID}  (benchmark in {folder})\n  checked: ")
    assert "  new public repo: 5 new (" in out and "    + README.md  " in out and "  tag v1.0.0: new\n" in out
    assert out.endswith("dry run: 1 repos, 1 with something to commit; nothing was sent\n")
    assert writes(hub) == before


def test_a_folder_is_published_once_tagged_and_linked(hub: Hub, folder: Path) -> None:
    code, out, err = push(hub, folder, "--tag", "v1.0.0", "--private")
    assert code == 0, err
    api = HfApi(hub.url, token=hub.token)
    info = api.repo_info(ID, repo_type="dataset", revision="v1.0.0")
    assert info.private and f"commit {info.sha[:7]} on main" in out and "collection acme/coherent-decisions-" in out
    code, out, err = push(hub, folder, "--tag", "v1.0.0")
    assert code == 0 and "nothing to commit" in out and "tag v1.0.0: already there" in out
    assert len(api.list_repo_commits(ID, repo_type="dataset")) == 2


Damage = Callable[[Path], object]


def link_out(folder: Path) -> None:
    (folder.parent / "secret").write_text("hf_secret")
    (folder / "notes.md").symlink_to(folder.parent / "secret")


def lead_out(folder: Path) -> None:
    card = folder / "README.md"
    card.write_text(card.read_text().replace("path: complete/", "path: ../complete/"))


def grow(folder: Path) -> None:
    with (folder / "complete" / "test-00000-of-00001.parquet").open("ab") as file:
        file.truncate(2 * MAX_FILE_BYTES)


def break_yaml(folder: Path) -> None:
    card = folder / "README.md"
    card.write_text(card.read_text().replace("configs:", "configs: ["))


HOSTILE: dict[str, tuple[Damage, str]] = {
    "a link": (link_out, "notes.md: a link, to "),
    "a path": (lead_out, "README.md: names the data file '../complete/test-00000-of-00001.parquet'"),
    "two gigabytes": (grow, "test-00000-of-00001.parquet: 2.0 GiB; no file of this project has more than 1 GiB"),
    "a card": (break_yaml, "README.md: its YAML cannot be read"),
    "a schema": (
        lambda folder: write_parquet(folder, "complete", "test", [], BENCHMARK["elicitation"]),
        "test-00000-of-00001.parquet: not the columns of the schema",
    ),
    "a pickle": (lambda folder: (folder / "rows.pkl").write_bytes(b"\x80\x04."), "rows.pkl: may be a pickle"),
    "a script": (lambda folder: (folder / "load.py").write_text("print()"), "load.py: not a file of this kind"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_folder_is_refused_with_one_line(what: str, hub: Hub, folder: Path) -> None:
    damage, message = HOSTILE[what]
    damage(folder)
    before = writes(hub)
    code, _, err = push(hub, folder)
    assert code == 2 and err.startswith("error: ") and message in err and len(err.splitlines()) == 1
    assert writes(hub) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{folder}", "--tag", "1.0"], "--tag '1.0': give a version such as v1.0.0"),
        (["{folder}/absent"], "no such folder; give the folders of artifacts"),
        (["{folder}/complete"], "no artifact and no run's folder"),
        (["{folder}", "{folder}/../other"], "would both be acme/coherent-decisions; give one of them"),
    ],
)
def test_a_users_mistake_is_one_line(arguments: list[str], message: str, hub: Hub, folder: Path) -> None:
    shutil.copytree(folder, folder.parent / "other")
    code, _, err = push(hub, *(each.format(folder=folder) for each in arguments))
    assert (code, len(err.splitlines())) == (2, 1) and message in err


# --- A run on known posteriors ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(hf_caches: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run on known posteriors: answers of a base model and an adapter, the adapter, the report."""
    run = tmp_path_factory.mktemp("known") / "run"
    tiny = write_tiny(run.parent / "benchmark")
    tiny.system(run / "outputs", deluded)
    tiny.system(run / "outputs", contrary, "weather-belief")
    write_outputs_card(run / "outputs")
    write_regret_report([resolve(str(run / "outputs"), "dataset")], tiny.artifact, run / "report", Settings(20))
    (run / "recipe.yaml").write_text("model: tiny/agent\n")
    adapter = run / "adapters" / "weather-belief"
    adapter.mkdir(parents=True)
    (adapter / "run.json").write_text(json.dumps(REWARDED))
    (adapter / "README.md").write_text(ADAPTER_CARD)
    for name in ("adapter_config.json", "training-log.csv", "reward.png", "adapter_model.safetensors"):
        (adapter / name).write_bytes(b"")
    return run


@pytest.fixture
def known(finished: Path, tmp_path: Path) -> Path:
    """A copy of the run, to be damaged."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def test_a_run_on_known_posteriors_is_outputs_with_their_report_and_an_adapter_with_its_results(known: Path) -> None:
    outputs, adapter = gather([known], "acme")
    assert (outputs.repo_id, adapter.repo_id) == ("acme/posterior-decisions-outputs-agent", "acme/agent-weather-belief")
    assert {"recipe.yaml", "report/regret.csv", "report/regret.json", "report/regret.html"} <= outputs.files.keys()
    assert more_checks()["outputs"](outputs) == "the report is of these answers"
    data = ModelCard(adapter.content("README.md").decode()).data
    found = {each.metric_name: each for each in data.eval_results or ()}
    assert len(found) == 12 and data.model_name == "agent-weather-belief"
    result = found["belief loss, two-turn"]
    assert (result.dataset_type, result.dataset_config, result.metric_type, result.metric_config) == (
        "acme/posterior-decisions", "weather", "acme/coherence", "regret",
    )  # fmt: skip
    # The agent of this adapter believes what is right, and does the contrary.
    assert result.metric_value == 0 and found["total regret, two-turn"].metric_value > 0
    assert found["total regret, independent"].metric_value == found["optimisation residual, independent"].metric_value
    entries = yaml.safe_load(adapter.content(".eval_results/posterior-decisions.yaml"))
    assert len(entries) == 12 and {each["dataset"]["id"] for each in entries} == {"acme/posterior-decisions"}
    assert ".eval_results/coherent-decisions.yaml" not in adapter.files
    assert "`acme/posterior-decisions`, `acme/agent-weather-belief`" in adapter.content("README.md").decode()


def test_outputs_on_known_posteriors_pass_every_check_of_the_command(hub: Hub, known: Path) -> None:
    code, out, err = push(hub, known / "outputs", "--dry-run")
    assert code == 0, err
    assert out.startswith(f"dataset acme/posterior-decisions-outputs-agent  (outputs in {known / 'outputs'})\n")
    assert "; the report is of these answers\n" in out and "    + recipe.yaml  " in out


def test_without_a_report_nothing_is_claimed(known: Path) -> None:
    shutil.rmtree(known / "report")
    outputs, adapter = gather([known], "acme")
    assert adapter.notes == ("no evaluation results: it is not in a run's folder with a report",)
    assert adapter.content("README.md").decode() == ADAPTER_CARD.replace("org/", "acme/")
    assert more_checks()["outputs"](outputs).startswith("no report beside them")


def answer_otherwise(run: Path) -> None:
    shutil.rmtree(run / "outputs" / "base-cot-weather-belief")


def train_otherwise(run: Path) -> None:
    changed = {**REWARDED, "intervention": "decision"}
    (run / "adapters" / "weather-belief" / "run.json").write_text(json.dumps(changed))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (answer_otherwise, r"report: was made from other answers than those in .*base-cot-weather-belief/test-"),
        (train_otherwise, "no system 'weather-decision' in the table; there are base, weather-belief"),
    ],
)
def test_results_that_are_not_the_adapters_are_refused(damage: Damage, message: str, known: Path) -> None:
    damage(known)
    with pytest.raises(UserError, match=message):
        gather([known], "acme")


def test_two_pushes_at_once_are_one_after_the_other_or_one_is_refused(hub: Hub, folder: Path) -> None:
    """Never a mixture: what main has is what one of them has."""
    assert push(hub, folder)[0] == 0
    other = Path(shutil.copytree(folder, folder.parent / "other"))
    for place, text in ((folder, "\nours\n"), (other, "\ntheirs\n")):
        with (place / "README.md").open("a") as card:
            card.write(text)
    hub.faults("delay", "POST", "/preupload/", seconds=0.5, times=2)
    pushing = [start(hub, place) for place in (folder, other)]
    codes = []
    for process in pushing:
        _, err = process.communicate(timeout=120)
        codes.append(process.returncode)
        assert process.returncode == 0 or "somebody else pushed meanwhile" in err
    assert 0 in codes
    api = HfApi(hub.url, token=hub.token)
    card = Path(api.hf_hub_download(ID, "README.md", repo_type="dataset", local_dir=hub.root / "seen")).read_text()
    assert card.endswith(("\nours\n", "\ntheirs\n"))
    assert len(api.list_repo_commits(ID, repo_type="dataset")) == 2 + codes.count(0)
