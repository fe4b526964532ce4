/* SPDX-License-Identifier: Apache-2.0 */
/* whisper_model.c - see whisper_model.h. */
#include "whisper_model.h"

#include "published.h"

#include <stdio.h>

#define LINEAR(name, out, in) name ".weight " #out "x" #in ", " name ".bias " #out ", "
#define NORM(name)            name ".weight 12, " name ".bias 12, "
#define ATTENTION(begin)                                                                           \
    LINEAR(begin "q_proj", 12, 12)                                                                 \
    begin "k_proj.weight 12x12, " LINEAR(begin "v_proj", 12, 12) LINEAR(begin "out_proj", 12, 12)
#define FEED_FORWARD(begin)                                                                        \
    LINEAR(begin "fc1", 20, 12) LINEAR(begin "fc2", 12, 20) NORM(begin "final_layer_norm")
#define ENCODER "model.encoder.layers.#."
#define DECODER "model.decoder.layers.#."

static const char CONFIG[] =
    "{\"model_type\":\"whisper\",\"d_model\":12,\"encoder_layers\":2,\"decoder_layers\":2,"
    "\"encoder_attention_heads\":2,\"decoder_attention_heads\":2,\"encoder_ffn_dim\":20,"
    "\"decoder_ffn_dim\":20,\"vocab_size\":40,\"decoder_start_token_id\":2,\"pad_token_id\":0,"
    "\"num_mel_bins\":8,\"max_source_positions\":20,\"max_target_positions\":16}";

static const char TENSORS[] = LINEAR("model.encoder.conv1", 12, 8x3) LINEAR(
    "model.encoder.conv2", 12,
    12x3) "model.encoder.embed_positions.weight 20x12, " ATTENTION(ENCODER "self_attn.")
    NORM(ENCODER "self_attn_layer_norm") FEED_FORWARD(ENCODER) NORM(
        "model.encoder.layer_norm") "model.decoder.embed_tokens.weight 40x12, "
                                    "model.decoder.embed_positions.weight 16x12, " ATTENTION(
                                        DECODER "self_attn.") NORM(DECODER "self_attn_layer_norm")
                                        ATTENTION(DECODER "encoder_attn.")
                                            NORM(DECODER "encoder_attn_layer_norm") FEED_FORWARD(
                                                DECODER) "model.decoder.layer_norm.weight 12, "
                                                         "model.decoder.layer_norm.bias 12";

void whisper_model_save(const char *directory)
{
    char folder[400];
    snprintf(folder, sizeof folder, "%s/whisper", directory);
    published_open(CONFIG, TENSORS, WHISPER_LAYERS, "F32");
    published_save(folder, CONFIG);
    published_close();
}
