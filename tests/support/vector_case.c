/* SPDX-License-Identifier: Apache-2.0 */
/* vector_case.c - see vector_case.h. */
#include "vector_case.h"
#include "test.h"

#include "answer.h"
#include "formats/safetensors.h"
#include "request_text.h"

#include <sys/stat.h>

/* Of a vector, relative in the 2-norm. */
static const double TOLERANCE = 1e-5;

/* ------------------------------------------------------------------- numbers -- */

static double weigh(const char *mode, int64_t row)
{
    return strcmp(mode, "weightedmean") == 0 ? (double)row + 1 : 1;
}

struct rows vector_pool(struct rows rows, const char *mode, int first)
{
    const struct rows vector = published_rows(1, rows.columns);
    for (int64_t c = 0; c < rows.columns; c++) {
        double sum = 0, weights = 0, most = -INFINITY;
        for (int64_t i = first; i < rows.count; i++) {
            const double number = rows.data[i * rows.columns + c];
            sum += number * weigh(mode, i);
            weights += weigh(mode, i);
            most = fmax(most, number);
        }
        vector.data[c] = strcmp(mode, "cls") == 0 ? rows.data[first * rows.columns + c]
                         : strcmp(mode, "lasttoken") == 0
                             ? rows.data[(rows.count - 1) * rows.columns + c]
                         : strcmp(mode, "max") == 0                  ? most
                         : strcmp(mode, "mean_sqrt_len_tokens") == 0 ? sum / sqrt(weights)
                                                                     : sum / weights;
    }
    return vector;
}

struct rows vector_unit(struct rows x)
{
    double sum = 0;
    for (int64_t c = 0; c < x.columns; c++)
        sum += x.data[c] * x.data[c];
    return forward_scale(x, 1 / fmax(sqrt(sum), 1e-12));
}

struct rows vector_join(struct rows x, struct rows y)
{
    const struct rows joined = published_rows(1, x.columns + y.columns);
    memcpy(joined.data, x.data, (size_t)x.columns * sizeof *x.data);
    memcpy(joined.data + x.columns, y.data, (size_t)y.columns * sizeof *y.data);
    return joined;
}

struct rows vector_cut(struct rows x, int64_t count)
{
    const struct rows cut = published_rows(1, count);
    memcpy(cut.data, x.data, (size_t)count * sizeof *x.data);
    return cut;
}

/* --------------------------------------------------------------------- files -- */

static FILE *open_file(const char *folder, const char *file)
{
    char path[512];
    const char *slash = strrchr(file, '/');
    snprintf(path, sizeof path, "%s/%.*s", folder, slash ? (int)(slash - file) : 0, file);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *stream = fopen(path, "w");
    assert_non_null(stream);
    return stream;
}

void vector_write(const char *folder, const char *file, const char *text)
{
    FILE *stream = open_file(folder, file);
    assert_true(fputs(text, stream) >= 0);
    assert_int_equal(fclose(stream), 0);
}

static float *to_floats(struct rows x)
{
    float *floats = calloc((size_t)(x.count * x.columns), sizeof *floats);
    assert_non_null(floats);
    for (int64_t i = 0; i < x.count * x.columns; i++)
        floats[i] = (float)x.data[i];
    return floats;
}

void vector_write_dense(const char *folder, const char *sub, const char *name)
{
    char tensor[128], file[128];
    snprintf(tensor, sizeof tensor, "%s.weight", name);
    const struct rows weight = published_tensor(tensor, 0);
    snprintf(tensor, sizeof tensor, "%s.bias", name);
    const bool has_bias = published_has(tensor, 0);
    float *numbers = to_floats(weight);
    float *biases = has_bias ? to_floats(published_tensor(tensor, 0)) : NULL;
    const struct safetensors_tensor tensors[] = {
        { "linear.weight", 2, { weight.count, weight.columns }, numbers, NULL },
        { "linear.bias", 1, { weight.count }, biases, NULL },
    };
    void *bytes;
    size_t size;
    struct fault fault;
    assert_true(
        safetensors_write(&bytes, &size, tensors, has_bias ? 2 : 1, "format", "pt", &fault));
    snprintf(file, sizeof file, "%s/model.safetensors", sub);
    FILE *stream = open_file(folder, file);
    assert_int_equal(fwrite(bytes, 1, size, stream), size);
    assert_int_equal(fclose(stream), 0);
    free(bytes);
    free(numbers);
    free(biases);
}

void vector_break(const char *folder, const char *file, const char *tensor)
{
    char path[512];
    uint64_t size;
    const float value = NAN;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *stream = fopen(path, "r+b");
    assert_non_null(stream);
    assert_int_equal(fread(&size, sizeof size, 1, stream), 1);
    char *text = calloc(1, size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, size, stream), size);
    cJSON *header = cJSON_Parse(text);
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(header, tensor);
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(entry, "data_offsets");
    assert_non_null(offsets);
    const long offset = (long)(sizeof size + size) + (long)offsets->child->valuedouble;
    assert_int_equal(fseek(stream, offset, SEEK_SET), 0);
    assert_int_equal(fwrite(&value, sizeof value, 1, stream), 1);
    assert_int_equal(fclose(stream), 0);
    cJSON_Delete(header);
    free(text);
}

/* ------------------------------------------------------------------- answers -- */

void vector_expect(struct http_client *client, const char *model, const char *fields,
                   const char *member, struct rows want)
{
    struct request_text body = { .data = NULL };
    request_text_add(&body, JSON({"model":"%s","layers":[],"outputs":["embedding"],%s}), model,
                                  fields);
    cJSON *answer = answer_post(client, "/v1/trace", body.data);
    double *got = answer_numbers(answer, member, 1, &want.columns), sum = 0, norm = 0;
    for (int64_t c = 0; c < want.columns; c++) {
        sum += (got[c] - want.data[c]) * (got[c] - want.data[c]);
        norm += want.data[c] * want.data[c];
    }
    print_message("%s %s: %.1e\n", model, member, sqrt(sum / norm));
    if (!(sum <= TOLERANCE * TOLERANCE * norm))
        fail_msg("%s: %s differs by %.3g of its norm", model, member, sqrt(sum / norm));
    free(got);
    free(body.data);
    cJSON_Delete(answer);
}
