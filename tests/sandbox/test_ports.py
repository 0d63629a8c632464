"""Ports are chosen where nobody listens and where no outgoing connection can be."""

import itertools
import random
import socket

from gpuyard.sandbox import ports


def test_a_port_on_which_somebody_listens_is_passed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        spare = ports.free(ports.candidates())
        assert ports.taken(taken)
        assert ports.free([taken, spare]) == spare


def test_a_port_is_free_again_when_its_listener_is_gone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert not ports.taken(port)


def test_chance_is_the_callers() -> None:
    one, same = (ports.candidates(random.Random(7)) for _ in range(2))
    assert list(itertools.islice(one, 20)) == list(itertools.islice(same, 20))


def test_ports_lie_below_those_that_the_kernel_gives_to_outgoing_connections() -> None:
    kernels_default = 32_768
    assert all(ports.FIRST <= port < kernels_default for port in itertools.islice(ports.candidates(), 1000))
