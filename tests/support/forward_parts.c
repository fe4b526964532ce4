/* SPDX-License-Identifier: Apache-2.0 */
/* forward_parts.c - see forward_parts.h. */
#include "forward_parts.h"
#include "test.h"

enum { LAYERS_MAX = 64, SCALES_MAX = 65536 };

static struct {
    enum { OFF, RECORDING, TAKING } mode;
    enum forward_part part;
    const char *kind;
    int layer;
    int64_t head;
    double scales[SCALES_MAX]; /* of all norms of all rows, in the order of the pass */
    int scale_count, scale;
    struct rows fed[LAYERS_MAX], beside[LAYERS_MAX], context[LAYERS_MAX], bias[LAYERS_MAX];
    struct rows entering[LAYERS_MAX], output[LAYERS_MAX]; /* what edits put in */
} now;

void forward_parts_record(void)
{
    memset(&now, 0, sizeof now);
    now.mode = RECORDING;
}

void forward_parts_take(enum forward_part part, const char *kind, int layer, int64_t head)
{
    now.mode = TAKING;
    now.part = part;
    now.kind = kind;
    now.layer = layer;
    now.head = head;
    now.scale = 0;
}

bool forward_parts_are_taken(void)
{
    return now.mode == TAKING;
}

static int cut_behind = -1;

void forward_parts_cut(int layer)
{
    cut_behind = layer;
}

bool forward_parts_are_cut(int layer)
{
    return cut_behind >= 0 && layer > cut_behind;
}

void forward_parts_end(void)
{
    now.mode = OFF;
}

double forward_parts_norm_scale(double scale)
{
    if (now.mode == OFF)
        return scale;
    if (now.mode == TAKING) {
        assert_true(now.scale < now.scale_count);
        return now.scales[now.scale++];
    }
    assert_true(now.scale_count < SCALES_MAX);
    now.scales[now.scale_count++] = scale;
    return scale;
}

/* x + sign * y, new rows; y without data: x. */
static struct rows sum(struct rows x, double sign, struct rows y)
{
    const struct rows z = published_rows(x.count, x.columns);
    for (int64_t i = 0; i < x.count * x.columns; i++)
        z.data[i] = x.data[i] + (y.data ? sign * y.data[i] : 0);
    return z;
}

static struct rows nothing(struct rows x)
{
    return published_rows(x.count, x.columns);
}

static bool is(enum forward_part part, int layer)
{
    return now.part == part && now.layer == layer;
}

struct rows forward_parts_entering(const char *kind, int block, int layer, struct rows x,
                                   struct rows edited)
{
    if (now.mode == RECORDING && block > 0)
        now.entering[layer] = sum(edited, -1, x);
    if (now.mode == RECORDING && block == 0)
        now.entering[layer] = edited; /* all of it */
    if (now.mode != TAKING)
        return edited;
    if (block == 0)
        return now.part == FORWARD_PART_EMBEDDING && strcmp(now.kind, kind) == 0
                   ? now.entering[layer]
                   : nothing(x);
    return is(FORWARD_PART_EDITS, layer) ? sum(x, 1, now.entering[layer]) : x;
}

static struct rows fed_of(struct rows *recorded, int layer, struct rows x)
{
    if (now.mode == RECORDING)
        *recorded = x;
    if (now.mode != TAKING)
        return x;
    return is(FORWARD_PART_FEED_FORWARD, layer) ? *recorded : nothing(x);
}

struct rows forward_parts_fed(int layer, struct rows x)
{
    return fed_of(&now.fed[layer], layer, x);
}

struct rows forward_parts_beside(int layer, struct rows x)
{
    return fed_of(&now.beside[layer], layer, x);
}

struct rows forward_parts_context(int layer, int64_t heads, struct rows context)
{
    const int64_t dim = context.columns / heads;
    if (now.mode == RECORDING)
        now.context[layer] = context;
    if (now.mode != TAKING)
        return context;
    const struct rows one = nothing(context);
    for (int64_t i = 0; is(FORWARD_PART_HEAD, layer) && i < one.count; i++)
        for (int64_t c = now.head * dim; c < (now.head + 1) * dim; c++)
            one.data[i * one.columns + c] = now.context[layer].data[i * one.columns + c];
    return one;
}

struct rows forward_parts_output(int layer, struct rows x, struct rows edited)
{
    if (now.mode == RECORDING)
        now.output[layer] = sum(edited, -1, x);
    if (now.mode != TAKING)
        return edited;
    if (now.part == FORWARD_PART_NONE)
        now.bias[layer] = x; /* of no context */
    if (is(FORWARD_PART_HEAD, layer))
        return sum(x, -1, now.bias[layer]);
    if (is(FORWARD_PART_ATTENTION_BIAS, layer))
        return now.bias[layer];
    return is(FORWARD_PART_EDITS, layer) ? now.output[layer] : nothing(x);
}
