"""Every line is one JSON object with an event name, and what libraries say joins the stream."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from gpuyard.common.logs import configure, context, get_logger


@pytest.fixture
def stream() -> Iterator[io.BytesIO]:
    made = io.BytesIO()
    before = logging.root.handlers[:]
    configure("gpuyard-test", "info", made)
    yield made
    logging.root.handlers[:] = before
    structlog.reset_defaults()


def lines(stream: io.BytesIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_says_when_what_and_who(stream: io.BytesIO) -> None:
    get_logger().info("pod-bound", pod="ns/p", node="n1")
    (line,) = lines(stream)
    assert list(line) == ["timestamp", "level", "event", "component", "pod", "node"]
    assert (line["level"], line["event"], line["component"]) == ("info", "pod-bound", "gpuyard-test")
    assert line["timestamp"].endswith("Z")


def test_context_is_on_every_line_inside_and_on_none_outside(stream: io.BytesIO) -> None:
    log = get_logger()
    with context(cycle=7):
        log.info("inside")
    log.info("outside")
    assert [line.get("cycle") for line in lines(stream)] == [7, None]


def test_what_is_below_the_level_is_not_written(stream: io.BytesIO) -> None:
    get_logger().debug("detail")
    assert lines(stream) == []


def test_an_exception_stays_on_its_line(stream: io.BytesIO) -> None:
    try:
        raise ValueError("bad")  # noqa: TRY301
    except ValueError:
        get_logger().exception("failed")
    (line,) = lines(stream)
    assert "ValueError: bad" in line["exception"]


def test_a_value_that_json_does_not_know_is_written_as_text(stream: io.BytesIO) -> None:
    get_logger().info("thing", value=object)
    assert lines(stream)[0]["value"] == "<class 'object'>"


@pytest.mark.parametrize(("level", "written"), [(logging.WARNING, "warning"), (logging.ERROR, "error")])
def test_warnings_of_libraries_go_the_same_way(stream: io.BytesIO, level: int, written: str) -> None:
    logging.getLogger("aiohttp.server").log(level, "odd %s", "request")
    (line,) = lines(stream)
    assert (line["level"], line["event"], line["logger"], line["message"]) == (
        written,
        "library",
        "aiohttp.server",
        "odd request",
    )
