"""Structured logs: one JSON object a line on standard error, `event` a short constant name, the rest as fields."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, BinaryIO, cast

import msgspec
import structlog

LEVELS = ("debug", "info", "warning", "error")

context = structlog.contextvars.bound_contextvars
"""`with context(pod="ns/p", cycle=7):` adds these fields to every line logged inside, also by functions called."""


def get_logger() -> structlog.typing.FilteringBoundLogger:
    """A logger: `log.info("pod-bound", pod="ns/p", node="n1")`."""
    return cast("structlog.typing.FilteringBoundLogger", structlog.get_logger())


def configure(component: str, level: str = "info", stream: BinaryIO | None = None) -> None:
    """Set the process's logs up, once, at its start; warnings of libraries go the same way."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _Renderer(component),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.BytesLoggerFactory(stream or sys.stderr.buffer),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[_Forward()], force=True)


class _Renderer:
    """Writes a line: time, level and event first, as people read them."""

    def __init__(self, component: str) -> None:
        self._component = component

    def __call__(self, _logger: object, _method: str, fields: MutableMapping[str, Any]) -> bytes:
        first = {name: fields.pop(name, "") for name in ("timestamp", "level", "event")}
        return msgspec.json.encode(first | {"component": self._component} | dict(fields), enc_hook=str)


class _Forward(logging.Handler):
    """Hands what libraries say to the same stream."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        log = get_logger()
        write = log.error if record.levelno >= logging.ERROR else log.warning
        write("library", logger=record.name, message=text, exc_info=record.exc_info)
