/* outputs.c - see outputs.h. */
#include "base/outputs.h"

enum columns { V_HEAD_DIM, KV_LEN, ONE };

/* The steps of attention, in order. */
enum step { SCORE, MASK, SOFTMAX };

static const struct {
    enum columns columns;
    enum step step;
} outputs[ATTN_OUTPUT_COUNT] = {
#define X(NAME, name, columns, step) { columns, step },
    ATTN_OUTPUT_MAP(X)
#undef X
};

int64_t attn_output_columns(const struct attn_problem *problem, enum attn_output output)
{
    switch (outputs[output].columns) {
    case V_HEAD_DIM:
        return problem->value.shape[3];
    case KV_LEN:
        return problem->key.shape[2];
    case ONE:
        break;
    }
    return 1;
}

bool attn_output_is_map(enum attn_output output)
{
    return outputs[output].columns == KV_LEN;
}

bool attn_wants_output(const struct attn_problem *problem)
{
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        if (attn_is_wanted(&problem->out[i]))
            return true;
    return false;
}

bool attn_wants_map(const struct attn_problem *problem)
{
    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++)
        if (attn_output_is_map(i) && attn_is_wanted(&problem->out[i]))
            return true;
    return false;
}

struct attn_needs attn_needs_of(const struct attn_problem *problem)
{
    struct attn_needs needs = { 0 };

    for (int i = 0; i < ATTN_OUTPUT_COUNT; i++) {
        if (!attn_is_wanted(&problem->out[i]))
            continue;
        needs.scores = needs.scores || outputs[i].step == SCORE;
        needs.masked = needs.masked || outputs[i].step < SOFTMAX;
        needs.softmax = needs.softmax || outputs[i].step == SOFTMAX;
    }
    needs.weight_rows = attn_is_wanted(&problem->weights) && problem->weights.dtype == ATTN_F32;
    needs.pairs = needs.masked || needs.weight_rows;
    return needs;
}
