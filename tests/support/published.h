/* SPDX-License-Identifier: Apache-2.0 */
/* published.h - small checkpoints in the form that a family publishes, and what the family's
 * published source computes with them, in double arithmetic.
 *
 * A test lists a family's tensors by name and shape. It writes the family's attention with the
 * functions below, which stand for the few functions of PyTorch that such source uses. Nothing
 * here knows how the daemon maps a family. The numbers of a tensor follow from its name. */
#ifndef PUBLISHED_H
#define PUBLISHED_H

#include "models/model/model.h"

enum { PUBLISHED_LENGTH = 7, PUBLISHED_MEMORY = 5 };

/* Rows of numbers. They are valid until published_close(), or the end of the innermost part of a
 * test that they were made in. */
struct rows {
    int64_t count, columns;
    double *data;
};

/* A part of a test: at its end the rows that were made in it are freed. */
void published_begin(void);
void published_end(void);

/* Rows of zeros. */
struct rows published_rows(int64_t count, int64_t columns);

/* What the source computes: the columns of the layer's answer, weights [heads][query][key], the
 * logarithm of each softmax's sum [heads][query], and the largest |score| of a pair that a row
 * sees.
 */
struct published_answer {
    struct rows context;
    double *weights, *lse;
    double largest_score;
    double *value_norms; /* [heads][key], behind the head's part of the output projection; NULL: not
                            known */
};

/* Makes a checkpoint of tensors such as "bert.encoder.layer.#.attention.self.query.weight 12x8",
 * and loads it with its config.json. A tensor that has a # is made once for each layer. Numbers are
 * uniform in about [-0.6, 0.6), times 3 where "*3" follows the shape. dtype is that of the file,
 * F32 or F16. Where ":U8" or ":F8_E4M3" follows the shape the tensor has that dtype, and the
 * numbers of its rows are bytes: any, or of F8_E4M3 those below 2; with ":SCALES" it is U8, of 120
 * to 123. Fails the test if the checkpoint does not load. */
void published_open(const char *config, const char *tensors, int layers, const char *dtype);
void published_close(void);

/* Makes a model of the open tensors with this config, in place of the old one. Returns false if
 * it is refused; then there is no model. */
bool published_reopen(const char *config, struct fault *fault);

/* The same for a checkpoint that must be refused, with these words in the message. */
void published_refused(const char *config, const char *tensors, int layers, enum fault_code code,
                       const char *words);

/* The tensors of a square torch.nn.Linear of size columns, "12"; without its bias, of one. */
#define PUBLISHED_WEIGHT(name, size) name ".weight " size "x" size
#define PUBLISHED_LINEAR(name, size) PUBLISHED_WEIGHT(name, size) ", " name ".bias " size

/* The four of an attention, whose names all begin with begin. */
#define PUBLISHED_LINEARS(begin, q, k, v, o, size)                                                 \
    PUBLISHED_LINEAR(begin q, size)                                                                \
    ", " PUBLISHED_LINEAR(begin k, size) ", " PUBLISHED_LINEAR(                                    \
        begin v, size) ", " PUBLISHED_LINEAR(begin o, size)

/* The same where keys have no bias. */
#define PUBLISHED_LINEARS_BUT_KEY(begin, q, k, v, o, size)                                         \
    PUBLISHED_LINEAR(begin q, size)                                                                \
    ", " PUBLISHED_WEIGHT(begin k, size) ", " PUBLISHED_LINEAR(                                    \
        begin v, size) ", " PUBLISHED_LINEAR(begin o, size)

struct model *published_model(void);

/* Loads the model from folder, config.json and shards, in place of the one that was opened. */
bool published_load_shards(const char *folder, struct fault *fault);

/* Writes what published_open() made to folder/config.json and folder/model.safetensors. */
void published_save(const char *folder, const char *config);

/* The same in two shards, every other tensor in each, and folder/model.safetensors.index.json. */
void published_save_shards(const char *folder, const char *config);

/* The inputs of a layer: PUBLISHED_LENGTH rows, and those of an encoder, PUBLISHED_MEMORY rows. */
struct rows published_input(int64_t columns);
struct rows published_memory(int64_t columns);

/* The tensor of this name as rows. # in the name stands for the number of a layer. A bias is one
 * row. */
struct rows published_tensor(const char *name, int layer);
bool published_has(const char *name, int layer);

/* torch.nn.Linear of name.weight and, if it exists, name.bias; and transformers' Conv1D. */
struct rows published_linear(struct rows x, const char *name, int layer);
struct rows published_conv1d(struct rows x, const char *name, int layer);

/* Cuts the columns into groups runs, and puts some columns of each run side by side: this is the
 * split of a fused projection. */
struct rows published_split(struct rows x, int64_t groups, int64_t first, int64_t count);

/* Turns the first dim columns of each head in place, to the positions 0, 1, ..., as
 * rotate_half() or rotate_every_two() does. */
void published_rotate_half(struct rows x, int64_t heads, int64_t dim, double theta);
void published_rotate_every_two(struct rows x, int64_t heads, int64_t dim, double theta);

/* The same with a given frequency for each pair; cosines and sines are multiplied by factor. */
void published_rotate_half_by(struct rows x, int64_t heads, int64_t dim, const double *frequencies,
                              double factor);
void published_rotate_every_two_by(struct rows x, int64_t heads, int64_t dim,
                                   const double *frequencies, double factor);

/* theta^(-2c/dim) of dim/2 pairs. */
void published_frequencies(double *frequencies, int64_t dim, double theta);

/* torch.clamp(x, -most, most) in place. */
void published_clamp(struct rows x, double most);

/* x / sqrt(mean(x^2) + eps) of each head in place, multiplied by offset plus the tensor called
 * name. */
void published_rms_norm(struct rows x, int64_t heads, const char *name, int layer, double eps,
                        double offset);

/* torch.nn.LayerNorm of some columns of x in place, with this weight and bias (NULL: none). */
void published_layer_norm(struct rows x, int64_t first, int64_t columns, const double *weight,
                          const double *bias, double eps);

/* The row of T5's table of relative positions for a key that is this far ahead of the query. */
int published_t5_bucket(int64_t relative_position, bool bidirectional, int num_buckets,
                        int max_distance);

struct published_attention {
    int64_t heads, kv_heads; /* kv_heads 0: heads */
    double scale;
    double softcap; /* 0: none */
    bool causal;
    int64_t window; /* key > query - window; 0: none */
    int64_t chunk;  /* key / chunk = query / chunk; 0: none */
    int64_t reach;  /* |query - key| <= reach; 0: none */

    /* Added to the score of a key at this position for this query; NULL: none. */
    double (*bias)(int64_t head, int64_t query, int64_t key);

    struct rows gates; /* what contexts are multiplied by; no data: nothing */

    const double *sinks; /* [heads]: what a row's softmax counts besides; NULL: nothing */

    /* Hides a key from a row, and changes the weights of a row over the keys that it sees; NULL:
     * nothing does (forward_edits.h). */
    bool (*hides)(int64_t head, int64_t query, int64_t key);
    void (*weigh)(int64_t head, int64_t query, const bool *seen, int64_t keys, double *weights);
};

struct published_answer published_attend(const struct published_attention *attention, struct rows q,
                                         struct rows k, struct rows v);

/* What layer index of the model computes with these inputs: its context. */
struct rows published_compute(int64_t index, struct rows query, struct rows key);

/* The same, compared with what the source computes: context and weights. */
void published_expect(int64_t index, const char *kind, struct rows query, struct rows key,
                      const struct published_answer *answer);

#endif
