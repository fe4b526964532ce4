/* SPDX-License-Identifier: Apache-2.0 */
/* say.c - members of answers: arrays, tokens, ends, faults of items. */
#include "operations/say.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void say_array(struct writer *writer, const char *name, const void *data, enum attn_dtype dtype,
               int rank, const int64_t *shape)
{
    struct array array = { .data = data, .dtype = dtype, .rank = rank };
    if (rank > 0)
        memcpy(array.shape, shape, (size_t)rank * sizeof *shape);
    writer->kind->array(writer, name, &array);
}

void say_top_k(struct writer *writer, const char *name, const int64_t *indices, const void *values,
               enum attn_dtype dtype, int rank, const int64_t *shape)
{
    writer->kind->object(writer, name);
    writer->kind->indices(writer, "indices", indices, rank, shape);
    say_array(writer, "values", values, dtype, rank, shape);
    writer->kind->end(writer);
}

const char *say_token_text(const struct tokenizer *tokenizer, int64_t id)
{
    return tokenizer && id >= 0 && id < tokenizer_id_end(tokenizer)
               ? tokenizer_token_text(tokenizer, (int32_t)id)
               : NULL;
}

void say_number(struct writer *writer, const char *name, const float *number)
{
    say_array(writer, name, number, ATTN_F32, 0, NULL);
}

void say_id(struct writer *writer, const struct tokenizer *tokenizer, int64_t id)
{
    const char *text = say_token_text(tokenizer, id);
    writer->kind->integer(writer, "id", id);
    if (text)
        writer->kind->string(writer, "text", text);
}

void say_token(struct writer *writer, const struct tokenizer *tokenizer, const struct token *token,
               bool has_pair)
{
    const struct writer_kind *kind = writer->kind;
    kind->object(writer, NULL);
    say_id(writer, tokenizer, token->id);
    if (token->is_of_text) {
        kind->integer(writer, "start", token->start);
        kind->integer(writer, "end", token->end);
    }
    if (has_pair && token->is_of_text)
        kind->integer(writer, "sequence", token->sequence);
    if (token->is_special)
        kind->flag(writer, "special", true);
    kind->end(writer);
}

void say_end(struct writer *writer, int64_t expires_ns)
{
    const int64_t left_ns = expires_ns - clock_now_ns();
    const time_t end = time(NULL) + (time_t)(left_ns / 1000000000);
    char stamp[32];
    struct tm parts;
    strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&end, &parts));
    writer->kind->string(writer, "expires", arena_strdup(writer->arena, stamp));
    writer->kind->integer(writer, "expires_in_ms", left_ns / 1000000);
}

void say_fault(struct writer *writer, const struct fault *fault, int64_t index)
{
    char prefix[32];
    struct fault whole = *fault;
    snprintf(prefix, sizeof prefix, "/requests/%" PRId64, index);
    fault_prefix_pointer(&whole, prefix);
    writer->kind->string(writer, "error", whole.message);
    writer->kind->string(writer, "code", fault_code_name(whole.code));
    writer->kind->string(writer, "pointer", whole.pointer);
}
