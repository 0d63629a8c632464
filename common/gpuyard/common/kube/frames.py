"""Cuts the stream of a protobuf watch into its frames: four bytes of length, big endian, then that many bytes."""

from gpuyard.common.kube.errors import UnreachableError

_HEAD = 4


class FrameCutter:
    """Feed it chunks, take whole frames; an unfinished one waits for the next chunk."""

    def __init__(self, longest: int = 64 << 20) -> None:
        self._longest = longest
        self._open: list[bytes] = []
        self._size = 0
        self._wanted = _HEAD

    def feed(self, chunk: bytes) -> list[bytes]:
        """The frames that this chunk completes, without their lengths, empty ones left out."""
        self._open.append(chunk)
        self._size += len(chunk)
        if self._size < self._wanted:
            return []
        # Only now are they joined: a long frame is not copied again with each chunk.
        rest = b"".join(self._open)
        frames, start = [], 0
        while (end := start + self._reach(rest, start)) <= len(rest):
            if frame := rest[start + _HEAD : end]:
                frames.append(frame)
            start = end
        self._open, self._size, self._wanted = [rest[start:]], len(rest) - start, end - start
        return frames

    def _reach(self, rest: bytes, start: int) -> int:
        """How long the frame is that begins here, its length included; as far as that is known yet."""
        head = rest[start : start + _HEAD]
        size = int.from_bytes(head, "big") if len(head) == _HEAD else 0
        if size > self._longest:
            raise UnreachableError(f"a frame of the watch is longer than {self._longest} bytes")
        return _HEAD + size
