/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_seq2seq.c - the table of encoders with decoders. A family has a row for its encoder,
 * one for its decoder, whose pass has the head, and one for its cross attention.
 *
 * checkpoint_family.h says how a family is added. Its attention is compared with its own source in
 * tests/unit/test_checkpoint_encoders.c. */
#include "models/checkpoint/checkpoint_family_rows.h"

#include "models/checkpoint/checkpoint_fields.h"

#include <math.h>
#include <string.h>

/* BART and Whisper have the same names of tensors, but other fields and biases. */
#define SEQ2SEQ_ENCODER                                                                            \
    .kind = "encoder", .prefixes = "model.|", .block = "encoder.layers.%.",                        \
    .attention = "self_attn.", .projections = OUT_PROJ
#define SEQ2SEQ_DECODER                                                                            \
    .kind = "decoder", .prefixes = "model.|", .block = "decoder.layers.%.",                        \
    .attention = "self_attn.", .projections = OUT_PROJ, .causal = "=true"
#define SEQ2SEQ_CROSS                                                                              \
    .kind = "cross", .prefixes = "model.|", .block = "decoder.layers.%.",                          \
    .attention = "encoder_attn.", .projections = OUT_PROJ
#define BART_ENCODER                                                                               \
    .layers = "encoder_layers=12", .q_heads = "num_attention_heads|encoder_attention_heads=16",    \
    .width = "hidden_size|d_model=1024", .biases = Q | K | V | O
#define BART_DECODER                                                                               \
    .layers = "decoder_layers=12", .q_heads = "decoder_attention_heads=16",                        \
    .width = "hidden_size|d_model=1024", .biases = Q | K | V | O
#define WHISPER_ENCODER                                                                            \
    .layers = "encoder_layers=4",                                                                  \
    .q_heads = "num_key_value_heads|num_attention_heads|encoder_attention_heads=6",                \
    .width = "hidden_size|d_model=384", .biases = Q | V | O
#define WHISPER_DECODER                                                                            \
    .layers = "decoder_layers=4", .q_heads = "decoder_attention_heads=6",                          \
    .width = "hidden_size|d_model=384", .biases = Q | V | O
#define T5_PROJECTIONS(fields)                                                                     \
    .prefixes = "|transformer.", .projections = PROJECTIONS("q", "k", "v", "o"),                   \
    .width = "hidden_size|d_model=512", .head_dim = "head_dim|d_kv=64", .unscaled = true, fields
#define T5_BIAS                                                                                    \
    .bias_table = "relative_attention_bias", .buckets = "relative_attention_num_buckets=32",       \
    .max_distance = "relative_attention_max_distance=128"
#define T5_ENCODER(fields)                                                                         \
    .kind = "encoder", .block = "encoder.block.%.", .attention = "layer.0.SelfAttention.",         \
    T5_PROJECTIONS(fields), T5_BIAS
#define T5_DECODER(fields)                                                                         \
    .kind = "decoder", .block = "decoder.block.%.", .attention = "layer.0.SelfAttention.",         \
    .causal = "=true", T5_PROJECTIONS(fields), T5_BIAS
#define T5_CROSS(fields)                                                                           \
    .kind = "cross", .block = "decoder.block.%.", .attention = "layer.1.EncDecAttention.",         \
    T5_PROJECTIONS(fields)
#define SEQ2SEQ_IGNORED                                                                            \
    "num_hidden_layers|add_bias_logits|add_final_layer_norm|normalize_before|"                     \
    "normalize_embedding|static_position_embeddings|extra_pos_embeddings|"                         \
    "do_blenderbot_90_layernorm|force_bos_token_to_be_generated|save_step|replacing_rate|"         \
    "share_encoder_decoder_embeddings|student_*"
#define WHISPER_IGNORED                                                                            \
    "num_hidden_layers|max_target_positions|scale_embedding|"                                      \
    "use_weighted_layer_sum|apply_spec_augment|mask_time_*|mask_feature_*|median_filter_width|"    \
    "alignment_heads|lang_*|task*|no_timestamps*|is_multilingual"
#define T5_IGNORED "dense_act_fn|is_gated_act|dropout_rate"

/* ---------------------------------------------------------- around attention -- */

/* Sines, then cosines, of frequencies that fall by a power of 10000 for each two columns: Vaswani
 * et al. 2017, section 3.5, in the order of marian/modeling_marian.py at 00b676f8f048,
 * MarianSinusoidalPositionalEmbedding. */
static void sinusoid_marian(double *row, int64_t position, int64_t width)
{
    const int64_t sines = width / 2 + width % 2;
    for (int64_t c = 0; c < width; c++) {
        const int64_t pair = c < sines ? c : c - sines;
        const double angle = (double)position / pow(10000, 2 * (double)pair / (double)width);
        row[c] = c < sines ? sin(angle) : cos(angle);
    }
}

/* The same as tensor2tensor has it, with the last frequency exactly 1/10000:
 * m2m_100/modeling_m2m_100.py at 001400f58fab, M2M100SinusoidalPositionalEmbedding. */
static void sinusoid_m2m_100(double *row, int64_t position, int64_t width)
{
    const int64_t half = width / 2;
    for (int64_t c = 0; c < half; c++) {
        const double part = half > 1 ? (double)c / (double)(half - 1) : 0;
        const double angle = (double)position * exp(-log(10000) * part);
        row[c] = sin(angle);
        row[half + c] = cos(angle);
    }
    if (width % 2)
        row[width - 1] = 0;
}

/* t5/configuration_t5.py: "gated-gelu" is a gate with the GELU of the hyperbolic tangent. name is
 * the field with its default. */
static bool adjust_feed_forward(struct checkpoint_pass *pass, const cJSON *section,
                                const char *name, struct fault *fault)
{
    static const struct {
        const char *name, *activation;
        bool has_gate;
    } KINDS[] = {
        { "relu", "=relu", false },          { "gelu", "=gelu", false },
        { "gelu_new", "=gelu_new", false },  { "silu", "=silu", false },
        { "gated-gelu", "=gelu_new", true }, { "gated-gelu_new", "=gelu_new", true },
        { "gated-silu", "=silu", true },     { "gated-relu", "=relu", true },
    };
    const char *kind;
    if (!checkpoint_read_string(section, name, &kind, fault))
        return false;
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        if (strcmp(KINDS[i].name, kind) == 0) {
            pass->activation = KINDS[i].activation;
            if (!KINDS[i].has_gate)
                pass->gate = NULL;
            else
                pass->up = strchr(pass->up, '|') + 1;
            return true;
        }
    return fault_set(fault, FAULT_OPTION,
                     "config.json's feed_forward_proj is '%.40s', a feed-forward that is not "
                     "computed here",
                     kind);
}

static bool adjust_t5(struct checkpoint_pass *pass, const cJSON *section, struct fault *fault)
{
    return adjust_feed_forward(pass, section, "feed_forward_proj=relu", fault);
}

/* mt5/configuration_mt5.py has another default. */
static bool adjust_mt5(struct checkpoint_pass *pass, const cJSON *section, struct fault *fault)
{
    return adjust_feed_forward(pass, section, "feed_forward_proj=gated-gelu", fault);
}

#define BIASED .up = "fc1", .down = "fc2", .biases = "=true"

#define ENCODER_PASS .name = "encoder"
#define DECODER_PASS .name = "decoder", .cross_kind = "cross"

/* bart/modeling_bart.py: BartEncoder, BartDecoder; marian, mbart, pegasus and m2m_100 are like it.
 * BART and Marian norm after their steps, the others before them. */
#define AFTER                                                                                      \
    .attention = { .after = "self_attn_layer_norm" },                                              \
    .cross_attention = { .after = "encoder_attn_layer_norm" },                                     \
    .feed_forward = { .after = "final_layer_norm" }
#define BEFORE                                                                                     \
    .attention = { .before = "self_attn_layer_norm" },                                             \
    .cross_attention = { .before = "encoder_attn_layer_norm" },                                    \
    .feed_forward = { .before = "final_layer_norm" }
#define BART_AROUND                                                                                \
    .root_scale_if = "scale_embedding", PASS_NORMS("=0.00001"), BIASED,                            \
    .activation = "activation_function=gelu"
#define BART_ENCODER_PASS ENCODER_PASS, .tokens = "shared|encoder.embed_tokens"
#define BART_DECODER_PASS(first)                                                                   \
    DECODER_PASS, .tokens = "shared|decoder.embed_tokens", LM_HEAD("tie_word_embeddings=true"),    \
                  .start = "decoder_start_token_id=" first
#define LOGITS_BIAS .output_bias = "/final_logits_bias", .output_bias_if_any = true
#define LEARNED(side)                                                                              \
    .positions = side ".embed_positions", .position_offset = "=2",                                 \
    .embedding_norm = side ".layernorm_embedding"
#define MARIAN_POSITIONS(side)                                                                     \
    .positions = side ".embed_positions", .sinusoid = sinusoid_marian,                             \
    .position_count = "max_position_embeddings=1024"
#define M2M_100_PASS                                                                               \
    .root_scale_if = "scale_embedding=true", PASS_NORMS("=0.00001"), BIASED,                       \
    .activation = "activation_function=relu", .padding = "pad_token_id=1",                         \
    .sinusoid = sinusoid_m2m_100, .position_count = "max_position_embeddings=1024", BEFORE

/* whisper/modeling_whisper.py: WhisperEncoder, WhisperDecoder. It does not scale its tokens. */
#define WHISPER_PASS                                                                               \
    PASS_NORMS("=0.00001"), BIASED, BEFORE, .activation = "activation_function=gelu"

/* t5/modeling_t5.py: T5Block, T5LayerFF, T5ForConditionalGeneration. Its output is that of the
 * file, or the table of tokens where the file has none. */
#define T5_PASS(side, feed_forward_layer, by)                                                      \
    .tokens = "shared|" side ".embed_tokens", .attention = { .before = "layer.0.layer_norm" },     \
    .cross_attention = { .before = "layer.1.layer_norm" },                                         \
    .feed_forward = { .before = feed_forward_layer ".layer_norm" },                                \
    .norm_eps = "layer_norm_epsilon=0.000001", .gate = feed_forward_layer ".DenseReluDense.wi_0",  \
    .up = feed_forward_layer ".DenseReluDense.wi|" feed_forward_layer ".DenseReluDense.wi_1",      \
    .down = feed_forward_layer ".DenseReluDense.wo", .final_norm = side ".final_layer_norm",       \
    .adjust = (by), .reads = "feed_forward_proj"
#define T5_ENCODER_PASS(by) ENCODER_PASS, T5_PASS("encoder", "layer.1", by)
#define T5_DECODER_PASS(by)                                                                        \
    DECODER_PASS, T5_PASS("decoder", "layer.2", by),                                               \
        .output = "/lm_head", .tied_if_absent = true,                                              \
        .start = "decoder_start_token_id|pad_token_id=0"

const struct checkpoint_stack checkpoint_seq2seq[] = {
    { .model_type = "bart",
      SEQ2SEQ_ENCODER,
      BART_ENCODER,
      .ignored = SEQ2SEQ_IGNORED,
      .pass = { BART_ENCODER_PASS, LEARNED("encoder"), AFTER, BART_AROUND } },
    { .model_type = "bart",
      SEQ2SEQ_DECODER,
      BART_DECODER,
      .pass = { BART_DECODER_PASS("2"), LEARNED("decoder"), AFTER, BART_AROUND, LOGITS_BIAS } },
    { .model_type = "bart", SEQ2SEQ_CROSS, BART_DECODER },
    { .model_type = "mbart",
      SEQ2SEQ_ENCODER,
      BART_ENCODER,
      .ignored = SEQ2SEQ_IGNORED,
      .pass = { BART_ENCODER_PASS, LEARNED("encoder"), BEFORE, BART_AROUND,
                .final_norm = "encoder.layer_norm" } },
    { .model_type = "mbart",
      SEQ2SEQ_DECODER,
      BART_DECODER,
      .pass = { BART_DECODER_PASS("2"), LEARNED("decoder"), BEFORE, BART_AROUND,
                .final_norm = "decoder.layer_norm", LOGITS_BIAS } },
    { .model_type = "mbart", SEQ2SEQ_CROSS, BART_DECODER },
    { .model_type = "marian",
      SEQ2SEQ_ENCODER,
      BART_ENCODER,
      .ignored = SEQ2SEQ_IGNORED,
      .pass = { BART_ENCODER_PASS, MARIAN_POSITIONS("encoder"), AFTER, BART_AROUND } },
    { .model_type = "marian",
      SEQ2SEQ_DECODER,
      BART_DECODER,
      .pass = { BART_DECODER_PASS("58100"), MARIAN_POSITIONS("decoder"), AFTER, BART_AROUND,
                LOGITS_BIAS } },
    { .model_type = "marian", SEQ2SEQ_CROSS, BART_DECODER },
    { .model_type = "pegasus",
      SEQ2SEQ_ENCODER,
      BART_ENCODER,
      .ignored = SEQ2SEQ_IGNORED,
      .pass = { BART_ENCODER_PASS, MARIAN_POSITIONS("encoder"), BEFORE, BART_AROUND,
                .final_norm = "encoder.layer_norm" } },
    { .model_type = "pegasus",
      SEQ2SEQ_DECODER,
      BART_DECODER,
      .pass = { BART_DECODER_PASS("0"), MARIAN_POSITIONS("decoder"), BEFORE, BART_AROUND,
                .final_norm = "decoder.layer_norm", LOGITS_BIAS } },
    { .model_type = "pegasus", SEQ2SEQ_CROSS, BART_DECODER },
    { .model_type = "m2m_100",
      SEQ2SEQ_ENCODER,
      BART_ENCODER,
      .ignored = SEQ2SEQ_IGNORED,
      .pass = { BART_ENCODER_PASS, M2M_100_PASS, .final_norm = "encoder.layer_norm" } },
    { .model_type = "m2m_100",
      SEQ2SEQ_DECODER,
      BART_DECODER,
      .pass = { BART_DECODER_PASS("2"), M2M_100_PASS, .final_norm = "decoder.layer_norm" } },
    { .model_type = "m2m_100", SEQ2SEQ_CROSS, BART_DECODER },
    { .model_type = "whisper",
      SEQ2SEQ_ENCODER,
      WHISPER_ENCODER,
      .ignored = WHISPER_IGNORED,
      .pass = { ENCODER_PASS, .convolutions = { "encoder.conv1", "encoder.conv2" },
                .feature_count = "num_mel_bins=80",
                .feature_positions = "max_source_positions=1500",
                .positions = "encoder.embed_positions", WHISPER_PASS,
                .final_norm = "encoder.layer_norm" } },
    { .model_type = "whisper",
      SEQ2SEQ_DECODER,
      WHISPER_DECODER,
      .pass = { DECODER_PASS, .tokens = "decoder.embed_tokens",
                .positions = "decoder.embed_positions", WHISPER_PASS,
                .final_norm = "decoder.layer_norm", .output = "/proj_out",
                .tied = "tie_word_embeddings=true", .start = "decoder_start_token_id=50257" } },
    { .model_type = "whisper", SEQ2SEQ_CROSS, WHISPER_DECODER },
    { .model_type = "t5",
      T5_ENCODER(.q_heads = "num_attention_heads|num_heads=8"),
      .layers = "num_hidden_layers|num_layers=6",
      .ignored = T5_IGNORED,
      .pass = { T5_ENCODER_PASS(adjust_t5) } },
    /* Rows are divided by the root of their width, which older files say with the flag of a tied
     * output. mT5 never does it. */
    { .model_type = "t5",
      T5_DECODER(.q_heads = "num_attention_heads|num_heads=8"),
      .layers = "num_decoder_layers|num_layers=6",
      .pass = { T5_DECODER_PASS(adjust_t5),
                .logit_root_divisor_if = "scale_decoder_outputs|tie_word_embeddings=true" } },
    { .model_type = "t5",
      T5_CROSS(.q_heads = "num_attention_heads|num_heads=8"),
      .layers = "num_decoder_layers|num_layers=6" },
    { .model_type = "mt5",
      T5_ENCODER(.q_heads = "num_attention_heads|num_heads=6"),
      .layers = "num_hidden_layers|num_layers=8",
      .ignored = T5_IGNORED,
      .pass = { T5_ENCODER_PASS(adjust_mt5) } },
    { .model_type = "mt5",
      T5_DECODER(.q_heads = "num_attention_heads|num_heads=6"),
      .layers = "num_decoder_layers|num_layers=8",
      .pass = { T5_DECODER_PASS(adjust_mt5) } },
    { .model_type = "mt5",
      T5_CROSS(.q_heads = "num_attention_heads|num_heads=6"),
      .layers = "num_decoder_layers|num_layers=8" },
    { .model_type = NULL },
};
