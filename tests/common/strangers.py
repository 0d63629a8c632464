"""Requests that are no HTTP, or not quite, as anybody may send them who reaches a port."""

import asyncio

MALFORMED = {
    "not HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "control characters in a header": b"GET /metrics HTTP/1.1\r\nHost: x\r\nA: \0secret\r\n\r\n",
    "a header without a name": b"GET /metrics HTTP/1.1\r\nHost: x\r\n: secret\r\n\r\n",
    "a version that does not exist": b"GET /metrics HTTP/secret\r\n\r\n",
    "an unknown method": b"SECRET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
    "a URL that is too long": b"GET /" + b"s" * 9000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a URL that is none": b"GET http://[::1/ HTTP/1.1\r\nHost: x\r\n\r\n",
    "no URL": b"CONNECT \r\n\r\nsecret",
    "two lengths": b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "a length that is no number": b"GET /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: secret\r\n\r\n",
    "chunks that are none": b"POST /metrics HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nsecret\r\n",
    "an unknown expectation": b"GET /metrics HTTP/1.1\r\nHost: x\r\nExpect: secret\xff\r\n\r\n",
    "a body that is not compressed as it says": (
        b"POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        b"Content-Encoding: gzip\r\nContent-Length: 6\r\n\r\nsecret"
    ),
}


FINE = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def sent(port: int, request: bytes) -> bytes:
    """What a port on loopback answers to these bytes until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer
