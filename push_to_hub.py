"""Publishes artifacts to the Hub: a plan, checks, one commit for each repo, a tag, a collection.

    python push_to_hub.py out/smollm2-135m-cpu out/coherence --org acme --dry-run
    python push_to_hub.py out/smollm2-135m-cpu out/coherence --org acme --tag v1.0.0

A folder is an artifact, or a run's folder with all of its artifacts. What is unchanged makes no commit; whatever is
interrupted leaves the old revision whole, and the same command completes it. A version tag is never moved.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from builders.cli import run
from builders.errors import UserError
from builders.hub.checks import Check, check_release
from builders.hub.plan import Plan, describe
from builders.hub.release import KINDS, Release, releases
from builders.hub.upload import Settings, check_rights, collect, look, push
from builders.repos import BENCHMARK, METRIC, POSTERIOR, trained_config


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Publishes artifacts to the Hub, each as one commit. First the plan and the checks of everything, "
        "then the uploads: benchmark, metric, outputs, SFT sets, adapters, then a collection that links them.",
        epilog="The token comes from HF_TOKEN or `hf auth login` alone.",
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="an artifact's folder, or a run's")
    parser.add_argument("--org", required=True, help="the organisation or user that owns the repos")
    parser.add_argument("--tag", metavar="vX.Y.Z", help="also tag every repo's commit; a tag is never moved")
    parser.add_argument("--private", action="store_true", help="make new repos private")
    parser.add_argument("--create-pr", action="store_true", help="open pull requests instead of committing to main")
    parser.add_argument("--retry", action="store_true", help="when somebody else pushed meanwhile, plan and push again")
    parser.add_argument("--dry-run", action="store_true", help="print the plan, check everything, send nothing")
    return parser


def read_settings(arguments: argparse.Namespace) -> Settings:
    """The options, checked.

    Raises:
        UserError: the organisation or the tag is no such name.
    """
    if not re.fullmatch(r"[\w.-]+", arguments.org, re.ASCII):
        raise UserError(f"--org {arguments.org!r}: not a name on the Hub")
    if arguments.tag and not re.fullmatch(r"v\d+\.\d+\.\d+(-[\w.]+)?", arguments.tag, re.ASCII):
        raise UserError(f"--tag {arguments.tag!r}: give a version such as v1.0.0")
    names = [each.name for each in dataclasses.fields(Settings)]
    return Settings(**{name: getattr(arguments, name) for name in names})


def gather(folders: Sequence[Path], org: str) -> list[Release]:
    """All artifacts in the order of their publication.

    Raises:
        UserError: a folder is none, or two would be one repo.
    """
    found = [measured(release) for folder in folders for release in releases(folder, org)]
    by_id: dict[tuple[str, str], Release] = {}
    for release in found:
        other = by_id.setdefault((release.kind.repo_type, release.repo_id), release)
        if other.folder != release.folder:
            raise UserError(f"{other.folder} and {release.folder} would both be {release.repo_id}; give one of them")
    return sorted(by_id.values(), key=lambda each: (KINDS.index(each.kind), each.repo_id))


def measured(release: Release) -> Release:
    """An adapter with its results in the card and in ``.eval_results``, where its run's folder has a report.

    Raises:
        UserError: the report is not of the run's answers, or does not have the adapter's.
    """
    if release.kind.name != "adapter":
        return release
    run_folder = release.folder.parents[1]
    run = json.loads((release.folder / "run.json").read_text(encoding="utf-8"))
    table, benchmark = ("regret.csv", POSTERIOR) if "intervention" in run else ("measures.csv", BENCHMARK)
    if not (run_folder / "report" / table).is_file():
        note = "no evaluation results: it is not in a run's folder with a report"
        return dataclasses.replace(release, notes=(*release.notes, note))
    from huggingface_hub import eval_result_entries_to_yaml

    from evaluate_metrics.record import check_current
    from evaluate_metrics.regret_results import regret_results
    from evaluate_metrics.results import adapter_results, with_results

    check_current(run_folder / "report", run_folder / "outputs")
    with (run_folder / "report" / table).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    org, _, name = release.repo_id.partition("/")
    where = f"{org}/{benchmark}", None, f"{org}/{METRIC}"
    if benchmark == POSTERIOR:
        results, entries = regret_results(rows, trained_config(run), run["task"], *where)
    else:
        results, entries = adapter_results(rows, f"sft-{run['style']}-{run['task']}-{run['holdout']}", *where)
    card = with_results(release.content("README.md").decode(), results, name)
    listed = yaml.safe_dump(eval_result_entries_to_yaml(entries), sort_keys=False, allow_unicode=True)
    files = {"README.md": card.encode(), f".eval_results/{benchmark}.yaml": listed.encode()}
    return dataclasses.replace(release, files={**release.files, **files})


def more_checks() -> dict[str, Check]:
    """Beyond its files, a metric must score its own example, an adapter load, the report on outputs be theirs."""
    from evaluate_metrics.record import RECORDS, check_current
    from evaluate_metrics.space import check_space
    from inference.trial import check_loads

    def outputs(release: Release) -> str:
        if not any(f"report/{name}" in release.files for name in RECORDS):
            return "no report beside them, so nothing to compare a reproduction with"
        check_current(release.folder.parent / "report", release.folder)
        return "the report is of these answers"

    return {
        "outputs": outputs,
        "metric": lambda release: check_space(release.folder),
        "adapter": lambda release: check_loads(release.folder),
    }


def main() -> int:
    """Plans, checks, and unless it is a dry run, publishes."""
    from huggingface_hub import HfApi

    arguments = _parser().parse_args()
    settings = read_settings(arguments)
    api = HfApi(library_name="coherent-decisions")
    found = gather(arguments.folders, settings.org)
    plans: list[Plan] = []
    checks = more_checks()
    for release in found:
        checked = check_release(release, checks)
        plans.append(look(api, release, settings.tag))
        print(f"{describe(plans[-1], checked, settings.private)}\n", flush=True)
    if arguments.dry_run:
        print(f"dry run: {_summary(plans)}; nothing was sent")
        return 0
    check_rights(api, settings.org)
    for plan in plans:
        push(api, plan, settings, lambda line: print(line, flush=True))
    if not settings.create_pr:
        slug = collect(api, found, settings)
        print(f"collection {slug}")
    print(f"published: {_summary(plans)}", file=sys.stderr)
    return 0


def _summary(plans: Sequence[Plan]) -> str:
    commits = sum(plan.commits for plan in plans)
    return f"{len(plans)} repos, {commits} with something to commit"


if __name__ == "__main__":
    run(main)
