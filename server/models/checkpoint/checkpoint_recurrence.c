/* checkpoint_recurrence.c - see checkpoint_recurrence.h. */
#include "models/checkpoint/checkpoint_recurrence.h"

#include "models/checkpoint/checkpoint_fields.h"

#include <inttypes.h>

/* The depthwise convolution of columns columns, its weights [columns, 1, taps]. */
static bool get_convolution(struct attn_convolution *convolution,
                            struct checkpoint_pass_reader *reader, const char *taps_field,
                            int64_t columns, bool has_bias)
{
    const cJSON *section = reader->run->section;
    convolution->columns = columns;
    if (!checkpoint_read_integer(section, taps_field, &convolution->taps, reader->fault))
        return false;
    if (convolution->taps < 1 || convolution->taps > ATTN_CONVOLUTION_TAPS_MAX)
        return fault_set(reader->fault, FAULT_OPTION,
                         "config.json gives convolutions of %" PRId64
                         " rows (%.*s); expected 1 to %d",
                         convolution->taps, CHECKPOINT_FIELD_NAME(section, taps_field),
                         ATTN_CONVOLUTION_TAPS_MAX);
    return checkpoint_pass_values(reader, &convolution->weight, "conv.weight",
                                  columns * convolution->taps)
           && (!has_bias
               || checkpoint_pass_values(reader, &convolution->bias, "conv.bias", columns));
}

/* Source: Lfm2ShortConv of lfm2/modeling_lfm2.py. in_proj makes B, C and x, and the row is C times
 * the convolution of B times x. */
bool checkpoint_recurrence_short_convolution(struct model_recurrence *recurrence,
                                             struct checkpoint_pass_reader *reader, int64_t width)
{
    bool has_bias;
    *recurrence = (struct model_recurrence){ .kind = MODEL_RECURRENCE_NONE,
                                             .in_count = 1,
                                             .columns = 3 * width,
                                             .factor_at = 0,
                                             .conv_gate_at = width,
                                             .convolved_at = 2 * width,
                                             .mixed = width,
                                             .gate_at = -1,
                                             .norm_groups = 1 };
    return checkpoint_read_flag(reader->run->section, "conv_bias", &has_bias, reader->fault)
           && checkpoint_pass_linear(reader, &recurrence->in[0], "in_proj", 3 * width, width, false,
                                     has_bias)
           && get_convolution(&recurrence->convolution, reader, "conv_L_cache=3", width, has_bias)
           && checkpoint_pass_linear(reader, &recurrence->out, "out_proj", width, width, false,
                                     has_bias);
}
