/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_altup.c - what Gemma 3n has beside its blocks: several rows for each token, a product
 * of low rank beside attention, and gates of which most numbers are 0.
 *
 * Source: Gemma3nTextAltUp, Gemma3nTextLaurelBlock, Gemma3nTextMLP and Gemma3nTextModel of
 * gemma3n/modeling_gemma3n.py. */
#include "models/checkpoint/checkpoint_pass_internal.h"

#include "models/checkpoint/checkpoint_fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ------------------------------------------------------------- rows of a token -- */

static bool read_count(struct checkpoint_pass_reader *reader, int64_t *count)
{
    const cJSON *section = reader->run->section;
    int64_t active;
    if (!checkpoint_read_integer(section, "altup_num_inputs=4", count, reader->fault)
        || !checkpoint_read_integer(section, "altup_active_idx", &active, reader->fault))
        return false;
    if (*count < 2 || *count > MODEL_ALTUP_MAX)
        return fault_set(reader->fault, FAULT_OPTION,
                         "config.json's altup_num_inputs is %" PRId64 "; expected 2 to %d", *count,
                         MODEL_ALTUP_MAX);
    return active == 0
           || fault_set(reader->fault, FAULT_OPTION,
                        "config.json's altup_active_idx is %" PRId64
                        ", and the whole pass is computed here where it is 0 alone",
                        active);
}

bool checkpoint_altup_build_stream(struct model_stream *stream,
                                   struct checkpoint_pass_reader *reader)
{
    struct model_altup *altup = &stream->altup;
    char name[64];
    if (!reader->pass.has_altup)
        return true;
    if (stream->token_inputs.width == 0)
        return fault_set(reader->fault, FAULT_OPTION,
                         "config.json gives layers no columns of tokens "
                         "(hidden_size_per_layer_input), which such a model has");
    if (!read_count(reader, &altup->count))
        return false;
    for (int64_t i = 0; i < altup->count - 1; i++) {
        snprintf(name, sizeof name, "altup_projections.%" PRId64, i);
        if (!checkpoint_pass_linear(reader, &altup->spread[i], name, stream->width, stream->width,
                                    false, false))
            return false;
        snprintf(name, sizeof name, "altup_unembed_projections.%" PRId64, i);
        if (!checkpoint_pass_linear(reader, &altup->join[i], name, stream->width, stream->width,
                                    false, false))
            return false;
    }
    return true;
}

/* ----------------------------------------------------------------- of a block -- */

bool checkpoint_altup_build_block(struct model_block *block, struct checkpoint_pass_reader *reader,
                                  const struct model_stream *stream)
{
    const cJSON *section = reader->run->section;
    const int64_t n = stream->altup.count, width = stream->width;
    double clip;
    bool is_scaled;
    if (n == 0)
        return true;
    struct model_block_altup *altup = arena_calloc(reader->parameters->arena, 1, sizeof *altup);
    if (!altup)
        return fault_no_memory(reader->fault);
    block->altup = altup;
    if (!checkpoint_read_number(section, "altup_coef_clip", &clip, reader->fault)
        || !checkpoint_read_flag(section, "altup_correct_scale=true", &is_scaled, reader->fault))
        return false;
    altup->clip = (float)clip;
    block->self.sum_scale = sqrt(0.5);
    return checkpoint_pass_norm(reader, &altup->norm, "altup.router_norm", width)
           && checkpoint_pass_values(reader, &altup->router, "altup.modality_router.weight",
                                     n * width)
           && checkpoint_pass_values(reader, &altup->prediction, "altup.prediction_coefs.weight",
                                     n * n * n)
           && checkpoint_pass_values(reader, &altup->correction, "altup.correction_coefs.weight",
                                     n * n)
           && (!is_scaled
               || checkpoint_pass_values(reader, &altup->scale, "altup.correct_output_scale",
                                         width))
           && checkpoint_pass_linear(reader, &altup->left, "laurel.linear_left", 0, width, false,
                                     false)
           && checkpoint_pass_linear(reader, &altup->right, "laurel.linear_right", width,
                                     altup->left.out, false, false)
           && checkpoint_pass_norm(reader, &altup->laurel_norm, "laurel.post_laurel_norm", width);
}

/* ------------------------------------------------------------- gates mostly 0 -- */

/* The number that a normal distribution is below with this probability, from 0 to 1, exclusive,
 * which the source computes of the probability as float. */
static double normal_quantile(double probability)
{
    double low = -40, high = 40;
    for (int i = 0; i < 200; i++) {
        const double middle = low + (high - low) / 2;
        *(erfc(-middle / sqrt(2)) / 2 < probability ? &low : &high) = middle;
    }
    return low;
}

bool checkpoint_altup_read_sparsity(struct model_feed_forward *dense,
                                    struct checkpoint_pass_reader *reader)
{
    static const double MOST = 0.95;
    const struct checkpoint_run *run = reader->run;
    const cJSON *pattern =
        cJSON_GetObjectItemCaseSensitive(run->section, "activation_sparsity_pattern");
    const struct json_numbers *list = pattern ? json_numbers_of(run->document, pattern) : NULL;
    double part = run->layer_count > 10 && reader->block < 10 ? MOST : 0;
    if (!reader->pass.has_altup)
        return true;
    if (cJSON_IsNumber(pattern))
        part = pattern->valuedouble;
    else if (list && list->rank == 1 && reader->block < list->count)
        part = (double)list->values[reader->block];
    else if (pattern && !cJSON_IsNull(pattern))
        part = NAN;
    if (!(part >= 0 && part < 1))
        return fault_set(
            reader->fault, FAULT_OPTION,
            "config.json's activation_sparsity_pattern has no number for layer %" PRId64
            " that is 0 or more and less than 1",
            reader->block);
    dense->is_sparse = part > 0;
    dense->deviations = dense->is_sparse ? normal_quantile(part) : 0;
    return true;
}
