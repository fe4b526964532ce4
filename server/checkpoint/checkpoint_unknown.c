/* checkpoint_unknown.c - see checkpoint_unknown.h.
 *
 * Names of tensors tell what a model's attention is made of, for a name is a part of its published
 * code. Without this a config of our own could be written that leaves such a part out in silence.
 */
#include "checkpoint/checkpoint_unknown.h"

#include "base/names.h"
#include "checkpoint/checkpoint_name.h"

#include <stdio.h>
#include <string.h>

enum { LISTED_BYTES = 128, PARTS_BYTES = 160, NEAREST_BYTES = 96, FAMILY_BYTES = 32 };

/* ----------------------------------------------------------------- missing -- */

/* What tensors are called that belong to a part of attention which no config of ours has. */
static const struct {
    const char *word, *part;
} PARTS[] = {
    { "kv_a_proj", "latent projections" },
    { "q_a_proj", "latent projections" },
    { "kv_b_proj", "latent projections" },
    { ".sinks", "sinks" },
    { "linear_attn", "linear attention" },
    { "time_mix", "linear attention" },
    { "time_decay", "linear attention" },
    { "A_log", "a state space" },
    { "rg_lru", "a recurrence" },
    { "q_norm", "norms of query and key" },
    { "k_norm", "norms of query and key" },
    { "query_norm", "norms of query and key" },
    { "q_layernorm", "norms of query and key" },
    { "query_layernorm", "norms of query and key" },
    { "norm_q", "norms of query and key" },
    { "lambda_q1", "differential attention" },
    { "rel_embeddings", "relative positions" },
    { "pos_bias_u", "relative positions" },
    { "linear_pos", "relative positions" },
    { "distance_embedding", "relative positions" },
    { "relative_attention_bias", "relative positions" },
};
enum { PART_COUNT = sizeof PARTS / sizeof PARTS[0] };

static bool has_word(const struct model_tensors *tensors, const char *word)
{
    for (int64_t i = 0; i < tensors->entry_count; i++)
        if (strstr(model_tensors_at(tensors, i)->name, word))
            return true;
    return false;
}

/* "; it has latent projections, norms of query and key, which no config of ours has"; "": none. */
static void write_parts(const struct model_tensors *tensors, char text[PARTS_BYTES])
{
    char names[PARTS_BYTES / 2] = "";
    struct name_list list = name_list_in(names, sizeof names);
    for (int i = 0; i < PART_COUNT; i++)
        if (!strstr(names, PARTS[i].part) && has_word(tensors, PARTS[i].word))
            name_list_add(&list, PARTS[i].part);
    name_list_end(&list);
    snprintf(text, PARTS_BYTES, "%s%s%s", names[0] ? "; it has " : "", names,
             names[0] ? ", which a config of ours cannot say" : "");
}

/* ----------------------------------------------------------------- nearest -- */

static uint64_t length_of(const struct safetensors_entry *entry)
{
    uint64_t length = 0;
    if (entry && entry->rank > 0)
        safetensors_shape(entry, &length, 1);
    return length;
}

/* Whether the weight of a norm of queries has the form of that scope. */
static bool is_of_scope(const struct safetensors_entry *norm, enum attn_norm_scope scope,
                        uint64_t outputs)
{
    const bool is_row = norm->rank == 1 && length_of(norm) == outputs;
    return scope == ATTN_NORM_ROW    ? is_row
           : scope == ATTN_NORM_HEAD ? norm->rank == 1 && !is_row
                                     : norm->rank == 2;
}

/* How many of a stack's projections and norms the file has under its names, in the layer 0. */
static int count_named(const struct checkpoint_stack *stack, const struct checkpoint *checkpoint,
                       const struct model_tensors *tensors)
{
    struct checkpoint_run run = { .stack = stack,
                                  .document = &checkpoint->config,
                                  .section = checkpoint->config.root,
                                  .inner_count = 1 };
    char name[CHECKPOINT_NAME_BYTES];
    uint64_t outputs = 0;
    int count = 0;
    if (!checkpoint_name_find_prefix(&run, tensors))
        return 0;
    for (int i = 0; i < MODEL_PROJECTION_COUNT; i++) {
        if (!stack->projections[i])
            continue;
        checkpoint_name_write(name, &run, 0, stack->projections[i], ".weight");
        const struct safetensors_entry *entry = model_tensors_find(tensors, name);
        if (!entry)
            return 0;
        if (i == MODEL_Q)
            outputs = length_of(entry);
        count++;
    }
    for (int i = 0; i < 2; i++) {
        if (!stack->norms[i] || strchr(stack->norms[i], '%'))
            continue;
        checkpoint_name_write(name, &run, 0, stack->norms[i], ".weight");
        const struct safetensors_entry *entry = model_tensors_find(tensors, name);
        if (!entry || (i == 0 && !is_of_scope(entry, stack->norm_scope, outputs)))
            return 0;
        count++;
    }
    return count;
}

/* Writes the first name of the family whose tensors the file has most of; "": none. */
static void find_nearest(const struct checkpoint *checkpoint, const struct model_tensors *tensors,
                         char family[FAMILY_BYTES])
{
    static const struct checkpoint_stack *const TABLES[] = { checkpoint_llamas, checkpoint_decoders,
                                                             checkpoint_encoders };
    int most = 0;
    family[0] = '\0';
    for (int i = 0; i < 3; i++)
        for (const struct checkpoint_stack *stack = TABLES[i]; stack->model_type; stack++) {
            const int count = count_named(stack, checkpoint, tensors);
            if (count <= most)
                continue;
            most = count;
            snprintf(family, FAMILY_BYTES, "%.*s", (int)strcspn(stack->model_type, "|"),
                     stack->model_type);
        }
}

/* ---------------------------------------------------------------- refusing -- */

/* Of norms those of query and key alone are a part of attention. */
static bool looks_like_attention(const char *name)
{
    static const char *const WORDS[] = { "attn", "attention", "q_proj", "query", "qkv", "mixer" };
    static const char *const NORMS[] = { "norm", "Norm", "ln_" };
    static const char *const OWN_NORMS[] = { "q_norm",          "k_norm",       "query_norm",
                                             "key_norm",        "q_layernorm",  "k_layernorm",
                                             "query_layernorm", "key_layernorm" };
    for (size_t i = 0; i < sizeof OWN_NORMS / sizeof OWN_NORMS[0]; i++)
        if (strstr(name, OWN_NORMS[i]))
            return true;
    for (size_t i = 0; i < sizeof NORMS / sizeof NORMS[0]; i++)
        if (strstr(name, NORMS[i]))
            return false;
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++)
        if (strstr(name, WORDS[i]))
            return true;
    return false;
}

/* "h.0.attn.weight, h.1.attn.weight and 22 more"; in the order of the file. */
static void list_tensors(const struct model_tensors *tensors, char text[LISTED_BYTES])
{
    struct name_list list = name_list_in(text, LISTED_BYTES);
    for (int64_t i = 0; i < tensors->entry_count; i++) {
        const struct safetensors_entry *entry = model_tensors_at(tensors, i);
        if (looks_like_attention(entry->name))
            name_list_add(&list, entry->name);
    }
    name_list_end(&list);
}

bool checkpoint_unknown_refuse(const struct checkpoint *checkpoint, bool is_known,
                               const struct model_tensors *tensors, struct fault *fault)
{
    char listed[LISTED_BYTES], parts[PARTS_BYTES], family[FAMILY_BYTES], nearest[NEAREST_BYTES];
    list_tensors(tensors, listed);
    write_parts(tensors, parts);
    find_nearest(checkpoint, tensors, family);
    snprintf(nearest, sizeof nearest, "%s%s%s",
             family[0] ? "; its tensors have the names of '" : "", family,
             !family[0] ? ""
             : parts[0] ? "', the nearest family"
                        : "': where it computes the same, that may be its model_type");
    return fault_set_at(fault, "/config/model_type", FAULT_OPTION,
                        "model_type '%.24s' %s%s%s; write {\"attention\":\"scaled_dot_product\","
                        "\"layers\":N,\"q_heads\":N,\"tensors\":{\"layers.0.q_proj.weight\":"
                        "\"...\"}} as config.json%s; attention in this file: %s",
                        checkpoint_type(checkpoint),
                        is_known ? "has other tensors" : "is not known here", parts, nearest,
                        parts[0] ? " only where these may be left out" : "",
                        listed[0] ? listed : "none by its names");
}
