"""Declarations of workloads, and their registry. No torch at import.

A workload is a function that prepares its data on a device and returns a :class:`Case`::

    @workload(group="health", title="square matrix product", about="…", look_for="…")
    def matmul(on: Place, n: Annotated[int, whole(1, 65536, "rows")] = 2048) -> Case:
        a, b = on.randn(n, n), on.randn(n, n)

        def timed() -> object:
            return a @ b

        return Case(timed, flop=2 * n**3)

The function's arguments are the workload's parameters: the default is the argument's, the
annotation defines the accepted values. The run times the case's first argument, and the screen
shows its source; any callable works, such as ``Case(lambda: a @ b)``.

A workload of the catalogue has a script of its name in ``workloads/scripts``, a program of plain
PyTorch, and times the functions that this defines; the screen shows those. The function imports
them where it imports torch::

        from workloads.scripts.matmul import multiply

        return Case(functools.partial(multiply, a, b), flop=2 * n**3)
"""

from __future__ import annotations

import inspect
import re
import typing
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from workloads.declare.source import read_functions, read_script, timed_source
from workloads.declare.study import Study
from workloads.protocol.results import (
    Check,
    Convolutions,
    Need,
    ParameterInfo,
    Setting,
    WorkloadInfo,
)

THREE_TF32 = "3xtf32"
"""Precision of float32 products that may run on tensor cores too, as three TF32 products each
(CUTLASS: ``OpMultiplyAddFastF32``). Where three take longer than one in plain float32, the limit
is that of float32."""


class Skip(Exception):  # noqa: N818 (it is an outcome, not an error)
    """Raised by a workload that cannot run here; the text names the unmet need."""


def whole(minimum: int, maximum: int, about: str, *, auto: str = "") -> ParameterInfo:
    """Return a parameter that takes a whole number from ``minimum`` to ``maximum``, inclusive.

    With ``auto`` it also takes 0, which users see and type as ``auto``: the workload then chooses
    the number, and the text of ``auto`` explains how.

    :func:`workload` fills in the name and the default of this parameter, as of those of
    :func:`one_of` and :func:`words`, from the annotated argument.
    """
    if not auto:
        return ParameterInfo("", minimum, about, minimum=minimum, maximum=maximum)
    about = f"{about}; auto: {auto}"
    return ParameterInfo("", 0, about, minimum=minimum, maximum=maximum, auto=True)


def by_device(sizes: tuple[int, int]) -> str:
    """Describe the meaning of ``auto`` for a size that depends on the type of device.

    Args:
        sizes: the defaults on the CPU and on a GPU.
    """
    return f"{sizes[0]} on the CPU, {sizes[1]} on a GPU"


def one_of(choices: tuple[Setting, ...], about: str) -> ParameterInfo:
    """Return a parameter that takes one of the listed values."""
    return ParameterInfo("", choices[0], about, choices=choices)


def words(form: str, form_about: str, about: str) -> ParameterInfo:
    """Return a parameter that takes a text matching a regular expression in full.

    Args:
        form: the expression.
        form_about: the expression in words, for the error message.
        about: the meaning of the text.
    """
    return ParameterInfo("", "", about, form=form, form_about=form_about)


_MOST = 1 << 63
"""Upper bound for the work or bytes of one call; a larger number is a mistake."""


def _is_count(name: str, value: object) -> bool:
    if not isinstance(value, (int, float)):
        raise TypeError(f"Case({name}=...): a number, not a {type(value).__name__}")
    return 0 <= value < _MOST


@dataclass(frozen=True, slots=True)
class Case:
    """A workload prepared on a device: the function to time, and how to interpret the time."""

    timed: Callable[[], object]
    clock: Literal["device", "wall"] = "device"
    """``device`` for kernels and copies, ``wall`` where the host's work is part of the time."""
    flop: int | None = None
    """Floating-point operations of one call; a multiply-add counts as two."""
    byte: int | None = None
    """Bytes that one call must read and write at least."""
    item: int | None = None
    """Samples that one call processes."""
    devices: tuple[str, ...] = ()
    """Devices in use during the timing, such as ``cuda:0``; empty for the place's own device."""
    chosen: Mapping[str, Setting] = field(default_factory=dict)
    """The values in use of parameters that may depend on the type of device."""
    precision: str | None = None
    """Precision of the multiplications, for the limit: float64, float32, tf32, float16, bfloat16 or
    float8; 3xtf32 for float32 that may run on tensor cores (:data:`THREE_TF32`)."""
    byte_limit: Literal["memory", "pcie", "nvlink"] | None = None
    """The bandwidth that limits the byte rate."""
    check: Callable[[], Check] | None = None
    study: Callable[[Study], None] | None = None
    """Studies further aspects after the timing."""
    cleanup: Callable[[], None] | None = None
    """Called at the end, however the run ends, to stop helper processes and groups."""

    def __post_init__(self) -> None:
        """Reject a case that cannot be timed.

        Raises:
            TypeError: the first argument is not callable, or a count is not a number.
            ValueError: a count, from which rates are computed, is negative or not finite.
        """
        if not callable(self.timed):
            raise TypeError(
                f"Case times what it can call, not a {type(self.timed).__name__}: Case(lambda: ...)"
            )
        for name in ("flop", "byte", "item"):
            value = getattr(self, name)
            if value is not None and not _is_count(name, value):
                shown = repr(value)[:20]
                raise ValueError(f"Case({name}={shown}): a finite number, 0 or more")


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload's description, and the function that prepares it."""

    info: WorkloadInfo
    prepare: Callable[..., Case]


_registry: dict[str, Workload] = {}

MOST_CHOICES = 9
"""A question's choices: one digit picks each."""

RANK_PARAMETERS = (
    replace(
        whole(1, 64, "processes on this host", auto="one per GPU, two on the CPU"), name="ranks"
    ),
    ParameterInfo(
        "hosts", 1, "on which the same run is started (torchrun --nnodes)", minimum=1, maximum=64
    ),
    ParameterInfo(
        "rendezvous",
        "",
        "where several hosts meet (torchrun --rdzv-endpoint)",
        form=r"|([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[1-9][0-9]{0,4}",
        form_about="empty for one host, else HOST:PORT",
    ),
    ParameterInfo("wait_s", 60, "seconds to wait for the other hosts", minimum=5, maximum=3600),
)
"""Parameters of a workload of several ranks beside its own; its function does not receive
them."""

Prepare = TypeVar("Prepare", bound=Callable[..., Any])


def workload(
    *,
    group: str,
    title: str,
    about: str,
    look_for: str,
    devices: tuple[str, ...] = ("cpu", "cuda", "mps"),
    needs: tuple[Need, ...] = (),
    ranks: bool = False,
    compared: bool = False,
    fresh_process: bool = False,
    convolutions: Convolutions = "none",
    question: str = "",
    choices: tuple[str, ...] = (),
    right_choice: int = 0,
    answer: str = "",
) -> Callable[[Prepare], Prepare]:
    """Register the decorated function as a workload under its own name.

    With ``ranks`` it runs in several processes, each of which prepares its own case and calls
    ``timed`` as often as the others; :data:`RANK_PARAMETERS` set their number. A study that waits
    for the other ranks must not depend on the rank.

    With ``fresh_process`` the runner gives each run a new worker: for choices that a process makes
    once and keeps, such as the algorithm for a shape.

    With ``convolutions`` the screens know that the flags of convolutions change its figures;
    ``only``: those of matrix products do not.

    The first steps ask the ``question`` before the run, with ``choices`` to pick from, and show
    the ``answer`` after it; ``right_choice`` counts from 1.

    Raises:
        ValueError: the name is taken, a parameter has no default or no annotation with its
            accepted values, a question has no answer or an answer no question, or the choices
            are not two to nine with a right one among them.
    """

    def register(prepare: Prepare) -> Prepare:
        name = prepare.__name__
        if name in _registry:
            raise ValueError(f"workload {name}: the name is taken")
        if bool(question) is not bool(answer):
            raise ValueError(f"workload {name}: give both question= and answer=, or neither")
        _check_choices(name, question, choices, right_choice)
        info = WorkloadInfo(
            name=name,
            group=group,
            title=title,
            about=about,
            look_for=look_for,
            parameters=(*_parameters(name, prepare), *(RANK_PARAMETERS if ranks else ())),
            devices=devices,
            needs=needs,
            ranks=ranks,
            compared=compared,
            fresh_process=fresh_process,
            convolutions=convolutions,
            question=question,
            choices=choices,
            right_choice=right_choice,
            answer=answer,
        )
        _registry[name] = Workload(info, prepare)
        return prepare

    return register


def _check_choices(name: str, question: str, choices: tuple[str, ...], right: int) -> None:
    if not choices and not right:
        return
    if not question:
        raise ValueError(f"workload {name}: choices= need a question=")
    if not 2 <= len(choices) <= MOST_CHOICES:
        raise ValueError(f"workload {name}: give 2 to {MOST_CHOICES} choices")
    if not 1 <= right <= len(choices):
        raise ValueError(f"workload {name}: right_choice= is a number from 1 to {len(choices)}")


def _parameters(name: str, prepare: Callable[..., Case]) -> tuple[ParameterInfo, ...]:
    # The first argument is the place, whose class needs torch; the parameters do not.
    arguments = list(inspect.signature(prepare).parameters.values())[1:]
    hints = typing.get_type_hints(prepare, localns={"Place": object}, include_extras=True)
    infos = []
    for argument in arguments:
        metadata = getattr(hints.get(argument.name), "__metadata__", ())
        info = next((item for item in metadata if isinstance(item, ParameterInfo)), None)
        if info is None or argument.default is inspect.Parameter.empty:
            raise ValueError(f"workload {name}: {argument.name} needs a rule and a default")
        infos.append(replace(info, name=argument.name, default=argument.default))
    return tuple(infos)


def arrange(names: Sequence[str]) -> None:
    """Put the registered workloads into this order; those declared later follow.

    Raises:
        ValueError: the names are not those of the registered workloads, each once.
    """
    if sorted(names) != sorted(_registry):
        wrong = sorted(set(names) ^ set(_registry)) or [
            name for name, times in Counter(names).items() if times > 1
        ]
        raise ValueError(f"the order has to name each workload once: {', '.join(wrong)}")
    ordered = {name: _registry[name] for name in names}
    _registry.clear()
    _registry.update(ordered)


def registered() -> dict[str, Workload]:
    """Return the workloads by name, in their order on the screen."""
    return dict(_registry)


def infos() -> tuple[WorkloadInfo, ...]:
    """Return each workload's description without code, since reading source files takes time."""
    return tuple(item.info for item in _registry.values())


def infos_with_code() -> tuple[WorkloadInfo, ...]:
    """Return the description of each workload, with its script and its timed code."""
    return tuple(with_code(item) for item in _registry.values())


def with_code(item: Workload) -> WorkloadInfo:
    """Return the description of a workload, with its script and its timed code.

    The timed code is the script's functions; without a script, it is the timed lines of the
    function that prepares the workload.

    Raises:
        ValueError: the source does not contain them.
        OSError: the source cannot be read.
    """
    script = read_script(item.info.name, item.prepare)
    code = read_functions(script) if script else timed_source(item.prepare)
    return replace(item.info, code=code, script=script)


def forget(name: str) -> None:
    """Remove a declared workload from the registry."""
    del _registry[name]


class ParameterError(ValueError):
    """An unknown or invalid parameter; the text names the valid ones."""


def complete(info: WorkloadInfo, chosen: Mapping[str, Setting]) -> dict[str, Setting]:
    """Check the given parameters, and fill in the defaults of the others.

    Raises:
        ParameterError: a name or a value that the workload does not allow.
    """
    known = {parameter.name: parameter for parameter in info.parameters}
    for name in chosen:
        if name not in known:
            raise ParameterError(
                f"{info.name} has no parameter {name!r}: it takes {', '.join(known) or 'none'}"
            )
    return {
        name: checked(info.name, parameter, chosen[name]) if name in chosen else parameter.default
        for name, parameter in known.items()
    }


def checked(workload_name: str, parameter: ParameterInfo, value: Setting) -> Setting:
    """Return the value if the parameter accepts it.

    Raises:
        ParameterError: it does not.
    """
    where = f"{workload_name}: {parameter.name}={value}"
    if parameter.choices:
        if value in parameter.choices:
            return value
        raise ParameterError(f"{where}: one of {', '.join(map(str, parameter.choices))}")
    if isinstance(parameter.default, str):
        if isinstance(value, str) and re.fullmatch(parameter.form, value):
            return value
        raise ParameterError(f"{where}: {parameter.form_about}")
    if not isinstance(value, int) or isinstance(value, bool):
        raise ParameterError(f"{where}: a whole number")
    if parameter.auto and value == 0:
        return value
    low, high = parameter.minimum, parameter.maximum
    if (low is not None and value < low) or (high is not None and value > high):
        raise ParameterError(f"{where}: from {low} to {high}")
    return value
