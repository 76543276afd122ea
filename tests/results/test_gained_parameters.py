"""Results stored before a workload gained a parameter are compared as if they had its default."""

from __future__ import annotations

import json
from pathlib import Path

from tests.results.samples import BEGAN, kept
from tui.results.store.compare import compare
from tui.results.store.database import Database
from tui.results.store.earlier import EarlierSessions
from tui.results.store.gained_parameters import GAINED, complete_requested, complete_used
from tui.results.store.records import build_row
from workloads import catalog
from workloads.declare.workload import registered
from workloads.protocol.results import Setting

assert catalog

OF_VERSION_0_2: dict[str, tuple[str, ...]] = {
    "transfer": ("mib", "memory"),
    "placement": ("batch", "width"),
    "copies_in_loop": ("mib", "steps"),
    "copy_sizes": ("largest_mib",),
    "device_copy": ("mib", "dtype"),
    "overlap": ("chunk_mib", "chunks", "width"),
    "matmul": ("n", "dtype"),
    "matmul_shapes": ("rows", "inner", "columns"),
    "matmul_sweep": ("largest", "smallest"),
    "tf32": ("n",),
    "matmul_float8": ("n",),
    "attention": ("batch", "heads", "length", "width", "mask", "dtype"),
    "elementwise": ("mib",),
    "reductions": ("rows", "columns", "dtype"),
    "linalg": ("n", "right"),
    "ceiling": ("kinds",),
    "conv2d": (
        "batch",
        "channels_in",
        "channels",
        "size",
        "kernel",
        "stride",
        "dilation",
        "groups",
        "dtype",
        "layout",
        "mode",
    ),
    "resnet50_layers": ("batch", "layout"),
    "conv_layouts": ("batch", "channels", "size"),
    "conv_block": ("batch", "channels", "size"),
    "varying_shapes": ("count", "batch", "channels", "size"),
    "deterministic": ("batch", "channels", "size"),
    "mlp_training": ("batch", "hidden", "epochs"),
    "mlp_evaluation": ("batch", "hidden"),
    "cnn_training": ("batch", "width", "size", "dtype", "layout"),
    "amp": ("dtype", "batch", "width", "size", "steps", "scale"),
    "gradient_accumulation": ("batch", "micro", "width", "size"),
    "checkpointing": ("segments", "layers", "width", "batch"),
    "batch_scaling": ("batch", "largest", "width", "size"),
    "data_loading": ("workers", "memory", "prefetch", "cost_us", "samples", "batch", "width"),
    "transformer_compile": ("mode", "batch", "layers", "length", "width", "heads"),
    "profiler": ("steps", "batch", "width", "size"),
    "inference_modes": ("batch", "width", "depth"),
    "staircase": ("mib",),
    "fragmentation": ("pieces", "mib"),
    "out_of_memory": ("mib",),
    "batch_until_oom": ("batch", "mib", "percent"),
    "naive_timing": ("n",),
    "comparing_results": ("n",),
    "device_mismatch": ("batch", "width"),
    "model_on_cpu": ("batch", "width"),
    "item_in_loop": ("steps", "width", "batch"),
    "python_loop": ("n",),
    "tiny_model": ("width", "batch"),
    "cuda_graphs": ("width", "batch"),
    "device_list": (),
    "peer_copies": ("mib",),
    "data_parallel": ("batch", "width"),
    "all_reduce": ("mib", "ranks", "hosts", "rendezvous", "wait_s"),
    "ddp_training": ("batch", "width", "ranks", "hosts", "rendezvous", "wait_s"),
    "burn": ("seconds", "n", "dtype", "devices"),
}
"""The parameters of each workload in version 0.2."""


def test_each_parameter_that_a_workload_gained_is_known_with_its_default() -> None:
    for name, older in OF_VERSION_0_2.items():
        present = {each.name: each.default for each in registered()[name].info.parameters}
        gained = {each.name: each.default for each in GAINED.get(name, ())}
        assert {*older, *gained} == set(present), f"{name}: name it in GAINED, with its default"
        assert gained == {each: present[each] for each in gained}, name


def test_a_parameter_left_to_the_workload_has_the_value_that_it_chose() -> None:
    older: dict[str, Setting] = {"heads": 8, "length": 512}
    added = {"cache": "warm", "backend": "auto"}
    assert complete_used("attention", older) == {**older, **added, "kv_heads": 8}
    assert complete_requested("attention", older) == {**older, **added, "kv_heads": 0}
    assert complete_used("attention", {**older, "kv_heads": 2})["kv_heads"] == 2
    assert complete_used("conv2d", older) == older


def test_runs_without_the_parameter_pair_with_those_of_its_default_alone() -> None:
    older = [build_row(kept(number, parameters={"n": 4096})) for number in range(3)]
    warm, cold = (
        [
            build_row(kept(first + number, parameters={"n": 4096, "cache": cache}))
            for number in range(3)
        ]
        for first, cache in ((10, "warm"), (20, "cold"))
    )
    facts = {row.environment: kept().facts for row in older}
    found = compare(older, [*warm, *cold], facts)
    (question,) = found.questions
    assert [row.id for row in question.b.rows] == [row.id for row in warm]
    assert found.only == (0, 1)
    assert json.loads(question.parameters) == {"n": 4096}


def test_the_newest_of_a_setting_is_found_with_and_without_the_parameter(tmp_path: Path) -> None:
    place = tmp_path / "results.sqlite"
    with Database(place, writing=True) as database:
        database.add([kept(1, parameters={"n": 4096})])
        database.add([kept(2, parameters={"n": 4096, "cache": "warm"})])
        database.add([kept(3, parameters={"n": 4096, "cache": "cold"})])
    box = kept().facts.values["box"]
    found = EarlierSessions(place, BEGAN + 100).read_newest(box)
    assert {(one.at - BEGAN, one.requested["cache"]) for one in found} == {(2, "warm"), (3, "cold")}
    found = EarlierSessions(place, BEGAN + 1.5).read_newest(box)
    assert [one.used for one in found] == [{"n": 4096, "cache": "warm"}]
