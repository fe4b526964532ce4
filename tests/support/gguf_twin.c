/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_twin.c - see gguf_twin.h. */
#include "gguf_twin.h"
#include "test.h"

#include "gguf_write.h"
#include "published.h"

#include <inttypes.h>

enum { NAME_BYTES = 160, RANK_MAX = 3 };

/* A tensor on its way. */
struct matrix {
    int rank;
    int64_t shape[RANK_MAX];
    float *values; /* malloc'd */
    int64_t count;
};

static struct matrix matrix_of(struct rows rows, bool is_vector)
{
    struct matrix matrix = { .rank = is_vector ? 1 : 2,
                             .shape = { rows.count, rows.columns },
                             .count = rows.count * rows.columns };
    if (is_vector)
        matrix.shape[0] = rows.columns;
    matrix.values = malloc((size_t)matrix.count * sizeof *matrix.values);
    assert_non_null(matrix.values);
    for (int64_t i = 0; i < matrix.count; i++)
        matrix.values[i] = (float)rows.data[i];
    return matrix;
}

/* ----------------------------------------------------------------- changes -- */

/* Puts row from[i] of the old rows into row i. */
static void move_rows(struct matrix *matrix, const int64_t *from)
{
    const int64_t rows = matrix->shape[0], columns = matrix->count / rows;
    float *moved = malloc((size_t)matrix->count * sizeof *moved);
    assert_non_null(moved);
    for (int64_t i = 0; i < rows; i++)
        memcpy(moved + i * columns, matrix->values + from[i] * columns,
               (size_t)columns * sizeof *moved);
    free(matrix->values);
    matrix->values = moved;
}

/* LlamaModel.permute(): reshape(heads, 2, half, ...).swapaxes(1, 2). */
static void make_pairs(struct matrix *matrix, int64_t heads)
{
    const int64_t rows = matrix->shape[0], half = rows / heads / 2;
    int64_t *from = malloc((size_t)rows * sizeof *from);
    assert_non_null(from);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t head = i / (2 * half), within = i % (2 * half);
        from[i] = head * 2 * half + within % 2 * half + within / 2;
    }
    move_rows(matrix, from);
    free(from);
}

/* BloomModel, FalconModel: q, k and v of each group, of which q has so many heads. */
static void split_groups(struct matrix *matrix, int64_t groups, int64_t queries)
{
    const int64_t rows = matrix->shape[0], group = rows / groups, head = group / (queries + 2);
    int64_t *from = malloc((size_t)rows * sizeof *from), used = 0;
    assert_non_null(from);
    for (int part = 0; part < 3; part++) {
        const int64_t first = part == 0 ? 0 : (queries + part - 1) * head;
        const int64_t count = part == 0 ? queries * head : head;
        for (int64_t g = 0; g < groups; g++)
            for (int64_t i = 0; i < count; i++)
                from[used++] = g * group + first + i;
    }
    assert_int_equal(used, rows);
    move_rows(matrix, from);
    free(from);
}

static void transpose(struct matrix *matrix)
{
    const int64_t rows = matrix->shape[0], columns = matrix->shape[1];
    float *turned = malloc((size_t)matrix->count * sizeof *turned);
    assert_non_null(turned);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            turned[c * rows + r] = matrix->values[r * columns + c];
    free(matrix->values);
    matrix->values = turned;
    matrix->shape[0] = columns;
    matrix->shape[1] = rows;
}

/* Of each matrix [rows, n] the columns first, first + step and so on, transposed. */
static void unweave(struct matrix *matrix, int64_t step, int64_t first, int64_t rows)
{
    const int64_t whole = matrix->shape[1] / rows, columns = whole / step;
    float *made = malloc((size_t)matrix->count * sizeof *made), *to = made;
    assert_non_null(made);
    for (int64_t e = 0; e < matrix->shape[0]; e++)
        for (int64_t c = 0; c < columns; c++)
            for (int64_t r = 0; r < rows; r++)
                *to++ = matrix->values[(e * rows + r) * whole + c * step + first];
    free(matrix->values);
    matrix->values = made;
    matrix->count = to - made;
    matrix->rank = rows > 1 ? 3 : 2;
    matrix->shape[1] = columns;
    matrix->shape[2] = rows;
}

/* Of each matrix [n, columns] so many rows from first on; columns 0: all is one matrix. */
static void cut_rows(struct matrix *matrix, int64_t first, int64_t rows, int64_t columns)
{
    const int64_t matrices = columns > 0 ? matrix->shape[0] : 1;
    const int64_t width = columns > 0 ? columns : matrix->shape[1];
    const int64_t whole = matrix->count / matrices;
    for (int64_t m = 0; m < matrices; m++)
        memmove(matrix->values + m * rows * width, matrix->values + m * whole + first * width,
                (size_t)(rows * width) * sizeof *matrix->values);
    *matrix = (struct matrix){ .rank = columns > 0 ? 3 : 2,
                               .shape = { columns > 0 ? matrices : rows, columns > 0 ? rows : width,
                                          columns },
                               .values = matrix->values,
                               .count = matrices * rows * width };
}

static void change(struct matrix *matrix, const char *how)
{
    int64_t first = 0, second = 1, third = 1, columns = 0;
    if (sscanf(how, "pairs:%" SCNd64, &first) == 1)
        make_pairs(matrix, first);
    else if (sscanf(how, "groups:%" SCNd64 ":%" SCNd64, &first, &second) >= 1)
        split_groups(matrix, first, second);
    else if (sscanf(how, "unweave:%" SCNd64 ":%" SCNd64 ":%" SCNd64, &first, &second, &third) == 3)
        unweave(matrix, first, second, third);
    else if (sscanf(how, "rows:%" SCNd64 ":%" SCNd64 ":%" SCNd64, &first, &second, &columns) >= 2)
        cut_rows(matrix, first, second, columns);
    else if (strcmp(how, "rates") == 0)
        for (int64_t i = 0; i < matrix->count; i++)
            matrix->values[i] = -expf(matrix->values[i]);
    else if (strcmp(how, "turned") == 0)
        transpose(matrix);
    else if (strcmp(how, "plus") == 0)
        for (int64_t i = 0; i < matrix->count; i++)
            matrix->values[i] += 1;
    else
        fail_msg("'%s' is no change", how);
}

/* ----------------------------------------------------------------- writing -- */

static void write_matrix(struct gguf_write *file, const char *name, struct matrix *matrix)
{
    gguf_write_tensor(file, name, "F32", matrix->rank, matrix->shape, matrix->values);
    free(matrix->values);
}

static void name_layer(char name[NAME_BYTES], const char *pattern, char mark, int number)
{
    const char *at = strchr(pattern, mark);
    if (at)
        snprintf(name, NAME_BYTES, "%.*s%d%s", (int)(at - pattern), pattern, number, at + 1);
    else
        snprintf(name, NAME_BYTES, "%s", pattern);
}

/* Several tensors one behind the other. */
static void write_stack(struct gguf_write *file, const char *name, const char *pattern, int count,
                        bool of_rows)
{
    struct matrix stack = { .rank = 0 };
    for (int i = 0; i < count; i++) {
        char from[NAME_BYTES];
        name_layer(from, pattern, '@', i);
        struct matrix one = matrix_of(published_tensor(from, 0), of_rows);
        if (i == 0) {
            stack = (struct matrix){ .rank = one.rank + 1, .count = count * one.count };
            stack.shape[0] = count;
            memcpy(stack.shape + 1, one.shape, (size_t)one.rank * sizeof *one.shape);
            stack.values = malloc((size_t)stack.count * sizeof *stack.values);
            assert_non_null(stack.values);
        }
        memcpy(stack.values + i * one.count, one.values, (size_t)one.count * sizeof *one.values);
        free(one.values);
    }
    write_matrix(file, name, &stack);
}

static void write_one(struct gguf_write *file, const char *name, const char *from, const char *how)
{
    int count;
    if (how && (sscanf(how, "stack:%d", &count) == 1 || sscanf(how, "heads:%d", &count) == 1)) {
        char first[NAME_BYTES];
        name_layer(first, from, '@', 0);
        if (published_has(first, 0))
            write_stack(file, name, from, count, how[0] == 'h');
        return;
    }
    if (!published_has(from, 0))
        return;
    const struct rows rows = published_tensor(from, 0);
    struct matrix matrix = matrix_of(rows, rows.count == 1);
    if (how)
        change(&matrix, how);
    write_matrix(file, name, &matrix);
}

static void write_tensors(const struct gguf_twin *twin, struct gguf_write *file)
{
    char *copy = strdup(twin->tensors), *rest = NULL;
    assert_non_null(copy);
    for (char *item = strtok_r(copy, " ", &rest); item; item = strtok_r(NULL, " ", &rest)) {
        char *from = strchr(item, '='), *how = strchr(item, '/');
        assert_non_null(from);
        *from++ = '\0';
        if (how)
            *how++ = '\0';
        for (int layer = 0; layer < (strchr(item, '#') ? twin->layers : 1); layer++) {
            char name[NAME_BYTES], source[NAME_BYTES];
            name_layer(name, item, '#', layer);
            name_layer(source, from, '#', layer);
            write_one(file, name, source, how);
        }
    }
    free(copy);
}

/* "1110" */
static void write_flags(struct gguf_write *file, const char *key, const char *digits)
{
    bool flags[64];
    const int64_t count = (int64_t)strlen(digits);
    assert_true(count <= 64);
    for (int64_t i = 0; i < count; i++)
        flags[i] = digits[i] == '1';
    gguf_write_numbers(file, key, '?', flags, count);
}

/* "0,2" */
static void write_integers(struct gguf_write *file, const char *key, const char *text)
{
    int32_t integers[64];
    int64_t count = 0;
    for (int used; count < 64 && sscanf(text, "%" SCNd32 "%n", &integers[count], &used) == 1;
         text += text[used] == ',' ? used + 1 : used)
        count++;
    gguf_write_numbers(file, key, 'i', integers, count);
}

static void write_keys(const struct gguf_twin *twin, struct gguf_write *file)
{
    char *copy = strdup(twin->keys), *rest = NULL, key[NAME_BYTES];
    assert_non_null(copy);
    gguf_write_text(file, "general.architecture", twin->architecture);
    for (char *item = strtok_r(copy, " ", &rest); item; item = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(item, '=');
        assert_true(value && item[1] == ':');
        *value++ = '\0';
        snprintf(key, sizeof key, "%s.%s", twin->architecture, item + 2);
        if (item[0] == 's')
            gguf_write_text(file, key, value);
        else if (item[0] == 'f')
            gguf_write_number(file, key, 'f', strtod(value, NULL));
        else if (item[0] == 'a')
            write_flags(file, key, value);
        else if (item[0] == 'l')
            write_integers(file, key, value);
        else if (item[0] == '?')
            gguf_write_bool(file, key, value[0] == '1');
        else
            gguf_write_integer(file, key, item[0], strtoll(value, NULL, 10));
    }
    free(copy);
}

void gguf_twin_write(const struct gguf_twin *twin, const char *path)
{
    struct gguf_write *file = gguf_write_create(3);
    write_keys(twin, file);
    write_tensors(twin, file);
    if (twin->parts > 0)
        gguf_write_split(file, path, twin->parts);
    else
        gguf_write_file(file, path);
    gguf_write_free(file);
}
