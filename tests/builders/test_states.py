"""The table of a long work's parts, and whether another process is at work."""

import subprocess
import sys
from pathlib import Path

from builders.locks import is_locked, locked
from builders.states import State, state_table


def test_the_table_is_aligned_and_counts() -> None:
    states = [
        State("base", "base-direct-complete test", "done", "160 answers"),
        State("adapters", "a", "running", "step 2 of 9"),
        State("adapters", "b", "waiting"),
    ]
    assert state_table(states).splitlines() == [
        "base      base-direct-complete test  done     160 answers",
        "adapters  a                          running  step 2 of 9",
        "adapters  b                          waiting",
        "1 done, 1 running, 1 waiting",
    ]
    assert state_table([]) == ""


def test_a_lock_is_seen_from_another_process_and_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_locked(path) and not path.exists()
    code = (
        "import sys; from pathlib import Path; from builders.locks import locked\n"
        f"with locked(Path({str(path)!r}), 'x'): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
        assert is_locked(path)
    finally:
        holder.kill()
        holder.communicate()
    assert not is_locked(path)
    with locked(path, "the test"):
        assert is_locked(path)
    # Looking takes no lock that would stand in the way.
    with locked(path, "the test"):
        pass


def test_a_lock_without_a_word_waits(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from builders.locks import locked\n"
        f"with locked(Path({str(tmp_path / 'lock')!r})): print('held', flush=True); time.sleep(0.3)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2])
    assert holder.stdout is not None and holder.stdout.readline() == b"held\n"
    with locked(tmp_path / "lock"):
        assert holder.wait(timeout=5) == 0
    holder.communicate()
