"""A slow reader sees each object once, from what it knew to what is, and misses nothing."""

import asyncio

import msgspec
from gpuyard.common.kube.changes import Batch, Change, Mailbox
from gpuyard.common.kube.objects import Meta
from hypothesis import given
from hypothesis import strategies as st


class Thing(msgspec.Struct, frozen=True):
    metadata: Meta
    size: int = 0


def thing(uid: str, size: int) -> Thing:
    return Thing(Meta(name=uid, uid=uid), size)


async def test_changes_of_one_object_become_one() -> None:
    mailbox = Mailbox[Thing]()
    one, two, three = (thing("a", size) for size in (1, 2, 3))
    mailbox.put(Batch([Change(one, two)]))
    mailbox.put(Batch([Change(two, three)]))
    assert await mailbox.take() == Batch([Change(one, three)])


async def test_created_and_gone_unseen_is_nothing() -> None:
    mailbox = Mailbox[Thing]()
    mailbox.put(Batch([Change(None, thing("a", 1))]))
    mailbox.put(Batch([Change(thing("a", 1), None)]))
    assert await mailbox.take() == Batch([])


async def test_the_listed_mark_survives_merging() -> None:
    mailbox = Mailbox[Thing]()
    mailbox.put(Batch([], listed=True))
    mailbox.put(Batch([Change(None, thing("a", 1))]))
    assert (await mailbox.take()).listed


async def test_take_waits_for_the_next_batch() -> None:
    mailbox = Mailbox[Thing]()
    taking = asyncio.create_task(mailbox.take())
    await asyncio.sleep(0)
    assert not taking.done()
    mailbox.put(Batch([Change(None, thing("a", 1))]))
    assert len((await taking).changes) == 1


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.booleans())))
def test_a_reader_that_follows_merged_changes_ends_where_the_cache_is(steps: list[tuple[str, int, bool]]) -> None:
    async def follow() -> None:
        mailbox, cache, reader = Mailbox[Thing](), dict[str, Thing](), dict[str, Thing]()
        for uid, size, look in steps:
            new = thing(uid, size) if size else None
            mailbox.put(Batch([Change(cache.get(uid), new)]))
            cache.pop(uid, None)
            if new:
                cache[uid] = new
            if look:
                await apply(mailbox, reader)
        mailbox.put(Batch([]))
        await apply(mailbox, reader)
        assert reader == cache

    asyncio.run(follow())


async def apply(mailbox: Mailbox[Thing], reader: dict[str, Thing]) -> None:
    for change in (await mailbox.take()).changes:
        assert reader.pop(change.uid, None) == change.old
        if change.new:
            reader[change.uid] = change.new
