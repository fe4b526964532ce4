/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_gguf_row.h - a row of the table of architectures, and what its functions call; for
 * checkpoint_gguf*.c and checkpoint.c only. */
#ifndef ATTND_CHECKPOINT_GGUF_ROW_H
#define ATTND_CHECKPOINT_GGUF_ROW_H

#include "formats/gguf.h"
#include "models/checkpoint/checkpoint.h"

struct checkpoint_gguf_file {
    const struct checkpoint_gguf *row;
    const struct gguf *metadata;
    const struct model_tensors *tensors; /* under the file's names */
    cJSON *config;                       /* which is being made */
    struct fault *fault;
};

/* What the metadata calls one kind of file. Of rows for one architecture the first one counts whose
 * tensor the file has. */
struct checkpoint_gguf {
    const char *architecture; /* general.architecture */
    const char *has; /* a tensor, or after a dot a key that is not 0; NULL: none is asked for */
    const char *model_type; /* whose rows of checkpoint_family.h read it */

    /* Fields of config.json and where their values are, "hidden_size=embedding_length|...": a key
     * stands behind the architecture and a dot. A key behind which is a "?" may be missing: then
     * what follows the "?" is the value, as JSON, or there is no field. */
    const char *fields;

    /* Names of tensors without ".weight" and ".bias", as the file has them and as the family has
     * them, "token_embd=model.embed_tokens|...". % is the number of the block. # is that of an
     * expert: where only the family's name has one, the file has all experts in one tensor, one
     * behind the other. A family's name that ends with "!" has no ".weight" behind it; one that
     * ends with "^" is of a matrix of one row, which the file has as a list. */
    const char *tensors;

    bool has_rope;       /* rotary embeddings, with the keys that all architectures have for them */
    bool has_alpha;      /* rope.scaling.alpha counts */
    const char *reads;   /* keys that fields or finish() read, and that are refused of other rows
                            unless they change nothing; NULL: none */
    const char *present; /* flags that say whether the file has a tensor, "qk_norm=blk.0.attn_k" */

    /* Adds to config what no field says; NULL: nothing. */
    bool (*finish)(const struct checkpoint_gguf_file *file);

    /* Changes the family's row to what the file has, for its tensors are not those of the family in
     * all; NULL: they are. */
    void (*amend)(struct checkpoint_stack *stack);
};

/* The tables. Each ends with a row whose architecture is NULL. */
extern const struct checkpoint_gguf checkpoint_ggufs[], checkpoint_ggufs_newer[],
    checkpoint_ggufs_gemmas[], checkpoint_ggufs_hybrids[];

/* The value of a key behind the architecture; NULL: there is none. */
const struct gguf_value *checkpoint_gguf_find(const struct checkpoint_gguf_file *file,
                                              const char *key);

/* Whether the file has the tensor. */
bool checkpoint_gguf_has(const struct checkpoint_gguf_file *file, const char *name);

/* A number of the metadata, behind the architecture; otherwise, where it has none. */
double checkpoint_gguf_number(const struct checkpoint_gguf_file *file, const char *key,
                              double otherwise);

/* The same of a key that has one value for all layers, or one for each. */
double checkpoint_gguf_number_of_layer(const struct checkpoint_gguf_file *file, const char *key,
                                       int64_t layer, double otherwise);

/* Columns of a head; the same as the field head_dim, of which families have another default. */
double checkpoint_gguf_head_dim(const struct checkpoint_gguf_file *file);
bool checkpoint_gguf_add_head_dim(const struct checkpoint_gguf_file *file);

/* Adds rope_theta, rotary_dim and rope_scaling to config (checkpoint_gguf_rope.c). */
bool checkpoint_gguf_add_rope(const struct checkpoint_gguf_file *file);

/* Counts only the blocks before those that predict further tokens, which block_count counts, too.
 */
bool checkpoint_gguf_take_next_layers(const struct checkpoint_gguf_file *file);

/* Values of expert_gating_func. The function refuses a file of a mixture that has no sigmoids. */
enum { CHECKPOINT_GATE_SOFTMAX = 1, CHECKPOINT_GATE_SIGMOID };
bool checkpoint_gguf_need_sigmoids(const struct checkpoint_gguf_file *file);

/* What rows have as amend: pairs of neighbouring columns are turned; the same of a file of "llama",
 * which may have biases. */
void checkpoint_gguf_amend_pairs(struct checkpoint_stack *stack);
void checkpoint_gguf_amend_llama(struct checkpoint_stack *stack);

/* Adds layer_types where the metadata have a flag for each layer under the key: the type of those
 * whose flag is set, and full_attention. The second is of windows. */
bool checkpoint_gguf_add_types(const struct checkpoint_gguf_file *file, const char *key,
                               const char *set);
bool checkpoint_gguf_add_layer_types(const struct checkpoint_gguf_file *file);

/* Adds a field to config. A value that a float holds has the fewest digits that make that float, as
 * the config.json had that the file was made from. The fault is memory. */
bool checkpoint_gguf_add_number(const struct checkpoint_gguf_file *file, cJSON *object,
                                const char *name, double value);
bool checkpoint_gguf_add_flag(const struct checkpoint_gguf_file *file, const char *name, bool flag);
bool checkpoint_gguf_add_text(const struct checkpoint_gguf_file *file, const char *name,
                              const char *text);
bool checkpoint_gguf_add_item(const struct checkpoint_gguf_file *file, cJSON *object,
                              const char *name, cJSON *item); /* NULL: no memory */

/* Adds the value of a key; one of a list with a value for each layer where all are equal. The fault
 * is option, too. */
bool checkpoint_gguf_add_value(const struct checkpoint_gguf_file *file, const char *field,
                               const char *key, const struct gguf_value *value);

/* Sets the fault of a key, "the metadata WHAT 'llama.block_count', which is FIELD", and returns
 * false. */
bool checkpoint_gguf_refuse(const struct checkpoint_gguf_file *file, const char *field,
                            const char *key, const char *what);

#endif
