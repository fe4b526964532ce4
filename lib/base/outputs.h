/* outputs.h - what the outputs of a problem ask for, read off ATTN_OUTPUT_MAP. */
#ifndef ATTN_OUTPUTS_H
#define ATTN_OUTPUTS_H

#include "base/internal.h"

/* Columns of a row of the output. */
int64_t attn_output_columns(const struct attn_problem *problem, enum attn_output output);

/* Does the caller want any output? Any map? */
bool attn_wants_output(const struct attn_problem *problem);
bool attn_wants_map(const struct attn_problem *problem);

/* What a task has to do for the outputs of its problem. */
struct attn_needs {
    bool scores;      /* a map shows scores before the mask: hidden pairs need a score too */
    bool masked;      /* a map shows scores, before or after the mask */
    bool weight_rows; /* weights are F32: their rows hold masked scores until the last tile */
    bool pairs;       /* masked or weight_rows: the first pass visits hidden pairs too */
    bool softmax;     /* else the work ends with the masked scores */
};

struct attn_needs attn_needs_of(const struct attn_problem *problem);

#endif
