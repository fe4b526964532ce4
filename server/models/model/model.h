/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - one loaded model: validated layers over a mapped file, with a reference count.
 *
 * A model does not change once it is made. A request holds a reference to its model until the
 * answer is computed, so that replacing or deleting the model never takes the parameters away. */
#ifndef ATTND_MODEL_H
#define ATTND_MODEL_H

#include "base/fault.h"
#include "base/sha256.h"
#include "layer.h"
#include "models/model/model_names.h"
#include "json/text.h"

struct model_forward;
struct model_pixels;
struct model_speech;
struct model_vectors;
struct tokenizer;

enum { MODEL_NAME_MAX = 128 };

/* One parameter of a layer, as the model's file has it. */
struct model_tensor {
    const char *name; /* NULL: the layer has no such parameter */
    int rank;         /* 1 or 2 */
    int64_t shape[2];
};

/* The relative position bias: a number added to each score by the positions of query and key. T5's
 * depends on their distance, BEiT's on where their patches lie in the picture, BERT's on their
 * distance and on the query, or on query and key. Added to the scores together with the masks. The
 * file has a table, [table_rows, q_heads], and each pair of query and key takes its number from one
 * row. */
struct model_relative_bias {
    const float *values; /* [q_heads, count], or [count, head_dim] where by_query, or [q_heads,
                            count, head_dim] where by_head too; NULL: none */
    int64_t count; /* 2 * reach + 1; of a picture (2 * height - 1) * (2 * width - 1) + 3; by_head
                      table_rows */

    /* T5: a number for each distance, key position minus query position, from -reach to reach. A
     * greater distance takes the number at the nearer end. */
    int64_t reach;

    /* BEiT, 0 for others: position 0 is a class token; height rows of width patches follow it. */
    int64_t height, width;

    /* BERT: values are rows for distances, query position minus key position, from -reach to reach,
     * and there is none beyond. A score gains the product of the query and the row, and with by_key
     * that of the key and the row. */
    bool by_query, by_key;

    /* DeBERTa, by_query too: each head has rows of its own, keys have others than queries, and
     * distances share rows as row_of says. A greater distance takes the row at the nearer end. */
    bool by_head;
    const float *key_values; /* NULL: values */

    /* WavLM (Chen et al. 2021, section III-B): the number of T5's kind, of a head and a query, is
     * multiplied by a gate of the columns x of the query's input that have the head's number:
     *
     *     gate = a * (b * gate_scales[head] - 1) + 2,  a, b = sigmoid(gate_weight . x + gate_bias)
     */
    const float *gate_weight; /* [2][head_dim], a's and then b's; NULL: no gate */
    const float *gate_bias;   /* [2] */
    const float *gate_scales; /* [q_heads] */

    int64_t table_rows;    /* of the file's table */
    const int32_t *row_of; /* [2 * reach + 1]: the table's row for each distance; NULL: row i for
                              number i */
};

struct model_layer {
    struct attn_layer layer;     /* for the library; its parameters belong to the model */
    struct attn_options options; /* the model's own scale, softcap, causal, windows */
    bool has_precision;          /* and options.precision is its own too */

    /* Columns; -1: open until a call settles it (model_layers.h). */
    int64_t d_query, d_key, d_value, d_out;
    struct attn_linear concat_proj; /* over key and query side by side; weight NULL: none */
    struct model_tensor tensors[MODEL_TENSOR_COUNT][2]; /* weight and bias of each; the name of
                                                           a part of a fused tensor is
                                                           "qkv.weight[q_proj]" */

    /* Keys and values are those of layer keys_of, which comes before: of the rows that enter it, by
     * its projections and norms, which are this layer's, too. */
    bool shares_keys;
    int64_t keys_of;

    const char *kind;          /* "encoder", "cross", ...; NULL: self or cross, by the widths */
    bool lacks_attention;      /* it has no heads, and is what kind says: of layer and options only
                                  causal counts. The model's pass computes it */
    const float *alibi_slopes; /* [q_heads], the model's own, or NULL */
    const float *sinks;        /* the same: finite, or -INFINITY for a head without one */
    struct model_relative_bias relative_bias;
};

/* Weights of heads under a name, which a trace may ask for. */
struct model_head_weights {
    const char *name;
    int64_t layers, heads;
    const float *values; /* [layers][heads] */
};

struct model {
    char name[MODEL_NAME_MAX + 1];
    int64_t version;       /* the number of its folder; 1 without one */
    const char *attention; /* "scaled_dot_product" or another of model_names.h */
    const char *dtype;     /* of the file's parameters: "F32", "BF16", ...; "" without any */
    const char *format;    /* of its files, "safetensors" or "gguf"; "" where it is built in */
    char *source;          /* "built-in", or its path in the models' directory */
    bool built_in;
    bool parameterless;      /* sdpa: query, key and value are used as they are, and the request
                                gives the heads; of layers[0] only the options count */
    const char *family;      /* the published model_type; NULL: it has a config of our own */
    int64_t parameter_count; /* of the attention layers */
    int64_t parameter_bytes; /* of the same, in the file */
    int64_t total_parameter_count; /* numbers of all tensors in its files */
    struct model_layer *layers;
    int64_t layer_count;
    struct model_statistics *statistics; /* the only member that changes */

    const struct model_forward *forward; /* NULL: the whole pass cannot be computed, */
    const char *forward_reason;          /* for this reason */
    struct tokenizer *tokenizer;         /* NULL: none, */
    const char *tokenizer_reason;        /* for this reason; NULL: its folder has no files of one */
    const struct model_pixels *pixels;   /* NULL: it takes no pixels */
    const struct model_speech *speech;   /* NULL: it takes no samples of sound */
    const struct model_vectors *vectors; /* NULL: nothing beside it says how it makes vectors */
    /* private: mapping, converted parameters, reference count */
    struct model_storage *storage;
    const int64_t *end_ids; /* [end_id_count]: tokens that end a text */
    int64_t end_id_count;
    const struct model_head_weights *head_weights; /* [head_weight_count] */
    int64_t head_weight_count;
    const char *head_weights_reason; /* why their file was refused; NULL: it was not */
    const int64_t (*align_heads)[2]; /* [align_head_count], layer and head: those of cross
                                        attention that follow the input */
    int64_t align_head_count;
    int64_t created_s; /* when its file was written, seconds since 1970; 0: it is built in */
};

struct model *model_retain(struct model *model);
void model_release(struct model *model); /* NULL is fine; the last release frees */

/* model_release() by the table of models, which serves it no more. While others hold it, such as
 * sessions, the bytes of its files count in model_retired_bytes(). NULL is fine. */
void model_retire(struct model *model);
size_t model_retired_bytes(void);

/* Read what a layer points at only between these two calls: parameters that cannot be used where
 * they lie in the file are converted when a layer is held, and may be emptied once no request holds
 * it (model_converted.h). The fault is memory. */
bool model_hold_layer(struct model *model, int64_t layer, struct fault *fault);
void model_drop_layer(struct model *model, int64_t layer);

/* The kind of a layer as clients read it. */
const char *model_layer_kind(const struct model_layer *layer);

/* Whether some layer has no attention. */
bool model_is_hybrid(const struct model *model);

/* The numbers of the state that a layer keeps in place of keys and values; 0: it keeps none. */
int64_t model_state_numbers(const struct model *model, int64_t layer);

/* Why the model cannot be used any more: one of its mapped files was cut short or written into.
 * NULL: it can be used. The log has it, once. Ask after computing and before answering, for numbers
 * that were computed from a damaged file must not be sent. */
const char *model_damage(const struct model *model);

/* Says that the one file of the model is about to be renamed to path, in the folder where it lies.
 * Call it while no other thread has the model. */
bool model_rename_file(struct model *model, const char *path, struct fault *fault);

/* Writes what tells one model from another, in hexadecimal digits: a digest of its name, of what
 * its config says of each layer, and of the bytes of its files. The same model has the same one on
 * every machine. Of a file of more than 8 MiB some blocks are taken in place of all, so that a
 * model of any size takes some milliseconds; the model keeps the digest. False: no memory. */
bool model_identity(struct model *model, char hex[SHA256_HEX_BYTES], struct fault *fault);

/* The index, below count, of the number or row for the pair at these positions. */
int64_t model_bias_column(const struct model_relative_bias *bias, int64_t query, int64_t key);

/* Whether there is a number for every pair of a call, whose queries have the positions from
 * first_query on and its keys at those from first_key on. The fault is length. */
bool model_bias_check(const struct model_relative_bias *bias, int64_t first_query, int64_t q_len,
                      int64_t first_key, int64_t kv_len, struct fault *fault);

#endif
