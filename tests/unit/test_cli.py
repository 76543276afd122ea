"""The command line: what is read from it, what is refused, and what it imports."""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, replace
from importlib import import_module
from pathlib import Path

import pytest

from tests import ceilings
from tests.children.sessions import saying
from tests.in_process import run_here
from tests.tiers import VARIANT
from tui.app.start import WorkbenchOptions
from tui.cli import main, program
from tui.cli.completion import SHELLS
from tui.cli.program import COMMANDS, parse, parser, resolve_passed
from tui.headless.compare import choose_flags, format_flags, parse_flag_setting
from tui.hosts.choice import HostChoice
from tui.kit.command_line.output import UsageError, nearest
from tui.kit.command_line.values import PythonChoice, python_at, python_of, resolve, whole_number
from workloads.protocol.results import FlagInfo


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tui", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture
def _ready_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a runner without torch that says only that it is ready: nothing runs here."""
    monkeypatch.setenv("GPU_WORKBENCH_PYTHON", saying(tmp_path))


@pytest.fixture
def _ceilings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ceilings.keep(tmp_path / "state")
    monkeypatch.setenv("GPU_WORKBENCH_STATE", str(tmp_path / "state"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cudnn.benchmark=off,on", ("cudnn.benchmark", (False, True))),
        ("mkldnn.enabled=on,on", ("mkldnn.enabled", (True, True))),
        ("mkldnn.enabled=True, false", ("mkldnn.enabled", (True, False))),
        (
            "cuda.matmul.fp32_precision=ieee,tf32",
            ("cuda.matmul.fp32_precision", (False, True)),
        ),
    ],
)
def test_a_flag_is_a_name_and_two_settings(text: str, expected: object) -> None:
    assert parse_flag_setting(text) == expected


@pytest.mark.parametrize("text", ["", "x", "x=on", "x=on,off,on", "=on,off"])
def test_a_flag_of_another_form_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match="=off,on"):
        parse_flag_setting(text)


def test_parameters_are_names_and_values() -> None:
    actual = parse(["run", "matmul", "--set", "n=64", "--set", "dtype=bfloat16", "--quick"]).values
    assert dict(actual["parameters"]) == {"n": "64", "dtype": "bfloat16"}
    assert actual["budget"] == "quick"


@pytest.mark.parametrize("place", [0, 1])
def test_python_stands_before_or_after_the_command(place: int, tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.touch(0o755)
    argv = ["run", "matmul"]
    argv[place:place] = ["--python", str(program)]
    chosen, _problems = resolve(parse(argv).values["overrides"])
    assert python_of(chosen) == PythonChoice(str(program), "--python")


def test_only_flags_with_an_effect_are_offered() -> None:
    acts = FlagInfo("mkldnn.enabled", "oneDNN", "", ("cpu",), True, True, None)
    precision = replace(acts, name="mkldnn.conv.fp32_precision")
    absent = replace(acts, name="cudnn.benchmark", unavailable="a build without CUDA")
    assert choose_flags([absent, acts, precision], "only") == [acts, precision]
    assert choose_flags([absent, acts, precision], "none") == [acts]
    assert format_flags("conv2d", [replace(precision, about="Rounds inputs.")], 80) == [
        "conv2d: --flag compares two settings of one of these flags",
        "",
        "  mkldnn.conv.fp32_precision=ieee,bf16",
        "    Rounds inputs.",
    ]
    (line,) = format_flags("conv2d", [], 80)
    assert line == "conv2d: no flag that acts on it has an effect here"


def test_the_folder_of_an_environment_stands_for_its_python(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "python"
    program.parent.mkdir()
    program.touch(0o755)
    assert python_at(str(tmp_path)) == str(program)


def test_a_python_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no program there"):
        python_at(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["run"], "name workloads, or give --group or --all"),
        (["run", "nonesuch"], "no workload nonesuch: gpu-workbench list shows all"),
        (["run", "matmull"], "no workload matmull (did you mean matmul?)"),
        (["code", "matmull"], "no workload matmull (did you mean matmul?)"),
        (["code", "health"], "health is a group: name one of "),
        (["run", "health"], "; run --group health runs all"),
        (["list", "matmull"], "no workload or group matmull (did you mean matmul?)"),
        (["code"], "code: name one workload, such as gpu-workbench code matmul > matmul.py"),
        (["run", "--group", "x"], "no group x: one of health, flags"),
        (["run", "matmul", "--set", "n"], "give a name and a value"),
        (["run", "matmul", "--set", "m=1"], "no parameter m: one of cache, dtype, n"),
        (["run", "matmul", "--set", "n=0"], "whole number, 1 to 65536"),
        (["compare", "conv2d", "--flag", "x=on,off"], "no flag x: one of cudnn.enabled"),
        (["compare", "conv2d", "--flag", "x=on,off", "--pairs", "0"], "at least 1"),
        (
            ["compare", "conv2d", "--flag", "cudnn.benchmark=maybe,on"],
            "settings are off and on, not maybe",
        ),
        (
            ["compare", "conv2d", "--flag", "x.fp32_precision=tf32,a"],
            "settings are ieee and tf32, not a",
        ),
        (["compare", "conv2d", "--flag", "x=on"], "give a name and two settings, such as x=off,on"),
        ([], "needs a terminal"),
    ],
)
@pytest.mark.usefixtures("_ready_at_once")
def test_wrong_usage_is_one_line_and_exit_code_2(argv: list[str], says: str) -> None:
    done = run_here(*argv)
    assert done.code == 2
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert says in line


@pytest.mark.usefixtures("_ready_at_once")
def test_without_a_flag_a_comparison_lists_those_that_act() -> None:
    done = run_here("compare", "conv2d")
    assert done.code == 0
    assert done.out == "conv2d: no flag that acts on it has an effect here\n"


@pytest.mark.usefixtures("_ready_at_once")
def test_a_device_that_torch_has_not_is_one_line_and_exit_code_1() -> None:
    done = run_here("run", "matmul", "--device", "cuda:7")
    assert done.code == 1
    (line,) = done.err.splitlines()
    assert "no device cuda:7: torch has" in line


@pytest.mark.usefixtures("_ready_at_once")
def test_list_shows_the_parameters_of_what_is_named() -> None:
    *every, hint = run_here("list").out.splitlines()
    assert "list NAME" in hint
    assert not [line for line in every if " = " in line]
    heading, name, *parameters = run_here("list", "matmul").out.splitlines()
    assert heading in every
    assert name.split()[0] == "matmul"
    assert parameters[0].split()[:2] == ["n", "="]
    assert {heading, *parameters} <= set(run_here("list", "health").out.splitlines())


def test_list_prints_the_shape_of_the_catalogue() -> None:
    actual = json.loads(run_here("list", "--json").out)
    assert actual["schema"] == 1
    names = [item["name"] for item in actual["workloads"]]
    assert names[0] == "matmul"
    assert {"matmul", "conv2d"} <= set(names)
    matmul = next(item for item in actual["workloads"] if item["name"] == "matmul")
    assert (matmul["group"], matmul["group_question"]) == ("health", "Is this machine healthy?")
    assert matmul["parameters"]["dtype"]["choices"][0] == "float32"


def complaints(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines of stderr; on a busy machine a worker may say nothing for a while."""
    silent = (": no word from the worker ", ": still computing after ")
    return [line for line in done.stderr.splitlines() if not any(words in line for words in silent)]


@VARIANT
@pytest.mark.usefixtures("_ceilings")
def test_run_prints_the_shape_of_the_results_and_nothing_else_in_a_pipe() -> None:
    done = run("run", "matmul", "--device", "cpu", "--quick", "--set", "n=128", "--json")
    assert (done.returncode, complaints(done)) == (0, [])
    actual = json.loads(done.stdout)
    (result,) = actual["results"]
    assert actual["schema"] == 1
    assert actual["environment"]["torch"]
    assert result["status"] == "ok"
    assert result["parameters"] == {"n": 128, "dtype": "float32", "cache": "warm"}
    assert set(result) >= {"workload", "device", "flags", "reason", "time", "rates", "limit"}
    assert set(result["time"]) >= {
        "median_s", "q1_s", "q3_s", "min_s", "p95_s", "ci95_s", "blocks", "calls",
        "first_call_s", "stopped_by",
    }  # fmt: skip
    assert set(result["limit"]) >= {"name", "value", "fraction", "source"}
    assert "measured on this machine" in result["limit"]["source"]
    conditions = result["conditions"]
    assert conditions["threads"] >= 1
    assert conditions["versions"]["torch"] == actual["environment"]["torch"]
    assert conditions["flags"] == result["flags"]
    assert conditions["unavailable"]["throttle"] == "only NVIDIA GPUs are sampled"


@VARIANT
@pytest.mark.usefixtures("_ceilings")
def test_compare_prints_the_shape_of_a_comparison() -> None:
    arguments = ("--flag", "mkldnn.enabled=on,off", "--pairs", "3", "--device", "cpu", "--json")
    done = run("compare", "conv2d", *arguments, "--set", "size=32", "--set", "channels=8")
    assert (done.returncode, complaints(done)) == (0, [])
    actual = json.loads(done.stdout)
    assert (actual["schema"], actual["pairs"]) == (1, 3)
    assert [arm["setting"] for arm in actual["arms"]] == [True, False]
    assert actual["break_even_calls"] is None
    assert actual["unavailable"]["break_even_calls"]


def test_devices_prints_the_host_and_a_reason_where_there_is_no_driver() -> None:
    actual = json.loads(run("devices", "--json").stdout)
    assert actual["schema"] == 1
    assert actual["host"]["cpu"]["cores_usable"] >= 1
    assert actual["driver"]["version"] or actual["driver"]["error"]
    assert set(actual["devices"][0] if actual["devices"] else {"id"}) >= {"id"}


def test_doctor_names_each_check_and_ends_with_0_where_none_failed() -> None:
    done = run("doctor", "--json")
    checks = json.loads(done.stdout)["checks"]
    assert {"python", "torch", "NVML", "malloc"} <= {check["name"] for check in checks}
    failed = [check for check in checks if check["outcome"] == "failed"]
    assert done.returncode == (1 if failed else 0)
    assert all(check["advice"] for check in checks if check["outcome"] != "passed")


@pytest.mark.parametrize(
    ("code", "forbidden"),
    [
        (
            "import tui.cli.main; from tui.cli import program; program.parser([]).format_help()",
            "textual rich torch pynvml psutil",
        ),
        (
            "import tui.runs.state.state, tui.runs.session.session",
            "textual rich torch pynvml psutil",
        ),
        (
            "import tui.runs.views.result_text, tui.doctor.doctor",
            "textual torch pynvml psutil",
        ),
        ("import tui.monitor.monitor", "textual rich torch"),
        ("import tui.app.workbench", "torch pynvml psutil numpy"),
        ("import workloads.protocol.messages, workloads.catalog", "torch textual tui psutil"),
    ],
)
def test_what_a_fresh_interpreter_has_imported(code: str, forbidden: str) -> None:
    look = f"{code}; import sys; print([n for n in {forbidden.split()!r} if n in sys.modules])"
    out = subprocess.check_output([sys.executable, "-c", look], text=True)
    assert out.strip() == "[]"


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_print_and_end_with_0(argument: str) -> None:
    done = run_here(argument)
    assert done.code == 0
    assert "gpu-workbench" in done.out


def parsers(actual: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its subcommands."""
    yield actual
    for action in actual._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from parsers(child)


def test_every_option_says_what_it_is_for() -> None:
    silent = [
        (each.prog, action.option_strings or action.dest)
        for each in parsers(parser(first="serve"))
        for action in each._actions
        if not action.help and not isinstance(action, argparse._SubParsersAction)
    ]
    assert silent == []


def test_the_help_of_a_command_ends_with_an_example() -> None:
    examples = {name for name, listed in program.COMMANDS.items() if listed.example}
    assert examples == {"run", "compare", "snapshot", "watch", "rehearse", "devices"}
    for name in examples:
        listed = program.COMMANDS[name]
        last = " ".join(parser([name], first=name).commands[name].format_help().split())
        assert last.endswith(f"gpu-workbench {name} {listed.example} (more in {listed.docs})")
        words = [name, *shlex.split(listed.example)]
        assert parse(words).name == name


@pytest.mark.parametrize("command", program.COMMANDS)
def test_the_help_of_each_command_can_be_formatted(command: str) -> None:
    for each in parsers(parser(first=command)):
        assert each.format_help().startswith(f"usage: {each.prog}")


NEW = """
import sys
from dataclasses import dataclass
from tui.kit.command_line.options import add_common
from tui.kit.command_line.options import Subcommand

@dataclass(frozen=True, slots=True)
class GreetOptions:
    json: bool = False

def greet(options):
    sys.stdout.write(f"hello, as JSON: {options.json}\\n")
    return 5

SUBCOMMAND = Subcommand(GreetOptions, add_common, greet)
"""


@pytest.fixture
def greet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Add a command's module and provide the command's name."""
    (tmp_path / "greet.py").write_text(NEW)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(program.COMMANDS, "greet", program.ListedCommand("greet", "greets"))
    yield "greet"
    sys.modules.pop("greet", None)


def test_a_module_more_is_a_command_more(greet: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    # A longer line goes on further to the right.
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("    ")]
    rows = [line.split()[0] for line in lines if not line.startswith("     ")]
    assert rows[-1] == greet
    assert parse([greet, "--json"]).carry_out() == 5
    assert capsys.readouterr().out == "hello, as JSON: True\n"
    with pytest.raises(UsageError, match=f"did you mean {greet}"):
        parse(["great"])


IMPORTED = """
import sys
from tui.cli.main import main
sys.argv[0] = "gpu-workbench"
try:
    main()
except SystemExit:
    pass
sys.stderr.write(" ".join(sys.modules))
"""


def imported_by(*argv: str) -> set[str]:
    """Return the modules that a start with these arguments imports without a terminal."""
    command = [sys.executable, "-c", IMPORTED, *argv]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], set()),
        (["--readonly"], set()),
        (["--version"], set()),
        (["config", "--path"], {"config"}),
        (["--ascii", "run", "--help"], {"run"}),
        (["code", "--help"], {"code"}),
        (["serve", "--port", "x"], {"serve"}),
        (["--help"], set()),
    ],
)
def test_only_the_command_asked_for_is_imported(argv: list[str], expected: set[str]) -> None:
    actual = imported_by(*argv)
    assert {name for name, each in COMMANDS.items() if each.module in actual} == expected
    assert not actual & {"textual", "torch", "pynvml", "psutil", "numpy"}
    assert expected or "rich" not in actual


def test_what_stands_before_a_command_is_no_option_of_it() -> None:
    # Hosts mean the same before a command and after it.
    shared = {"overrides", "files", *(field.name for field in fields(HostChoice))}
    screen = {field.name for field in fields(WorkbenchOptions)} - shared
    for name in COMMANDS:
        options = import_module(COMMANDS[name].module).SUBCOMMAND.options
        assert not screen & {field.name for field in fields(options)}, name


def test_a_command_receives_functions_in_fields_of_its_options() -> None:
    for name, listed in COMMANDS.items():
        options = import_module(listed.module).SUBCOMMAND.options
        assert {*listed.passes} <= {field.name for field in fields(options)}, name
        assert all(callable(each) for each in resolve_passed(listed.passes).values()), name


def test_a_plain_start_does_without_argparse() -> None:
    actual = imported_by()
    assert "tui.app.start" in actual
    assert not actual & {"argparse", "tui.cli.program", "tui.kit.command_line.options", "asyncio"}


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["rnu"], "no command rnu (did you mean run?); see gpu-workbench --help"),
        (["--themee", "x"], "no option --themee (did you mean --theme?)"),
        (["run", "--devcie", "cpu"], "no option --devcie (did you mean --device?); see gpu-workb"),
        (["run", "--quik", "matmul"], "no option --quik (did you mean --quick?)"),
        (["run", "--theme", "x"], "--theme is for the workbench and not for this command"),
        (["run", "--zzz"], "no option --zzz; see gpu-workbench run --help"),
        (["config", "x"], "too many arguments: x"),
    ],
)
def test_a_wrong_name_is_told_with_the_nearest_one(argv: list[str], says: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(argv)
    assert says in str(error.value)
    assert "one of" not in str(error.value)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("mat", "matmul"),
        ("MATMUL", "matmul"),
        ("sotfmax", "softmax"),
        ("layers", "a_layers"),
    ],
)
def test_a_part_of_a_name_or_a_few_wrong_letters_lead_to_it(typed: str, meant: str) -> None:
    known = ["transfer", "matmul", "matmul_sweep", "softmax", "a_layers"]
    assert nearest(typed, known) == meant
    assert nearest("xyz", known) is None


def test_how_a_screen_looks_may_stand_after_the_command_that_opens_it() -> None:
    options = ["--theme", "dracula", "--ascii", "--no-mouse"]
    after = parse(["demo", *options])
    assert after.values["overrides"] == {"theme": "dracula", "ascii": True, "mouse": False}
    assert parse([*options, "demo"]).values["overrides"] == after.values["overrides"]


REQUIRED = {
    "code": ["matmul"],
    "compare": ["conv2d", "--flag", "cudnn.benchmark=on,off"],
    "completion": ["bash"],
    "replay": ["x"],
    "results": ["list"],
    "snapshot": ["x"],
}
OF_THE_WORKBENCH = (
    ("--python", sys.executable),
    ("--workloads", __file__),
    ("--theme", "dracula"),
    ("--ascii",),
    ("--no-mouse",),
    ("--refresh", "2"),
    ("--device", "0"),
    ("--readonly",),
    ("--present", "health"),
    ("--snapshot", "x"),
    ("--oom-text", "x"),
    ("--memory", "1GiB"),
    ("--record", "x"),
    ("--redact",),
    ("--no-store",),
    ("--host", "gpu1"),
    ("--no-here",),
    ("--slurm",),
    ("--transport", "reach {host}"),
    ("--host-python", "gpu1=python3"),
)


def test_an_option_before_a_command_is_the_commands_or_is_refused() -> None:
    """Ignored in silence, ``--memory 1GiB snapshot FILE`` would read with another limit."""
    program = parser([])
    first = {
        flag: each.option_strings[0] for each in program.arguments for flag in each.option_strings
    }
    known = {flag for each in program.arguments for flag in each.option_strings}
    assert {words[0] for words in OF_THE_WORKBENCH} == known - {"-h", "--help", "--version"}
    for name in sorted({*COMMANDS} - {"serve"}):
        more = REQUIRED.get(name, [])
        for words in OF_THE_WORKBENCH:
            before = outcome([*words, name, *more])
            assert before == outcome([name, *more, *words]) or first[words[0]] in before, (
                name,
                words,
            )


def outcome(argv: list[str]) -> str:
    """Return the outcome, or the refusal, in words."""
    try:
        return str(sorted(parse(argv).values.items()))
    except UsageError as error:
        return str(error)


def test_where_an_option_goes_is_said() -> None:
    words = outcome(["--memory", "1GiB", "snapshot", "x"])
    assert words.startswith("--memory goes after the command: gpu-workbench snapshot --memory")
    words = outcome(["--readonly", "list"])
    assert words.startswith("--readonly is for the workbench and not for this command")
    assert outcome(["--theme", "dracula", "config"]) == outcome(["config", "--theme", "dracula"])
    assert "dracula" in outcome(["config", "--theme", "dracula"])


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_gets_code_that_knows_commands_options_and_workloads(shell: str) -> None:
    done = run_here("completion", shell)
    assert done.code == 0
    for word in ("gpu-workbench", "replay", "careful", "matmul"):
        assert word in done.out
    assert "dracula" in done.out
    if shell == "bash":
        line = "gpu-workbench run matm"
        asks = f'COMP_WORDS=({line}); COMP_CWORD=2; _shtab_gpu_workbench; echo "${{COMPREPLY[@]}}"'
        bash = ["bash", "-c", f"{done.out}\n{asks}"]
        actual = subprocess.run(bash, capture_output=True, text=True, check=True, timeout=60)
        assert {"matmul", "matmul_sweep"} <= set(actual.stdout.split())
        assert "transfer" not in actual.stdout


def test_ctrl_c_in_the_import_of_a_command_is_exit_code_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_arguments: object) -> int:
        raise RuntimeError("Error calling __set_name__") from KeyboardInterrupt()

    monkeypatch.setattr("tui.cli.main._run", interrupted)
    assert main.main() == 130
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("text", ["x", "", "1.5", "1e3", "١"])
def test_what_is_no_whole_number_is_refused_with_its_option(text: str) -> None:
    assert whole_number("--top")(" 12 ") == 12
    with pytest.raises(UsageError, match=rf"^--top {text}: give a whole number$"):
        whole_number("--top")(text)
