/* encode_lines.c - encodes texts with a tokenizer of the server, for tests/tokenizers/compare.js.
 *
 *     encode_lines FOLDER < texts > tokens
 *     encode_lines FOLDER time < texts
 *
 * Each text is 4 bytes of its size, low ones first, and its bytes, so that it may hold line breaks.
 * The answer to each text is a count, then of each token its id, start and end, and then the size
 * and the bytes of the decoded text, every number as 4 bytes. A text that is refused has the count
 * -1, and its message in place of the decoded text. With `time` all texts are read first, and
 * the answer is the seconds that encoding them takes. */
#include "models/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct texts {
    struct byte_slice *list;
    int64_t count, capacity;
};

static bool read_text(struct byte_slice *text)
{
    unsigned char head[4];
    if (fread(head, 1, 4, stdin) != 4)
        return false;
    text->size = head[0] | (size_t)head[1] << 8 | (size_t)head[2] << 16 | (size_t)head[3] << 24;
    char *data = malloc(text->size + 1);
    if (!data || fread(data, 1, text->size, stdin) != text->size)
        exit(1);
    text->data = data;
    return true;
}

static void write_number(int64_t number)
{
    const uint32_t bits = (uint32_t)number;
    const unsigned char bytes[] = { (unsigned char)bits, (unsigned char)(bits >> 8),
                                    (unsigned char)(bits >> 16), (unsigned char)(bits >> 24) };
    fwrite(bytes, 1, sizeof bytes, stdout);
}

static void write_bytes(const char *bytes, size_t size)
{
    write_number((int64_t)size);
    fwrite(bytes, 1, size, stdout);
}

static void write_decoded(const struct tokenizer *tokenizer, const struct token_list *list)
{
    int32_t *ids = calloc((size_t)list->count + 1, sizeof *ids);
    struct text text;
    struct fault fault;
    text_init(&text, SIZE_MAX);
    for (int64_t i = 0; ids && i < list->count; i++)
        ids[i] = list->tokens[i].id;
    if (ids && tokenizer_decode(tokenizer, NULL, ids, list->count, true, &text, &fault))
        write_bytes(text.data, text.used);
    else
        write_bytes(fault.message, strlen(fault.message));
    text_free(&text);
    free(ids);
}

static void answer(const struct tokenizer *tokenizer, struct byte_slice text)
{
    struct arena arena;
    struct token_list list;
    struct fault fault;
    arena_init(&arena, SIZE_MAX);
    if (tokenizer_encode(tokenizer, NULL, text, NULL, true, &arena, &list, &fault)) {
        write_number(list.count);
        for (int64_t i = 0; i < list.count; i++) {
            write_number(list.tokens[i].id);
            write_number(list.tokens[i].start);
            write_number(list.tokens[i].end);
        }
        write_decoded(tokenizer, &list);
    } else {
        write_number(-1);
        write_bytes(fault.message, strlen(fault.message));
    }
    arena_free(&arena);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void measure(const struct tokenizer *tokenizer)
{
    struct texts texts = { 0 };
    for (struct byte_slice text; read_text(&text);) {
        if (texts.count == texts.capacity) {
            texts.capacity = texts.capacity ? 2 * texts.capacity : 1024;
            texts.list = realloc(texts.list, (size_t)texts.capacity * sizeof *texts.list);
            if (!texts.list)
                exit(1);
        }
        texts.list[texts.count++] = text;
    }
    const double begin = seconds();
    for (int64_t i = 0; i < texts.count; i++) {
        struct arena arena;
        struct token_list list;
        struct fault fault;
        arena_init(&arena, SIZE_MAX);
        tokenizer_encode(tokenizer, NULL, texts.list[i], NULL, true, &arena, &list, &fault);
        arena_free(&arena);
    }
    printf("%.6f\n", seconds() - begin);
}

int main(int count, char **arguments)
{
    struct tokenizer *tokenizer = NULL;
    struct fault fault = { .message = "the folder has no file of a tokenizer" };
    if (count < 2) {
        fprintf(stderr, "usage: encode_lines FOLDER [time] < texts\n");
        return 2;
    }
    if (!tokenizer_open(&tokenizer, arguments[1], &fault) || !tokenizer) {
        fprintf(stderr, "%s\n", fault.message);
        return 1;
    }
    if (count > 2 && strcmp(arguments[2], "time") == 0)
        measure(tokenizer);
    else
        for (struct byte_slice text; read_text(&text); free((void *)text.data))
            answer(tokenizer, text);
    tokenizer_free(tokenizer);
    return 0;
}
