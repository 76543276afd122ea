"""Our declarations of CUDA's structures have the layouts of NVIDIA's, which torch fills and reads.

The numbers are ``offsetof`` and ``sizeof`` with the headers of nvidia-cuda-runtime-cu12 12.6.77,
12.8.90 and 12.9.79, which agree, and of nvidia-cuda-runtime 13.0.96, on x86-64.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tui.rehearsal.device import build, stubs
from tui.rehearsal.device.compiler import find_compiler

SIZES = {
    12060: {
        "struct cudaDeviceProp": 1032,
        "struct cudaFuncAttributes": 144,
        "struct cudaPointerAttributes": 24,
        "cudaLaunchConfig_t": 56,
        "CUmemAllocationProp": 32,
        "struct dim3": 12,
    },
    13000: {
        "struct cudaDeviceProp": 1008,
        "struct cudaFuncAttributes": 144,
        "struct cudaPointerAttributes": 88,
        "cudaLaunchConfig_t": 56,
        "CUmemAllocationProp": 32,
        "struct dim3": 12,
    },
}
OFFSETS = {  # of struct cudaDeviceProp, with CUDA 12 and 13
    "uuid": (256, 256),
    "totalGlobalMem": (288, 288),
    "sharedMemPerBlock": (296, 296),
    "warpSize": (308, 308),
    "maxThreadsPerBlock": (320, 320),
    "maxGridSize": (336, 336),
    "totalConstMem": (352, 352),
    "major": (360, 360),
    "minor": (364, 364),
    "multiProcessorCount": (388, 384),
    "concurrentKernels": (576, 560),
    "ECCEnabled": (580, 564),
    "pciBusID": (584, 568),
    "asyncEngineCount": (600, 584),
    "unifiedAddressing": (604, 588),
    "memoryBusWidth": (612, 592),
    "l2CacheSize": (616, 596),
    "maxThreadsPerMultiProcessor": (624, 604),
    "sharedMemPerMultiprocessor": (640, 624),
    "regsPerMultiprocessor": (648, 632),
    "cooperativeLaunch": (688, 668),
    "sharedMemPerBlockOptin": (696, 672),
    "maxBlocksPerMultiProcessor": (712, 688),
    "memoryPoolsSupported": (744, 720),
}


@pytest.mark.parametrize("cuda", SIZES)
def test_structures_have_nvidias_layouts(cuda: int, tmp_path: Path) -> None:
    asked = [f"sizeof({name})" for name in SIZES[cuda]]
    asked += [f"offsetof(struct cudaDeviceProp, {name})" for name in OFFSETS]
    lines = "".join(f'printf("%zu\\n", {question});' for question in asked)
    source = tmp_path / "layout.c"
    source.write_text(
        f'#include <stdio.h>\n#include "cuda_types.h"\nint main(void) {{ {lines} return 0; }}\n',
        encoding="ascii",
    )
    program = tmp_path / "layout"
    options: list[str | Path] = [f"-DCUDA_VERSION={cuda}", f"-I{build.HERE}", source, "-o", program]
    find_compiler().run(options, tmp_path)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    offsets = [places[cuda >= 13000] for places in OFFSETS.values()]
    assert dict(zip(asked, map(int, printed.split()), strict=True)) == dict(
        zip(asked, [*SIZES[cuda].values(), *offsets], strict=True)
    )


def test_errors_are_described_by_their_names_and_in_words(tmp_path: Path) -> None:
    """Every code of the declarations has both; torch prints the words in its errors."""
    header = (build.HERE / "cuda_types.h").read_text(encoding="utf-8")
    codes = dict(re.findall(r"\b(cuda(?:Success|Error\w+)) = (\d+)", header))
    assert len(codes) > 130
    calls = "".join(
        f'printf("%s|%s\\n", cudaGetErrorName({code}), cudaGetErrorString({code}));'
        for code in [*codes.values(), 12345]
    )
    source = tmp_path / "errors.c"
    main = f"#include <stdio.h>\nint main(void) {{ {calls} return 0; }}\n"
    source.write_text(stubs.errors(header) + main, encoding="ascii")
    find_compiler().run([source, "-o", tmp_path / "errors"], tmp_path)
    printed = subprocess.run([tmp_path / "errors"], check=True, capture_output=True, text=True)
    described = dict(line.split("|") for line in printed.stdout.splitlines())
    assert described.keys() == {*codes, "unknown error"}
    assert described["cudaErrorMemoryAllocation"] == "out of memory"
    assert described["cudaErrorIllegalAddress"] == "an illegal memory access was encountered"
    assert described["cudaErrorInvalidDevice"] == "invalid device"
