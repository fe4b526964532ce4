/* SPDX-License-Identifier: Apache-2.0 */
/* alignment.c - the alignment of an item (struct trace_align): of speech the times of tokens and
 * words, of texts the token that each goes along. In a file of tensors it is the same as tables. */
#include "operations/say.h"
#include "operations/trace.h"

#include <string.h>

/* Tokens of the answer: those behind the first row that predicts one. */
static int64_t token_count(const struct trace_align *align)
{
    return align->rows - align->first_row - 1;
}

static const struct token *token_at(const struct trace_item *item, int64_t i)
{
    return &item->streams[1].tokens.tokens[item->align->first_row + 1 + i];
}

static void say_heads(struct writer *writer, const struct trace_align *align)
{
    const int64_t shape[] = { align->head_count, 2 };
    writer->kind->indices(writer, "heads", align->heads[0], 2, shape);
}

/* ---------------------------------------------------------------------- objects -- */

static void say_source(struct writer *writer, const struct trace_item *item, int64_t i)
{
    const struct token_list *sources = &item->streams[0].tokens;
    const int64_t place = item->align->places[i];
    writer->kind->object(writer, "source");
    writer->kind->integer(writer, "position", place);
    if (sources->tokens)
        say_id(writer, item->model->tokenizer, sources->tokens[place].id);
    writer->kind->end(writer);
    say_number(writer, "weight", &item->align->weights[i]);
}

static void say_times(struct writer *writer, const struct trace_align *align, int64_t first,
                      int64_t end)
{
    say_number(writer, "start", &align->times[first]);
    say_number(writer, "end", &align->times[end]);
}

static void say_tokens(struct writer *writer, const struct trace_item *item)
{
    const struct trace_align *align = item->align;
    writer->kind->list(writer, "tokens");
    for (int64_t i = 0; i < token_count(align); i++) {
        writer->kind->object(writer, NULL);
        writer->kind->integer(writer, "position", align->first_row + 1 + i);
        say_id(writer, item->model->tokenizer, token_at(item, i)->id);
        if (align->is_speech)
            say_times(writer, align, i, i + 1);
        else
            say_source(writer, item, i);
        writer->kind->end(writer);
    }
    writer->kind->end(writer);
}

/* What a token adds to the text; nothing where it is special or has no text. */
static struct byte_slice piece_of(struct writer *writer, const struct trace_item *item, int64_t i)
{
    struct token_piece piece = { .is_special = true };
    const int32_t before = i > 0 ? token_at(item, i - 1)->id : -1;
    if (!say_token_text(item->model->tokenizer, token_at(item, i)->id)
        || !tokenizer_piece(item->model->tokenizer, before, token_at(item, i)->id, writer->arena,
                            &piece, writer->fault)
        || piece.is_special)
        return (struct byte_slice){ 0 };
    return piece.bytes;
}

static bool begins_word(struct byte_slice piece)
{
    return piece.size > 0 && *(const char *)piece.data == ' ';
}

/* Tokens [first, end), whose pieces are the word; nothing where they are none of the text. */
static void say_word(struct writer *writer, const struct trace_item *item, int64_t first,
                     int64_t end, struct text *word)
{
    size_t blanks = 0;
    while (blanks < word->used && word->data[blanks] == ' ')
        blanks++;
    const struct byte_slice text = tokenizer_repair(
        (struct byte_slice){ word->data + blanks, word->used - blanks }, writer->arena);
    if (!text.data)
        fault_no_memory(writer->fault);
    if (!text.data || text.size == 0)
        return;
    char *copy = arena_alloc(writer->arena, text.size + 1);
    if (!copy) {
        fault_no_memory(writer->fault);
        return;
    }
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    writer->kind->object(writer, NULL);
    writer->kind->string(writer, "text", copy);
    say_times(writer, item->align, first, end);
    writer->kind->list(writer, "positions");
    writer->kind->integer(writer, NULL, item->align->first_row + 1 + first);
    writer->kind->integer(writer, NULL, item->align->first_row + 1 + end);
    writer->kind->end(writer);
    writer->kind->end(writer);
}

/* A word begins with a blank, or behind a token that is none of the text. */
static void say_words(struct writer *writer, const struct trace_item *item)
{
    const int64_t count = token_count(item->align);
    struct text word;
    int64_t first = 0;
    if (!item->model->tokenizer)
        return;
    text_init(&word, SIZE_MAX);
    writer->kind->list(writer, "words");
    for (int64_t i = 0; i <= count; i++) {
        const struct byte_slice piece =
            i < count ? piece_of(writer, item, i) : (struct byte_slice){ 0 };
        if (i == count || !piece.data || begins_word(piece)) {
            say_word(writer, item, first, i, &word);
            word.used = 0;
            first = piece.data ? i : i + 1;
        }
        if (piece.data)
            text_bytes(&word, piece.data, piece.size);
    }
    writer->kind->end(writer);
    if (word.failed != FAULT_NONE)
        fault_no_memory(writer->fault);
    text_free(&word);
}

/* ----------------------------------------------------------------------- tables -- */

static void say_tables(struct writer *writer, const struct trace_align *align)
{
    const int64_t count = token_count(align), edges = count + 1;
    int64_t *positions = arena_calloc(writer->arena, (size_t)count + 1, sizeof *positions);
    if (!positions) {
        fault_no_memory(writer->fault);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        positions[i] = align->first_row + 1 + i;
    writer->kind->indices(writer, "positions", positions, 1, &count);
    if (align->is_speech) {
        say_array(writer, "times", align->times, ATTN_F32, 1, &edges);
        return;
    }
    writer->kind->indices(writer, "sources", align->places, 1, &count);
    say_array(writer, "weights", align->weights, ATTN_F32, 1, &count);
}

void alignment_say(struct writer *writer, const struct trace_item *item)
{
    if (!item->align)
        return;
    writer->kind->object(writer, "align");
    say_heads(writer, item->align);
    if (writer->kind->keeps_dtype) {
        say_tables(writer, item->align);
    } else {
        say_tokens(writer, item);
        if (item->align->is_speech)
            say_words(writer, item);
    }
    writer->kind->end(writer);
}
