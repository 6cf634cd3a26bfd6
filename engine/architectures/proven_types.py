"""The types of transformers whose heads are proven."""

from __future__ import annotations

_NAMES = """
    afmoe aimv2_text_model albert align_text_model altclip_text_model apertus arcee aria aria_text audioflamingo3 axk1
    aya_vision bailing_hybrid bamba bart beam bert bert-generation big_bird bigbird_pegasus biogpt bitnet blenderbot
    blenderbot-small blip_text_model bloom blt blt_patcher bridgetower_text_model bros camembert canary_decoder canine
    chameleon chinese_clip_text_model clap_text_model clip_text_model clipseg_text_model clvp_decoder codegen cohere
    cohere2 cohere2_moe cohere2_vision cohere_compass cohere_compass_text colmodernvbert colpali colqwen2 convbert
    cosmos3_edge cosmos3_edge_text cosmos3_omni cpmant csm ctrl cwm data2vec-text dbrx deberta deberta-v2 deepseek_ocr2
    deepseek_ocr2_text deepseek_v2 deepseek_v3 deepseek_v32 deepseek_vl deepseek_vl_hybrid dia dia_encoder diffllama
    diffusion_gemma_text distilbert dots1 dots3_note dots3_note_text dpr electra embedding_gemma2 embedding_gemma2_text
    emu3 emu3_text_model encoder-decoder ernie ernie4_5 ernie4_5_moe ernie4_5_vl_moe ernie4_5_vl_moe_text esm esmc
    eurobert exaone4 exaone4_5 exaone_moe falcon falcon_h1 flaubert flava_text_model flex_olmo flint florence2 fsmt
    fun_asr_nano funnel fuyu gemma gemma2 gemma3 gemma3_text gemma3n_text gemma4 gemma4_text gemma4_unified
    gemma4_unified_text git glm glm4 glm46v glm4_moe glm4_moe_lite glm4v glm4v_moe glm4v_moe_text glm4v_text glm5_next
    glm5_next_text glm_image glm_image_text glm_moe_dsa glm_ocr glm_ocr_text glmasr glmga got_ocr2 gpt-sw3 gpt2
    gpt_bigcode gpt_neo gpt_neox gpt_neox_japanese gpt_oss gptj granite granite4_vision granite4_vision_text
    granite_docling granite_docling_text granite_speech granite_speech_plus granite_swa granitemoe granitemoe_swa
    granitemoehybrid granitemoeshared groupvit_text_model gte helium higgs_audio_v2 hunyuan_v1_dense hunyuan_v1_moe
    hunyuan_vl hunyuan_vl_text hy_v3 hy_v4 hyperclovax hyperclovax_vision_v2 ibert idefics2 idefics3 inkling_text
    internlm3 internvl iquestcoder jais2 jamba janus jina_embeddings_v3 kimi_k25 kimi_linear kolibri1 kosmos-2.5
    kosmos_2_5_text_model kosmos_2_text_model laguna layoutlm layoutlmv3 led lfm2 lfm2_moe lfm2_vl lfm3 lfm3_vl
    lighton_ocr lilt llama llama4 llama4_text llava llava_next llava_next_video llava_onevision longcat_flash longformer
    longt5 luke m2m_100 marian markuplm mbart megatron-bert mellum metaclip_2_text_model mimo_v2_flash minicpm3
    minicpm_ocr minicpmv4_6 minicpmv4_7 minimax minimax_m2 minimax_m3_vl minimax_m3_vl_text ministral ministral3 mistral
    mistral3 mistral4 mistral_large4 mistral_large4_text mixtral mllama mllama_text_model mobilebert modernbert
    modernbert-decoder modernvbert molmo2 molmo2_text moonshine moonshine_streaming moshi moss_transcribe_diarize mpnet
    mpt mt5 muse_glimmer muse_glimmer_text muse_spark muse_spark_text musicflamingo mvp nanochat nemo_speechlm nemotron
    nemotron_h nemotron_h_omni nllb-moe nomic_bert olmo olmo2 olmo3 olmo_hybrid olmoe openai-gpt openai_privacy_filter
    opt ovis2 owlv2_text_model owlvit_text_model paddleocr_vl paddleocr_vl_text paligemma pegasus persimmon phi phi3
    phi4_multimodal phimoe plbart pocket_tts pop2piano pp_formulanet_text qianfan_ocr qwen2 qwen2_5_omni_talker
    qwen2_5_omni_text qwen2_5_omni_thinker qwen2_5_vl qwen2_5_vl_text qwen2_audio qwen2_moe qwen2_vl qwen2_vl_text qwen3
    qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe_text
    qwen3_omni_moe_thinker qwen3_vl qwen3_vl_moe qwen3_vl_moe_text qwen3_vl_text qwen4_exp qwen4_exp_text
    recurrent_gemma rembert roberta roberta-prelayernorm roc_bert roformer seamless_m4t seamless_m4t_v2 seed_oss
    siglip2_text_model siglip_text_model smollm3 smolvlm solar_open speech-encoder-decoder splinter squeezebert stablelm
    starcoder2 step3p5 step3p7 switch_transformers t5 t5gemma t5gemma2 t5gemma2_encoder t5gemma2_text tapas
    tipsv2_text_model trocr udop ultrabert ultravbert umt5 unlimited_ocr unlimited_ocr_text vaultgemma vibevoice
    vibevoice_asr video_llama_3 video_llava videoprism_text_model vipllava visual_bert voxtral whisper xclip_text_model
    xglm xlm xlm-roberta xlm-roberta-xl xlnet xmod youtu zamba zamba2
"""

PROVEN_TYPES = frozenset(_NAMES.split())
"""Types of which a test has taken a model apart by the rules and put its attention together again."""
