/* checkpoint_families.c - see checkpoint_families.h. */
#include "checkpoint_families.h"

#include "checkpoint_fields.h"
#include "checkpoint_layer.h"

#include <string.h>

enum {
    Q = 1u << MODEL_Q,
    K = 1u << MODEL_K,
    V = 1u << MODEL_V,
    O = 1u << MODEL_O,
};

#define ENCODER_FIELDS                                                                             \
    .layers = "num_hidden_layers=12", .width = "hidden_size=768",                                  \
    .q_heads = "num_attention_heads=12"

#define PROJECTIONS(q, k, v, o)                                                                    \
    {                                                                                              \
        q, k, v, o                                                                                 \
    }
#define FUSED(qkv, o)                                                                              \
    {                                                                                              \
        qkv, NULL, NULL, o                                                                         \
    }

/* ------------------------------------------------- what no field of a row says -- */

/* Attention of GPT-2 may be unscaled, or scaled by the number of its layer too. */
static bool adjust_gpt2(struct checkpoint_layer *layer, struct fault *fault)
{
    const cJSON *section = layer->run->section;
    bool is_scaled, by_layer;
    if (!checkpoint_read_flag(section, "scale_attn_weights=true", &is_scaled, fault)
        || !checkpoint_read_flag(section, "scale_attn_by_inverse_layer_idx", &by_layer, fault))
        return false;
    double scale = is_scaled ? attn_options_default(layer->config.head_dim).scale : 1;
    if (by_layer)
        scale /= (double)(layer->index + 1);
    layer->config.has_scale = true;
    layer->config.scale = (float)scale;
    return true;
}

/* Qwen2 slides its window on the layers from max_window_layers on, if at all. */
static bool has_window_qwen2(const cJSON *section, int64_t index)
{
    const cJSON *from = cJSON_GetObjectItemCaseSensitive(section, "max_window_layers");
    const double first = cJSON_IsNumber(from) ? from->valuedouble : 28;
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(section, "use_sliding_window"))
           && (double)index >= first;
}

/* BERT and its like know positions that are relative, which are not computed here. */
static bool adjust_bert(struct checkpoint_layer *layer, struct fault *fault)
{
    const cJSON *type =
        cJSON_GetObjectItemCaseSensitive(layer->run->section, "position_embedding_type");
    return !cJSON_IsString(type) || strcmp(type->valuestring, "absolute") == 0
           || fault_set_at(fault, "/config/position_embedding_type", FAULT_OPTION,
                           "config.json's position_embedding_type is '%.40s'; expected absolute",
                           type->valuestring);
}

/* --------------------------------------------------------------- encoders -- */

#define BERT_SELF                                                                                  \
    .kind = "self", .layer = "encoder.layer.%.attention.",                                         \
    .projections = PROJECTIONS("self.query", "self.key", "self.value", "output.dense"),            \
    .biases = Q | K | V | O, .causal = "is_decoder", .adjust = adjust_bert

#define BERT_CROSS                                                                                 \
    .kind = "cross", .layer = "encoder.layer.%.crossattention.",                                   \
    .projections = PROJECTIONS("self.query", "self.key", "self.value", "output.dense"),            \
    .biases = Q | K | V | O, .adjust = adjust_bert

#define VIT_SELF                                                                                   \
    .kind = "self", .layer = "encoder.layer.%.attention.",                                         \
    .projections =                                                                                 \
        PROJECTIONS("attention.query", "attention.key", "attention.value", "output.dense"),        \
    .biases = O, .more_biases = Q | K | V, .more_biases_if = "qkv_bias=true", ENCODER_FIELDS

#define OUT_PROJ PROJECTIONS("q_proj", "k_proj", "v_proj", "out_proj")

/* BART and Whisper share their names and differ in fields and biases. */
#define SEQ2SEQ_ENCODER                                                                            \
    .kind = "encoder", .prefixes = "model.|", .layer = "encoder.layers.%.self_attn.",              \
    .projections = OUT_PROJ
#define SEQ2SEQ_DECODER                                                                            \
    .kind = "decoder", .prefixes = "model.|", .layer = "decoder.layers.%.self_attn.",              \
    .projections = OUT_PROJ, .causal = "=true"
#define SEQ2SEQ_CROSS                                                                              \
    .kind = "cross", .prefixes = "model.|", .layer = "decoder.layers.%.encoder_attn.",             \
    .projections = OUT_PROJ

#define BART "bart|mbart|marian|pegasus|m2m_100"
#define BART_ENCODER                                                                               \
    .layers = "encoder_layers=12", .q_heads = "encoder_attention_heads=16",                        \
    .width = "d_model=1024", .biases = Q | K | V | O
#define BART_DECODER                                                                               \
    .layers = "decoder_layers=12", .q_heads = "decoder_attention_heads=16",                        \
    .width = "d_model=1024", .biases = Q | K | V | O
#define WHISPER_ENCODER                                                                            \
    .layers = "encoder_layers=4", .q_heads = "encoder_attention_heads=6", .width = "d_model=384",  \
    .biases = Q | V | O
#define WHISPER_DECODER                                                                            \
    .layers = "decoder_layers=4", .q_heads = "decoder_attention_heads=6", .width = "d_model=384",  \
    .biases = Q | V | O

#define CLIP_TEXT                                                                                  \
    .kind = "text", .prefixes = "text_model.", .layer = "encoder.layers.%.self_attn.",             \
    .projections = OUT_PROJ, .biases = Q | K | V | O, .layers = "num_hidden_layers=12",            \
    .width = "hidden_size=512", .q_heads = "num_attention_heads=8", .causal = "=true"
#define CLIP_VISION                                                                                \
    .kind = "vision", .prefixes = "vision_model.", .layer = "encoder.layers.%.self_attn.",         \
    .projections = OUT_PROJ, .biases = Q | K | V | O, ENCODER_FIELDS

/* --------------------------------------------------------------- decoders -- */

#define LLAMA_NAMES                                                                                \
    .kind = "self", .prefixes = "model.|", .layer = "layers.%.self_attn.",                         \
    .projections = PROJECTIONS("q_proj", "k_proj", "v_proj", "o_proj"), .causal = "=true",         \
    .head_dim = "head_dim"

#define LLAMA_BIASES .more_biases = Q | K | V | O, .more_biases_if = "attention_bias"

#define LLAMA_FIELDS                                                                               \
    .layers = "num_hidden_layers=32", .width = "hidden_size=4096",                                 \
    .q_heads = "num_attention_heads=32", .theta = "rope_theta=10000"

static const struct checkpoint_stack STACKS[] = {
    { .model_type = "bert", .prefixes = "bert.|", BERT_SELF, ENCODER_FIELDS },
    { .model_type = "bert", .prefixes = "bert.|", BERT_CROSS, ENCODER_FIELDS },
    { .model_type = "roberta|xlm-roberta|camembert",
      .prefixes = "roberta.|",
      BERT_SELF,
      ENCODER_FIELDS },
    { .model_type = "roberta|xlm-roberta|camembert",
      .prefixes = "roberta.|",
      BERT_CROSS,
      ENCODER_FIELDS },
    { .model_type = "electra",
      .prefixes = "electra.|",
      BERT_SELF,
      .layers = "num_hidden_layers=12",
      .width = "hidden_size=256",
      .q_heads = "num_attention_heads=4" },
    { .model_type = "distilbert",
      .kind = "self",
      .prefixes = "distilbert.|",
      .layer = "transformer.layer.%.attention.",
      .projections = PROJECTIONS("q_lin", "k_lin", "v_lin", "out_lin"),
      .biases = Q | K | V | O,
      .layers = "n_layers=6",
      .width = "dim=768",
      .q_heads = "n_heads=12" },
    { .model_type = "vit", .prefixes = "vit.|", VIT_SELF },
    { .model_type = "deit", .prefixes = "deit.|", VIT_SELF },
    { .model_type = "dinov2", .prefixes = "dinov2.|", VIT_SELF },
    { .model_type = "clip", .section = "text_config", CLIP_TEXT },
    { .model_type = "clip", .section = "vision_config", CLIP_VISION },
    { .model_type = "clip_text_model", CLIP_TEXT },
    { .model_type = "clip_vision_model", CLIP_VISION },
    { .model_type = "wav2vec2",
      .kind = "self",
      .prefixes = "wav2vec2.|",
      .layer = "encoder.layers.%.attention.",
      .projections = OUT_PROJ,
      .biases = Q | K | V | O,
      ENCODER_FIELDS },
    { .model_type = BART, SEQ2SEQ_ENCODER, BART_ENCODER },
    { .model_type = BART, SEQ2SEQ_DECODER, BART_DECODER },
    { .model_type = BART, SEQ2SEQ_CROSS, BART_DECODER },
    { .model_type = "whisper", SEQ2SEQ_ENCODER, WHISPER_ENCODER },
    { .model_type = "whisper", SEQ2SEQ_DECODER, WHISPER_DECODER },
    { .model_type = "whisper", SEQ2SEQ_CROSS, WHISPER_DECODER },
    { .model_type = "gpt2",
      .kind = "self",
      .prefixes = "transformer.|",
      .layer = "h.%.attn.",
      .projections = FUSED("c_attn", "c_proj"),
      .fusion = CHECKPOINT_ROWS,
      .in_out = true,
      .biases = Q | O,
      .layers = "n_layer|num_hidden_layers=12",
      .width = "n_embd|hidden_size=768",
      .q_heads = "n_head|num_attention_heads=12",
      .causal = "=true",
      .adjust = adjust_gpt2 },
    { .model_type = "gpt_neox",
      .kind = "self",
      .prefixes = "gpt_neox.|",
      .layer = "layers.%.attention.",
      .projections = FUSED("query_key_value", "dense"),
      .fusion = CHECKPOINT_GROUPS,
      .more_biases = Q | O,
      .more_biases_if = "attention_bias=true",
      .layers = "num_hidden_layers=44",
      .width = "hidden_size=6144",
      .q_heads = "num_attention_heads=64",
      .causal = "=true",
      .theta = "rotary_emb_base|rope_theta=10000",
      .rotary_fraction = "rotary_pct=0.25" },
    { .model_type = "gptj",
      .kind = "self",
      .prefixes = "transformer.|",
      .layer = "h.%.attn.",
      .projections = OUT_PROJ,
      .layers = "n_layer=28",
      .width = "n_embd=4096",
      .q_heads = "n_head=16",
      .causal = "=true",
      .theta = "=10000",
      .rotary_dim = "rotary_dim=64",
      .interleaved = true },
    { .model_type = "opt",
      .kind = "self",
      .prefixes = "model.decoder.|decoder.",
      .layer = "layers.%.self_attn.",
      .projections = OUT_PROJ,
      .more_biases = Q | K | V | O,
      .more_biases_if = "enable_bias=true",
      ENCODER_FIELDS,
      .causal = "=true" },
    { .model_type = "llama",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads" },
    { .model_type = "meta",
      .kind = "self",
      .prefixes = "",
      .layer = "layers.%.attention.",
      .projections = PROJECTIONS("wq", "wk", "wv", "wo"),
      .layers = "n_layers",
      .width = "dim",
      .q_heads = "n_heads",
      .kv_heads = "n_kv_heads",
      .head_dim = "head_dim",
      .causal = "=true",
      .theta = "rope_theta=10000",
      .interleaved = true,
      .window = "sliding_window",
      .refused = "use_scaled_rope" },
    { .model_type = "mistral",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      .kv_heads = "num_key_value_heads=8",
      .window = "sliding_window=4096" },
    { .model_type = "mixtral",
      LLAMA_NAMES,
      .kv_heads = "num_key_value_heads=8",
      .layers = "num_hidden_layers=32",
      .width = "hidden_size=4096",
      .q_heads = "num_attention_heads=32",
      .theta = "rope_theta=1000000",
      .window = "sliding_window" },
    { .model_type = "qwen2",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      .kv_heads = "num_key_value_heads=32",
      .biases = Q | K | V,
      .window = "sliding_window=4096",
      .has_window = has_window_qwen2 },
    { .model_type = "phi",
      .kind = "self",
      .prefixes = "model.|",
      .layer = "layers.%.self_attn.",
      .projections = PROJECTIONS("q_proj", "k_proj", "v_proj", "dense"),
      .biases = Q | K | V | O,
      .layers = "num_hidden_layers=24",
      .width = "hidden_size=2048",
      .q_heads = "num_attention_heads=32",
      .kv_heads = "num_key_value_heads",
      .causal = "=true",
      .theta = "rope_theta=10000",
      .rotary_fraction = "partial_rotary_factor=0.5",
      .refused = "qk_layernorm" },
    { .model_type = "phi3",
      .kind = "self",
      .prefixes = "model.|",
      .layer = "layers.%.self_attn.",
      .projections = FUSED("qkv_proj", "o_proj"),
      .fusion = CHECKPOINT_ROWS,
      .layers = "num_hidden_layers=32",
      .width = "hidden_size=3072",
      .q_heads = "num_attention_heads=32",
      .kv_heads = "num_key_value_heads",
      .causal = "=true",
      .theta = "rope_theta=10000",
      .rotary_fraction = "partial_rotary_factor=1",
      .window = "sliding_window" },
    { .model_type = "stablelm",
      LLAMA_NAMES,
      .kv_heads = "num_key_value_heads=32",
      .layers = "num_hidden_layers=32",
      .width = "hidden_size=2560",
      .q_heads = "num_attention_heads=32",
      .theta = "rope_theta=10000",
      .rotary_fraction = "partial_rotary_factor|rope_pct=0.25",
      .more_biases = Q | K | V,
      .more_biases_if = "use_qkv_bias",
      .refused = "qk_layernorm" },
    { .model_type = "olmo",
      LLAMA_NAMES,
      LLAMA_FIELDS,
      LLAMA_BIASES,
      .kv_heads = "num_key_value_heads",
      .refused = "clip_qkv" },
    { .model_type = "cohere",
      LLAMA_NAMES,
      LLAMA_BIASES,
      .layers = "num_hidden_layers=40",
      .width = "hidden_size=8192",
      .q_heads = "num_attention_heads=64",
      .kv_heads = "num_key_value_heads",
      .theta = "rope_theta=10000",
      .interleaved = true,
      .refused = "use_qk_norm" },
};

enum { STACK_COUNT = sizeof STACKS / sizeof STACKS[0] };

bool checkpoint_names_have(const char *names, const char *name)
{
    const size_t wanted = strlen(name);
    while (*names) {
        const size_t length = strcspn(names, "|");
        if (length == wanted && strncmp(names, name, length) == 0)
            return true;
        names += length + (names[length] == '|');
    }
    return false;
}

const struct checkpoint_stack *checkpoint_families_find(const char *model_type, int *count)
{
    int first = 0;
    while (first < STACK_COUNT && !checkpoint_names_have(STACKS[first].model_type, model_type))
        first++;
    int end = first;
    while (end < STACK_COUNT && checkpoint_names_have(STACKS[end].model_type, model_type))
        end++;
    *count = end - first;
    return first < STACK_COUNT ? &STACKS[first] : NULL;
}
