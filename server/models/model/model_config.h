/* SPDX-License-Identifier: Apache-2.0 */
/* model_config.h - a model's config (API_MODELS.md, "Our own config") as it is written. Heads and
 * widths that it leaves out are settled later, by the tensors' shapes. */
#ifndef ATTND_MODEL_CONFIG_H
#define ATTND_MODEL_CONFIG_H

#include "models/model/model_names.h"
#include "rope.h"
#include "json/json.h"

enum { MODEL_LAYERS_MAX = 1000, MODEL_ROPE_PAIRS_MAX = 512 };

struct model_config {
    const struct model_attention *attention;
    int64_t layers;
    int64_t q_heads, kv_heads, head_dim, v_head_dim; /* 0: left out */
    bool causal;
    bool has_scale;
    float scale;
    float softcap;
    bool has_precision;
    enum attn_precision precision;
    int64_t window_left, window_right; /* -1: all */
    int64_t chunk;                     /* 0: none */
    bool has_rope;
    struct attn_rope rope; /* dim 0: left out, which means head_dim; its factors are these lists: */
    double rope_factors[2][MODEL_ROPE_PAIRS_MAX]; /* short_factor and long_factor of longrope */
    int64_t rope_factor_counts[2];                /* 0: not given */
    bool in_out;                                  /* matrices are [in, out] */

    /* Private: owns the strings that model_config_tensor() returns. */
    struct json_document document;
    const cJSON *tensors;
};

/* Reads the JSON text of a config. On false config is empty, and the fault's pointer begins with
 * /config. The config of a published checkpoint is refused with a message that says so. */
bool model_config_read(struct model_config *config, const char *text, size_t size,
                       struct fault *fault);
void model_config_free(struct model_config *config);

/* The file's name for the parameter name ("layers.0.q_proj.weight"): what "tensors" maps it to, or
 * name itself. */
const char *model_config_tensor(const struct model_config *config, const char *name);

/* Reads a rope_scaling of a published checkpoint, in our form, called name there, into config,
 * whose rotary embedding is read otherwise. document: for the lists of numbers in it. */
bool model_config_read_scaling(struct model_config *config, const struct json_document *document,
                               const char *name, const cJSON *scaling, struct fault *fault);

/* "yarn" */
const char *model_rope_type_name(enum attn_rope_type type);

#endif
