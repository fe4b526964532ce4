/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_tensors.c - names of tensors, and norms of query and key.
 *
 * A family's norm has one tensor for all heads, as wide as a head or as a row, or one tensor for
 * each head, which are put side by side here. Some families store the weight minus one. */
#include "models/checkpoint/checkpoint_tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What follows the prefix in the name of a tensor of layer number index of the run: the block, with
 * the numbers in place of each %, middle, part and ending. */
static void write_name(char name[CHECKPOINT_NAME_BYTES], const struct checkpoint_run *run,
                       int64_t index, const char *middle, const char *part, const char *ending)
{
    const struct checkpoint_stack *stack = run->stack;
    const int64_t outer = index / run->inner_count;
    const int64_t number = stack->number ? stack->number(run->section, outer) : outer;
    const int before = (int)strcspn(stack->block, "%");
    const char *rest = stack->block + before + 1;
    const int between = (int)strcspn(rest, "%");
    char inner[24] = "";
    if (rest[between])
        snprintf(inner, sizeof inner, "%" PRId64, index % run->inner_count);
    snprintf(name, CHECKPOINT_NAME_BYTES, "%s%.*s%" PRId64 "%.*s%s%s%s%s%s", run->prefix, before,
             stack->block, number, between, rest, inner, rest + between + (rest[between] == '%'),
             middle, part, ending);
}

void checkpoint_name_write(char name[CHECKPOINT_NAME_BYTES], const struct checkpoint_run *run,
                           int64_t index, const char *part, const char *ending)
{
    write_name(name, run, index, run->stack->attention, part, ending);
}

void checkpoint_name_write_block(char name[CHECKPOINT_NAME_BYTES], const struct checkpoint_run *run,
                                 int64_t index, const char *part, const char *ending)
{
    write_name(name, run, index, "", part, ending);
}

void checkpoint_name_write_layer(char name[CHECKPOINT_NAME_BYTES], const struct checkpoint_run *run,
                                 int64_t index)
{
    const struct checkpoint_stack *stack = run->stack;
    checkpoint_name_write(name, run, index, stack->projections[stack->latent ? MODEL_K : MODEL_Q],
                          ".weight");
}

bool checkpoint_name_has_layer(const struct checkpoint_run *run,
                               const struct model_tensors *tensors, int64_t index)
{
    char name[CHECKPOINT_NAME_BYTES];
    checkpoint_name_write_layer(name, run, index);
    return model_tensors_find(tensors, name) != NULL;
}

const char *checkpoint_other_kind(const struct checkpoint_run *run, int64_t index)
{
    return run->stack->other_kind ? run->stack->other_kind(run, index) : NULL;
}

/* The first layer that has attention, by which a stack is found; the first where none has. */
static int64_t first_attention(const struct checkpoint_run *run)
{
    int64_t index = 0;
    while (index < MODEL_LAYERS_MAX && checkpoint_other_kind(run, index))
        index++;
    return index < MODEL_LAYERS_MAX ? index : 0;
}

/* Whether the first layer is one of the row's, by the tensor that tells it from those of others. */
static bool is_told(const struct checkpoint_run *run, const struct model_tensors *tensors)
{
    char name[CHECKPOINT_NAME_BYTES];
    const char *told_by = run->stack->told_by;
    if (!told_by)
        return true;
    const bool is_absent = told_by[0] == '!';
    checkpoint_name_write(name, run, first_attention(run), told_by + is_absent, ".weight");
    return (model_tensors_find(tensors, name) != NULL) != is_absent;
}

bool checkpoint_name_find_prefix(struct checkpoint_run *run, const struct model_tensors *tensors)
{
    const char *prefixes = run->stack->prefixes;
    const int64_t first = first_attention(run);
    for (;;) {
        const size_t length = strcspn(prefixes, "|");
        snprintf(run->prefix, sizeof run->prefix, "%.*s", (int)length, prefixes);
        if (checkpoint_name_has_layer(run, tensors, first) && is_told(run, tensors))
            return true;
        if (!prefixes[length])
            return false;
        prefixes += length + 1;
    }
}

/* -------------------------------------------------------------------- norms -- */

/* Where the numbers of a norm of one layer come from. */
struct norm_source {
    const struct checkpoint_layer *read;
    struct model_parameters *parameters;
    int64_t index;      /* of the layer that has the tensor */
    const char *part;   /* of the stack's norms */
    const char *ending; /* ".weight" or ".bias" */
    int64_t heads;
    bool adds_one;
};

/* Writes the name of the tensor; where each head has its own, of that of head. */
static void write_norm_name(char name[CHECKPOINT_NAME_BYTES], const struct norm_source *source,
                            int64_t head)
{
    char part[CHECKPOINT_NAME_BYTES / 4];
    const size_t before = strcspn(source->part, "%");
    if (source->part[before])
        snprintf(part, sizeof part, "%.*s%" PRId64 "%s", (int)before, source->part, head,
                 source->part + before + 1);
    else
        snprintf(part, sizeof part, "%s", source->part);
    checkpoint_name_write(name, source->read->run, source->index, part, source->ending);
}

static int64_t number_count(const struct model_entry *entry)
{
    return (entry->rank == 1 || entry->rank == 2) && entry->number_count <= INT64_MAX
               ? (int64_t)entry->number_count
               : -1;
}

static bool get_norm(struct norm_source *source, int64_t head, int64_t count, const float **values,
                     struct fault *fault)
{
    char name[CHECKPOINT_NAME_BYTES];
    write_norm_name(name, source, head);
    const struct model_entry *entry =
        model_tensors_require(source->parameters->tensors, name, fault);
    if (!entry)
        return false;
    if (number_count(entry) != count)
        return fault_set_at(fault, "/parameters", FAULT_SHAPE,
                            "tensor '%.100s' is not of %" PRId64
                            " numbers, one for each column that it norms",
                            name, count);
    return model_parameters_get_now(source->parameters, entry, values, fault);
}

/* Sets *values to count numbers: those of the tensor itself, or a new list made of tensors. */
static bool read_norm(struct norm_source *source, int64_t count, const float **values,
                      struct fault *fault)
{
    const bool is_split = strchr(source->part, '%') != NULL;
    const int64_t pieces = is_split ? source->heads : 1, each = count / pieces;
    if (!is_split && !source->adds_one)
        return get_norm(source, 0, count, values, fault);
    float *made = arena_alloc(source->parameters->arena, (size_t)count * sizeof *made);
    if (!made)
        return fault_no_memory(fault);
    *values = made;
    for (int64_t piece = 0; piece < pieces; piece++) {
        const float *from = NULL;
        if (!get_norm(source, piece, each, &from, fault) || !from)
            return false;
        for (int64_t c = 0; c < each; c++)
            *made++ = from[c] + (source->adds_one ? 1.0f : 0.0f);
    }
    return true;
}

/* Keeps the name and shape that gradients have. Tensors of one head each are one tensor there, with
 * * in place of the head. */
static bool keep_norm(struct norm_source *source, struct model_tensor *tensor, struct fault *fault)
{
    char name[CHECKPOINT_NAME_BYTES];
    const int64_t head_dim = source->read->config.head_dim;
    const bool is_split = strchr(source->part, '%') != NULL;
    write_norm_name(name, source, 0);
    const struct model_entry *entry = model_tensors_find(source->parameters->tensors, name);
    char *kept = arena_strdup(source->parameters->arena, name);
    if (!kept)
        return fault_no_memory(fault);
    if (is_split) /* the head's number, 0, is where the part has its % */
        kept[strlen(kept) - strlen(source->ending) - strlen(strchr(source->part, '%'))] = '*';
    *tensor = (struct model_tensor){ kept, 2, { source->heads, head_dim } };
    if (is_split)
        return true;
    tensor->rank = (int)entry->rank; /* checked to be 1 or 2 */
    for (int i = 0; i < 2; i++)
        tensor->shape[i] = (int64_t)entry->shape[i];
    return true;
}

static bool set_norm(struct attn_norm *norm, struct model_tensor tensors[2],
                     const struct checkpoint_layer *read, int which, int64_t heads,
                     struct model_parameters *parameters, struct fault *fault)
{
    const struct checkpoint_stack *stack = read->run->stack;
    struct norm_source source = { .read = read,
                                  .parameters = parameters,
                                  .index =
                                      which == 1 && read->shares_keys ? read->keys_of : read->index,
                                  .part = stack->norms[which],
                                  .ending = ".weight",
                                  .heads = heads,
                                  .adds_one = stack->norm_adds_one };
    const int64_t head_dim = read->config.head_dim;
    const int64_t count = stack->norm_scope == ATTN_NORM_HEAD ? head_dim : heads * head_dim;
    norm->eps = read->norm_eps;
    norm->scope = stack->norm_scope;
    norm->is_centred = stack->norm_is_centred;
    if (!read_norm(&source, count, &norm->weight, fault) || !keep_norm(&source, &tensors[0], fault))
        return false;
    source.ending = ".bias";
    source.adds_one = false;
    return !stack->norm_has_bias
           || (read_norm(&source, count, &norm->bias, fault)
               && keep_norm(&source, &tensors[1], fault));
}

/* Refuses a file that has norms which config.json does not ask for: without them the numbers would
 * be wrong. */
static bool check_no_norm(const struct checkpoint_layer *read, struct model_parameters *parameters,
                          struct fault *fault)
{
    const struct checkpoint_stack *stack = read->run->stack;
    char name[CHECKPOINT_NAME_BYTES];
    struct norm_source source = { .read = read, .index = read->index, .ending = ".weight" };
    for (int i = 0; i < 2 && stack->norms[i]; i++) {
        source.part = stack->norms[i];
        write_norm_name(name, &source, 0);
        if (model_tensors_find(parameters->tensors, name))
            return fault_set_at(fault, "/config", FAULT_FIELD,
                                "the file has a tensor '%.100s', and config.json does not set %s",
                                name, stack->norms_if);
    }
    return true;
}

/* A norm without a tensor, of each head. */
static bool set_bare_norm(struct attn_norm *norm, const struct checkpoint_layer *read,
                          struct arena *arena, struct fault *fault)
{
    const int64_t head_dim = read->config.head_dim;
    float *ones = arena_alloc(arena, (size_t)head_dim * sizeof *ones);
    if (!ones)
        return fault_no_memory(fault);
    for (int64_t c = 0; c < head_dim; c++)
        ones[c] = 1;
    *norm = (struct attn_norm){ .weight = ones, .eps = read->norm_eps };
    return true;
}

bool checkpoint_norm_set(struct model_layer *layer, const struct checkpoint_layer *read,
                         struct model_parameters *parameters, struct fault *fault)
{
    if (read->run->stack->values_are_normed
        && !set_bare_norm(&layer->layer.v_norm, read, parameters->arena, fault))
        return false;
    if (!read->has_norms)
        return check_no_norm(read, parameters, fault);
    layer->layer.norms_follow_rope = read->run->stack->norms_follow_rope;
    if (read->run->stack->norms_are_bare)
        return set_bare_norm(&layer->layer.q_norm, read, parameters->arena, fault)
               && set_bare_norm(&layer->layer.k_norm, read, parameters->arena, fault);
    return set_norm(&layer->layer.q_norm, layer->tensors[MODEL_Q_NORM], read, 0,
                    read->config.q_heads, parameters, fault)
           && set_norm(&layer->layer.k_norm, layer->tensors[MODEL_K_NORM], read, 1,
                       read->config.kv_heads, parameters, fault);
}
