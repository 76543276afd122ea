"""Collective operations and sharded training: formulas, known results, what a rank stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import mse_loss
from torch.utils.flop_counter import FlopCounterMode

from workloads.catalog.multi_gpu import parallel_training
from workloads.catalog.multi_gpu.collectives import (
    OPERATIONS,
    CollectiveData,
    expected,
)
from workloads.catalog.shared.models import perceptron, perceptron_flop
from workloads.declare.place import Place
from workloads.protocol.collective_names import bus_factor


@pytest.mark.parametrize(
    ("operation", "factor"),
    [
        ("all_reduce", 2 * 3 / 4),
        ("all_gather", 3 / 4),
        ("reduce_scatter", 3 / 4),
        ("all_to_all", 3 / 4),
        ("broadcast", 1.0),
    ],
)
def test_the_bus_bandwidth_is_that_of_nccl_tests(operation: str, factor: float) -> None:
    assert bus_factor(operation, 4) == factor


@given(ranks=st.integers(2, 64))
def test_an_all_reduce_moves_as_much_as_a_reduce_scatter_and_an_all_gather(ranks: int) -> None:
    both = bus_factor("reduce_scatter", ranks) + bus_factor("all_gather", ranks)
    assert bus_factor("all_reduce", ranks) == pytest.approx(both)


@given(ranks=st.integers(1, 5), each=st.integers(1, 4), seed=st.integers(0, 99))
def test_the_known_results_are_those_of_the_definitions(ranks: int, each: int, seed: int) -> None:
    drawn = torch.randn(ranks * each, generator=torch.Generator().manual_seed(seed)).double()
    of_ranks = [drawn + rank for rank in range(ranks)]
    mine = [slice(rank * each, (rank + 1) * each) for rank in range(ranks)]
    for rank in range(ranks):
        results = {
            "all_reduce": sum(of_ranks) / ranks,
            "all_gather": torch.cat([tensor[mine[0]] for tensor in of_ranks]),
            "reduce_scatter": sum(tensor[mine[rank]] for tensor in of_ranks),
            "all_to_all": torch.cat([tensor[mine[rank]] for tensor in of_ranks]),
            "broadcast": of_ranks[0],
        }
        assert set(results) == set(OPERATIONS)
        for operation, result in results.items():
            torch.testing.assert_close(expected(operation, drawn, rank, ranks), result)


def test_a_size_is_rounded_down_to_equal_parts() -> None:
    _, data = CollectiveData.drawn(Place("cpu"), 1000, rank=1, ranks=3)
    assert (len(data.whole), len(data.part), len(data.other)) == (999, 333, 999)
    some = data.first(4 * 100, ranks=3)
    assert (len(some.whole), len(some.part), len(some.other)) == (99, 33, 99)
    assert some.result_of("reduce_scatter") is some.part
    assert some.result_of("all_to_all") is some.other
    assert some.result_of("all_gather") is some.whole


@pytest.mark.parametrize(("batch", "width"), [(3, 8), (16, 32)])
def test_the_flop_of_a_perceptrons_step_are_those_that_torch_counts(batch: int, width: int) -> None:
    model = perceptron(Place("cpu"), width)
    with FlopCounterMode(display=False) as counter:
        mse_loss(model(torch.randn(batch, width)), torch.randn(batch, 1)).backward()
    # Forward, the gradients of the weights, and those of the inputs but the first layer's.
    by_hand = 2 * batch * ((3 + 3 + 2) * width**2 + 3 * width)
    assert counter.get_total_flops() == perceptron_flop(batch, width)
    assert perceptron_flop(batch, width) == by_hand


@pytest.fixture
def one_rank(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", f"file://{tmp_path}/ranks", rank=0, world_size=1)
    try:
        yield
    finally:
        dist.destroy_process_group()


@pytest.mark.usefixtures("one_rank")
def test_one_rank_stores_the_whole_model_either_way_and_takes_the_same_steps() -> None:
    on, width = Place("cpu"), 16
    inputs, targets = on.randn(4, width), on.randn(4, 1)
    models = (
        parallel_training.replicate(perceptron(on, width), on),
        parallel_training.shard(perceptron(on, width), on, ranks=1),
    )
    parameters = 4 * (3 * (width * width + width) + width + 1)
    losses = []
    for trained in models:
        for _ in range(2):
            trained.optimizer.zero_grad()
            loss = mse_loss(trained.model(inputs), targets)
            loss.backward()
            trained.optimizer.step()
            losses.append(float(loss.detach()))
        assert trained.stored() == {
            "parameters": parameters,
            "gradients": parameters,
            "optimizer state": 2 * parameters,
        }
    assert losses[:2] == pytest.approx(losses[2:])
