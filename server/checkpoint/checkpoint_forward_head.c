/* checkpoint_forward_head.c - the head of a published checkpoint, from rows to logits.
 *
 * Many published files are of a model without its head. Such a file has no predictions, which is
 * no reason against its pass. A file that has a part of a head must have all of it. */
#include "checkpoint/checkpoint_activation.h"
#include "checkpoint/checkpoint_fields.h"
#include "checkpoint/checkpoint_forward_stream.h"

#include <inttypes.h>
#include <math.h>

static bool build_transform(struct model_head *head, struct checkpoint_forward_reader *reader,
                            const struct model_stream *stream, int64_t *width)
{
    const struct checkpoint_forward_row *row = &reader->row;
    const bool is_projected = stream->embedding.tokens.width != *width;
    const char *names = row->transform ? row->transform
                        : is_projected ? row->head_projection
                                       : NULL;
    if (!names)
        return true;
    if (!checkpoint_forward_linear(reader, &head->transform, names, 0, *width, false,
                                   row->transform != NULL))
        return false;
    *width = head->transform.out;
    return !row->transform
           || (checkpoint_activation_read(reader->run->section, row->head_activation,
                                          &head->activation, reader->fault)
               && checkpoint_forward_norm(reader, &head->norm, row->head_norm, *width));
}

static bool tie(struct attn_linear *output, const struct model_table *tokens, int64_t width,
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

static bool read_scale(struct model_head *head, struct checkpoint_forward_reader *reader,
                       int64_t width)
{
    const struct checkpoint_forward_row *row = &reader->row;
    const cJSON *section = reader->run->section;
    double divisor;
    bool is_root;
    if (!checkpoint_read_number(section, row->logit_scale, &head->scale, reader->fault)
        || !checkpoint_read_number(section, row->logit_divisor, &divisor, reader->fault)
        || !checkpoint_read_number(section, row->logit_softcap, &head->softcap, reader->fault)
        || !checkpoint_read_flag(section, row->logit_root_divisor_if, &is_root, reader->fault))
        return false;
    if (divisor > 0)
        head->scale = 1 / divisor;
    if (is_root)
        head->scale = 1 / sqrt((double)width);
    return true;
}

bool checkpoint_forward_head_build(struct model_head *head,
                                   struct checkpoint_forward_reader *reader,
                                   const struct model_stream *stream, bool is_causal)
{
    const struct checkpoint_forward_row *row = &reader->row;
    int64_t width = stream->width;
    bool is_tied;
    if (!checkpoint_read_flag(reader->run->section, row->tied, &is_tied, reader->fault))
        return false;
    const bool has_output = checkpoint_forward_has(reader, row->output);
    is_tied = is_tied || (row->tied_if_absent && !has_output);
    if ((row->transform && !checkpoint_forward_has(reader, row->transform))
        || (!is_tied && !has_output))
        return true;
    /* Without a transform it is the head of a language model, which predicts the next token. A
     * model that looks both ways has no use for it. */
    if (!is_causal && !row->transform)
        return true;
    head->is_masked = !is_causal;
    if (!build_transform(head, reader, stream, &width))
        return false;
    if (!(is_tied ? tie(&head->output, &stream->embedding.tokens, width, reader->fault)
          : row->output_bias
              ? checkpoint_forward_matrix(reader, &head->output, row->output, 0, width, false)
              : checkpoint_forward_linear(reader, &head->output, row->output, 0, width, false,
                                          false)))
        return false;
    const bool has_bias =
        row->output_bias
        && (!row->output_bias_if_any || checkpoint_forward_has_values(reader, row->output_bias));
    return (!has_bias
            || checkpoint_forward_values(reader, &head->output.bias, row->output_bias,
                                         head->output.out))
           && read_scale(head, reader, stream->width);
}
