"""The help and the completion of shells agree with the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.exporting import run
from tests.opening import run_apart
from tests.terminal import COMMAND
from tui.cli.commands import VIEWS


def test_the_help_of_export_says_what_a_view_cannot_do_without() -> None:
    """Without the option the command asks for it before it looks for a model."""
    text = " ".join(run("--help").stdout.partition("is needed by")[2].partition(".npz")[0].split())
    of_sentences, of_two, _ = re.split(r"; a (?:second model|file), ", text)
    for view in VIEWS:
        line = run("./nowhere", view).stderr
        assert ("needs --text" in line) == (view in re.findall(r"\w+", of_sentences))
        assert ("needs --vs" in line) == (view in re.findall(r"\w+", of_two))
        assert ("give -o heads.npz" in line) == (view == "matrices")


EACH = """
import json, os, sys
import tui.cli.command_line
os.chdir(sys.argv[1])
for line in json.loads(sys.argv[2]):
    if not os.fork():
        os.environ |= {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split()) - (not line.endswith(" ")))}
        sys.argv = ["attn-tui"]
        tui.cli.command_line.main()
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


def test_commands_options_and_choices_are_completed() -> None:
    wanted = {
        "attn-tui exp": ["export"],
        "attn-tui --ver": ["--version"],
        "attn-tui export demo ran": ["ranks"],
        "attn-tui export demo ranks --matrix q": ["q", "qk"],
        "attn-tui demo --dtype f": ["float32", "float16"],
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


@pytest.mark.parametrize(("word", "line"), [("--help", ""), ("--version", ""), ("", "attn-tui "), ("", "attn-tui exp")])
def test_help_version_and_completion_import_nothing_heavy(word: str, line: str) -> None:
    heavy = "('torch', 'transformers', 'huggingface_hub.hf_api', 'numpy', 'textual')"
    code = (
        f"import sys; sys.argv = ['attn-tui', '{word}']\n"
        "from tui.cli.command_line import command\n"
        "try: command()\n"
        f"except SystemExit: print([name for name in {heavy} if name in sys.modules])\n"
    )
    completing = {"_ATTN_TUI_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": "1"} if line else {}
    assert run_apart(code, **completing).splitlines()[-1] == "[]"


def test_bash_completes_with_the_script() -> None:
    script = subprocess.check_output([COMMAND], text=True, env=os.environ | {"_ATTN_TUI_COMPLETE": "bash_source"})
    environment = os.environ | {"PATH": f"{Path(COMMAND).parent}:{os.environ['PATH']}"}
    asked = "COMP_WORDS=(attn-tui export demo sp); COMP_CWORD=3; _attn_tui_completion attn-tui; echo ${COMPREPLY[@]}"
    printed = subprocess.check_output(["bash", "-c", f"{script}\n{asked}"], text=True, env=environment)
    assert printed.split() == ["spectrum"]
