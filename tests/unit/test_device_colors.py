"""A device has one color, in bars and as a curve."""

from __future__ import annotations

import pytest

from tui.kit.lines import TextStyle
from tui.kit.plot import CURVE_STYLES, mark_of
from tui.runs.views.device_colors import list_curve_marks, list_curve_styles, style_of_device

CPU, GPU, OTHER = TextStyle.OTHERS, TextStyle.ALLOCATED, TextStyle.CACHED


def test_a_device_has_one_color() -> None:
    assert [style_of_device(name) for name in ("cpu", "cuda:0", "cuda:1")] == [CPU, GPU, OTHER]
    assert style_of_device("CPU") is CPU
    assert style_of_device("cuda") is style_of_device("xpu:0") is GPU


@pytest.mark.parametrize(
    ("names", "styles"),
    [
        (["cpu", "cuda:0"], [CPU, GPU]),
        (["CUDA", "CPU", "overhead"], [GPU, CPU, TextStyle.CONTEXT]),
        (["loop", "one expression"], list(CURVE_STYLES[:2])),
        (["cpu float32", "cpu bfloat16", "cuda:0 float32"], list(CURVE_STYLES[:3])),
    ],
)
def test_curves_have_their_devices_colors(names: list[str], styles: list[TextStyle]) -> None:
    assert list_curve_styles(names) == styles


def test_a_single_curve_has_the_color_of_its_chart_s_device() -> None:
    assert list_curve_styles(["time"], "cpu") == [CPU]
    assert list_curve_styles(["time"]) == [CURVE_STYLES[0]]


def test_a_device_has_one_mark_in_every_chart() -> None:
    assert list_curve_marks(["cpu", "cuda:0"]) == [mark_of(0), mark_of(1)]
    assert list_curve_marks(["cuda:0", "CPU", "overhead"]) == [mark_of(1), mark_of(0), mark_of(2)]
    assert list_curve_marks(["cuda:1"]) == [mark_of(2)]
    several = ["cpu float32", "cpu bfloat16", "cuda:0"]
    assert list_curve_marks(several) == [mark_of(0), mark_of(1), mark_of(2)]
