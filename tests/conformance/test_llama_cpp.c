/* test_llama_cpp.c - the numbers in gguf/llama_cpp.safetensors are what llama.cpp computes with the
 * generated models of gguf_models.h, where its libraries are there (LLAMA_CPP names their folder).
 * tests/http/test_gguf_models.c holds the daemon to them, with and without the libraries.
 *
 * ATTND_TEST_LLAMA_CPP_NUMBERS=FILE writes the file anew. */
#include "formats/safetensors.h"
#include "gguf_models.h"
#include "llama_cpp.h"
#include "made_model.h"
#include "tensor_file.h"
#include "test.h"

enum { MODELS_MAX = 100 };

/* Processors differ in the order of their sums. */
static const double TOLERANCE = 1e-4;

static struct llama_cpp_rows compute(const struct gguf_model *model)
{
    char path[] = "/tmp/attnd-llama-cpp-XXXXXX.gguf";
    const int file = mkstemps(path, 5);
    assert_true(file >= 0);
    close(file);
    gguf_model_write(model, "F32", path);
    const struct llama_cpp_rows rows =
        model->kind == GGUF_ENCODER
            ? llama_cpp_states(path, gguf_model_tokens, GGUF_MODEL_LENGTH)
            : llama_cpp_logits(path, gguf_model_tokens, GGUF_MODEL_LENGTH, gguf_model_decoded,
                               model->kind == GGUF_ENCODER_DECODER ? GGUF_MODEL_DECODED : 0);
    unlink(path);
    return rows;
}

static void write_numbers(const char *path)
{
    struct safetensors_tensor tensors[MODELS_MAX];
    struct fault fault;
    void *bytes;
    size_t size;
    int count = 0;
    for (; gguf_model_at(count); count++) {
        const struct llama_cpp_rows rows = compute(gguf_model_at(count));
        tensors[count] = (struct safetensors_tensor){ .name = gguf_model_at(count)->name,
                                                      .rank = 2,
                                                      .shape = { rows.count, rows.columns },
                                                      .values = rows.numbers };
    }
    assert_true(safetensors_write(&bytes, &size, tensors, count, "origin",
                                  "llama.cpp v0.5.0, @node-llama-cpp/linux-x64 3.22.1 (MIT)",
                                  &fault));
    made_model_write(path, bytes, size);
    free(bytes);
    for (int i = 0; i < count; i++)
        free((void *)tensors[i].values);
}

static void expect_near(const struct gguf_model *model, const struct llama_cpp_rows *rows,
                        const struct tensor *stored)
{
    assert_int_equal(stored->shape[0], rows->count);
    assert_int_equal(stored->shape[1], rows->columns);
    float *numbers = tensor_floats(stored);
    for (int64_t i = 0; i < rows->count * rows->columns; i++)
        if (!(fabs((double)numbers[i] - rows->numbers[i]) <= TOLERANCE * (1 + fabs(numbers[i]))))
            fail_msg("%s: number %d is %g, and %g is stored", model->name, (int)i, rows->numbers[i],
                     numbers[i]);
    free(numbers);
}

TEST(stored_numbers)
{
    struct tensor_file file;
    const char *path = getenv("ATTND_TEST_LLAMA_CPP_NUMBERS");
    llama_cpp_need();
    if (path)
        write_numbers(path);
    tensor_file_open(&file, "tests/conformance/gguf/llama_cpp.safetensors");
    for (int i = 0; gguf_model_at(i); i++) {
        const struct gguf_model *model = gguf_model_at(i);
        struct llama_cpp_rows rows = compute(model);
        const struct tensor stored = tensor_file_get(&file, model->name);
        expect_near(model, &rows, &stored);
        free(rows.numbers);
    }
    tensor_file_close(&file);
}
