/* SPDX-License-Identifier: Apache-2.0 */
/* encode_lines.c - encodes texts with a tokenizer of the server, for tests/tokenizers/compare.js.
 *
 *     encode_lines FOLDER < texts > tokens
 *     encode_lines FOLDER time < texts
 *
 * In place of a folder a file FILE.gguf may stand, whose metadata have the tokenizer. Each text is
 * 4 bytes of its size, low ones first, and its bytes, so that it may hold line breaks. The answer
 * to each text is a count, then of each token its id, start and end, and then the size and the
 * bytes of the decoded text, every number as 4 bytes. A text that is refused has the count -1, and
 * its message in place of the decoded text. With `time` all texts are read first, and the answer is
 * the seconds that encoding them takes. */
#include "formats/gguf.h"
#include "models/tokenizer/tokenizer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
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

static bool open_gguf(struct tokenizer **tokenizer, const char *path, struct fault *fault)
{
    struct gguf gguf;
    struct stat status;
    const int file = open(path, O_RDONLY);
    if (file < 0 || fstat(file, &status) != 0)
        return fault_set(fault, FAULT_STORAGE, "%s cannot be opened", path);
    const size_t size = (size_t)status.st_size;
    void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (bytes == MAP_FAILED)
        return fault_set(fault, FAULT_STORAGE, "%s cannot be mapped", path);
    if (!gguf_read(&gguf, bytes, size, fault))
        return false;
    const double begin = seconds();
    const bool opened = tokenizer_open_gguf(tokenizer, &gguf, path, fault);
    if (opened)
        fprintf(stderr, "opened in %.3f s\n", seconds() - begin);
    gguf_free(&gguf);
    munmap(bytes, size);
    return opened;
}

static bool open_any(struct tokenizer **tokenizer, const char *path, struct fault *fault)
{
    const char *dot = strrchr(path, '.');
    return dot && strcmp(dot, ".gguf") == 0 ? open_gguf(tokenizer, path, fault)
                                            : tokenizer_open(tokenizer, path, fault);
}

int main(int count, char **arguments)
{
    struct tokenizer *tokenizer = NULL;
    struct fault fault = { .message = "the folder has no file of a tokenizer" };
    if (count < 2) {
        fprintf(stderr, "usage: encode_lines FOLDER [time] < texts\n");
        return 2;
    }
    if (!open_any(&tokenizer, arguments[1], &fault) || !tokenizer) {
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
