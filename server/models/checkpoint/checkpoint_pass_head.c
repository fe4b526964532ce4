/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_pass_head.c - builds the head over a vocabulary, and that over maps.
 *
 * Many published files are of a model without its head. Such a file has no predictions, which is no
 * reason against its pass. A file that has a part of a head must have all of it. */
#include "models/checkpoint/checkpoint_pass_internal.h"

#include "models/checkpoint/checkpoint_fields.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static bool build_transform(struct model_head *head, struct checkpoint_pass_reader *reader,
                            const struct model_stream *stream, int64_t *width)
{
    const struct checkpoint_pass *pass = &reader->pass;
    const bool is_projected = stream->embedding.tokens.width != *width;
    const char *names = pass->transform ? pass->transform
                        : is_projected  ? pass->head_projection
                                        : NULL;
    if (!names)
        return true;
    if (!checkpoint_pass_linear(reader, &head->transform, names, 0, *width, false,
                                pass->transform != NULL && !pass->transform_has_no_bias))
        return false;
    *width = head->transform.out;
    return !pass->transform
           || (checkpoint_read_activation(reader->run->section, pass->head_activation,
                                          &head->activation, reader->fault)
               && checkpoint_pass_norm(reader, &head->norm, pass->head_norm, *width));
}

static bool tie_output(struct attn_linear *output, const struct model_table *tokens, int64_t width,
                       struct fault *fault)
{
    if (tokens->width != width)
        return fault_set(fault, FAULT_SHAPE,
                         "the head has %" PRId64 " columns, and the table of tokens, which is its "
                         "output, has %" PRId64,
                         width, tokens->width);
    *output = (struct attn_linear){
        .weight = tokens->rows, .out = tokens->count, .in = tokens->width, .dtype = tokens->dtype
    };
    return true;
}

static bool read_logit_scale(struct model_head *head, struct checkpoint_pass_reader *reader,
                             int64_t width)
{
    const struct checkpoint_pass *pass = &reader->pass;
    const cJSON *section = reader->run->section;
    double divisor;
    bool is_root;
    if (!checkpoint_read_number(section, pass->logit_scale, &head->scale, reader->fault)
        || !checkpoint_read_number(section, pass->logit_divisor, &divisor, reader->fault)
        || !checkpoint_read_number(section, pass->logit_softcap, &head->softcap, reader->fault)
        || !checkpoint_read_flag(section, pass->logit_root_divisor_if, &is_root, reader->fault))
        return false;
    if (divisor > 0)
        head->scale = 1 / divisor;
    if (is_root)
        head->scale = 1 / sqrt((double)width);
    return true;
}

bool checkpoint_pass_build_head(struct model_head *head, struct checkpoint_pass_reader *reader,
                                const struct model_stream *stream, bool is_causal)
{
    const struct checkpoint_pass *pass = &reader->pass;
    int64_t width = stream->width;
    bool is_tied;
    if (!checkpoint_read_flag(reader->run->section, pass->tied, &is_tied, reader->fault))
        return false;
    const bool has_output = checkpoint_pass_has(reader, pass->output);
    is_tied = is_tied || (pass->tied_if_absent && !has_output);
    if ((pass->transform && !checkpoint_pass_has(reader, pass->transform))
        || (pass->output_bias_tells && !checkpoint_pass_has_values(reader, pass->output_bias))
        || (!is_tied && !has_output))
        return true;
    /* Without a transform it is the head of a language model, which predicts the next token. A
     * model that looks both ways has no use for it. */
    if (!is_causal && !pass->transform)
        return true;
    head->is_masked = !is_causal;
    if (!build_transform(head, reader, stream, &width))
        return false;
    if (!(is_tied ? tie_output(&head->output, &stream->embedding.tokens, width, reader->fault)
          : pass->output_bias
              ? checkpoint_pass_matrix(reader, &head->output, pass->output, 0, width, false)
              : checkpoint_pass_linear(reader, &head->output, pass->output, 0, width, false,
                                       false)))
        return false;
    const bool has_bias =
        pass->output_bias
        && (!pass->output_bias_if_any || checkpoint_pass_has_values(reader, pass->output_bias));
    return (!has_bias
            || checkpoint_pass_values(reader, &head->output.bias, pass->output_bias,
                                      head->output.out))
           && read_logit_scale(head, reader, stream->width);
}

/* A regression over the maps of all layers, where the file has it. */
bool checkpoint_pass_build_contacts(struct model_contacts *contacts,
                                    struct checkpoint_pass_reader *reader,
                                    const struct model_stream *stream, int64_t heads)
{
    char name[64];
    const float *bias = NULL;
    if (!checkpoint_pass_has(reader, reader->pass.contacts))
        return true;
    contacts->end_id = reader->pass.contacts_end;
    snprintf(name, sizeof name, "%s.bias", reader->pass.contacts);
    if (!checkpoint_pass_values_now(reader, &bias, name, 1) || !bias)
        return false;
    contacts->bias = bias[0];
    snprintf(name, sizeof name, "%s.weight", reader->pass.contacts);
    return checkpoint_pass_values(reader, &contacts->weights, name, stream->block_count * heads);
}
