"""However the network cuts a stream, the lines come out as they went in."""

import pytest
from gpuyard.common.kube.errors import UnreachableError
from gpuyard.common.kube.lines import LineCutter
from hypothesis import given
from hypothesis import strategies as st


@given(st.lists(st.binary(min_size=1).filter(lambda line: b"\n" not in line)), st.integers(1, 9))
def test_lines_do_not_depend_on_where_the_network_cuts(lines: list[bytes], size: int) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cutter = LineCutter()
    chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert [line for chunk in chunks for line in cutter.feed(chunk)] == lines


def test_an_unfinished_line_waits_for_its_end() -> None:
    cutter = LineCutter()
    assert cutter.feed(b"one\ntw") == [b"one"]
    assert cutter.feed(b"o\n") == [b"two"]


def test_a_line_of_eight_mebibytes_is_no_trouble() -> None:
    cutter = LineCutter()
    for _ in range(128):
        assert cutter.feed(b"x" * 65536) == []
    (line,) = cutter.feed(b"\n")
    assert len(line) == 8 << 20


def test_a_line_without_end_is_given_up() -> None:
    cutter = LineCutter(longest=10)
    with pytest.raises(UnreachableError, match="longer than 10 bytes"):
        cutter.feed(b"x" * 11)
