/* checkpoint_forward_seq2seq.c - what stands around the attention of encoders with decoders.
 *
 * To add a family, put a row for its encoder and one for its decoder before the last row, as
 * checkpoint_forward.h says. The head is in the decoder's. */
#include "checkpoint/checkpoint_fields.h"
#include "checkpoint/checkpoint_forward.h"

#include <math.h>
#include <string.h>

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
static bool adjust_feed_forward(struct checkpoint_forward_row *row, const cJSON *section,
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
            row->activation = KINDS[i].activation;
            if (!KINDS[i].has_gate)
                row->gate = NULL;
            else
                row->up = strchr(row->up, '|') + 1;
            return true;
        }
    return fault_set(fault, FAULT_OPTION,
                     "config.json's feed_forward_proj is '%.40s', a feed-forward that is not "
                     "computed here",
                     kind);
}

static bool adjust_t5(struct checkpoint_forward_row *row, const cJSON *section, struct fault *fault)
{
    return adjust_feed_forward(row, section, "feed_forward_proj=relu", fault);
}

/* mt5/configuration_mt5.py has another default. */
static bool adjust_mt5(struct checkpoint_forward_row *row, const cJSON *section,
                       struct fault *fault)
{
    return adjust_feed_forward(row, section, "feed_forward_proj=gated-gelu", fault);
}

#define LAYER_NORMS .norm_is_centred = true, .norm_bias = "=true", .norm_eps = "=0.00001"
#define BIASED      .up = "fc1", .down = "fc2", .biases = "=true"

#define ENCODER .name = "encoder", .kind = "encoder"
#define DECODER .name = "decoder", .kind = "decoder", .cross_kind = "cross"

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
    .root_scale_if = "scale_embedding", LAYER_NORMS, BIASED,                                       \
    .activation = "activation_function=gelu"
#define BART_ENCODER ENCODER, .tokens = "shared|encoder.embed_tokens", .layer = "encoder.layers.%."
#define BART_DECODER(first)                                                                        \
    DECODER, .tokens = "shared|decoder.embed_tokens", .layer = "decoder.layers.%.",                \
             .output = "/lm_head", .tied = "tie_word_embeddings=true",                             \
             .start = "decoder_start_token_id=" first
#define LOGITS_BIAS .output_bias = "/final_logits_bias", .output_bias_if_any = true
#define LEARNED(side)                                                                              \
    .positions = side ".embed_positions", .position_offset = "=2",                                 \
    .embedding_norm = side ".layernorm_embedding"
#define MARIAN_POSITIONS(side)                                                                     \
    .positions = side ".embed_positions", .sinusoid = sinusoid_marian,                             \
    .position_count = "max_position_embeddings=1024"
#define M2M_100                                                                                    \
    .root_scale_if = "scale_embedding=true", LAYER_NORMS, BIASED,                                  \
    .activation = "activation_function=relu", .padding = "pad_token_id=1",                         \
    .sinusoid = sinusoid_m2m_100, .position_count = "max_position_embeddings=1024", BEFORE

/* whisper/modeling_whisper.py: WhisperEncoder, WhisperDecoder. It does not scale its tokens. */
#define WHISPER LAYER_NORMS, BIASED, BEFORE, .activation = "activation_function=gelu"

/* t5/modeling_t5.py: T5Block, T5LayerFF, T5ForConditionalGeneration. Its output is that of the
 * file, or the table of tokens where the file has none. */
#define T5(side, feed_forward_layer, by)                                                           \
    .tokens = "shared|" side ".embed_tokens", .layer = side ".block.%.",                           \
    .attention = { .before = "layer.0.layer_norm" },                                               \
    .cross_attention = { .before = "layer.1.layer_norm" },                                         \
    .feed_forward = { .before = feed_forward_layer ".layer_norm" },                                \
    .norm_eps = "layer_norm_epsilon=0.000001", .gate = feed_forward_layer ".DenseReluDense.wi_0",  \
    .up = feed_forward_layer ".DenseReluDense.wi|" feed_forward_layer ".DenseReluDense.wi_1",      \
    .down = feed_forward_layer ".DenseReluDense.wo", .final_norm = side ".final_layer_norm",       \
    .adjust = (by), .reads = "feed_forward_proj"
#define T5_ENCODER(by) ENCODER, T5("encoder", "layer.1", by)
#define T5_DECODER(by)                                                                             \
    DECODER, T5("decoder", "layer.2", by), .output = "/lm_head", .tied_if_absent = true,           \
                                           .start = "decoder_start_token_id|pad_token_id=0"

const struct checkpoint_forward_row checkpoint_forward_seq2seq[] = {
    { .model_type = "bart", BART_ENCODER, LEARNED("encoder"), AFTER, BART_AROUND },
    { .model_type = "bart",
      BART_DECODER("2"),
      LEARNED("decoder"),
      AFTER,
      BART_AROUND,
      LOGITS_BIAS },
    { .model_type = "mbart",
      BART_ENCODER,
      LEARNED("encoder"),
      BEFORE,
      BART_AROUND,
      .final_norm = "encoder.layer_norm" },
    { .model_type = "mbart",
      BART_DECODER("2"),
      LEARNED("decoder"),
      BEFORE,
      BART_AROUND,
      .final_norm = "decoder.layer_norm",
      LOGITS_BIAS },
    { .model_type = "marian", BART_ENCODER, MARIAN_POSITIONS("encoder"), AFTER, BART_AROUND },
    { .model_type = "marian",
      BART_DECODER("58100"),
      MARIAN_POSITIONS("decoder"),
      AFTER,
      BART_AROUND,
      LOGITS_BIAS },
    { .model_type = "pegasus",
      BART_ENCODER,
      MARIAN_POSITIONS("encoder"),
      BEFORE,
      BART_AROUND,
      .final_norm = "encoder.layer_norm" },
    { .model_type = "pegasus",
      BART_DECODER("0"),
      MARIAN_POSITIONS("decoder"),
      BEFORE,
      BART_AROUND,
      .final_norm = "decoder.layer_norm",
      LOGITS_BIAS },
    { .model_type = "m2m_100", BART_ENCODER, M2M_100, .final_norm = "encoder.layer_norm" },
    { .model_type = "m2m_100", BART_DECODER("2"), M2M_100, .final_norm = "decoder.layer_norm" },
    { .model_type = "whisper",
      ENCODER,
      .convolutions = { "encoder.conv1", "encoder.conv2" },
      .feature_count = "num_mel_bins=80",
      .feature_positions = "max_source_positions=1500",
      .positions = "encoder.embed_positions",
      .layer = "encoder.layers.%.",
      WHISPER,
      .final_norm = "encoder.layer_norm" },
    { .model_type = "whisper",
      DECODER,
      .tokens = "decoder.embed_tokens",
      .positions = "decoder.embed_positions",
      .layer = "decoder.layers.%.",
      WHISPER,
      .final_norm = "decoder.layer_norm",
      .output = "/proj_out",
      .tied = "tie_word_embeddings=true",
      .start = "decoder_start_token_id=50257" },
    { .model_type = "t5", T5_ENCODER(adjust_t5) },
    /* Rows are divided by the root of their width, which older files say with the flag of a tied
     * output. mT5 never does it. */
    { .model_type = "t5",
      T5_DECODER(adjust_t5),
      .logit_root_divisor_if = "scale_decoder_outputs|tie_word_embeddings=true" },
    { .model_type = "mt5", T5_ENCODER(adjust_mt5) },
    { .model_type = "mt5", T5_DECODER(adjust_mt5) },
    { .model_type = NULL },
};
