"""The types of transformers whose heads are proven."""

from __future__ import annotations

PROVEN_TYPES = frozenset({
    "afmoe", "albert", "apertus", "arcee", "aria_text", "audioflamingo3", "axk1", "bamba", "bart", "beam", "bert",
    "bert-generation", "bigbird_pegasus", "biogpt", "bitnet", "blenderbot", "blenderbot-small", "bloom",
    "camembert", "clip_text_model", "codegen", "cohere", "cohere2", "cohere2_moe", "cpmant", "ctrl", "cwm",
    "data2vec-text", "dbrx", "deberta", "deberta-v2", "deepseek_v2", "deepseek_v3", "deepseek_v32", "distilbert",
    "dots1", "dots3_note_text", "electra", "ernie", "ernie4_5", "ernie4_5_moe", "esm", "esmc", "eurobert",
    "exaone4", "exaone_moe", "falcon", "falcon_h1", "flaubert", "flex_olmo", "flint", "fuyu", "gemma", "gemma2",
    "gemma3", "gemma3_text", "gemma4", "gemma4_text", "gemma4_unified", "gemma4_unified_text", "git", "glm", "glm4",
    "glm4_moe", "glm4_moe_lite", "glm_moe_dsa", "glmasr", "got_ocr2", "gpt-sw3", "gpt2", "gpt_bigcode", "gpt_neo",
    "gpt_neox", "gpt_neox_japanese", "gpt_oss", "gptj", "granite", "granitemoe", "granitemoeshared", "helium",
    "hunyuan_v1_dense", "hunyuan_v1_moe", "hy_v3", "hy_v4", "hyperclovax", "internlm3", "iquestcoder", "jais2",
    "jamba", "kolibri1", "laguna", "layoutlm", "led", "lfm2", "lfm3", "llama", "llama4", "llama4_text",
    "longcat_flash", "luke", "m2m_100", "marian", "mbart", "megatron-bert", "mellum", "mimo_v2_flash", "minicpm3",
    "minimax", "minimax_m2", "minimax_m3_vl_text", "ministral", "ministral3", "mistral", "mixtral", "mllama",
    "modernbert", "modernbert-decoder", "modernvbert", "mpnet", "mpt", "mt5", "musicflamingo", "mvp", "nanochat",
    "nemotron", "nemotron_h", "nllb-moe", "olmo", "olmo2", "olmo3", "olmo_hybrid", "olmoe", "openai-gpt", "opt",
    "pegasus", "persimmon", "phi", "phi3", "phimoe", "plbart", "qwen2", "qwen2_audio", "qwen2_moe", "qwen3",
    "qwen3_5", "qwen3_5_moe", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_asr", "qwen3_moe", "qwen3_next", "rembert",
    "roberta", "roberta-prelayernorm", "roc_bert", "seed_oss", "smollm3", "solar_open", "stablelm", "starcoder2",
    "switch_transformers", "t5", "t5gemma", "tapas", "ultrabert", "ultravbert", "umt5", "vaultgemma", "voxtral",
    "xglm", "xlm", "xlm-roberta", "xlm-roberta-xl", "xmod", "youtu",
})  # fmt: skip
"""Types of which a test has taken a model apart by the rules and put its attention together again."""
