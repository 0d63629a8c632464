"""What the demo makes of the answer to why a pod waits."""

from gpuyard.sandbox.demo.asking import Answer, question, raising


def test_a_limit_that_is_to_be_raised_is_found_among_the_advice() -> None:
    advice = ("delete something", "raise the limit of queue red from 16 GPUs to 20 GPUs: it would run on node-1")
    assert Answer("why", advice).limit == ("red", 20)


def test_parts_of_a_gpu_are_read_as_well() -> None:
    assert Answer("why", ("raise the limit of queue red from 0.5 GPUs to 1.5 GPUs: ...",)).limit == ("red", 1.5)


def test_other_advice_names_no_limit() -> None:
    assert Answer("why", ("raise the quota of queue red from 2 GPUs to 5 GPUs",)).limit is None


def test_what_is_typed_is_what_people_type() -> None:
    assert " ".join(question("p", "ns")) == "explain pod/p -n ns"
    assert raising("red", 20.0)[-1] == '{"spec":{"resources":{"gpu":{"limit":20}}}}'
    assert raising("red", 1.5)[-1] == '{"spec":{"resources":{"gpu":{"limit":1.5}}}}'
