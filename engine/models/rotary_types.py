"""Which types of transformers turn queries and keys by their positions, and how: what `rotations` reads."""

from __future__ import annotations

HALVES = frozenset(
    {
        "afmoe", "apertus", "arcee", "aria_text", "bamba", "beam", "bitnet", "chameleon", "cohere_compass_text",
        "cosmos3_edge_text", "csm", "csm_depth_decoder_model", "cwm", "dbrx", "deepseek_ocr2_text", "dia_decoder",
        "dia_encoder", "diffllama", "diffusion_gemma_text", "doge", "dots1", "embedding_gemma2_text",
        "emu3_text_model", "esm", "esmc", "eurobert", "exaone4", "exaone_moe", "falcon", "falcon_h1", "flex_olmo",
        "flint", "gemma", "gemma2", "gemma3_text", "gemma3n_text", "gemma4_text", "gemma4_unified_text", "glm4_moe",
        "glm4v_moe_text", "glm_image_text", "gpt_neox", "gpt_neox_japanese", "gpt_oss", "granite",
        "granite4_vision_text", "granite_docling_text", "granite_swa", "granitemoe", "granitemoe_swa",
        "granitemoehybrid", "granitemoeshared", "gte", "higgs_audio_v2", "hunyuan_v1_dense", "hunyuan_v1_moe",
        "hunyuan_vl_text", "hy_v3", "hyperclovax", "idefics", "jais2", "jina_embeddings_v3", "kolibri1",
        "kyutai_speech_to_text", "laguna", "lfm2", "lfm2_moe", "lfm3", "llama", "mellum", "mimo_v2_flash", "minimax",
        "minimax_m2", "minimax_m3_vl_text", "ministral", "ministral3", "mistral", "mixtral", "mllama_text_model",
        "modernbert", "modernbert-decoder", "molmo2_text", "moshi", "muse_glimmer_text", "muse_spark_text",
        "nanochat", "nemotron", "neomme", "nomic_bert", "olmo", "olmo2", "olmo3", "olmo_hybrid", "olmoe",
        "paddleocr_vl_text", "persimmon", "phi", "phi3", "phi4_multimodal", "phimoe", "pocket_tts", "qwen2",
        "qwen2_5_omni_talker", "qwen2_5_omni_text", "qwen2_5_vl_text", "qwen2_moe", "qwen2_vl_text", "qwen3",
        "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe", "qwen3_next", "qwen3_omni_moe_talker_code_predictor",
        "qwen3_omni_moe_talker_text", "qwen3_omni_moe_text", "qwen3_vl_moe_text", "qwen3_vl_text", "qwen4_exp_text",
        "recurrent_gemma", "seed_oss", "smollm3", "solar_open", "stablelm", "starcoder2", "step3p5",
        "t5_gemma_module", "t5gemma2_decoder", "t5gemma2_text", "ultrabert", "unlimited_ocr_text", "vaultgemma",
        "zamba2",
    }
)  # fmt: skip
"""Types that turn the first half of the dimensions they turn against the second."""

NEIGHBOURS = frozenset(
    {
        "blt_patcher", "codegen", "cohere", "cohere2", "cohere2_moe", "deepseek_v2", "ernie4_5", "ernie4_5_moe",
        "ernie4_5_vl_moe_text", "glm", "glm4", "glm4v_text", "glm_ocr_text", "gptj", "helium", "llama4_text",
        "moonshine", "moonshine_streaming", "openai_privacy_filter", "roformer",
    }
)  # fmt: skip
"""Types that turn neighbouring dimensions against each other."""

REORDERING = frozenset(
    {
        "axk1", "bailing_hybrid", "deepseek_v3", "deepseek_v32", "dots3_note_text", "glm4_moe_lite", "glm_moe_dsa",
        "longcat_flash", "mistral4", "mistral_large4_text", "youtu",
    }
)  # fmt: skip
"""Types that first put neighbours apart, into two halves, of queries and of keys, unless ``rope_interleave`` is false:
in the order of W_K's rows it is neighbours that are turned."""

LATENT = frozenset({"deepseek_v2", "hy_v4", "minicpm3"}) | REORDERING
"""Types of latent attention, whose heads' last dimensions are turned, and not the first."""

WITHOUT = frozenset({"moonshine_streaming_encoder"})
"""Parts of such models that turn nothing themselves."""

REFUSED = {
    "blt": "attends from patch to patch of bytes, whose distances are not those of tokens",
    "clvp_encoder": "turns values by their positions too, so that its OV is no one matrix",
    "deepseek_v4": "turns values as it does keys, and keys of several tokens together: its OV depends on distances too",
}
"""Types whose circuits at a distance of so many tokens are not products of their projections, and why."""

LEARNED = {"mistral_large4_text": "rotary_emb.alpha"}
"""Types that learn how fast they turn: the end of the name of the tensor whose exponential the frequencies take."""

KNOWN = HALVES | NEIGHBOURS | LATENT | WITHOUT

SLIDING_ALONE = frozenset(
    {"afmoe", "cohere2", "cohere2_moe", "exaone4", "exaone_moe", "flint", "kolibri1"}
)  # fmt: skip
"""Those of them that turn nothing in the layers that attend to the whole sentence."""

UNNAMED = {"codegen": "rotary_dim", "gptj": "rotary_dim", "roformer": ""}
"""Those whose frequencies are no module's, 10000^(−2i/w), and the setting of w; by none it is a head's width."""

FIXED = frozenset({"default", "linear", "llama3", "yarn", "proportional"})
"""Kinds of scaling whose frequencies do not change with the length of a sentence."""

BACKWARDS = frozenset({"nanochat"})
"""Those that turn queries and keys the other way."""

CHOSEN = {
    "esm": ("position_embedding_type", "rotary"), "falcon": ("alibi", False),
    "granitemoehybrid": ("position_embedding_type", "rope"), "zamba2": ("use_mem_rope", True),
}  # fmt: skip
"""Those that turn something only where a setting says so."""
