"""Generate C for the functions that torch imports and the simulator does not simulate."""

from __future__ import annotations

import re

DECLARATIONS = "int sim_blas_other(void *);\nint sim_work(void *, int, unsigned long);\n"

DESCRIBE_ERRORS = {"cudaGetErrorName", "cudaGetErrorString"}
"""Functions that :func:`errors` makes."""

NOT_SUPPORTED = {
    "cudnn": 3000,
    "cufft": 16,
    "cuFile": 5030,
    "curand": 204,
    "cusparse": 10,
    "nccl": 3,
    "nvrtc": 7,
    "nvshmem": 1,
    "cu": 801,
}
"""The status by which a library refuses a call; by the beginning of the function's name."""

SUCCEEDS = re.compile(
    r"^(cupti|cublas(Lt)?\w*(Destroy|Set|Preference)|cudnn(Create|Destroy|Set)(?!CTC|RNN|Dropout|Spatial)"
    r"|nccl(CommFinalize|Group(Start|End))|__cuda(Register|Unregister)"
    r"|cuda(Profiler|MemPoolSet|FuncSetAttribute|KernelSetAttribute|GraphDebug|DeviceEnablePeer"
    r"|StreamUpdateCapture|ThreadExchange))"
)

WORK_AREA = {
    r"getrf|geqrf|potrf": (6, 0),
    r"gesvd": (4, 0),
    r"gesvdj": (13, 0),
    r"gesvdjBatched": (12, 0),
    r"gesvdaStridedBatched": (17, 0),
    r"sytrf": (5, 0),
    r"orgqr|ungqr|syevd|heevd|syevj|heevj|syevjBatched|heevjBatched": (8, 0),
    r"ormqr|unmqr": (12, 0),
    r"Xgeqrf": (11, 12),
    r"Xpotrf": (9, 10),
    r"Xsyevd|XsyevBatched|Xsytrs": (12, 13),
    r"Xgeev": (18, 19),
}
"""Where cuSOLVER's ``…_bufferSize`` functions write their result: the argument's place, from 1, of
one ``int``, or of two ``size_t`` (the device's and the host's). From cusolverDn.h."""


class UnknownFunctionError(Exception):
    """torch imports a function whose result is unknown here."""


def errors(header: str) -> str:
    """Return the C of the functions that describe CUDA's errors, from its header's enumeration.

    Args:
        header: the text of ``cuda_types.h``.
    """
    names = re.findall(r"\b(cuda(?:Success|Error\w+)) = (\d+)", header)
    words = {"cudaSuccess": "no error", "cudaErrorMemoryAllocation": "out of memory"}
    words["cudaErrorIllegalAddress"] = "an illegal memory access was encountered"
    words["cudaErrorStreamCaptureUnsupported"] = "operation not permitted when stream is capturing"
    words["cudaErrorStreamCaptureInvalidated"] = (
        "operation failed due to a previous error during capture"
    )
    cases = {"Name": "", "String": ""}
    for name, code in names:
        spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name.removeprefix("cudaError")).lower()
        cases["Name"] += f'case {code}: return "{name}"; '
        cases["String"] += f'case {code}: return "{words.get(name, spaced)}"; '
    return "".join(
        f"const char *cudaGetError{description}(int code) {{ switch (code) {{ {text}}} "
        'return "unknown error"; }\n'
        for description, text in cases.items()
    )


def stub(name: str) -> str:
    """Return the C of a function that the simulator does not simulate.

    Raises:
        UnknownFunctionError: its result is unknown here.
    """
    if name.endswith(("GetErrorString", "GetLastErrorString", "ncclGetLastError")):
        return f'const char *{name}(void) {{ return "not simulated"; }}'
    if SUCCEEDS.match(name):
        return f"int {name}(void) {{ return 0; }}"
    if name.startswith("cublas"):
        return f"int {name}(void *handle) {{ return sim_blas_other(handle); }}"
    if name.startswith("cusolverDn"):
        return _solver_stub(name)
    for start, code in NOT_SUPPORTED.items():
        if name.startswith(start):
            return f"int {name}(void) {{ return {code}; }}"
    raise UnknownFunctionError(f"stubs.py does not know what {name} returns")


def _solver_stub(name: str) -> str:
    """Return the C of cuSOLVER's: 20 us on the default stream, a work area of 4 KiB."""
    if not name.endswith("_bufferSize"):
        return f"int {name}(void) {{ return sim_work(0, 0, 20000) ? 7 : 0; }}"
    routine = name.removeprefix("cusolverDn").removesuffix("_bufferSize")
    places = [place for key, place in WORK_AREA.items() if re.fullmatch(f"[SDCZ]?({key})", routine)]
    if not places:
        raise UnknownFunctionError(f"stubs.py does not know where {name} writes its result")
    ((first, second),) = places
    arguments = ", ".join(f"long a{place}" for place in range(1, max(first, second) + 1))
    body = f"*(int *)a{first} = 1024;"
    if second:
        body = f"*(unsigned long *)a{first} = 4096; *(unsigned long *)a{second} = 4096;"
    return f"int {name}({arguments}) {{ {body} return 0; }}"
