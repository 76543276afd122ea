"""The table of cards is consistent, and words and sizes are parsed."""

from __future__ import annotations

import pytest

from tui.rehearsal.cards import CARDS, SHAPES, UnknownCardError, find_card, parse_size


def test_every_card_has_a_shape_and_sources() -> None:
    for card in CARDS:
        assert card.capability in SHAPES
        assert card.sources
        assert 0.97 < card.torch_mib / card.nvml_mib <= 1
    assert len({card.key for card in CARDS}) == len(CARDS)


def test_a_card_is_found_by_its_word() -> None:
    assert find_card("H100").capability == 90
    settings = find_card("l4").settings(2)
    assert settings.devices == 2
    assert settings.total_mib - settings.reserved_mib == find_card("l4").torch_mib


@pytest.mark.parametrize(
    ("text", "mib"), [("24G", 24576), ("24576M", 24576), ("24 GiB", 24576), ("8gb", 8192)]
)
def test_a_size_is_a_card(text: str, mib: int) -> None:
    assert parse_size(text) == mib
    assert find_card(text).total == mib << 20


@pytest.mark.parametrize("text", ["h1000", "", "24", "24T", "-3G", "100M"])
def test_another_word_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UnknownCardError) as caught:
        find_card(text)
    assert "\n" not in str(caught.value)


def test_a_card_without_kernels_in_torch_is_refused_with_its_capability() -> None:
    with pytest.raises(UnknownCardError, match=r"below compute capability 7\.5 .* it has 7\.0"):
        find_card("V100")
