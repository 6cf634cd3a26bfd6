"""transformers is imported by one thread at a time, so by no module of the engine as that is imported itself."""

from __future__ import annotations

import subprocess
import sys

ON_THE_ENGINE_THREAD = (
    "engine.checkpoints.locate",
    "engine.checkpoints.source",
    "engine.models.rotations",
    "engine.models.tokenizer",
    "engine.analysis.open_model",
    "engine.analysis.spectra",
    "engine.analysis.decompositions",
    "engine.analysis.tables",
)


def test_what_the_engine_imports_for_weights_leaves_transformers_to_the_lock() -> None:
    code = f"import sys, {', '.join(ON_THE_ENGINE_THREAD)}; print('transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_while_one_thread_imports_it_another_one_waits_and_has_it_whole() -> None:
    code = (
        "import threading\n"
        "from engine.checkpoints.library_imports import IMPORTING\n"
        "from engine.models.rotations import rotation_of\n"
        "from engine.checkpoints.locate import find_source\n"
        "from engine.values.options import EngineOptions\n"
        "source = find_source('demo', EngineOptions(), lambda progress: None)\n"
        "outline = source.anatomy.outline\n"
        "def load():\n"
        "    with IMPORTING:\n"
        "        import transformers\n"
        "        transformers.LlamaModel\n"
        "thread = threading.Thread(target=load)\n"
        "thread.start()\n"
        "print(len(rotation_of(outline, outline.layers[0], source.settings(), source.tensors).frequencies))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "16\n", done.stderr
