"""Our clinical notes and their instances: everything is in the note, nothing else is; posteriors spread and hold."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.posterior.clinical import DIAGNOSES, MENTIONED, every_evidence, instance_id
from builders.posterior.draws import Draws
from builders.posterior.instance import SIZES, Instance
from builders.posterior.notes import write_note
from builders.posterior.simsum import BACKGROUND, SYMPTOMS, posterior
from builders.posterior.strata import spread, tenth, turns
from tests.builders.posterior.note_reader import read_note

EVIDENCE = list(every_evidence())


@pytest.fixture(scope="module")
def clinical(instances: dict[str, list[Instance]]) -> list[Instance]:
    return instances["clinical"]


def test_every_item_is_read_back_from_every_note_and_no_other(clinical: list[Instance]) -> None:
    for instance in clinical:
        note = instance.evidence[0].removeprefix("Note:\n")
        assert read_note(note) == instance.state, note
        assert not DIAGNOSES.search(note)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(EVIDENCE), st.integers(0, 10**9))
def test_whatever_the_evidence_and_the_draw_the_note_says_it(evidence: dict[str, str], name: int) -> None:
    note = write_note(evidence, Draws(name))
    assert read_note(note) == evidence, note
    assert "{" not in note and "  " not in note and not re.search(r"[.,;:] ?[.,;]|\band \.|\bor \.", note), note
    assert not DIAGNOSES.search(note)


def test_notes_vary(clinical: list[Instance]) -> None:
    notes = [instance.evidence[0] for instance in clinical]
    openings = Counter(" ".join(note.split()[:5]) for note in notes)
    assert len(set(notes)) == len(notes) and max(openings.values()) < len(notes) / 8
    assert sum("\n\n**" in note for note in notes) > 80 and sum(note.count("\n") == 1 for note in notes) > 80


def test_splits_have_their_sizes_and_no_evidence_twice(clinical: list[Instance]) -> None:
    assert Counter(each.split for each in clinical) == SIZES
    assert len({tuple(sorted(each.state.items())) for each in clinical}) == 560
    assert len({each.instance_id for each in clinical}) == 560
    assert all(set(SYMPTOMS) <= each.state.keys() <= {*SYMPTOMS, *BACKGROUND} for each in clinical)


def test_every_tenth_has_its_share_of_every_split(clinical: list[Instance]) -> None:
    counts = Counter((tenth(each.posterior), each.split) for each in clinical)
    assert counts == {(each, split): size // 10 for each in range(10) for split, size in SIZES.items()}


def test_the_posterior_of_an_instance_is_that_of_its_state(clinical: list[Instance]) -> None:
    for instance in clinical:
        assert instance.posterior == posterior(instance.state)
        assert instance.instance_id == instance_id(dict(instance.state))


def test_whether_an_item_is_mentioned_does_not_depend_on_its_value() -> None:
    # The weight of an evidence is P(values) times one factor for each item, the same for yes and for no.
    assert set(MENTIONED) == set(BACKGROUND) and all(0 < chance < 1 for chance in MENTIONED.values())
    assert len(EVIDENCE) == 48 * 3**5


def test_turns_serve_the_splits_evenly() -> None:
    assert Counter(turns()) == {"train": 15, "validation": 3, "test": 10}
    assert Counter(turns()[:14]) == {"train": 8, "validation": 1, "test": 5}


def test_the_same_evidence_is_never_in_two_splits_and_is_repeated_only_when_the_rest_is_used() -> None:
    candidates = [(0.55, number % 40, number) for number in range(4000)] + [(0.05, "rare", -1)]
    chosen = list(spread(candidates))
    assert Counter(split for split, _ in chosen) == {"train": 31, "validation": 6, "test": 20}
    split_of = {number % 40: split for split, number in chosen if number >= 0}
    assert all(split_of[number % 40] == split for split, number in chosen if number >= 0)
    used = Counter(number % 40 for split, number in chosen if number >= 0 and split == "train")
    assert max(used.values()) - min(used.values()) <= 1
