"""Stand-ins for tests of gpuyard.sandbox: a tool and its programs, a release page, a Go that builds nothing."""

from __future__ import annotations

import contextlib
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from gpuyard.sandbox.tools import catalogue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from gpuyard.sandbox.tools import Tool

VERSION = "v1.2.3"


def program(text: str = f"thing version {VERSION} linux") -> str:
    """A program that tells its version."""
    return f"#!/bin/sh\necho '{text}'\n"


def install(folder: Path, name: str, content: str) -> Path:
    """Put a program into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content)
    (folder / name).chmod(0o755)
    return folder / name


def tool(
    home: Path,
    *names: str,
    version: str = VERSION,
    url: str = "http://127.0.0.1:9/{version}/{binary}",
    checksum: str = "",
    member: str = "",
    go: str = "1.20.0",
) -> dict[str, Tool]:
    """A tool of these programs, as its folder would describe it."""
    folder = home / ("thing" if version == VERSION else "other")
    folder.mkdir(parents=True, exist_ok=True)
    binaries = "".join(f'{name} = {{ package = "example.org/thing/cmd/{name}" }}\n' for name in names)
    (folder / "tool.toml").write_text(
        f'version = "{version}"\n[release]\nurl = "{url}"\nchecksum = "{checksum}"\nmember = "{member}"\n'
        f'[stamps]\n"main.version" = "{{version}}"\n[binaries]\n{binaries}'
    )
    (folder / "go.mod").write_text(f"module example.org/tools/thing\n\ngo {go}\n")
    (folder / "go.sum").write_text("")
    return catalogue(home)


@dataclass
class ReleasePage:
    """A web server with these files; `delay` seconds before each answer."""

    files: dict[str, bytes] = field(default_factory=dict)
    delay: threading.Event | None = None
    asked: list[str] = field(default_factory=list)
    cut_short: bool = False
    url: str = ""


@contextlib.contextmanager
def serving(page: ReleasePage) -> Iterator[ReleasePage]:
    """Serve the page on a loopback port; `page.url` is its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page.asked.append(self.path)
            if page.delay:
                page.delay.wait(10)
            content = page.files.get(self.path)
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write((content or b"")[: -1 if page.cut_short else None])

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        page.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield page
        finally:
            if page.delay:
                page.delay.set()
            server.shutdown()
            thread.join()


def go(folder: Path, *, version: str = "go1.26.9", fails_with: str = "") -> Path:
    """A `go` that tells its version, notes each build beside itself, and makes programs that tell theirs."""
    return install(
        folder,
        "go",
        f"""#!{sys.executable}
import os, pathlib, sys
arguments = sys.argv[1:]
if arguments[0] == "env":
    print({version!r})
    sys.exit()
with open({str(folder / "builds")!r}, "a") as log:
    print(os.getcwd(), *arguments, os.environ["GOMODCACHE"], file=log)
if {fails_with!r}:
    print({fails_with!r}, file=sys.stderr)
    sys.exit(1)
print("example.org/dependency", file=sys.stderr)
output = pathlib.Path(arguments[arguments.index("-o") + 1])
for package in (each for each in arguments if each.startswith("example.org/")):
    path = output / package.rsplit("/", 1)[-1] if output.is_dir() else output
    path.write_text({program()!r})
    path.chmod(0o755)
""",
    )


@dataclass
class Said:
    """Remembers what was said."""

    lines: list[str] = field(default_factory=list)

    def __call__(self, text: str, /) -> None:
        self.lines.append(text)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def raising(error: BaseException) -> Callable[..., None]:
    """A function that raises this."""

    def function(*_: object, **__: object) -> None:
        raise error

    return function
