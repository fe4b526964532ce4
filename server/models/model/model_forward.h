/* SPDX-License-Identifier: Apache-2.0 */
/* model_forward.h - what a model does around its attention layers, as plain data: how tokens,
 * pixels, features or sound become rows, what each block adds to them, and how rows become
 * predictions.
 *
 * A model is one or two streams of rows, each through blocks:
 *
 *     rows = embedding(input)                                   [length, width]
 *     for each block: rows = part(rows) for self attention, cross attention, feed-forward
 *     rows = final_norm(rows)
 *
 *     part(rows) = after(rows + scale * inside(f(before(rows))))
 *
 * where f is an attention layer with its output projection, a recurrence in its place
 * (model_recurrence.h), or a feed-forward. Of a block that
 * is_parallel all parts read the rows that enter the block:
 *
 *     rows = rows + scale * attention(before(rows)) + scale * feed_forward(before'(rows))
 *
 * A recurrence may also stand beside attention; both read the rows that enter the block:
 *
 *     rows = rows + scale * attention(before(rows)) + scale' * recurrence(before'(rows))
 *
 * Matrices lie in the model's file or in converted copies, as those of layers do; a weight of NULL
 * says that the model has no such step. Norms of a row have the scope ATTN_NORM_ROW. */
#ifndef ATTND_MODEL_FORWARD_H
#define ATTND_MODEL_FORWARD_H

#include "base/fault.h"
#include "layer.h"
#include "models/model/model_readout.h"
#include "models/model/model_recurrence.h"
#include "models/model/model_sound.h"

/* Rows by number: embeddings of tokens, positions, types. */
struct model_table {
    const void *rows; /* [count][width]; NULL: none */
    enum attn_dtype dtype;
    int64_t count, width;
};

/* How a family was made to take pictures of three channels: as struct model_pixels. */
struct model_pixel_range {
    double mean[3], std[3];
    bool crop;
};

enum model_input {
    MODEL_INPUT_TOKENS,
    MODEL_INPUT_PIXELS,
    MODEL_INPUT_FEATURES,
    MODEL_INPUT_SOUND
};

/* How positions of patches become those of a picture of another size (pass_resize.c). */
enum model_resize {
    MODEL_RESIZE_NONE, /* there are no pictures of another size */
    MODEL_RESIZE_CUBIC,
    MODEL_RESIZE_SMOOTH_CUBIC, /* with antialias */
    MODEL_RESIZE_SMOOTH_LINEAR
};

/* Tokens:   rows = norm(scale * token_projection(tokens[id]) + positions[...] + types[type])
 * Pixels:   rows = norm([class rows; patches(pixels)] + positions)
 * Features: two convolutions of 3 columns with GELU, the second with stride 2, then + positions
 *           (Whisper)
 * Sound:    as model_sound.h says, with this norm (wav2vec 2.0)
 * and then rows = projection(rows). */
struct model_embedding {
    enum model_input input;
    struct model_table tokens;
    double scale;    /* 0: 1 */
    bool scales_sum; /* scale is applied to the sum with positions, not to the token alone */
    struct attn_linear token_projection;

    /* ESM: tokens with dropout_id are rows of 0, and the others are multiplied by
     * 1 - dropout_ratio, the part of tokens that were none of them in training, and divided by that
     * part of the sequence. Before positions are added. 0: no. */
    double dropout_ratio;
    int64_t dropout_id;

    struct model_table positions;
    int64_t position_offset; /* row i takes positions[i + position_offset] */
    int64_t padding_id; /* RoBERTa: a token with this id takes positions[padding_id], and others are
                           counted without such tokens; -1: no */
    struct model_table types;
    struct attn_norm norm;
    struct attn_linear projection;

    /* Pixels: [channels][height][width] as the preprocessor gives them. */
    int64_t channels, image_height, image_width, patch;
    enum model_resize resize;
    struct attn_linear patches; /* in = channels * patch * patch */
    const float *class_rows;    /* [class_row_count][width], before the patches */
    int64_t class_row_count;
    const struct model_pixel_range *pixel_range; /* of the family; NULL: not known */

    /* Features: [feature_count][feature_length]. Convolutions as matrices, in = 3 * columns: number
     * c * 3 + k of a row is column c at place k. */
    int64_t feature_count, feature_length;
    struct attn_linear convolutions[2];

    struct model_sound sound;
};

/* How a picture becomes the pixels that a model takes, for clients that have a picture; the daemon
 * itself takes pixels as they are. A value v from 0 to 255 of channel c becomes
 * (v / 255 - mean[c]) / std[c]. */
struct model_pixels {
    const struct model_embedding *embedding; /* of the stream that takes them */
    const double *mean, *std;                /* [embedding->channels] */
    bool crop; /* the shorter side is scaled to fit and the middle is cut out; else both are scaled
                */
    bool from_file; /* preprocessor_config.json says so; else it is what the family was made with */
    const char *reason; /* why that file was refused; NULL: it was not, or there is none */
};

/* What surrounds attention or a feed-forward: see the top. */
struct model_part {
    struct attn_norm before, inside, after;
    bool inside_adds_rows;      /* inside(rows + f(...)): JinaBERT's qk-post-norm */
    double scale;               /* 0: 1 */
    const float *column_scales; /* [width], besides; NULL: none */
    double sum_scale;           /* of the rows behind it all; 0: 1 */
};

/* down(activation(gate . x) * (up . x)), or without a gate down(activation(up . x)). Limit and
 * offset are those of a gated product (linear.h), and so is the scale of the gate, 0: 1. */
struct model_feed_forward {
    enum attn_activation activation;
    struct attn_xielu xielu;
    float gated_limit, gated_offset, gate_scale;

    /* Gemma 3n: numbers of the gate that are not larger than their row's mean by so many of its
     * standard deviations become 0, and the others lose as much, before the activation. */
    bool is_sparse;
    double deviations;
    struct attn_linear gate, up, down;
};

/* How a row of the router's becomes the weights of the chosen experts. Softmax: of the whole row;
 * the weights are its largest, divided by their sum if is_normalized. Sigmoid (DeepSeek-AI 2024,
 * DeepSeek-V3): the same of the sigmoid of each number; those are chosen that are the largest once
 * choice_bias is added. SparseMixer (Liu et al. 2024, GRIN): two are chosen; the weight of the
 * first is the softmax of the row without the numbers s for which (most - s) / max(|s|, most)
 * exceeds 2 * jitter, most being the largest; that of the second is the same of the row without the
 * first.
 */
enum model_routing { MODEL_ROUTING_SOFTMAX, MODEL_ROUTING_SPARSEMIXER, MODEL_ROUTING_SIGMOID };
enum { MODEL_SPARSEMIXER_CHOSEN = 2 };

/* Norms of a mixture that has some of its own (Gemma 4): the router and the experts read the rows
 * that entered the feed-forward, each through its norm; what the chosen experts computed and what
 * the shared one did go through one more before their sum. */
struct model_expert_norms {
    struct attn_norm router, before, after, shared; /* router.weight NULL: the mixture has none */
};

/* A mixture of experts: the feed-forwards of those that the router chooses for a row, weighted. The
 * shared one is added to these in every
 * row, multiplied by the sigmoid of its gate. All experts but the shared one have the same width.
 */
struct model_experts {
    struct attn_linear router;                /* weight NULL: no mixture */
    const struct model_feed_forward *experts; /* [count] */
    int64_t count, chosen;
    enum model_routing routing;
    bool is_normalized;
    double weight_sum_eps; /* is added to the sum that is_normalized divides by */
    bool weighs_inputs;    /* Llama 4: sigmoids multiply what an expert reads, and not what it
                              computes;  experts are chosen by the numbers themselves */
    double weight_scale;   /* of the weights, at last; 0: 1 */
    double jitter;
    const float *choice_bias; /* [count]; NULL: 0 */

    /* Experts of the same group follow each other, and those of some groups alone can be chosen:
     * with the largest number, or of sigmoids with the largest sum of two. */
    int64_t groups, chosen_groups;           /* 0: none */
    const struct model_feed_forward *shared; /* NULL: none */
    struct attn_linear shared_gate;          /* of one output; weight NULL: no gate */
    const float *scales;                     /* [count], of the experts' weights; NULL: 1 */
    struct model_expert_norms norms;         /* of a mixture with a shared expert */
};

/* What each block of a stream reads of the tokens themselves, besides the rows that enter it (Gemma
 * 3n, Gemma 4). For block l, of width columns, with the rows x that enter the first block,
 *
 *     inputs = sum_scale * (norm(projection_scale * projection[l](x)) + token_scale *
 * tokens[id][l])
 */
struct model_token_inputs {
    int64_t width;             /* 0: nothing */
    struct model_table tokens; /* [count * blocks][width]; ids beyond it take token 0 */
    double token_scale;
    struct attn_linear projection; /* out = blocks * width: those of block l follow each other */
    double projection_scale;
    struct attn_norm norm;
    double sum_scale;
};

/* A part of a block behind its feed-forward: projection(activation(gate . x) * inputs). */
struct model_token_part {
    struct attn_linear gate, projection; /* gate.weight NULL: none */
    enum attn_activation activation;
    struct model_part part;
};

/* Alternating updates (Baykal et al. 2023) as Gemma 3n has them: a token has `count` rows. Before
 * the first block, with size(x) the root of the mean of squares,
 *
 *     row[0] = x,  row[i] = spread[i - 1](x) * size(x) / size(spread[i - 1](x))
 *
 * A block reads predicted[0]; what it computes, y, corrects all of them:
 *
 *     predicted[j] = row[j] + sum over a of (prediction . like(row[0]))[j][a] * row[a]
 *     row[i] = predicted[i] + (y - predicted[0]) * (1 + (correction . like(y))[i])
 *     like(x) = tanh(router . norm(x) / width)
 *
 * and what it reads of tokens, of scale * row[0], is added to all but the first. Behind the last
 * block they become the mean of row[0] and join[i - 1](row[i]), made as large as row[0].
 *
 * Attention adds to laurel = n + laurel_norm(right(left(n))) too, with n the rows that enter it
 * (Menghani et al. 2024, LAuReL). */
enum { MODEL_ALTUP_MAX = 8 };
struct model_altup {
    int64_t count; /* 0: a token has one row */
    struct attn_linear spread[MODEL_ALTUP_MAX - 1], join[MODEL_ALTUP_MAX - 1];
};

struct model_block_altup {
    struct attn_norm norm;
    const float *router;     /* [count][width] */
    const float *prediction; /* [count][count][count] */
    const float *correction; /* [count][count] */
    float clip;              /* the largest magnitude of a correction; 0: any */
    const float *scale;      /* [width]; NULL: 1 */
    struct attn_linear left, right;
    struct attn_norm laurel_norm;
};

struct model_block {
    int64_t self_layer;                        /* a number of model->layers; -1: none */
    const struct model_recurrence *recurrence; /* in place of attention or beside it; NULL: none */
    int64_t beside_layer; /* of a recurrence beside attention. -1: it takes its place */
    int64_t cross_layer;  /* its keys are the rows that leave the encoder. -1: none */
    struct model_part self, beside, cross, feed_forward;
    struct model_feed_forward dense;
    struct model_experts experts;
    struct model_token_part token_part;
    const struct model_block_altup *altup; /* NULL: a token has one row */
    bool is_parallel;
};

/* The recurrence that is the layer's own; NULL: it has none. */
static inline const struct model_recurrence *model_block_recurrence(const struct model_block *block,
                                                                    int64_t layer)
{
    const int64_t own = block->beside_layer >= 0 ? block->beside_layer : block->self_layer;
    return layer == own ? block->recurrence : NULL;
}

struct model_stream {
    const char *name; /* "encoder", "decoder", "text", "vision"; NULL: the model has one stream */
    int64_t width;
    struct model_embedding embedding;
    struct model_token_inputs token_inputs;
    struct model_altup altup;         /* of a stream that reads tokens in its blocks */
    const struct model_block *blocks; /* [block_count] */
    int64_t block_count;
    struct attn_norm final_norm;
    int64_t length_max; /* rows, at most: those of the position table; 0: any number */

    /* Tokens that config.json is written for, such as max_position_embeddings; 0: it does not say.
     * Without a table of positions they bound nothing but what is asked in place of a trace. */
    int64_t length_said;
};

/* From rows that left the last stream to logits of tokens:
 *
 *     logits = softcap(scale * output(norm(activation(transform . row)))) */
struct model_head {
    struct attn_linear transform;
    enum attn_activation activation;
    struct attn_norm norm;
    struct attn_linear output; /* weight NULL: the model has no predictions */
    double scale;              /* 0: 1 */
    double softcap;            /* 0: none */
    bool is_masked;            /* of a masked language model: predictions are of its mask tokens */
};

/* A head over the maps of all layers of the first stream, which says whether two tokens touch
 * (pass_contacts.c). */
struct model_contacts {
    const float *weights; /* [layers][heads]; NULL: the model has none */
    float bias;
    int64_t end_id; /* tokens with this id touch nothing */
};

enum { MODEL_STREAMS_MAX = 2 };

/* A layer of the model that is in no block is not a part of its pass. */
struct model_forward {
    struct model_stream streams[MODEL_STREAMS_MAX];
    int stream_count; /* 1 or more */

    /* Stream 1 has cross attention to stream 0; else streams are independent. */
    bool is_encoder_decoder;
    int64_t start_id; /* of a decoder: its first token; -1: there is none */
    struct model_head head;
    struct model_contacts contacts;
    struct model_readout poolers[MODEL_STREAMS_MAX]; /* that the checkpoint itself has */
    const char *pooler_reason; /* why one of the file's is not computed; NULL: it is */
    struct model_classes classes;
    const char *classes_reason; /* the same of the file's head over classes */
    int64_t mask_id;            /* the mask token; -1: not known */
    int64_t vocabulary;         /* numbers of logits that are tokens */

    /* Parameters, some of which may lie in converted copies (model_converted.h). */
    const void **addresses;
    int address_count;
};

struct model;

/* Read what model->forward points at only between these two calls, as with a layer
 * (model_hold_layer()). The attention layers are held each on its own. The fault is memory. */
bool model_forward_hold(struct model *model, struct fault *fault);
void model_forward_drop(struct model *model);

#endif
