"""A child gets the simulated devices and no others; no other process can use their libraries."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.rehearsal import small_torch
from tests.tiers import VARIANT
from tui.rehearsal.device import build, prepare
from tui.rehearsal.device.installation import TorchInstallation
from tui.rehearsal.device.prepare import SimulatedDevice
from tui.rehearsal.device.settings import PREFIX, DeviceSettings

MIB = 1 << 20
STATE = PREFIX + "STATE"
USE = """
import ctypes, json, re, sys
torch = ctypes.CDLL(sys.argv[1])
at, size = ctypes.c_void_p(), ctypes.c_size_t

def resident():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) << 10

def mapped():
    found = (line.split()[-1] for line in open("/proc/self/maps"))
    return sorted({path for path in found if "nvidia" in path or "cuda" in path})

def allocate(bytes):
    assert torch.allocate(ctypes.byref(at), size(bytes)) == 0
    return at

def put(at, value, bytes, offset=0):
    assert torch.set(ctypes.c_void_p(at.value + offset), value, size(bytes)) == 0

def written(at, text, offset=0):
    assert torch.copy(ctypes.c_void_p(at.value + offset), text, size(len(text))) == 0

def read(at, bytes, offset=0):
    into = ctypes.create_string_buffer(bytes)
    assert torch.copy(into, ctypes.c_void_p(at.value + offset), size(bytes)) == 0
    return into.raw.hex()
"""


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> SimulatedDevice:
    torch = small_torch.install(tmp_path_factory.mktemp("site"))
    return SimulatedDevice(torch, prepare.build_once(torch, tmp_path_factory.mktemp("cache")))


def library(torch: TorchInstallation) -> Path:
    return torch.folder / "lib" / "libtorch_cuda.so"


COPIES = """
host = ctypes.create_string_buffer(64 << 20)
ctypes.memset(host, 7, 64 << 20)
at = allocate(640 << 20)
before = resident()
for offset in range(0, 640 << 20, 64 << 20):
    written(at, host, offset)
grown = resident() - before
print(json.dumps([grown, read(at, 3), read(at, 3, 32 << 20), read(at, 3, (640 << 20) - 3)]))
"""


def run(device: SimulatedDevice, code: str, env: Mapping[str, str]) -> Any:
    """Return what the last expression of a program prints as JSON, in a child."""
    command = [sys.executable, "-c", USE + code, str(library(device.torch))]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


@pytest.fixture
def env(device: SimulatedDevice, tmp_path: Path) -> dict[str, str]:
    settings = DeviceSettings(devices=3, context_ms=0)
    return {**os.environ, **device.variables(settings, tmp_path / "state", os.environ)}


COUNT = """
devices = ctypes.c_int()
status = torch.count(ctypes.byref(devices))
print(json.dumps([status, devices.value, mapped()]))
"""


def test_a_child_gets_the_simulated_devices_beside_nvidias_libraries(
    device: SimulatedDevice, env: dict[str, str]
) -> None:
    status, devices, mapped = run(device, COUNT, env)
    assert (status, devices) == (0, 3)
    assert not [path for path in mapped if "site" in path and "nvidia" in path]
    assert not [path for path in mapped if "libcudart.so" in path]


def test_any_other_process_gets_nvidias(device: SimulatedDevice) -> None:
    status, _, mapped = run(device, COUNT, os.environ)
    assert status == 999
    assert [path for path in mapped if path.endswith("nvidia/cu13/lib/libcudart.so.13")]


def test_what_a_user_preloads_and_searches_remains(device: SimulatedDevice, tmp_path: Path) -> None:
    inherited = {"LD_PRELOAD": "/usr/lib/a.so", "LD_LIBRARY_PATH": "/opt/lib"}
    added = device.variables(DeviceSettings(), tmp_path / "state", inherited)
    assert added["LD_PRELOAD"] == f"{device.libraries / build.PRELOAD}:/usr/lib/a.so"
    assert added["LD_LIBRARY_PATH"] == f"{device.libraries}:/opt/lib"
    assert added["SIMULATED_GPU_STATE"] == str(tmp_path / "state")


@pytest.mark.parametrize("name", [build.MAIN, build.NVML, build.PRELOAD, "libcudart.so.13"])
def test_the_libraries_refuse_a_process_that_no_launcher_started(
    device: SimulatedDevice, name: str
) -> None:
    env = {key: value for key, value in os.environ.items() if "SIMULATED_GPU" not in key}
    command = [
        sys.executable,
        "-c",
        "import ctypes, sys; ctypes.CDLL(sys.argv[1]); print('loaded')",
    ]
    done = subprocess.run(
        [*command, str(device.libraries / name)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 127
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(
        "simulated GPU: refused, because no launcher has set SIMULATED_GPU_STATE"
    )


@pytest.mark.parametrize("value", [0, 1, 255])
@pytest.mark.parametrize("bytes_at_once", [1000, MIB - 1, 64 * MIB, 640 * MIB])
def test_setting_memory_makes_none_of_it_resident(
    device: SimulatedDevice, env: dict[str, str], value: int, bytes_at_once: int
) -> None:
    code = f"""
before = resident()
at = allocate(640 << 20)
for offset in range(1, (640 << 20) - {bytes_at_once}, max({bytes_at_once}, 1 << 16)):
    put(at, {value}, {bytes_at_once}, offset)
print(resident() - before)
"""
    assert run(device, code, env) < 8 * MIB


def test_zeros_replace_what_was_copied_to_the_device(
    device: SimulatedDevice, env: dict[str, str]
) -> None:
    """At the ends of the range and within it, and nothing outside of it."""
    code = """
size_of = 3 << 20
at = allocate(size_of)
written(at, b"\\x07" * size_of)
put(at, 0, size_of - 200, 100)
ends = read(at, 101), read(at, 101, size_of - 101)
middle = read(at, 4096, 1 << 20)
put(at, 0, 50, 0)
print(json.dumps([*ends, middle, read(at, 100)]))
"""
    first, last, middle, start = run(device, code, env)
    assert first == "07" * 100 + "00"
    assert last == "00" + "07" * 100
    assert middle == "00" * 4096
    assert start == "00" * 50 + "07" * 50


@VARIANT
def test_copies_onto_the_device_are_stored(device: SimulatedDevice, env: dict[str, str]) -> None:
    grown, first, middle, last = run(device, COPIES, env)
    assert (first, middle, last) == ("070707", "070707", "070707")
    assert grown > 600 * MIB


@pytest.fixture
def storing_little(env: dict[str, str]) -> dict[str, str]:
    return {**env, **DeviceSettings(stored=0, context_ms=0).variables(Path(env[STATE]))}


def test_large_copies_take_no_memory_of_the_host_if_they_are_not_stored(
    device: SimulatedDevice, storing_little: dict[str, str]
) -> None:
    grown, *read = run(device, COPIES, storing_little)
    assert read == ["000000"] * 3
    assert grown < 8 * MIB


READS = """
def launch():
    assert torch.launch() == 0

def moved(to, to_offset, at, offset, bytes):
    place = ctypes.c_void_p(to.value + to_offset)
    assert torch.copy(place, ctypes.c_void_p(at.value + offset), size(bytes)) == 0

at = allocate(2 << 20)
seven = b"\x07" * 64
"""


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        # What was just copied, and a part of it.
        (
            "written(at, seven); print(json.dumps([read(at, 64), read(at, 2, 9)]))",
            ["07" * 64, "0707"],
        ),
        # After a kernel: the same bytes again; but not a part of them, which it may have written.
        (
            "written(at, seven); launch(); print(json.dumps([read(at, 64), read(at, 8)]))",
            ["07" * 64, "00" * 8],
        ),
        # A number, which a kernel may have written where another was before.
        ("written(at, seven[:8]); launch(); print(json.dumps([read(at, 8)]))", ["00" * 8]),
        # A copy on the device of what can be read, and of what cannot.
        (
            "written(at, seven); moved(at, 4096, at, 0, 64); launch(); moved(at, 8192, at, 32, 32);"
            "print(json.dumps([read(at, 64, 4096), read(at, 32, 8192)]))",
            ["07" * 64, "00" * 32],
        ),
        # A copy onto it of what cannot be read; zeros; another value.
        (
            "written(at, seven); moved(at, 0, at, 4096, 64); print(json.dumps([read(at, 64)]))",
            ["00" * 64],
        ),
        ("written(at, seven); put(at, 0, 32); print(json.dumps([read(at, 64)]))", ["00" * 64]),
        ("written(at, seven); put(at, 5, 64); print(json.dumps([read(at, 64)]))", ["00" * 64]),
        # The host's memory is overwritten with zeros too.
        ("launch(); print(json.dumps([read(at, 64, 100)]))", ["00" * 64]),
        # More places than the table starts with.
        (
            "for i in range(4000): written(at, i.to_bytes(2, 'little') * 32, i * 512)\nlaunch()\n"
            "print(json.dumps([read(at, 64, i * 512)[:4] for i in (1, 2, 3999)]))",
            ["0100", "0200", "9f0f"],
        ),
    ],
)
def test_a_device_that_stores_little_reads_as_zeros_what_a_kernel_may_have_written(
    device: SimulatedDevice, storing_little: dict[str, str], code: str, printed: list[str]
) -> None:
    assert run(device, READS + code, storing_little) == printed


ENDED_THREAD = """
#include <pthread.h>
#include <stdlib.h>
extern int PyGILState_Ensure(void);
extern void PyGILState_Release(int);
extern int usleep(unsigned);
static void unwound(void *nothing) { abort(); }
static void *use_interpreter(void *nothing) {
    pthread_cleanup_push(unwound, NULL);
    for (;;) { PyGILState_Release(PyGILState_Ensure()); usleep(100); }
    pthread_cleanup_pop(0);
    return NULL;
}
int start(void) { pthread_t thread; return pthread_create(&thread, NULL, use_interpreter, NULL); }
"""
ENDING = """
import ctypes, sys, time
class Waiting:
    # Python deletes it while it ends: the thread then asks for the lock, and is ended.
    def __del__(self, sleep=time.sleep): sleep(1)
waiting = Waiting()
assert ctypes.PyDLL(sys.argv[1]).start() == 0
sys.exit(7)
"""


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python itself makes such threads wait")
def test_the_exit_code_survives_a_thread_that_outlives_the_interpreter(
    env: dict[str, str], tmp_path: Path
) -> None:
    # As a thread of torch's autograd, which Python would end below a C++ destructor: code 134.
    source, thread = tmp_path / "thread.c", tmp_path / "thread.so"
    source.write_text(ENDED_THREAD, encoding="ascii")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", thread, source, "-lpthread"], check=True)
    command = [sys.executable, "-c", ENDING, str(thread)]
    alone = subprocess.run(command, env=os.environ, capture_output=True, check=False)
    assert alone.returncode == -signal.SIGABRT
    rehearsed = subprocess.run(command, env=env, capture_output=True, check=False, timeout=60)
    assert rehearsed.returncode == 7, rehearsed.stderr
