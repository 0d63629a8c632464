"""The file for node feature discovery: whole or not at all, and not written when it is right."""

from pathlib import Path

from gpuyard.gfd.labeller import write_file


def test_the_file_has_a_line_per_label_and_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "gfd"
    assert write_file(path, {"b": "2", "a": "1"})
    assert path.read_text() == "a=1\nb=2\n"
    assert write_file(path, {"a": "3"})
    assert [entry.name for entry in tmp_path.iterdir()] == ["gfd"]


def test_a_file_that_is_right_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "gfd"
    write_file(path, {"a": "1"})
    before = path.stat()
    assert not write_file(path, {"a": "1"})
    assert path.stat() == before


def test_another_time_alone_is_no_reason_to_write_but_whether_there_is_one_is(tmp_path: Path) -> None:
    path, time = tmp_path / "gfd", "nvidia.com/gfd.timestamp"
    write_file(path, {"a": "1", time: "100"})
    before = path.stat()
    assert not write_file(path, {"a": "1", time: "101"})
    assert path.stat() == before
    assert write_file(path, {"a": "2", time: "102"})
    assert path.read_text() == f"a=2\n{time}=102\n"
    assert write_file(path, {"a": "2"})
    assert path.read_text() == "a=2\n"
