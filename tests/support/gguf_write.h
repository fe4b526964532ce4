/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_write.h - writes GGUF files for tests, after ggml's docs/gguf.md. Nothing here uses the
 * daemon's reader or its tables.
 *
 *     struct gguf_write *file = gguf_write_create(3);
 *     gguf_write_text(file, "general.architecture", "llama");
 *     gguf_write_integer(file, "llama.block_count", 'I', 2);
 *     gguf_write_tensor(file, "output.weight", "Q8_0", 2, (int64_t[]){ 32, 64 }, values);
 *     gguf_write_file(file, "some/model.gguf");
 *     gguf_write_free(file);
 *
 * What is wrong ends the program: tests write what they mean to. */
#ifndef GGUF_WRITE_H
#define GGUF_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct gguf_write;

/* A file of this version without pairs and tensors. */
struct gguf_write *gguf_write_create(uint32_t version);
void gguf_write_free(struct gguf_write *file);

/* The alignment of the data, as a pair too; before the first tensor. 32 where nothing is said. */
void gguf_write_alignment(struct gguf_write *file, uint32_t alignment);

/* Pairs. A letter stands for a type, as in Python's struct: b B h H i I q Q, f d, ?. */
void gguf_write_text(struct gguf_write *file, const char *key, const char *text);
void gguf_write_integer(struct gguf_write *file, const char *key, char type, int64_t integer);
void gguf_write_number(struct gguf_write *file, const char *key, char type, double number);
void gguf_write_bool(struct gguf_write *file, const char *key, bool flag);
void gguf_write_texts(struct gguf_write *file, const char *key, const char *const *texts,
                      int64_t count);
/* An array of numbers, which lie there as the file has them. */
void gguf_write_numbers(struct gguf_write *file, const char *key, char type, const void *numbers,
                        int64_t count);
/* Any value: the number of its type, and the bytes behind that. */
void gguf_write_value(struct gguf_write *file, const char *key, uint32_t type, const void *bytes,
                      size_t size);

/* A tensor of ggml's type ("F32", "Q4_K"), row-major, the last dimension contiguous. The first form
 * quantizes values, with a quantizer of the tests' own (gguf_quantize.h). */
void gguf_write_tensor(struct gguf_write *file, const char *name, const char *type, int rank,
                       const int64_t *shape, const float *values);
void gguf_write_blocks(struct gguf_write *file, const char *name, const char *type, int rank,
                       const int64_t *shape, const void *blocks);

/* The whole file, malloc'd and the caller's. */
void *gguf_write_bytes(const struct gguf_write *file, size_t *size);
void gguf_write_file(const struct gguf_write *file, const char *path);

/* Writes PREFIX-00001-of-0000N.gguf and so on, as llama-gguf-split does: the pairs in the first,
 * the tensors one after the other in all, and split.no, split.count and split.tensors.count in
 * each. */
void gguf_write_split(const struct gguf_write *file, const char *prefix, int count);

#endif
