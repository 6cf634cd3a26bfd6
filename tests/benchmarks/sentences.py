"""The time of long sentences by their number of tokens: ``python -m tests.benchmarks.sentences``.

The models have random weights, one with GPT-2 small's shape and a small one with rotary positions. Each line comes from
a separate process: seconds to read the sentence, for one layer's maps, for another layer's in the same memory, and for
the means over all layers. A test measures the memory (`tests.engine.models.test_sentence_memory`).
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.models.model_loader import load_reader
from engine.values.options import limit_threads
from tests.benchmarks.machine import apart, machine

WORDS = 1000
SHORT = "w1 w2 w3"

GPT2, ROTARY = "GPT-2 small", "rotary, 4 layers × 8 heads"
LENGTHS = {GPT2: (128, 512, 1024, 2048), ROTARY: (1024, 2048, 4096, 8192)}

MOST_AVERAGED = 1e9
"""The means over all layers are measured up to so many weights."""


def build(name: str, folder: Path) -> None:
    """Save a model with random weights, and a tokenizer with the words ``w0``, ``w1`` and so on."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers

    torch.manual_seed(0)
    config: Any = (
        transformers.GPT2Config(n_positions=LENGTHS[GPT2][-1], vocab_size=WORDS, bos_token_id=0, eos_token_id=0)
        if name == GPT2
        else transformers.LlamaConfig(
            vocab_size=WORDS, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=8,
            num_key_value_heads=8, max_position_embeddings=LENGTHS[ROTARY][-1],
        )
    )  # fmt: skip
    transformers.AutoModel.from_config(config).save_pretrained(folder)
    words: Any = Tokenizer(models.WordLevel({f"w{number}": number for number in range(WORDS)}, unk_token="w0"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="w0").save_pretrained(folder)


def measure(folder: str, tokens: int) -> tuple[float, float, float, float]:
    """Read a sentence and compute maps of it in this process; give the seconds of a line."""
    limit_threads(None)
    from engine.checkpoints.locate import locate
    from engine.checkpoints.source import FolderSource

    def timed(work: Callable[[], Any]) -> tuple[Any, float]:
        start = time.perf_counter()
        return work(), time.perf_counter() - start

    source = FolderSource(locate(folder))
    reader = load_reader(source, "cpu", "auto")
    layers = [layer.name for layer in source.anatomy.outline.layers]
    reader.read(SHORT, lambda: None)
    reader.layer_maps(layers[0])  # the first sentence loads libraries
    sentence, read = timed(lambda: reader.read(" ".join(f"w{17 * n % WORDS}" for n in range(tokens)), lambda: None))
    assert len(sentence.ids) == tokens
    _, first = timed(lambda: reader.layer_maps(layers[0]))
    _, second = timed(lambda: reader.layer_maps(layers[1]))
    mean = float("nan")
    if sum(layer.heads for layer in source.anatomy.outline.layers) * tokens**2 <= MOST_AVERAGED:
        _, mean = timed(lambda: reader.layer_maps(layers[0].stack))
    return read, first, second, mean


def main() -> None:
    print(machine())
    for name, lengths in LENGTHS.items():
        print(f"{name:<28}" + "".join(f"{title:>11}" for title in ("tokens", "read", "maps", "next", "mean")))
        with tempfile.TemporaryDirectory() as folder:
            build(name, Path(folder))
            for tokens in lengths:
                spent = apart(measure, folder, tokens)
                seconds = "".join(f"{'—':>11}" if math.isnan(each) else f"{each:9.2f} s" for each in spent)
                print(f"{'':<28}{tokens:>11}{seconds}", flush=True)


if __name__ == "__main__":
    main()
