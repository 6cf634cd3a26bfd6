"""The manual and the shells' completion say what the command line itself says."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tests.exporting import run
from tests.opening import run_apart
from tui.command_line import command
from tui.commands import VIEWS
from tui.key_table import bindings
from tui.manual import man_page

COMPLETE = "import sys; sys.argv = ['attn-tui']; from tui.command_line import main; main()"
"""The program, as a shell runs it to ask for words."""


def plain(roff: str) -> str:
    """Give roff's text without its escapes."""
    return re.sub(r"\\f[BIR]|\\&", "", roff).replace(r"\-", "-").replace(r"\e", "\\")


def test_every_command_option_and_key_is_in_the_manual() -> None:
    page = plain(man_page(command))
    context = click.Context(command)
    for name in command.list_commands(context):
        each = command.get_command(context, name)
        assert each is not None
        assert each.hidden or f".SS attn-tui {name}\n" in page
        for parameter in each.params:
            for option in parameter.opts if isinstance(parameter, click.Option) else ():
                assert re.search(rf"^[^\n]*{re.escape(option)}(?![\w-])", page, re.MULTILINE), option
    for view in VIEWS:
        assert f"\n{view} " in page
    for binding in bindings():
        described = "".join(c if c.isascii() else rf"\[u{ord(c):04X}]" for c in binding.description)
        assert described in page, binding.id


@pytest.mark.parametrize("view", VIEWS)
def test_the_help_of_export_says_what_a_view_cannot_do_without(view: str) -> None:
    """Without the option the command asks for it before it looks for a model."""
    text = " ".join(run("--help").stdout.partition("is needed by")[2].partition(".npz")[0].split())
    of_sentences, of_two, _ = re.split(r"; a (?:second model|file), ", text)
    line = run("./nowhere", view).stderr
    assert ("needs --text" in line) == (view in re.findall(r"\w+", of_sentences))
    assert ("needs --vs" in line) == (view in re.findall(r"\w+", of_two))
    assert ("give -o heads.npz" in line) == (view == "matrices")


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_nothing_to_say_against_the_manual() -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww"], input=man_page(command), capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert "ε of the energy rank" in done.stdout
    assert "attn-tui export MODEL VIEW" in re.sub("\x1b\\[\\d*m|.\x08", "", done.stdout)


EACH = """
import json, os, sys
import tui.command_line
os.chdir(sys.argv[1])
for line in json.loads(sys.argv[2]):
    if not os.fork():
        os.environ |= {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - (not line.endswith(" ")))}
        sys.argv = ["attn-tui"]
        tui.command_line.main()
    os.wait()
    os.write(1, b"--\\n")
"""
"""The program, forked for each half-typed line: what it begins with is imported once."""


def offered(*lines: str, folder: Path | None = None, **environment: str) -> list[list[str]]:
    """Give what bash would be told of half-typed lines whose last word is the one to complete."""
    answers = run_apart(
        EACH, folder or Path.cwd(), json.dumps(lines), _ATTN_TUI_COMPLETE="bash_complete", **environment
    )
    each = f"{answers}\n".split("--\n")[:-1]
    return [[word.partition(",")[2] for word in answer.splitlines()] for answer in each]


BASH = 'COMP_WORDS=(attn-tui export demo sp); COMP_CWORD=3; _attn_tui_completion attn-tui; echo "${COMPREPLY[@]}"'
"""Has bash complete a line."""


def test_commands_options_and_choices_are_completed() -> None:
    wanted = {
        "attn-tui exp": ["export"],
        "attn-tui --ver": ["--version"],
        "attn-tui export demo ran": ["ranks"],
        "attn-tui export demo ranks --matrix Q": ["Q", "QK"],
        "attn-tui export demo ranks --matrix q": ["Q", "QK"],
        "attn-tui demo --theme co": ["colour-blind", "colour-blind-light"],
        "attn-tui demo --dtype f": ["float32", "float16"],
        "attn-tui demo --theme textual-": ["textual-dark", "textual-light"],
        "attn-tui demo --device c": ["cpu", "cuda"],
        "attn-tui completion f": ["fish"],
        "attn-tui demo --no-c": ["--no-cache"],
        "attn-tui export ./some": ["./some"],
    }
    assert dict(zip(wanted, offered(*wanted), strict=True)) == wanted


def test_models_of_the_cache_and_folders_are_offered_as_models(tmp_path: Path) -> None:
    here = tmp_path / "here"
    for name in ("models--gpt2", "models--openai--gpt-oss", "models--half", "datasets--gpt3"):
        (here / "hub" / name / ("refs" if name.endswith("half") else "snapshots")).mkdir(parents=True)
    (here / "gpt-mine").mkdir()
    every = ["demo", "gpt2", "openai/gpt-oss", "gpt-mine/", "hub/"]
    lines = ("attn-tui export ", "attn-tui demo --vs ", "attn-tui gp")
    assert offered(*lines, folder=here, HF_HOME=str(here)) == [every, every, ["gpt2", "gpt-mine/"]]


def test_completing_imports_neither_numpy_nor_torch_nor_the_hub() -> None:
    heavy = "('torch', 'transformers', 'huggingface_hub', 'numpy', 'textual')"
    code = COMPLETE.replace("main()", "").rstrip("; ") + (
        "\nfrom tui.command_line import command\n"
        "try: command()\n"
        f"except SystemExit: print([name for name in {heavy} if name in sys.modules])\n"
    )
    for line, word in (("attn-tui ", "1"), ("attn-tui exp", "1"), ("attn-tui demo --d", "2")):
        answer = run_apart(code, _ATTN_TUI_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=word)
        assert answer.splitlines()[-1] == "[]"


@pytest.mark.parametrize(("shell", "ask"), [("bash", BASH), ("fish", "complete -C 'attn-tui export demo sp'")])
def test_a_shell_completes_with_the_script(shell: str, ask: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "attn-tui"
    python = shutil.which("python")
    program.write_text(f'#!/bin/sh\nPYTHONPATH={Path.cwd()} exec {python} -c "{COMPLETE}"\n')
    program.chmod(0o755)
    script = run_apart(
        f"import sys; sys.argv = ['attn-tui', 'completion', '{shell}']; from tui.command_line import main; main()"
    )
    path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [shell, "-c", f"{script}\n{ask}"], capture_output=True, text=True, env=os.environ | path, check=True
    )
    assert done.stdout.split() == ["spectrum"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script_that_it_can_read(shell: str) -> None:
    done = CliRunner().invoke(command, ["completion", shell], prog_name="attn-tui")
    assert done.exit_code == 0
    assert f"_ATTN_TUI_COMPLETE={shell}_complete" in done.output
    if shutil.which(shell) is not None:
        subprocess.run([shell, "-n"], input=done.output, text=True, check=True, capture_output=True)
