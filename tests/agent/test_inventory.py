"""The inventory on a simulated GPU: it changes nothing, keeps nothing, and is bounded."""

from __future__ import annotations

import gc
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from queue import Queue
from typing import Any

import pytest
import torch

from tests.agent.hostile_tensors import hostile_tensors
from tui.snapshots.explain.inventory import Inventory, parse_inventory
from workloads.agent import inventory
from workloads.agent.inventory import find_roles, take_inventory

pytestmark = [pytest.mark.simulated_gpu, pytest.mark.timeout(240)]
MIB = 1 << 20


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the walk end: how much of it two seconds allow depends on this process's other tests."""
    monkeypatch.setattr(inventory, "LONGEST_S", 60.0)


@pytest.fixture(autouse=True)
def nothing_cached() -> Iterator[None]:
    """Leave the device to the tests that follow, for which this process is another one."""
    yield
    gc.collect()
    torch.cuda.empty_cache()


def taken() -> Inventory:
    allocated = torch.cuda.memory_allocated()
    return parse_inventory(take_inventory(torch, 0, allocated, "/-"))


def statistics() -> dict[str, Any]:
    return dict(torch.cuda.memory_stats())


def tensor(mib: int = 2) -> torch.Tensor:
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def test_statistics_of_the_allocator_and_the_collector_stay_as_they_are() -> None:
    losses = [tensor() for _ in range(5)]
    weight = torch.ones(MIB, device="cuda", requires_grad=True)
    total = (weight * 2).sum()
    before = statistics()
    found = taken()
    assert statistics() == before
    assert gc.isenabled()
    (row,) = [each for each in found.containers if each.name == "losses"]
    assert (row.kind, row.length, row.tensors, row.bytes) == ("list", 5, 5, 10 * MIB)
    assert total is not None
    assert losses


@pytest.mark.parametrize("with_graph", [False, True])
def test_a_recovered_oom_frees_as_much_as_without_an_inventory(*, with_graph: bool) -> None:
    def fail(*, takes: bool) -> None:
        held = [tensor() for _ in range(5)]
        weight = torch.ones(MIB, device="cuda", requires_grad=with_graph)
        total = (weight * 2).sum()
        cache = {"k": tensor(), "nested": {"v": [tensor() for _ in range(20)]}}

        def closure() -> object:
            return held, cache, total

        if takes:
            assert taken().containers
        assert closure()
        raise torch.OutOfMemoryError

    left = []
    gc.collect()
    gc.disable()
    try:
        for takes in (False, True):
            before = torch.cuda.memory_allocated()
            with pytest.raises(torch.OutOfMemoryError) as caught:
                fail(takes=takes)
            del caught
            left.append(torch.cuda.memory_allocated() - before)
    finally:
        gc.enable()
    assert left == [left[0]] * 2


def test_what_an_exception_keeps_while_it_is_handled_is_reported() -> None:
    def attempt() -> None:
        batch = tensor(8)
        raise torch.OutOfMemoryError(str(batch.shape))

    try:
        attempt()
    except torch.OutOfMemoryError:
        found = taken()
    (row,) = [each for each in found.containers if each.kind == "exception"]
    assert (row.name, row.bytes) == ("OutOfMemoryError", 8 * MIB)
    assert row.where is not None
    assert row.where.name == "test_what_an_exception_keeps_while_it_is_handled_is_reported"
    assert not [each for each in taken().containers if each.kind == "exception"]


def test_what_a_stored_exception_keeps_has_the_name_of_its_variable() -> None:
    def attempt() -> None:
        batch = tensor(8)
        raise torch.OutOfMemoryError(str(batch.shape))

    last: Exception | None = None
    try:
        attempt()
    except torch.OutOfMemoryError as error:
        last = error
    (row,) = taken().containers
    assert (row.name, row.kind, row.bytes) == ("last", "stored exception", 8 * MIB)
    assert row.through == "frames kept by tracebacks"
    assert last is not None


def test_the_last_exception_of_an_interactive_interpreter_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def attempt() -> None:
        batch = tensor(8)
        raise torch.OutOfMemoryError(str(batch.shape))

    try:
        attempt()
    except torch.OutOfMemoryError as error:
        monkeypatch.setattr(sys, "last_value", error, raising=False)
    (row,) = taken().containers
    assert (row.name, row.kind, row.bytes) == ("sys.last_value", "exception", 8 * MIB)


def test_a_hooks_tensors_have_the_name_of_the_object_that_keeps_them() -> None:
    class Recorder:
        def __init__(self) -> None:
            self.seen: list[torch.Tensor] = []

        def hook(self) -> Callable[..., None]:
            def keep(*_: object) -> None:
                self.seen.append(tensor())

            return keep

    net = torch.nn.Linear(2, 2)
    recorder = Recorder()
    net.register_forward_hook(recorder.hook())
    net(torch.zeros(1, 2))
    (row,) = taken().containers
    assert (row.name, row.bytes) == ("recorder.seen", 2 * MIB)
    del recorder
    gc.collect()
    (row,) = taken().containers
    assert (row.name, row.bytes) == ("Recorder.seen", 2 * MIB)


def test_the_line_that_passes_a_list_to_a_backward_pass_is_reported() -> None:
    weight = torch.ones(MIB, device="cuda", requires_grad=True)

    def losses_of(count: int) -> Inventory:
        losses = [(weight * number).sum() for number in range(count)]
        found = taken()
        torch.stack(losses).sum().backward()
        return found

    (row,) = [each for each in losses_of(200).containers if each.name == "losses"]
    assert row.backward is not None
    assert row.backward.name == "losses_of"
    assert row.longest_graph < row.graph_nodes / 2


def test_features_of_one_pass_share_a_graph() -> None:
    x = torch.ones(MIB, device="cuda", requires_grad=True)
    features = {}
    for number in range(300):
        x = x * 2
        features[number] = x
    (row,) = [each for each in taken().containers if each.name == "features"]
    assert row.longest_graph == row.graph_nodes > 300


def test_a_deque_that_drops_its_oldest_items_is_distinguished_from_one_that_does_not() -> None:
    ring = deque((tensor() for _ in range(3)), maxlen=20)
    endless = deque(tensor() for _ in range(3))
    ready: Queue[torch.Tensor] = Queue(maxsize=4)
    results: Queue[torch.Tensor] = Queue()
    ready.put(tensor())
    results.put(tensor())
    kinds = {each.name: (each.kind, each.limit) for each in taken().containers}
    assert kinds == {
        "ring": ("limited deque", 20),
        "endless": ("deque", 0),
        "ready": ("limited Queue", 4),
        "results": ("Queue", 0),
    }
    assert ring
    assert endless


def test_a_name_comes_before_the_exception_that_is_being_handled() -> None:
    def attempt() -> None:
        losses = kept
        raise torch.OutOfMemoryError(str(len(losses)))

    kept = [tensor() for _ in range(5)]
    try:
        attempt()
    except torch.OutOfMemoryError:
        found = taken()
    (row,) = found.containers
    assert (row.name, row.bytes) == ("kept", 10 * MIB)


class Wrapper(torch.Tensor):
    """A tensor without storage that holds another one, as a ``DTensor`` does."""

    held: torch.Tensor
    __slots__ = ["held"]

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, held.shape, device=held.device)
        made.held = held
        return made

    @classmethod
    def __torch_dispatch__(  # type: ignore[override] # torch passes the operator first
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is torch.ops.aten.detach.default:
            return Wrapper(args[0].held)
        raise AssertionError(f"{function} is code of the program")


def test_what_a_wrapper_holds_counts_for_the_wrapper() -> None:
    module = torch.nn.Module()
    held, average = torch.ones(MIB, device="cuda"), torch.ones(2 * MIB, device="cuda")
    module.weight = torch.nn.Parameter(Wrapper(held))
    optimizer = torch.optim.Adam(module.parameters())
    optimizer.state[module.weight] = {"exp_avg": Wrapper(average)}
    found = find_roles(torch, 0)
    assert found["parameters"] == [held.data_ptr()]
    assert found["optimizer state"] == [average.data_ptr()]
    sizes = {part.role: part.bytes for part in taken().parts}
    assert sizes == {"parameters": 4 * MIB, "optimizer state": 8 * MIB}


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(MIB, device="cuda"))

    def owner(self) -> str:
        """Return the owner of the weight as it is found while a method runs."""
        (part,) = taken().parts
        return part.owner


def test_a_model_in_its_own_method_has_the_program_s_name_for_it() -> None:
    net = Net()
    assert net.owner() == "net (Net)"


def test_parameters_in_a_graph_that_no_optimizer_updates_are_counted() -> None:
    student, teacher, frozen, idle = (torch.nn.Linear(8, 8, device="cuda") for _ in range(4))
    frozen.requires_grad_(False)
    kept = teacher(student(frozen(torch.ones(8, device="cuda"))))
    assert {part.untrained for part in taken().parts} == {0}
    optimizer = torch.optim.SGD(student.parameters())
    untrained = {part.owner: part.untrained for part in taken().parts}
    assert untrained == {
        "student (Linear)": 0,
        "teacher (Linear)": 4 * (8 * 8 + 8),
        "frozen (Linear)": 0,
        "idle (Linear)": 0,
    }
    assert optimizer
    assert idle
    assert kept.requires_grad


def test_the_owners_of_a_rehearsal_are_found_without_a_walk_through_graphs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def walked(_roots: list[Any]) -> list[Any]:
        raise AssertionError("it followed a graph")

    model = torch.nn.Linear(64, 64, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.ones(8, 64, device="cuda")).sum()
    monkeypatch.setattr(inventory, "_find_nodes", walked)
    roles = find_roles(torch, 0)
    assert len(roles["parameters"]) == 2
    assert loss.requires_grad
    assert optimizer.param_groups


def test_the_graphs_of_two_passes_are_separate_and_those_of_one_pass_are_not() -> None:
    module = torch.nn.Linear(8, MIB, device="cuda")
    x = torch.ones(8, device="cuda").expand(2, 8)
    first, second = module(x), module(x)
    middle = module(x)
    last = middle * 2
    separate = {each.name: each.separate for each in taken().variables}
    assert separate == {"first": True, "second": True, "middle": False, "last": False}
    assert all(result.requires_grad for result in (first, second, last))


def test_the_elements_of_views_are_fewer_than_the_bytes_that_they_keep() -> None:
    rows = [torch.ones(MIB, 2, device="cuda")[0] for _ in range(9)]
    (row,) = [each for each in taken().containers if each.name == "rows"]
    assert (row.bytes, row.viewed) == (9 * 8 * MIB, 9 * 8)
    assert rows


def test_a_hundred_thousand_tensors_are_all_counted() -> None:
    many = [torch.empty(128, device="cuda") for _ in range(100_000)]
    found = taken()
    assert found.skipped == ()
    (row,) = [each for each in found.containers if each.name == "many"]
    assert (row.length, row.tensors) == (len(many), 100_000)


def test_odd_tensors_are_read_or_left_alone_and_none_of_their_code_is_executed() -> None:
    executed: list[str] = []
    odd = hostile_tensors(executed)
    plain = [tensor() for _ in range(3)]
    before = statistics()
    executed.clear()
    found = taken()
    assert executed == []
    assert statistics() == before
    assert [each.tensors for each in found.containers if each.name == "plain"] == [len(plain)]
    assert odd


def test_another_thread_s_variables_and_stack_are_reported() -> None:
    ready, go_on = threading.Event(), threading.Event()

    def load() -> None:
        batches = [tensor() for _ in range(20)]
        ready.set()
        go_on.wait()
        assert batches

    thread = threading.Thread(target=load, name="loader")
    thread.start()
    ready.wait()
    try:
        found = taken()
    finally:
        go_on.set()
        thread.join()
    (row,) = [each for each in found.containers if each.name == "batches"]
    assert (row.tensors, row.scope) == (20, "local of load()")
    assert any(each.name == "loader" and each.frames for each in found.threads)
    assert found.threads[0].made_request


def test_one_local_of_many_threads_is_one_row_with_their_number() -> None:
    go_on = threading.Event()

    def work(argument: torch.Tensor, shared: torch.Tensor, ready: threading.Event) -> None:
        made = argument + shared
        few = [tensor(), tensor()]
        graph = torch.ones(2, device="cuda", requires_grad=True).sum()
        ready.set()
        go_on.wait()
        assert all(each is not None for each in (made, few, graph))

    shared, threads = tensor(), []
    for _ in range(40):
        ready = threading.Event()
        thread = threading.Thread(target=work, args=(tensor(), shared, ready))
        threads.append(thread)
        thread.start()
        ready.wait(60)
    names = [f"thread-{thread.name}" for thread in threads]
    del thread, threads
    try:
        found = taken()
    finally:
        go_on.set()
        for other in threading.enumerate():
            if f"thread-{other.name}" in names:
                other.join()
    rows = {(each.kind, each.name): each for each in found.containers if each.bytes}
    assert {key: (row.length, row.tensors, row.bytes) for key, row in rows.items()} == {
        ("threads", "argument"): (40, 40, 80 * MIB),
        ("threads", "made"): (40, 40, 80 * MIB),
        ("threads", "few"): (40, 80, 160 * MIB),
    }
    assert {row.scope for row in rows.values()} == {"local of work()"}
    made = rows["threads", "made"].adds
    assert made is not None
    assert made.name == "work"
    # One tensor in all threads is no group, and neither are graphs.
    assert [each.bytes for each in found.variables if each.name == "shared"] == [2 * MIB]


def test_models_of_one_long_list_are_one_row_with_their_number() -> None:
    results = [torch.nn.Linear(1024, 1024, bias=False, device="cuda") for _ in range(20)]
    (part,) = taken().parts
    assert (part.owner, part.owners, part.count) == ("results (Linear)", 20, 20)
    assert part.bytes == 20 * 4 * MIB
    assert results


class Attention(torch.nn.Module):
    """A layer with a cache that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.k = torch.zeros(1, MIB, device="cuda")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.k = torch.cat([self.k, x])
        return self.k


def test_a_tensor_that_a_layer_joins_is_named_by_the_layer_that_has_it() -> None:
    net = torch.nn.Sequential(Attention(), Attention())
    rows = {each.name: each for each in taken().variables}
    assert set(rows) == {"net[0].k", "net[1].k"}
    for row in rows.values():
        assert row.enlarges
        assert row.adds is not None
        assert row.adds.name == "forward"
    assert net


def test_a_list_that_the_program_empties_has_the_line() -> None:
    kept, whole = [], []
    for number in range(6):
        kept.append(tensor())
        whole.append(tensor())
        if number == 3:
            kept.clear()
    rows = {each.name: each for each in taken().containers}
    assert rows["kept"].empties is not None
    assert rows["whole"].empties is None
    assert rows["kept"].enlarges
    assert rows["whole"].enlarges


HELPER: list[torch.Tensor] = []


def test_a_global_of_an_imported_module_has_its_name() -> None:
    assert __name__ != "__main__"
    HELPER.extend(tensor() for _ in range(5))
    try:
        (row,) = [each for each in taken().containers if each.name == "HELPER"]
    finally:
        HELPER.clear()
    assert row.scope == "global of test_inventory.py"
    assert row.tensors == 5


def test_of_several_lines_that_add_the_one_with_the_large_tensor_is_named() -> None:
    history = []
    for _ in range(4):
        small, large = torch.zeros(1, device="cuda"), tensor()
        history.append(small)
        history.append(large)
    (row,) = [each for each in taken().containers if each.name == "history"]
    assert row.adds is not None
    line = row.adds.line
    assert row.also_adds == ()
    code = sys._getframe().f_code
    assert line - code.co_firstlineno == 5, "the line of large"


def test_lines_whose_tensors_are_alike_are_all_named() -> None:
    history = []
    for _ in range(3):
        first, second = tensor(), tensor()
        history.append(first)
        history.append(second)
        history.extend(())
    (row,) = [each for each in taken().containers if each.name == "history"]
    assert row.adds is not None
    assert [frame.line - row.adds.line for frame in row.also_adds] == [1]


def test_a_line_whose_tensor_has_a_kept_graph_comes_first() -> None:
    weight = torch.ones(MIB, device="cuda", requires_grad=True)
    history: list[torch.Tensor] = []
    for _ in range(3):
        large, loss = tensor(), (weight * 2).sum()
        history.append(large)
        history.append(loss)
    (row,) = [each for each in taken().containers if each.name == "history"]
    assert row.adds is not None
    assert [frame.line - row.adds.line for frame in row.also_adds] == [-1]
