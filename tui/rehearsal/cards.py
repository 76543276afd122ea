"""The simulated cards, with their properties that change a program's memory.

The total that torch reports is smaller than NVML's, which includes the driver's share. It differs
by some tens of MiB between driver versions; the table has the smallest that was found. The compute
capability decides which kernels torch chooses and how large cuBLAS's workspaces are; the number of
multiprocessors changes temporary buffers of reductions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tui.rehearsal.device.settings import DeviceSettings

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ContextMemory:
    """Memory that a process takes on a card beside its allocations, assumed.

    It depends on the driver and on the versions of the libraries.
    """

    context_mib: int
    """MiB of a CUDA context with torch's kernels."""
    blas_mib: int
    """MiB of the first cuBLAS handle, with the library's kernels."""
    blas_handle_mib: int
    """MiB of each further cuBLAS handle, such as that of the thread of backward passes."""
    dnn_mib: int
    """MiB of cuDNN's kernels."""


CONTEXT = ContextMemory(500, 34, 0, 90)
"""An allowance."""
HOPPER_CONTEXT = ContextMemory(610, 66, 64, 18)
"""Measured on an H100 with driver 580.159 and torch 2.11.0+cu130 (docs/readings)."""


@dataclass(frozen=True, slots=True)
class NcclBuffers:
    """Memory that one communicator of NCCL takes on each of its cards, assumed."""

    pair_mib: int
    """MiB if it has two ranks."""
    group_mib: int
    """MiB if it has more; within one machine their number changes nothing else."""
    peer_mib: int
    """MiB more for each rank to which this one sends, or from which it receives."""
    source: str


CONNECTION_MIB = 15
"""MiB of one channel to one rank for sends and receives, both directions: an all-to-all of eight
H100s took 3.28 GB in 7 x 32 of them. Two buffers of 10 and 2 MiB are the larger part
(https://github.com/NVIDIA/nccl/issues/1685)."""
NVLINK_CHANNELS, PCIE_CHANNELS = 32, 2
"""Channels to each rank for sends and receives: two, or with NVLink two for each link, rounded up
to a power of two, of which a communicator has 32
(https://github.com/NVIDIA/nccl/blob/master/src/graph/paths.cc)."""
NVLINK_BUFFERS = NcclBuffers(
    544, 688, NVLINK_CHANNELS * CONNECTION_MIB, "https://github.com/NVIDIA/nccl/issues/964"
)
"""The first two figures were measured on A100s with
NVLink. Eight H100s took 1.06 GB with their contexts,
which agrees (https://github.com/NVIDIA/nccl/issues/1685)."""
PCIE_BUFFERS = NcclBuffers(
    48, 48, PCIE_CHANNELS * CONNECTION_MIB, "https://github.com/NVIDIA/nccl/issues/1685"
)
"""An allowance: two channels, each with a ring and a tree, each with the two buffers of 10 MiB and
2 MiB that the source counted for a connection."""


class UnknownCardError(ValueError):
    """An unknown card; the text lists the known ones."""


@dataclass(frozen=True, slots=True)
class Card:
    """One kind of GPU."""

    key: str
    """The word for ``--gpu``."""
    name: str
    """Short name on screen."""
    nvml_name: str
    """The name that NVML and torch report."""
    nvml_mib: int
    """Total memory that NVML reports, in MiB."""
    torch_mib: int
    """Total memory that torch reports (``total_memory``), in MiB."""
    capability: int
    """Compute capability, times ten."""
    sm_count: int
    sources: tuple[str, ...] = ()
    """Addresses of the pages that the two totals and the number of multiprocessors are from."""
    nvlink: bool = False
    """True if several such cards in a machine are usually connected by NVLink."""

    @property
    def context(self) -> ContextMemory:
        """Memory of a process beside its allocations."""
        return HOPPER_CONTEXT if self.capability == 90 else CONTEXT

    @property
    def nccl(self) -> NcclBuffers:
        """Memory of a communicator of NCCL."""
        return NVLINK_BUFFERS if self.nvlink else PCIE_BUFFERS

    @property
    def total(self) -> int:
        """Total memory that torch reports, in bytes."""
        return self.torch_mib * MIB

    def settings(self, count: int) -> DeviceSettings:
        """Return the configuration of the simulated GPU.

        Args:
            count: number of such cards in the machine.
        """
        shape = SHAPES[self.capability]
        return DeviceSettings(
            devices=count,
            total_mib=self.nvml_mib,
            reserved_mib=self.nvml_mib - self.torch_mib,
            base_mib=0,
            context_mib=self.context.context_mib,
            blas_mib=self.context.blas_mib,
            blas_handle_mib=self.context.blas_handle_mib,
            dnn_mib=self.context.dnn_mib,
            context_ms=0,
            timed=0,
            stored=0,
            nccl_pair_mib=self.nccl.pair_mib,
            nccl_group_mib=self.nccl.group_mib,
            nccl_peer_mib=self.nccl.peer_mib,
            name=self.nvml_name,
            capability=self.capability,
            sm_count=self.sm_count,
            sm_threads=shape.threads,
            block_kib=shape.block_kib,
            l2_mib=shape.l2_mib,
        )


@dataclass(frozen=True, slots=True)
class CapabilityShape:
    """The properties of all cards of one compute capability."""

    threads: int
    """Most threads of a multiprocessor."""
    block_kib: int
    """Most shared memory of a block, in KiB."""
    l2_mib: int
    """Level 2 cache of its largest card, in MiB."""


SHAPES: dict[int, CapabilityShape] = {
    75: CapabilityShape(1024, 64, 6),
    80: CapabilityShape(2048, 163, 40),
    86: CapabilityShape(1536, 99, 6),
    89: CapabilityShape(1536, 99, 96),
    90: CapabilityShape(2048, 227, 60),
    100: CapabilityShape(2048, 227, 126),
    120: CapabilityShape(1536, 99, 128),
}
"""By compute capability, times ten. From NVIDIA/cccl, cuda/__device/arch_traits.h; the caches from
the architectures' white papers."""


CARDS: tuple[Card, ...] = (
    Card(
        key="t4",
        name="T4",
        nvml_name="Tesla T4",
        nvml_mib=15360,
        torch_mib=14909,
        capability=75,
        sm_count=40,
        sources=(
            "https://github.com/Zheng-Chong/CatVTON/issues/133",
            "https://github.com/modal-labs/modal-client/pull/2797",
            "https://github.com/bottlerocket-os/bottlerocket/pull/3798",
        ),
    ),
    Card(
        key="a10",
        name="A10G",
        nvml_name="NVIDIA A10G",
        nvml_mib=23028,
        torch_mib=22517,
        capability=86,
        sm_count=80,
        sources=(
            "https://github.com/mistralai/mistral-finetune/issues/69",
            "https://github.com/modal-labs/modal-client/pull/2797",
            "https://github.com/bottlerocket-os/bottlerocket/pull/3561",
        ),
    ),
    Card(
        key="a100-40",
        name="A100 40 GB",
        nvml_name="NVIDIA A100-SXM4-40GB",
        nvml_mib=40960,
        torch_mib=40335,
        capability=80,
        sm_count=108,
        nvlink=True,
        sources=(
            "https://github.com/imoneoi/openchat/issues/34",
            "https://github.com/modal-labs/modal-client/pull/2797",
            "https://github.com/bottlerocket-os/bottlerocket/pull/3873",
        ),
    ),
    Card(
        key="a100-80",
        name="A100 80 GB",
        nvml_name="NVIDIA A100-SXM4-80GB",
        nvml_mib=81920,
        torch_mib=81039,
        capability=80,
        sm_count=108,
        nvlink=True,
        sources=(
            "https://github.com/lianqi1008/Control-GIC/issues/6",
            "https://github.com/modal-labs/modal-client/pull/2797",
            "https://gist.github.com/gengwg/3520df2ebf8872e5ee4818367e3a4122",
        ),
    ),
    Card(
        key="3090",
        name="RTX 3090",
        nvml_name="NVIDIA GeForce RTX 3090",
        nvml_mib=24576,
        torch_mib=24248,
        capability=86,
        sm_count=82,
        sources=(
            "https://github.com/vllm-project/vllm/issues/16343",
            "https://github.com/noonghunna/club-3090/issues/1128",
            "https://github.com/m4rs-mt/ILGPU/pull/389",
        ),
    ),
    Card(
        key="4090",
        name="RTX 4090",
        nvml_name="NVIDIA GeForce RTX 4090",
        nvml_mib=24564,
        torch_mib=24084,
        capability=89,
        sm_count=128,
        sources=(
            "https://github.com/Soul-AILab/SoulX-FlashTalk/issues/5",
            "https://github.com/RLinf/RLinf/issues/255",
            "https://github.com/pc2/GPUInspector.jl/issues/11",
        ),
    ),
    Card(
        key="5090",
        name="RTX 5090",
        nvml_name="NVIDIA GeForce RTX 5090",
        nvml_mib=32607,
        torch_mib=32112,
        capability=120,
        sm_count=170,
        sources=(
            "https://github.com/TrajectoryCrafter/TrajectoryCrafter/issues/20",
            "https://github.com/chaofengc/IQA-PyTorch/issues/263",
            "https://github.com/NVIDIA/nccl/issues/1637",
        ),
    ),
    Card(
        key="l4",
        name="L4",
        nvml_name="NVIDIA L4",
        nvml_mib=23034,
        torch_mib=22558,
        capability=89,
        sm_count=58,
        sources=(
            "22.03 GiB in the out-of-memory errors of ten public logs from L4s",
            "https://github.com/modal-labs/modal-client/pull/2797",
            "https://developer.nvidia.com/cuda-gpus",
        ),
    ),
    Card(
        key="l40s",
        name="L40S",
        nvml_name="NVIDIA L40S",
        nvml_mib=46068,
        torch_mib=45486,
        capability=89,
        sm_count=142,
        sources=(
            "https://github.com/stepfun-ai/Step-Video-T2V/issues/8",
            "https://github.com/modal-labs/modal-client/pull/2797",
            (
                "https://computizer.com/products/"
                "nvidia-l40s-48gb-gddr6-graphics-card-for-ai-and-graphics-performance"
            ),
            "https://developer.nvidia.com/cuda-gpus",
        ),
    ),
    Card(
        key="h100",
        name="H100 80 GB",
        nvml_name="NVIDIA H100 80GB HBM3",
        nvml_mib=81559,
        torch_mib=81008,
        capability=90,
        sm_count=132,
        nvlink=True,
        sources=(
            "https://github.com/vllm-project/vllm/issues/27508",
            "https://github.com/NVIDIA/nccl/issues/1264",
            "https://github.com/Infrasys-AI/aisystem-docs/issues/15",
            "https://developer.nvidia.com/cuda-gpus",
        ),
    ),
    Card(
        key="h200",
        name="H200",
        nvml_name="NVIDIA H200",
        nvml_mib=143771,
        torch_mib=143156,
        capability=90,
        sm_count=132,
        nvlink=True,
        sources=(
            (
                "https://github.com/ai-bot-pro/achatbot/blob/"
                "859e21612de769164d8d1802d794ef8f87ace3c8/deploy/modal/src/llm/vllm/vlm/"
                "skywork_r1v.py"
            ),
            "https://github.com/sgl-project/sglang/issues/3196",
        ),
    ),
    Card(
        key="b200",
        name="B200",
        nvml_name="NVIDIA B200",
        nvml_mib=183359,
        torch_mib=182630,
        capability=100,
        sm_count=148,
        nvlink=True,
        sources=(
            "https://github.com/unslothai/unsloth/issues/3411",
            "https://github.com/NVIDIA/TensorRT-LLM/issues/10278",
            "https://github.com/pytorch/ao/pull/4002",
        ),
    ),
)


def parse_size(text: str) -> int | None:
    """Return the MiB of a size such as ``24G`` or ``24576M``; ``None`` for another text."""
    match = re.fullmatch(r"(\d{1,6})\s*([GM])(?:i?B)?", text.strip(), re.IGNORECASE)
    if match is None:
        return None
    return int(match[1]) * (1024 if match[2].upper() == "G" else 1)


_TOO_OLD = {"v100": 70, "titanv": 70, "p100": 60, "p40": 61, "1080ti": 61, "1080": 61, "k80": 37}
"""Cards that torch's builds for CUDA 13 have no kernels for, with their capabilities, times ten."""


def find_card(text: str) -> Card:
    """Return the card of a word such as ``h100``, or one of a size such as ``24G``.

    A size stands for the memory that torch sees, on a card that is otherwise an H100: of all cards
    it has the largest cuBLAS workspaces.

    Raises:
        UnknownCardError: there is no such card, or the size leaves no room for a context.
    """
    word = text.strip().lower()
    for card in CARDS:
        if word == card.key:
            return card
    if word in _TOO_OLD:
        major, minor = divmod(_TOO_OLD[word], 10)
        raise UnknownCardError(
            f"{text}: cards below compute capability 7.5 are not simulated, and it has"
            f" {major}.{minor}: torch's builds for CUDA 13 have no kernels for them"
        )
    mib = parse_size(text)
    if mib is None:
        raise UnknownCardError(
            f"{text}: no such card; give one of {', '.join(card.key for card in CARDS)}, or a size"
            " such as 24G"
        )
    name = f"a card of {text.strip()}"
    card = Card(word, name, f"simulated GPU of {text.strip()}", mib, mib, 90, 132)
    if mib <= card.context.context_mib:
        raise UnknownCardError(f"{text}: a CUDA context alone takes {card.context.context_mib} MiB")
    return card
