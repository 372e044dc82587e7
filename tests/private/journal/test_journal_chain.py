"""The chain against every rearrangement of its entries by somebody who makes no new hashes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scumble.private.journal.chain import START, Head, check_chain
from scumble.private.journal.entries import Entry, digest, new_entry

LENGTH = 6


def chain() -> list[Entry]:
    entries = [new_entry(1, START.hash, "promise", {})]
    for number in range(2, LENGTH + 1):
        entries.append(new_entry(number, entries[-1].hash, "answer", {"value": number}))
    return entries


WHOLE = chain()
FIELDS = ("kind", "key", "analyst", "time", "text", "previous", "hash")


def head_of(number: int) -> Head:
    return Head(number, WHOLE[number - 1].hash)


@given(
    st.lists(st.tuples(st.integers(0, LENGTH - 1), st.integers(1, 2)), max_size=LENGTH + 2),
    st.integers(1, LENGTH),
)
def test_only_the_beginning_up_to_the_head_passes(choice, remembered):
    """Any entries in any order, some twice, with any increasing numbers."""
    number, forged = 0, []
    for place, gap in choice:
        number += gap
        forged.append(replace(WHOLE[place], number=number))
    whole = forged == WHOLE[: len(forged)] and len(forged) >= remembered
    assert (check_chain(forged, number, head_of(remembered), None) == ()) == whole


@given(st.integers(1, LENGTH), st.integers(1, LENGTH))
def test_a_beginning_passes_if_it_reaches_the_head(length, remembered):
    found = check_chain(WHOLE[:length], length, head_of(remembered), None)
    assert [each.number for each in found] == ([] if length >= remembered else [length + 1])


@given(
    st.integers(0, LENGTH - 1),
    st.sampled_from(FIELDS),
    st.one_of(st.none(), st.text(max_size=3), st.binary(max_size=3), st.integers(0, 3)),
)
def test_no_field_can_be_changed(place, field, value):
    """Not even into what is no text at all; a new hash shows in the entry that follows."""
    forged = list(WHOLE)
    forged[place] = replace(forged[place], **{field: value})
    found = check_chain(forged, LENGTH, head_of(LENGTH), None)
    assert (found == ()) == (forged == WHOLE)
    if forged != WHOLE:
        assert found[0].number == place + 1


words = st.one_of(st.none(), st.text("ab=\n", max_size=3))


@given(st.tuples(words, words), st.tuples(words, words))
def test_different_owners_have_different_hashes(one, other):
    """Line ends and signs that the digest itself uses cannot make two contents alike."""

    def owned(key, analyst):
        return digest(2, "answer", key, analyst, "now", "{}", "0" * 64)

    honest = all(word is None or "\n" not in word for word in one)
    if honest and one != other:
        assert owned(*one) != owned(*other)
