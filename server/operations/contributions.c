/* SPDX-License-Identifier: Apache-2.0 */
/* contributions.c - contributions of an item: a list of objects in text; tables of all targets in a
 * file of tensors. */
#include "operations/say.h"
#include "operations/trace.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

/* --------------------------------------------------------------------- objects -- */

static void say_part(struct writer *writer, const struct trace_item *item,
                     const struct contribution_part *part)
{
    writer->kind->object(writer, NULL);
    writer->kind->integer(writer, "layer", part->layer);
    writer->kind->string(writer, "kind", model_layer_kind(&item->model->layers[part->layer]));
    say_array(writer, "heads", part->heads, ATTN_F32, 1, &part->head_count);
    say_number(writer, "attention_bias", &part->attention_bias);
    if (part->has_feed_forward)
        say_number(writer, "feed_forward", &part->feed_forward);
    say_number(writer, "edits", &part->edits);
    writer->kind->end(writer);
}

static void say_object(struct writer *writer, const struct trace_item *item,
                       const struct contribution *contribution)
{
    writer->kind->object(writer, NULL);
    writer->kind->integer(writer, "position", contribution->row);
    say_id(writer, item->model->tokenizer, contribution->id);
    if (contribution->against >= 0) {
        writer->kind->object(writer, "against");
        say_id(writer, item->model->tokenizer, contribution->against);
        writer->kind->end(writer);
    }
    say_number(writer, "logit", &contribution->logit);
    say_number(writer, "embedding", &contribution->embedding);
    say_number(writer, "bias", &contribution->bias);
    writer->kind->list(writer, "layers");
    for (int64_t i = 0; i < contribution->part_count; i++)
        say_part(writer, item, &contribution->parts[i]);
    writer->kind->end(writer);
    writer->kind->end(writer);
}

/* ---------------------------------------------------------------------- tables -- */

static void *table(struct writer *writer, int64_t count, size_t size)
{
    void *memory = arena_calloc(writer->arena, (size_t)count + 1, size);
    if (!memory)
        fault_no_memory(writer->fault);
    return memory;
}

/* A number of each target; offset in struct contribution, or in its part. */
static void say_column(struct writer *writer, const char *name, const struct trace_item *item,
                       int64_t part, size_t offset)
{
    float *numbers = table(writer, item->contribution_count, sizeof *numbers);
    for (int64_t i = 0; numbers && i < item->contribution_count; i++) {
        const struct contribution *of = &item->contributions[i];
        const char *from = part < 0 ? (const char *)of : (const char *)&of->parts[part];
        numbers[i] = *(const float *)(const void *)(from + offset);
    }
    if (numbers)
        say_array(writer, name, numbers, ATTN_F32, 1, &item->contribution_count);
}

static void say_ids(struct writer *writer, const struct trace_item *item)
{
    const int64_t count = item->contribution_count;
    int64_t *numbers = table(writer, 3 * count, sizeof *numbers);
    if (!numbers)
        return;
    for (int64_t i = 0; i < count; i++) {
        numbers[i] = item->contributions[i].row;
        numbers[count + i] = item->contributions[i].id;
        numbers[2 * count + i] = item->contributions[i].against;
    }
    writer->kind->indices(writer, "positions", numbers, 1, &count);
    writer->kind->indices(writer, "ids", numbers + count, 1, &count);
    writer->kind->indices(writer, "against", numbers + 2 * count, 1, &count);
}

static void say_part_tables(struct writer *writer, const struct trace_item *item, int64_t part)
{
    const struct contribution_part *first = &item->contributions[0].parts[part];
    const int64_t shape[] = { item->contribution_count, first->head_count };
    float *heads = table(writer, shape[0] * shape[1], sizeof *heads);
    char number[24];
    if (!heads)
        return;
    for (int64_t i = 0; i < shape[0]; i++)
        for (int64_t h = 0; h < shape[1]; h++)
            heads[i * shape[1] + h] = item->contributions[i].parts[part].heads[h];
    snprintf(number, sizeof number, "%" PRId64, first->layer);
    writer->kind->object(writer, number);
    writer->kind->string(writer, "kind", model_layer_kind(&item->model->layers[first->layer]));
    say_array(writer, "heads", heads, ATTN_F32, 2, shape);
    say_column(writer, "attention_bias", item, part,
               offsetof(struct contribution_part, attention_bias));
    if (first->has_feed_forward)
        say_column(writer, "feed_forward", item, part,
                   offsetof(struct contribution_part, feed_forward));
    say_column(writer, "edits", item, part, offsetof(struct contribution_part, edits));
    writer->kind->end(writer);
}

static void say_tables(struct writer *writer, const struct trace_item *item)
{
    writer->kind->object(writer, "contributions");
    say_ids(writer, item);
    say_column(writer, "logits", item, -1, offsetof(struct contribution, logit));
    say_column(writer, "embedding", item, -1, offsetof(struct contribution, embedding));
    say_column(writer, "bias", item, -1, offsetof(struct contribution, bias));
    writer->kind->object(writer, "layers");
    for (int64_t i = 0; i < item->contributions[0].part_count; i++)
        say_part_tables(writer, item, i);
    writer->kind->end(writer);
    writer->kind->end(writer);
}

void contributions_say(struct writer *writer, const struct trace_item *item)
{
    if (item->contribution_count == 0)
        return;
    if (writer->kind->keeps_dtype) {
        say_tables(writer, item);
        return;
    }
    writer->kind->list(writer, "contributions");
    for (int64_t i = 0; i < item->contribution_count; i++)
        say_object(writer, item, &item->contributions[i]);
    writer->kind->end(writer);
}
