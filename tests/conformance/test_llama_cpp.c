/* SPDX-License-Identifier: Apache-2.0 */
/* test_llama_cpp.c - the numbers in gguf/llama_cpp.safetensors are what llama.cpp computes with the
 * generated models of gguf_models.h, where its libraries are there (LLAMA_CPP names their folder).
 * tests/http/test_gguf_models.c holds the daemon to them, with and without the libraries.
 *
 * ATTND_TEST_LLAMA_CPP_NUMBERS=FILE writes the file anew. */
#include "formats/safetensors.h"
#include "gguf_models.h"
#include "gguf_quantize.h"
#include "llama_cpp.h"
#include "made_model.h"
#include "tensor_file.h"
#include "test.h"

enum { CASES_MAX = 120, NAME_BYTES = 64 };

/* Processors differ in the order of their sums. */
static const double TOLERANCE = 1e-4;

/* What is stored under one name: a model, and "llama-wide" with the numbers that a type leaves. */
struct stored_case {
    char name[NAME_BYTES];
    const struct gguf_model *model;
    struct gguf_model_form form;
    bool is_vector; /* of an encoder, in place of its hidden states */
};

static struct stored_case cases[CASES_MAX];
static int case_count;

static void list_cases(void)
{
    for (int i = 0; gguf_model_at(i); i++) {
        struct stored_case *stored = &cases[case_count++];
        *stored = (struct stored_case){ .model = gguf_model_at(i), .form = { "F32", false } };
        snprintf(stored->name, NAME_BYTES, "%s", stored->model->name);
        if (stored->model->kind != GGUF_ENCODER)
            continue;
        cases[case_count] = *stored;
        cases[case_count].is_vector = true;
        snprintf(cases[case_count++].name, NAME_BYTES, "%s vector", stored->model->name);
    }
    for (int i = 1; gguf_block_at(i); i++) {
        struct stored_case *stored = &cases[case_count++];
        *stored = (struct stored_case){ .model = gguf_model_named("llama-wide"),
                                        .form = { gguf_block_at(i)->name, true } };
        snprintf(stored->name, NAME_BYTES, "llama-wide %s", stored->form.type);
    }
}

static struct llama_cpp_rows compute(const struct stored_case *stored)
{
    char path[] = "/tmp/attnd-llama-cpp-XXXXXX.gguf";
    const int file = mkstemps(path, 5);
    assert_true(file >= 0);
    close(file);
    gguf_model_write(stored->model, stored->form, path);
    const enum gguf_model_kind kind = stored->model->kind;
    struct llama_cpp_rows rows;
    if (stored->is_vector)
        rows = llama_cpp_vector(path, gguf_model_tokens, GGUF_MODEL_LENGTH);
    else if (kind == GGUF_ENCODER)
        rows = llama_cpp_states(path, gguf_model_tokens, GGUF_MODEL_LENGTH);
    else
        rows = llama_cpp_logits(path, gguf_model_tokens, GGUF_MODEL_LENGTH, gguf_model_decoded,
                                kind == GGUF_ENCODER_DECODER ? GGUF_MODEL_DECODED : 0);
    unlink(path);
    return rows;
}

static void write_numbers(const char *path)
{
    struct safetensors_tensor tensors[CASES_MAX];
    struct fault fault;
    void *bytes;
    size_t size;
    for (int i = 0; i < case_count; i++) {
        const struct llama_cpp_rows rows = compute(&cases[i]);
        tensors[i] = (struct safetensors_tensor){ .name = cases[i].name,
                                                  .rank = 2,
                                                  .shape = { rows.count, rows.columns },
                                                  .values = rows.numbers };
    }
    assert_true(safetensors_write(&bytes, &size, tensors, case_count, "origin",
                                  "llama.cpp v0.5.0, @node-llama-cpp/linux-x64 3.22.1 (MIT)",
                                  &fault));
    made_model_write(path, bytes, size);
    free(bytes);
    for (int i = 0; i < case_count; i++)
        free((void *)tensors[i].values);
}

static void expect_near(const char *name, const struct llama_cpp_rows *rows,
                        const struct tensor *stored)
{
    assert_int_equal(stored->shape[0], rows->count);
    assert_int_equal(stored->shape[1], rows->columns);
    float *numbers = tensor_floats(stored);
    for (int64_t i = 0; i < rows->count * rows->columns; i++)
        if (!(fabs((double)numbers[i] - rows->numbers[i]) <= TOLERANCE * (1 + fabs(numbers[i]))))
            fail_msg("%s: number %d is %g, and %g is stored", name, (int)i, rows->numbers[i],
                     numbers[i]);
    free(numbers);
}

TEST(stored_numbers)
{
    struct tensor_file file;
    const char *path = getenv("ATTND_TEST_LLAMA_CPP_NUMBERS");
    llama_cpp_need();
    list_cases();
    if (path)
        write_numbers(path);
    tensor_file_open(&file, "tests/conformance/gguf/llama_cpp.safetensors");
    for (int i = 0; i < case_count; i++) {
        struct llama_cpp_rows rows = compute(&cases[i]);
        const struct tensor stored = tensor_file_get(&file, cases[i].name);
        expect_near(cases[i].name, &rows, &stored);
        free(rows.numbers);
    }
    tensor_file_close(&file);
}
