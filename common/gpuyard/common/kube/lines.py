"""Cuts a stream of bytes into lines of any length up to a limit, without copying a long line again and again."""

from gpuyard.common.kube.errors import UnreachableError


class LineCutter:
    """Feed it chunks, take whole lines; what follows the last newline waits for the next chunk."""

    def __init__(self, longest: int = 64 << 20) -> None:
        self._longest = longest
        self._open: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without newlines, empty ones left out."""
        *ended, rest = chunk.split(b"\n")
        lines = []
        if ended:
            lines = [b"".join((*self._open, ended[0])), *ended[1:]]
            self._open, self._size = [], 0
        self._open.append(rest)
        self._size += len(rest)
        if self._size > self._longest:
            raise UnreachableError(f"a line of the watch is longer than {self._longest} bytes")
        return [line for line in lines if line]
