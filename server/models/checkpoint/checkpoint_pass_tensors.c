/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_pass_tensors.c - tensors around attention, in the forms that a pass computes with. */
#include "models/checkpoint/checkpoint_pass_internal.h"

#include "base/grow.h"
#include "models/checkpoint/checkpoint_tensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { RANK_MAX = 4, PART_BYTES = 128, MXFP4_NUMBERS = 32 };

#define STACKED ".weight||_blocks" /* how names of stacks of matrices end */

/* ------------------------------------------------------------------- names -- */

/* Writes the name of length letters as the file would have it. */
static void write_part_name(char name[CHECKPOINT_NAME_BYTES],
                            const struct checkpoint_pass_reader *reader, const char *from,
                            size_t length, const char *ending)
{
    char part[PART_BYTES], feed[PART_BYTES];
    const char *pattern = reader->feed ? reader->feed : "";
    const size_t before = strcspn(pattern, "%");
    if (pattern[before])
        snprintf(feed, sizeof feed, "%.*s%" PRId64 "%s", (int)before, pattern, reader->expert,
                 pattern + before + 1);
    else
        snprintf(feed, sizeof feed, "%s", pattern);
    snprintf(part, sizeof part, "%.64s%.*s", feed, (int)length, from);
    if (from[0] == '/')
        snprintf(name, CHECKPOINT_NAME_BYTES, "%.*s%s", (int)length - 1, from + 1, ending);
    else if (reader->block >= 0)
        checkpoint_name_write_block(name, reader->run, reader->block, part, ending);
    else
        snprintf(name, CHECKPOINT_NAME_BYTES, "%s%s%s", reader->run->prefix, part, ending);
}

/* Finds the first tensor of "a|b" with one of the endings, ".weight|.gamma". Where there is none,
 * entry is NULL and name is that of the first. */
static const struct model_entry *find_entry(char name[CHECKPOINT_NAME_BYTES],
                                            const struct checkpoint_pass_reader *reader,
                                            const char *names, const char *endings)
{
    char ending[16], tried[CHECKPOINT_NAME_BYTES];
    name[0] = '\0';
    for (const char *from = names; from; from = strchr(from, '|') ? strchr(from, '|') + 1 : NULL)
        for (const char *end = endings; end; end = strchr(end, '|') ? strchr(end, '|') + 1 : NULL) {
            snprintf(ending, sizeof ending, "%.*s", (int)strcspn(end, "|"), end);
            write_part_name(tried, reader, from, strcspn(from, "|"), ending);
            const struct model_entry *entry =
                model_tensors_find(reader->parameters->tensors, tried);
            if (entry || !name[0])
                memcpy(name, tried, sizeof tried);
            if (entry)
                return entry;
        }
    return NULL;
}

static const struct model_entry *require_entry(const struct checkpoint_pass_reader *reader,
                                               const char *names, const char *endings)
{
    char name[CHECKPOINT_NAME_BYTES];
    const struct model_entry *entry = find_entry(name, reader, names, endings);
    if (!entry)
        fault_set(reader->fault, FAULT_FIELD,
                  "the file has no tensor '%.120s', which the whole pass of the model needs", name);
    return entry;
}

bool checkpoint_pass_has(const struct checkpoint_pass_reader *reader, const char *names)
{
    char name[CHECKPOINT_NAME_BYTES];
    return names && find_entry(name, reader, names, ".weight");
}

bool checkpoint_pass_has_stacked(const struct checkpoint_pass_reader *reader, const char *names)
{
    char name[CHECKPOINT_NAME_BYTES];
    return names && find_entry(name, reader, names, STACKED);
}

bool checkpoint_pass_has_values(const struct checkpoint_pass_reader *reader, const char *names)
{
    char name[CHECKPOINT_NAME_BYTES];
    return find_entry(name, reader, names, "");
}

/* ------------------------------------------------------------------ shapes -- */

static bool refuse_shape(const struct checkpoint_pass_reader *reader,
                         const struct model_entry *entry, int64_t rows, int64_t columns)
{
    char expected[64];
    if (rows > 0 && columns > 0)
        snprintf(expected, sizeof expected, "[%" PRId64 ", %" PRId64 "]", rows, columns);
    else
        snprintf(expected, sizeof expected, "a matrix of %" PRId64 " %s", rows > 0 ? rows : columns,
                 rows > 0 ? "rows" : "columns");
    return fault_set(reader->fault, FAULT_SHAPE,
                     "tensor '%.120s' is not %s, as the whole pass of the model needs", entry->name,
                     expected);
}

/* Checks that entry is a matrix [*rows, *columns], and sets those that are 0. */
static bool check_matrix(const struct checkpoint_pass_reader *reader,
                         const struct model_entry *entry, int64_t *rows, int64_t *columns)
{
    const uint64_t *shape = entry->shape;
    const bool is_sound = entry->rank == 2 && shape[0] >= 1 && shape[0] <= INT32_MAX
                          && shape[1] >= 1 && shape[1] <= INT32_MAX;
    if (!is_sound || (*rows > 0 && shape[0] != (uint64_t)*rows)
        || (*columns > 0 && shape[1] != (uint64_t)*columns))
        return refuse_shape(reader, entry, *rows, *columns);
    *rows = (int64_t)shape[0];
    *columns = (int64_t)shape[1];
    return true;
}

static bool check_count(const struct checkpoint_pass_reader *reader,
                        const struct model_entry *entry, int64_t count)
{
    return (entry->rank <= RANK_MAX && entry->number_count == (uint64_t)count)
           || fault_set(reader->fault, FAULT_SHAPE,
                        "tensor '%.120s' is not of %" PRId64
                        " numbers, as the whole pass of the model needs",
                        entry->name, count);
}

/* ----------------------------------------------------------------- numbers -- */

static bool keep_address(struct checkpoint_pass_reader *reader, const void *address)
{
    const void **addresses = array_with_room(reader->addresses, reader->address_count,
                                             &reader->address_capacity, sizeof *addresses);
    if (!addresses)
        return fault_no_memory(reader->fault);
    reader->addresses = addresses;
    addresses[reader->address_count++] = address;
    return true;
}

static bool get_floats(struct checkpoint_pass_reader *reader, const struct model_entry *entry,
                       int64_t count, const float **values)
{
    return check_count(reader, entry, count)
           && model_parameters_get(reader->parameters, entry, values, reader->fault)
           && keep_address(reader, *values);
}

/* Sets a bias of count numbers. NULL where there is none: then the file may have none either. */
static bool get_bias(struct checkpoint_pass_reader *reader, const char *names, const char *endings,
                     int64_t count, bool has_bias, const float **bias)
{
    char name[CHECKPOINT_NAME_BYTES];
    *bias = NULL;
    if (!has_bias)
        return !find_entry(name, reader, names, endings)
               || fault_set(reader->fault, FAULT_FIELD,
                            "the file has a tensor '%.120s', and by config.json there is no bias",
                            name);
    const struct model_entry *entry = require_entry(reader, names, endings);
    return entry && get_floats(reader, entry, count, bias);
}

bool checkpoint_pass_matrix(struct checkpoint_pass_reader *reader, struct attn_linear *linear,
                            const char *names, int64_t out, int64_t in, bool in_out)
{
    const struct model_entry *entry = require_entry(reader, names, ".weight");
    const struct model_slice all = { .groups = 0 };
    if (!entry || !check_matrix(reader, entry, in_out ? &in : &out, in_out ? &out : &in))
        return false;
    *linear = (struct attn_linear){ .out = out, .in = in, .in_out = in_out };
    return model_parameters_get_slice(reader->parameters, entry, &all, in, in_out, &linear->weight,
                                      &linear->dtype, reader->fault)
           && keep_address(reader, linear->weight);
}

bool checkpoint_pass_linear(struct checkpoint_pass_reader *reader, struct attn_linear *linear,
                            const char *names, int64_t out, int64_t in, bool in_out, bool has_bias)
{
    return checkpoint_pass_matrix(reader, linear, names, out, in, in_out)
           && get_bias(reader, names, ".bias", linear->out, has_bias, &linear->bias);
}

bool checkpoint_pass_convolution(struct checkpoint_pass_reader *reader, struct attn_linear *linear,
                                 const char *names, int64_t out, int64_t in, bool has_bias)
{
    const struct model_entry *entry = require_entry(reader, names, ".weight");
    const struct model_slice all = { .groups = 0 };
    if (!entry)
        return false;
    if (entry->shape[0] != (uint64_t)out || in > INT32_MAX)
        return refuse_shape(reader, entry, out, 0);
    *linear = (struct attn_linear){ .out = out, .in = in };
    return check_count(reader, entry, out * in)
           && model_parameters_get_slice(reader->parameters, entry, &all, in, false,
                                         &linear->weight, &linear->dtype, reader->fault)
           && keep_address(reader, linear->weight)
           && get_bias(reader, names, ".bias", out, has_bias, &linear->bias);
}

bool checkpoint_pass_gated(struct checkpoint_pass_reader *reader, struct attn_linear *gate,
                           struct attn_linear *up, const char *names, int64_t in, bool has_bias)
{
    struct attn_linear whole;
    if (!checkpoint_pass_linear(reader, &whole, names, 0, in, false, has_bias))
        return false;
    if (whole.out % 2 != 0)
        return refuse_shape(reader, require_entry(reader, names, ".weight"), whole.out + 1, in);
    whole.out /= 2;
    *gate = *up = whole;
    up->weight = attn_number_at(whole.weight, whole.dtype, whole.out * in);
    up->bias = whole.bias ? whole.bias + whole.out : NULL;
    return true;
}

/* ------------------------------------------------------------------- stacks -- */

/* A tensor of the matrices of all experts. */
struct stack {
    const struct model_entry *weight, *bias; /* bias NULL: none */
    const struct model_entry *scales;        /* of MXFP4, whose blocks weight is; NULL: it is not */
    int64_t out, in;                         /* of each matrix */
    bool in_out;
};

/* Blocks of MXFP4, [experts, out, blocks, bytes], and their scales. */
static bool find_mxfp4(const struct checkpoint_pass_reader *reader, struct stack *stack,
                       const char *names, int64_t count)
{
    const struct model_entry *blocks = require_entry(reader, names, "_blocks");
    const struct model_entry *scales = blocks ? require_entry(reader, names, "_scales") : NULL;
    if (!scales)
        return false;
    if (blocks->rank != 4 || blocks->shape[0] != (uint64_t)count || blocks->shape[1] < 1
        || blocks->shape[1] > INT32_MAX || blocks->shape[2] < 1
        || blocks->shape[2] > INT32_MAX / MXFP4_NUMBERS || blocks->shape[3] != MXFP4_NUMBERS / 2)
        return fault_set(reader->fault, FAULT_SHAPE,
                         "tensor '%.120s' is not [%" PRId64 ", outputs, blocks, %d], as experts in "
                         "MXFP4 are",
                         blocks->name, count, MXFP4_NUMBERS / 2);
    *stack = (struct stack){ .weight = blocks,
                             .scales = scales,
                             .out = (int64_t)blocks->shape[1],
                             .in = (int64_t)blocks->shape[2] * MXFP4_NUMBERS };
    return true;
}

/* Numbers, [experts, out, in] or [experts, in, out]. */
static bool find_matrices(const struct checkpoint_pass_reader *reader, struct stack *stack,
                          const char *names)
{
    const bool in_out = reader->pass.stacked_in_out;
    const struct model_entry *entry = require_entry(reader, names, STACKED);
    if (!entry)
        return false;
    *stack = (struct stack){ .weight = entry, .in_out = in_out };
    for (int i = 1; i < 3 && entry->rank == 3; i++)
        if (entry->shape[i] <= INT32_MAX)
            *((i == 2) == in_out ? &stack->out : &stack->in) = (int64_t)entry->shape[i];
    return true;
}

/* Finds a stack of count matrices [out, in]; out 0: as the tensor has it. */
static bool find_stack(const struct checkpoint_pass_reader *reader, struct stack *stack,
                       const char *names, int64_t count, int64_t out, int64_t in)
{
    char name[CHECKPOINT_NAME_BYTES];
    const bool is_mxfp4 =
        reader->pass.stacked_may_be_mxfp4 && find_entry(name, reader, names, "_blocks");
    if (!(is_mxfp4 ? find_mxfp4(reader, stack, names, count) : find_matrices(reader, stack, names)))
        return false;
    if (stack->weight->shape[0] != (uint64_t)count || stack->in != in || stack->out < 1
        || (out > 0 && stack->out != out))
        return fault_set(reader->fault, FAULT_SHAPE,
                         "tensor '%.120s' is not %" PRId64 " matrices of %" PRId64
                         " columns, one for each expert, as the whole pass of the model needs",
                         stack->weight->name, count, in);
    if (!reader->pass.stacked_has_bias)
        return true;
    stack->bias = require_entry(reader, names, "_bias");
    return stack->bias && check_count(reader, stack->bias, count * stack->out);
}

static bool get_mxfp4(struct checkpoint_pass_reader *reader, struct attn_linear *linear,
                      const struct stack *stack)
{
    const void *values;
    if (!model_parameters_get_mxfp4(reader->parameters, stack->weight, stack->scales, &values,
                                    reader->fault))
        return false;
    linear->dtype = ATTN_MXFP4;
    linear->weight = attn_number_at(values, ATTN_MXFP4, reader->expert * stack->out * stack->in);
    return keep_address(reader, linear->weight);
}

/* Outputs of the matrix of the reader's expert; of MXFP4 all of them. */
static bool get_stacked(struct checkpoint_pass_reader *reader, struct attn_linear *linear,
                        const struct stack *stack, const struct model_slice *outputs)
{
    *linear = (struct attn_linear){
        .out = outputs->groups > 0 ? outputs->groups * outputs->count : stack->out,
        .in = stack->in,
        .in_out = stack->in_out,
    };
    if (stack->scales)
        return get_mxfp4(reader, linear, stack);
    return model_parameters_get_slice(reader->parameters, stack->weight, outputs, stack->in,
                                      stack->in_out, &linear->weight, &linear->dtype, reader->fault)
           && keep_address(reader, linear->weight);
}

static bool get_stacked_bias(struct checkpoint_pass_reader *reader, struct attn_linear *linear,
                             const struct stack *stack, const struct model_slice *outputs)
{
    const void *bias = NULL;
    if (!stack->bias)
        return true;
    if (!model_parameters_get_slice(reader->parameters, stack->bias, outputs, 1, false, &bias, NULL,
                                    reader->fault))
        return false;
    linear->bias = bias;
    return keep_address(reader, bias);
}

/* Every other row of a matrix is a matrix too, whose rows are twice as far apart. */
static bool get_every_other(struct checkpoint_pass_reader *reader, struct attn_linear *linear,
                            const struct stack *stack, const struct model_slice *outputs)
{
    const struct model_slice whole = { .matrices = outputs->matrices, .matrix = outputs->matrix };
    if (!get_stacked(reader, linear, stack, &whole))
        return false;
    linear->weight = attn_number_at(linear->weight, linear->dtype, outputs->first * stack->in);
    linear->stride = 2 * stack->in;
    linear->out = outputs->groups;
    return true;
}

bool checkpoint_pass_stacked(struct checkpoint_pass_reader *reader, struct attn_linear *linear,
                             const char *names, int64_t count, int64_t out, int64_t in)
{
    const struct model_slice whole = { .matrices = count, .matrix = reader->expert };
    struct stack stack;
    return find_stack(reader, &stack, names, count, out, in)
           && get_stacked(reader, linear, &stack, &whole)
           && get_stacked_bias(reader, linear, &stack, &whole);
}

bool checkpoint_pass_stacked_gated(struct checkpoint_pass_reader *reader, struct attn_linear *gate,
                                   struct attn_linear *up, const char *names, int64_t count,
                                   int64_t in)
{
    struct attn_linear *const parts[2] = { gate, up };
    const bool alternates = reader->pass.stacked_alternates;
    struct stack stack;
    if (!find_stack(reader, &stack, names, count, 0, in))
        return false;
    if (stack.out % 2 != 0)
        return fault_set(reader->fault, FAULT_SHAPE,
                         "tensor '%.120s' has %" PRId64 " outputs, and the whole pass of the model "
                         "needs as many for the gate as for what it multiplies",
                         stack.weight->name, stack.out);
    for (int64_t i = 0; i < 2; i++) {
        const int64_t half = stack.out / 2;
        const struct model_slice outputs = {
            .groups = alternates ? half : 1,
            .group_size = alternates ? 2 : stack.out,
            .first = alternates ? i : i * half,
            .count = alternates ? 1 : half,
            .matrices = count,
            .matrix = reader->expert,
        };
        if (!(alternates && !stack.in_out ? get_every_other(reader, parts[i], &stack, &outputs)
                                          : get_stacked(reader, parts[i], &stack, &outputs))
            || !get_stacked_bias(reader, parts[i], &stack, &outputs))
            return false;
    }
    return true;
}

bool checkpoint_pass_table(struct checkpoint_pass_reader *reader, struct model_table *table,
                           const char *names, int64_t width)
{
    struct attn_linear rows;
    if (!checkpoint_pass_matrix(reader, &rows, names, 0, width, false))
        return false;
    *table = (struct model_table){
        .rows = rows.weight, .dtype = rows.dtype, .count = rows.out, .width = rows.in
    };
    return true;
}

/* -------------------------------------------------------------------- norms -- */

/* The weight of a norm: ones, the file's, or the file's and one; times scale, 0: 1. */
static bool get_norm_weight(struct checkpoint_pass_reader *reader, const char *names, int64_t width,
                            double scale, const float **weight)
{
    const struct checkpoint_pass *pass = &reader->pass;
    const float *stored = NULL;
    if (!pass->norm_is_bare) {
        const struct model_entry *entry = require_entry(reader, names, ".weight|.gamma");
        if (!entry || !check_count(reader, entry, width))
            return false;
        if (!pass->norm_adds_one && scale == 0)
            return get_floats(reader, entry, width, weight);
        if (!model_parameters_get_now(reader->parameters, entry, &stored, reader->fault))
            return false;
    }
    float *made = arena_alloc(reader->parameters->arena, (size_t)width * sizeof *made);
    if (!made)
        return fault_no_memory(reader->fault);
    for (int64_t c = 0; c < width; c++) {
        made[c] = pass->norm_adds_one || !stored ? 1.0f + (stored ? stored[c] : 0.0f) : stored[c];
        if (scale != 0)
            made[c] = (float)(scale * (double)made[c]);
    }
    *weight = made;
    return true;
}

bool checkpoint_pass_scaled_norm(struct checkpoint_pass_reader *reader, struct attn_norm *norm,
                                 const char *names, int64_t width, double scale)
{
    *norm = (struct attn_norm){ .eps = reader->norm_eps,
                                .scope = ATTN_NORM_ROW,
                                .is_centred = reader->pass.norm_is_centred };
    return get_norm_weight(reader, names, width, scale, &norm->weight);
}

bool checkpoint_pass_norm(struct checkpoint_pass_reader *reader, struct attn_norm *norm,
                          const char *names, int64_t width)
{
    if (!names)
        return true;
    *norm = (struct attn_norm){ .eps = reader->norm_eps,
                                .scope = ATTN_NORM_ROW,
                                .is_centred = reader->pass.norm_is_centred };
    return get_norm_weight(reader, names, width, 0, &norm->weight)
           && (reader->pass.norm_is_bare
               || get_bias(reader, names, ".bias|.beta", width, reader->norm_has_bias,
                           &norm->bias));
}

bool checkpoint_pass_values(struct checkpoint_pass_reader *reader, const float **values,
                            const char *names, int64_t count)
{
    const struct model_entry *entry = require_entry(reader, names, "");
    return entry && get_floats(reader, entry, count, values);
}

bool checkpoint_pass_values_now(struct checkpoint_pass_reader *reader, const float **values,
                                const char *names, int64_t count)
{
    const struct model_entry *entry = require_entry(reader, names, "");
    return entry && check_count(reader, entry, count)
           && model_parameters_get_now(reader->parameters, entry, values, reader->fault);
}
