"""How much memory the process may have: the smallest of what the system says."""

from pathlib import Path

from tirlower.support.memory import process_memory


def test_the_smallest_limit_counts(tmp_path: Path) -> None:
    whole = process_memory(tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    assert process_memory(tmp_path) == whole
    (tmp_path / "memory.max").write_text("1000000\n")
    assert process_memory(tmp_path) == 1000000
    assert 0 < whole <= 1 << 40
