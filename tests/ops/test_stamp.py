from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from ops.stamp import ROOT, Stamp, alone, digest


def test_fingerprint_follows_contents_names_and_words_and_not_the_order(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("a")
    two.write_text("b")
    before = digest([one, two], "3.11")
    assert digest([two, one], "3.11") == before
    assert digest([one, two], "3.12") != before
    assert digest([one], "3.11") != before
    two.write_text("c")
    assert digest([one, two], "3.11") != before
    two.write_text("b")
    assert digest([one, two.rename(tmp_path / "three")], "3.11") != before


def test_content_cannot_move_from_one_file_to_the_next_unseen(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("ab")
    two.write_text("c")
    before = digest([one, two])
    one.write_text("a")
    two.write_text("bc")
    assert digest([one, two]) != before


def test_a_stamp_holds_only_what_was_written_last(tmp_path: Path) -> None:
    stamp = Stamp(tmp_path / "stamp")
    assert not stamp.holds("x")
    stamp.write("x")
    assert stamp.holds("x")
    assert not stamp.holds("y")
    stamp.remove()
    stamp.remove()
    assert not stamp.exists()


def test_two_set_ups_take_turns(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = (
        "import sys, time; from pathlib import Path; from ops.stamp import alone\n"
        "with alone(Path(sys.argv[1]), 'waiting'):\n"
        "    log = open(sys.argv[2], 'a', buffering=1); log.write('in\\n'); time.sleep(0.2); log.write('out\\n')"
    )
    with alone(tmp_path / "lock", "not said"):
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", program, str(tmp_path / "lock"), str(log)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "waiting\n"
        assert not log.exists()
    deadline = time.monotonic() + 20
    for process in processes:
        process.communicate(timeout=max(0.1, deadline - time.monotonic()))
        assert process.returncode == 0
    assert log.read_text().split() == ["in", "out", "in", "out"]
