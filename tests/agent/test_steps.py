"""Iterations are counted by the optimizer with the most parameters."""

from __future__ import annotations

import gc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workloads.agent.steps import StepCounter


def optimizer(elements: int) -> torch.optim.Optimizer:
    return torch.optim.SGD([torch.zeros(elements, requires_grad=True)], lr=0.1)


def counted(*turns: torch.optim.Optimizer) -> int:
    counter = StepCounter(torch)
    for each in turns:
        counter.count(each)
    return counter.steps


def test_one_optimizer_s_steps_are_the_iterations() -> None:
    only = optimizer(4)
    assert counted(*[only] * 7) == 7


@pytest.mark.parametrize("sizes", [range(1, 11), range(10, 0, -1), [4] * 10, [3, 9, 1, 9, 2]])
def test_an_optimizer_for_each_parameter_makes_one_iteration(sizes: list[int]) -> None:
    each = [optimizer(size) for size in sizes]
    assert counted(*each * 7) == 7


def test_a_generator_beside_a_discriminator() -> None:
    generator, discriminator = optimizer(100), optimizer(40)
    assert counted(*[discriminator, discriminator, generator] * 5) in (5, 6)


def test_one_phase_after_the_other_is_added() -> None:
    small, large = optimizer(1), optimizer(9)
    assert counted(*[small] * 100, *[large] * 50) == 150
    counter = StepCounter(torch)
    for _ in range(20):
        counter.count(large)
    del large
    gc.collect()
    for _ in range(5):
        counter.count(small)
    assert counter.steps == 25


@given(st.lists(st.integers(0, 3), max_size=60))
def test_it_never_falls_and_never_counts_more_than_there_were(turns: list[int]) -> None:
    known = [optimizer(size) for size in (1, 5, 5, 9)]
    counter, before = StepCounter(torch), 0
    for number, turn in enumerate(turns, 1):
        counter.count(known[turn])
        assert before <= counter.steps <= number
        before = counter.steps
    assert counter.steps >= max((turns.count(3), *(0,)))
