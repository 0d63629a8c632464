"""How long they disagreed: the judge of the row about one identity must see a lasting difference, and only that."""

from tests.mock.identity import Word, longest_difference

P, Q = {"G": "p/c"}, {"G": "q/c"}


def test_agreement_is_no_difference() -> None:
    words = [Word(at, by, P) for at in range(10) for by in ("kubelet", "topology")]
    assert longest_difference(words, ["G"]) == (0.0, "no difference")


def test_a_difference_counts_from_when_it_began_until_it_is_settled() -> None:
    words = [Word(at, "kubelet", Q if at >= 2 else P) for at in range(10)]
    words += [Word(at, "topology", Q if at >= 6 else P) for at in range(10)]
    assert longest_difference(words, ["G"]) == (4, "G topology p/c kubelet q/c")


def test_who_names_a_user_that_is_gone_differs_too() -> None:
    words = [Word(at, "kubelet", {}) for at in range(10)] + [Word(at, "metrics", P) for at in range(10)]
    assert longest_difference(words, ["G"]) == (9, "G metrics p/c kubelet nobody")


def test_who_changes_again_and_again_may_be_late_each_time() -> None:
    turns = [{"G": f"p{at}/c"} for at in range(10)]
    words = [Word(at, "kubelet", turn) for at, turn in enumerate(turns)]
    words += [Word(at + 0.9, "status", turn) for at, turn in enumerate(turns)]
    assert longest_difference(words, ["G"])[0] < 1


def test_who_never_follows_differs_all_the_while_however_often_the_owner_changes() -> None:
    words = [Word(at, "kubelet", {"G": f"p{at}/c"}) for at in range(10)]
    words += [Word(at, "metrics", {"G": "p0/c"}) for at in range(10)]
    assert longest_difference(words, ["G"]) == (8, "G metrics p0/c kubelet p9/c")


def test_who_says_something_else_wrong_each_time_differs_all_the_while() -> None:
    words = [Word(at, "kubelet", P) for at in range(10)]
    words += [Word(at, "metrics", P if at < 2 else {"G": f"x{at}/c"}) for at in range(10)]
    assert longest_difference(words, ["G"])[0] == 7


def test_who_is_ahead_of_kubelet_for_a_moment_is_not_wrong() -> None:
    words = [Word(at, "kubelet", Q if at >= 5 else P) for at in range(10)]
    words += [Word(at + 0.5, "status", Q if at >= 4 else P) for at in range(10)]
    assert longest_difference(words, ["G"])[0] == 0.5
