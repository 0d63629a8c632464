"""However the network cuts a stream, the frames come out as they went in."""

import pytest
from gpuyard.common.kube.errors import UnreachableError
from gpuyard.common.kube.frames import FrameCutter
from hypothesis import given
from hypothesis import strategies as st


def framed(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)


@given(st.lists(st.binary(max_size=300)), st.integers(1, 400))
def test_frames_do_not_depend_on_where_the_network_cuts(frames: list[bytes], size: int) -> None:
    stream = framed(*frames)
    cutter = FrameCutter()
    chunks = [stream[start : start + size] for start in range(0, len(stream), size)]
    assert [frame for chunk in chunks for frame in cutter.feed(chunk)] == [frame for frame in frames if frame]


def test_an_unfinished_frame_waits_for_its_end() -> None:
    cutter = FrameCutter()
    assert cutter.feed(framed(b"one", b"two")[:-1]) == [b"one"]
    assert cutter.feed(b"o") == [b"two"]


def test_a_frame_of_eight_mebibytes_is_no_trouble() -> None:
    cutter = FrameCutter()
    stream = framed(b"x" * (8 << 20))
    found = [frame for start in range(0, len(stream), 65536) for frame in cutter.feed(stream[start : start + 65536])]
    assert [len(frame) for frame in found] == [8 << 20]


def test_a_frame_that_announces_too_much_is_given_up_at_once() -> None:
    cutter = FrameCutter(longest=10)
    assert cutter.feed(framed(b"x" * 10)) == [b"x" * 10]
    with pytest.raises(UnreachableError, match="longer than 10 bytes"):
        cutter.feed((11).to_bytes(4, "big"))
