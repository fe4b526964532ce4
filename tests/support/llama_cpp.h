/* SPDX-License-Identifier: Apache-2.0 */
/* llama_cpp.h - what llama.cpp computes with a GGUF file, where its shared libraries are there.
 *
 * The folder of the libraries is LLAMA_CPP in the environment; the npm package
 * @node-llama-cpp/linux-x64 has one (bins/linux-x64). They are loaded while the test runs, with the
 * declarations of llama.h that llama_cpp.c has. What fails ends the test. */
#ifndef LLAMA_CPP_H
#define LLAMA_CPP_H

#include <stdbool.h>
#include <stdint.h>

/* "libllama.v0.5.0.so, ggml 0.9.5 (1a2b3c4)": the name of its library, and what ggml says of
 * itself. */
enum { LLAMA_CPP_VERSION_BYTES = 160 };
const char *llama_cpp_version(char text[LLAMA_CPP_VERSION_BYTES]);

/* Skips the running test where there is no such folder. */
void llama_cpp_need(void);

/* Rows of numbers, malloc'd and the caller's. */
struct llama_cpp_rows {
    int64_t count, columns;
    float *numbers;
};

/* The logits of each token of a decoder, or the last hidden states of an encoder. Keys and values
 * are kept in F32. For an encoder with a decoder, decoder_count tokens are decoded, and the rows
 * are theirs; else it is 0. */
struct llama_cpp_rows llama_cpp_logits(const char *path, const int32_t *tokens, int count,
                                       const int32_t *decoder, int decoder_count);
struct llama_cpp_rows llama_cpp_states(const char *path, const int32_t *tokens, int count);

/* The one vector that an encoder makes of the tokens, pooled as the file says. */
struct llama_cpp_rows llama_cpp_vector(const char *path, const int32_t *tokens, int count);

/* The tokens of a text, with the special tokens that the file asks for; at most count_max. Returns
 * their number. */
int llama_cpp_tokens(const char *path, const char *text, int32_t *tokens, int count_max);

/* A decoder as llama.cpp runs it best by itself: weights rearranged for the CPU, keys and values in
 * F16, so many threads; for sequences of at most length tokens. */
struct llama_cpp_run;
struct llama_cpp_run *llama_cpp_run_open(const char *path, int threads, int length);
void llama_cpp_run_close(struct llama_cpp_run *run);

/* An encoder in the same way, for at most so many sequences of length tokens together. */
struct llama_cpp_run *llama_cpp_encoder_open(const char *path, int threads, int sequences,
                                             int length);

/* Computes the vectors of so many sequences of length tokens, which lie one behind the other. */
void llama_cpp_encode(struct llama_cpp_run *run, const int32_t *tokens, int sequences, int length);

/* Computes a new sequence of tokens, or one token more, and the logits of the last. */
void llama_cpp_prefill(struct llama_cpp_run *run, const int32_t *tokens, int count);
void llama_cpp_step(struct llama_cpp_run *run, int32_t token);

/* Forgets all tokens of the sequence but its first. */
void llama_cpp_cut(struct llama_cpp_run *run, int length);

#endif
