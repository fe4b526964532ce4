/* pass_image.c - see pass_image.h. A group of pixels or features is one sequence.
 *
 * Pixels: patches as rows of numbers, their product with the matrix of patches, then class rows,
 * positions and norm. Features: two convolutions of three columns, each as rows of its columns and
 * a product; then positions. */
#include "forward/pass_image.h"

#include <string.h>

static const struct model_embedding *embedding_of(const struct pass *pass, int stream)
{
    return &pass->forward->streams[stream].embedding;
}

static int64_t width_of(const struct pass *pass, int stream)
{
    return pass->forward->streams[stream].width;
}

/* Rows of the second convolution, whose stride is 2. */
static int64_t half(int64_t length)
{
    return (length + 1) / 2;
}

/* Where the second convolution reads: behind the rows of columns, what the first one made. */
static float *convolved(const struct pass *pass, int stream)
{
    const struct model_embedding *embedding = embedding_of(pass, stream);
    const int64_t first = embedding->feature_length * embedding->convolutions[0].in;
    const int64_t second = half(embedding->feature_length) * embedding->convolutions[1].in;
    return pass->embedded + (first > second ? first : second);
}

bool pass_image_plan(struct pass *pass, int stream, struct attn_work *work, struct fault *fault)
{
    const struct model_embedding *embedding = embedding_of(pass, stream);
    const int64_t row_count = pass->row_count[stream], width = width_of(pass, stream);
    int64_t numbers;
    pass_rows_work(row_count, width, work);
    if (embedding->input == MODEL_INPUT_PIXELS) {
        numbers = row_count * embedding->patches.in;
        pass_product_work(pass, &embedding->patches, row_count, work);
    } else {
        const int64_t length = embedding->feature_length;
        const int64_t first = length * embedding->convolutions[0].in;
        const int64_t second = half(length) * embedding->convolutions[1].in;
        numbers = (first > second ? first : second) + length * width;
        pass_product_work(pass, &embedding->convolutions[0], length, work);
        pass_product_work(pass, &embedding->convolutions[1], half(length), work);
    }
    pass->embedded = pass_alloc(pass, numbers, sizeof *pass->embedded, fault);
    return pass->embedded != NULL;
}

/* ------------------------------------------------------------------ pixels -- */

static void cut_patches(const struct pass *pass, int stream)
{
    const struct model_embedding *embedding = embedding_of(pass, stream);
    const int64_t side = embedding->patch, width = embedding->image_width;
    const int64_t height = embedding->image_height;
    const float *pixels = pass->sequences[0].item->pixels.data;
    float *to = pass->embedded;
    for (int64_t top = 0; top + side <= height; top += side)
        for (int64_t left = 0; left + side <= width; left += side)
            for (int64_t c = 0; c < embedding->channels; c++)
                for (int64_t y = top; y < top + side; y++, to += side)
                    memcpy(to, pixels + (c * height + y) * width + left, (size_t)side * sizeof *to);
}

static int64_t patch_count(const struct model_embedding *embedding)
{
    return (embedding->image_height / embedding->patch)
           * (embedding->image_width / embedding->patch);
}

/* Class rows, positions and norm, of all rows. */
static void finish(const struct pass *pass, int stream)
{
    const struct model_embedding *embedding = embedding_of(pass, stream);
    const int64_t width = width_of(pass, stream), row_count = pass->row_count[stream];
    const struct model_table *positions = &embedding->positions;
    const struct attn_rows_table table = { positions->rows, positions->dtype, width };
    float *rows = pass->rows[stream];
    if (embedding->class_row_count > 0)
        memcpy(rows, embedding->class_rows,
               (size_t)(embedding->class_row_count * width) * sizeof *rows);
    for (int64_t i = 0; positions->rows && i < row_count; i++) {
        const int64_t number = i + embedding->position_offset;
        attn_rows_gather(pass->limits.kernels, &table, &number, 1, 1, true, rows + i * width,
                         width);
    }
    if (embedding->norm.weight)
        attn_rows_norm(&embedding->norm, rows, width, rows, width, row_count, width);
}

static int64_t pixel_tasks(struct pass *pass, int stream, int turn)
{
    const struct model_embedding *embedding = embedding_of(pass, stream);
    if (turn != 1)
        return turn <= 2 ? 1 : 0;
    return pass_product(pass, &embedding->patches, pass->embedded,
                        pass->rows[stream] + embedding->class_row_count * width_of(pass, stream),
                        patch_count(embedding));
}

static void run_pixels(const struct pass *pass, int stream, int turn, int64_t task, void *workspace)
{
    if (turn == 0)
        cut_patches(pass, stream);
    else if (turn == 1)
        attn_product_run(&pass->product, task, workspace);
    else
        finish(pass, stream);
}

/* ---------------------------------------------------------------- features -- */

/* Rows of three columns of x, [channels][length], around every step-th one; column c of place k is
 * number c * 3 + k of a row. Outside of x are zeros. step and stride are elements of x from one
 * channel, and from one column, to the next. */
static void list_columns(float *to, const float *x, int64_t channels, int64_t length,
                         int64_t channel_step, int64_t column_step, int64_t every)
{
    for (int64_t t = 0; t < length; t += every)
        for (int64_t c = 0; c < channels; c++)
            for (int64_t k = 0; k < 3; k++) {
                const int64_t column = t + k - 1;
                *to++ =
                    column < 0 || column >= length ? 0 : x[c * channel_step + column * column_step];
            }
}

static int64_t feature_tasks(struct pass *pass, int stream, int turn)
{
    const struct model_embedding *embedding = embedding_of(pass, stream);
    const int64_t length = embedding->feature_length;
    if (turn % 2 == 0)
        return 1;
    if (turn == 1)
        pass_product(pass, &embedding->convolutions[0], pass->embedded, convolved(pass, stream),
                     length);
    else
        pass_product(pass, &embedding->convolutions[1], pass->embedded, pass->rows[stream],
                     half(length));
    pass->product.activation = ATTN_GELU;
    return attn_product_tasks(&pass->product);
}

static void run_features(const struct pass *pass, int stream, int turn, int64_t task,
                         void *workspace)
{
    const struct model_embedding *embedding = embedding_of(pass, stream);
    const int64_t length = embedding->feature_length, width = width_of(pass, stream);
    if (turn == 0)
        list_columns(pass->embedded, pass->sequences[0].item->features.data,
                     embedding->feature_count, length, length, 1, 1);
    else if (turn == 2)
        list_columns(pass->embedded, convolved(pass, stream), width, length, 1, width, 2);
    else if (turn == PASS_IMAGE_TURNS)
        finish(pass, stream);
    else
        attn_product_run(&pass->product, task, workspace);
}

int64_t pass_image_tasks(struct pass *pass, int stream, int turn)
{
    return embedding_of(pass, stream)->input == MODEL_INPUT_PIXELS
               ? pixel_tasks(pass, stream, turn)
               : feature_tasks(pass, stream, turn);
}

void pass_image_run(const struct pass *pass, int stream, int turn, int64_t task, void *workspace)
{
    if (embedding_of(pass, stream)->input == MODEL_INPUT_PIXELS)
        run_pixels(pass, stream, turn, task, workspace);
    else
        run_features(pass, stream, turn, task, workspace);
}
