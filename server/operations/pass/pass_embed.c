/* SPDX-License-Identifier: Apache-2.0 */
/* pass_embed.c - the step that makes the first rows of a stream (model_forward.h has the formulas).
 *
 * Turns of a stream of tokens: rows of the table of tokens; their product with the matrix of a
 * factorised embedding; positions, types and norm; the last projection. Tokens of every sequence go
 * through them together. A sequence of embeddings takes token 0, and its rows are copied in at the
 * end.
 *
 * Pixels: patches as rows of numbers, their product with the matrix of patches, then class rows,
 * positions and norm. Features: two convolutions of three columns, each as rows of its columns and
 * a product; then positions. Sound: pass_sound.c. A group of any of them is one sequence. */
#include "operations/pass/pass_internal.h"

#include <string.h>

enum { TURN_GATHER, TURN_TOKEN_PROJECTION, TURN_SUM, TURN_PROJECTION, TURN_GIVEN, TURN_COUNT };

static const struct model_embedding *embedding_of(const struct pass *pass, int stream)
{
    return &pass->forward->streams[stream].embedding;
}

/* -------------------------------------------------------- pixels, features -- */

enum { IMAGE_LAST_TURN = 4 };

static int64_t width_of(const struct pass *pass, int stream)
{
    return pass->forward->streams[stream].width;
}

/* Rows of the second convolution, whose stride is 2. */
static int64_t half_length(int64_t length)
{
    return (length + 1) / 2;
}

/* Where the second convolution reads: behind the rows of columns, what the first one made. */
static float *convolved_columns(const struct pass *pass, int stream)
{
    const struct model_embedding *embedding = embedding_of(pass, stream);
    const int64_t first = embedding->feature_length * embedding->convolutions[0].in;
    const int64_t second = half_length(embedding->feature_length) * embedding->convolutions[1].in;
    return pass->embedded + (first > second ? first : second);
}

static bool image_plan(struct pass *pass, int stream, struct attn_work *work, struct fault *fault)
{
    const struct model_embedding *embedding = embedding_of(pass, stream);
    const int64_t row_count = pass->row_count[stream], width = width_of(pass, stream);
    int64_t numbers;
    if (embedding->input == MODEL_INPUT_SOUND)
        return pass_sound_plan(pass, work, fault);
    pass_rows_work(row_count, width, work);
    if (embedding->input == MODEL_INPUT_PIXELS) {
        numbers = row_count * embedding->patches.in;
        pass_product_work(pass, &embedding->patches, row_count, work);
    } else {
        const int64_t length = embedding->feature_length;
        const int64_t first = length * embedding->convolutions[0].in;
        const int64_t second = half_length(length) * embedding->convolutions[1].in;
        numbers = (first > second ? first : second) + length * width;
        pass_product_work(pass, &embedding->convolutions[0], length, work);
        pass_product_work(pass, &embedding->convolutions[1], half_length(length), work);
    }
    pass->embedded = pass_alloc(pass, numbers, sizeof *pass->embedded, fault);
    return pass->embedded != NULL;
}

/* ------------------------------------------------------------------ pixels -- */

static void cut_patches(const struct pass *pass, int stream)
{
    const struct model_embedding *embedding = embedding_of(pass, stream);
    const struct array *picture = &pass->sequences[0].item->pixels;
    const int64_t side = embedding->patch, height = picture->shape[1], width = picture->shape[2];
    const float *pixels = picture->data;
    float *to = pass->embedded;
    for (int64_t top = 0; top + side <= height; top += side)
        for (int64_t left = 0; left + side <= width; left += side)
            for (int64_t c = 0; c < embedding->channels; c++)
                for (int64_t y = top; y < top + side; y++, to += side)
                    memcpy(to, pixels + (c * height + y) * width + left, (size_t)side * sizeof *to);
}

/* Patches of a picture, down or across. */
static int64_t patches_along(const struct pass *pass, int stream, int axis)
{
    return pass->sequences[0].item->pixels.shape[1 + axis] / embedding_of(pass, stream)->patch;
}

/* Whether the picture is of the size that there are positions for; so are features. */
static bool is_own_size(const struct pass *pass, int stream)
{
    const struct model_embedding *embedding = embedding_of(pass, stream);
    return embedding->resize == MODEL_RESIZE_NONE
           || (patches_along(pass, stream, 0) == embedding->image_height / embedding->patch
               && patches_along(pass, stream, 1) == embedding->image_width / embedding->patch);
}

/* Class rows, positions and norm, of all rows. */
static void finish_image(const struct pass *pass, int stream)
{
    const struct model_embedding *embedding = embedding_of(pass, stream);
    const int64_t width = width_of(pass, stream), row_count = pass->row_count[stream];
    const struct model_table *positions = &embedding->positions;
    const struct attn_rows_table table = { positions->rows, positions->dtype, width };
    float *rows = pass->rows[stream];
    if (embedding->class_row_count > 0)
        memcpy(rows, embedding->class_rows,
               (size_t)(embedding->class_row_count * width) * sizeof *rows);
    const int64_t count = is_own_size(pass, stream) ? row_count : embedding->class_row_count;
    for (int64_t i = 0; positions->rows && i < count; i++) {
        const int64_t number = i + embedding->position_offset;
        attn_rows_gather(pass->limits.kernels, &table, &number, 1, 1, true, rows + i * width,
                         width);
    }
    if (positions->rows && count < row_count)
        pass_resize_add(pass, embedding, patches_along(pass, stream, 0),
                        patches_along(pass, stream, 1), rows + count * width);
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
                        patches_along(pass, stream, 0) * patches_along(pass, stream, 1));
}

static void run_pixels(const struct pass *pass, int stream, int turn, int64_t task, void *workspace)
{
    if (turn == 0)
        cut_patches(pass, stream);
    else if (turn == 1)
        attn_product_run(&pass->product, task, workspace);
    else
        finish_image(pass, stream);
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
        pass_product(pass, &embedding->convolutions[0], pass->embedded,
                     convolved_columns(pass, stream), length);
    else
        pass_product(pass, &embedding->convolutions[1], pass->embedded, pass->rows[stream],
                     half_length(length));
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
        list_columns(pass->embedded, convolved_columns(pass, stream), width, length, 1, width, 2);
    else if (turn == IMAGE_LAST_TURN)
        finish_image(pass, stream);
    else
        attn_product_run(&pass->product, task, workspace);
}

static int64_t image_tasks(struct pass *pass, int stream, int turn)
{
    return embedding_of(pass, stream)->input == MODEL_INPUT_PIXELS
               ? pixel_tasks(pass, stream, turn)
               : feature_tasks(pass, stream, turn);
}

static void image_run(const struct pass *pass, int stream, int turn, int64_t task, void *workspace)
{
    if (embedding_of(pass, stream)->input == MODEL_INPUT_SOUND)
        pass_sound_run(pass, turn, task, workspace);
    else if (embedding_of(pass, stream)->input == MODEL_INPUT_PIXELS)
        run_pixels(pass, stream, turn, task, workspace);
    else
        run_features(pass, stream, turn, task, workspace);
}

/* ------------------------------------------------------------------ tokens -- */

/* Columns of the rows that positions and types are added to. */
static int64_t columns_of(const struct pass *pass, int stream)
{
    const struct model_embedding *embedding = embedding_of(pass, stream);
    return embedding->projection.weight ? embedding->projection.in
                                        : pass->forward->streams[stream].width;
}

/* Where a turn writes: in the end the rows, before that memory that is free until a norm. */
static float *summed_rows(const struct pass *pass, int stream)
{
    return embedding_of(pass, stream)->projection.weight ? pass->embedded : pass->rows[stream];
}

static float *gathered_rows(const struct pass *pass, int stream)
{
    return embedding_of(pass, stream)->token_projection.weight
               ? pass->embedded + (pass->row_count[stream] + 1) * columns_of(pass, stream)
               : summed_rows(pass, stream);
}

/* ---------------------------------------------------------------- planning -- */

/* RoBERTa counts positions without padding; its padding has its own position. */
static void number_positions(const struct model_embedding *embedding, const int64_t *ids,
                             int64_t count, int64_t past_len, int64_t *positions)
{
    int64_t next = past_len;
    for (int64_t i = 0; i < count; i++)
        positions[i] = embedding->padding_id >= 0 && ids[i] == embedding->padding_id
                           ? embedding->padding_id
                           : embedding->position_offset + next++;
}

/* What the source has no number for, a sequence of nothing else, is rows of 0 here. */
static void scale_tokens(const struct model_embedding *embedding, const struct trace_stream *of,
                         const int64_t *ids, float *scales)
{
    int64_t dropped = 0, visible = 0;
    for (int64_t i = 0; i < of->length; i++) {
        dropped += ids[i] == embedding->dropout_id;
        visible += !of->visible || of->visible[i];
    }
    const double kept = visible > 0 ? 1 - (double)dropped / (double)visible : 0;
    const double scale = kept != 0 ? (1 - embedding->dropout_ratio) / kept : 0;
    for (int64_t i = 0; i < of->length; i++)
        scales[i] = ids[i] == embedding->dropout_id ? 0 : (float)scale;
}

static void number_rows(struct pass *pass, int stream)
{
    for (int64_t i = 0; i < pass->sequence_count; i++) {
        const struct pass_sequence *sequence = &pass->sequences[i];
        const struct trace_stream *of = &sequence->item->streams[stream];
        const int64_t first = sequence->first[stream];
        for (int64_t k = 0; k < of->length; k++) {
            const struct token *token = k < of->tokens.count ? &of->tokens.tokens[k] : NULL;
            pass->ids[stream][first + k] = token && !of->is_given ? token->id : 0;
            pass->types[stream][first + k] = token && !of->is_given ? token->type : 0;
        }
        number_positions(embedding_of(pass, stream), pass->ids[stream] + first, of->length,
                         sequence->item->past ? sequence->item->past->length : 0,
                         pass->positions[stream] + first);
        if (pass->token_scales[stream])
            scale_tokens(embedding_of(pass, stream), of, pass->ids[stream] + first,
                         pass->token_scales[stream] + first);
    }
}

static void count_work(struct pass *pass, int stream, struct attn_work *work)
{
    const struct model_embedding *embedding = embedding_of(pass, stream);
    const int64_t row_count = pass->row_count[stream];
    pass_rows_work(row_count, columns_of(pass, stream), work);
    pass_rows_work(row_count, columns_of(pass, stream), work);
    if (embedding->token_projection.weight)
        pass_product_work(pass, &embedding->token_projection, row_count, work);
    if (embedding->projection.weight)
        pass_product_work(pass, &embedding->projection, row_count, work);
}

static bool is_any_given(const struct pass *pass, int stream)
{
    for (int64_t i = 0; i < pass->sequence_count; i++)
        if (pass->sequences[i].item->streams[stream].is_given)
            return true;
    return false;
}

/* Whether the rows are made of pixels, features or sound. */
static bool is_image(const struct pass *pass, int stream)
{
    return embedding_of(pass, stream)->input != MODEL_INPUT_TOKENS && !is_any_given(pass, stream);
}

/* Whether all rows are given: such a model has no table of tokens to begin with. */
static bool is_only_given(const struct pass *pass, int stream)
{
    return embedding_of(pass, stream)->input != MODEL_INPUT_TOKENS && is_any_given(pass, stream);
}

static bool embed_plan(struct pass *pass, const struct pass_step *step, struct attn_work *work,
                       struct fault *fault)
{
    const int stream = step->stream;
    const struct model_embedding *embedding = embedding_of(pass, stream);
    const int64_t row_count = pass->row_count[stream];
    if (is_image(pass, stream))
        return image_plan(pass, stream, work, fault);
    if (is_only_given(pass, stream))
        return true;
    int64_t *numbers = pass_alloc(pass, 3 * row_count, sizeof *numbers, fault);
    if (!numbers)
        return false;
    pass->ids[stream] = numbers;
    pass->positions[stream] = numbers + row_count;
    pass->types[stream] = numbers + 2 * row_count;
    if (embedding->dropout_ratio > 0) {
        pass->token_scales[stream] =
            pass_alloc(pass, row_count + 1, sizeof *pass->token_scales[stream], fault);
        if (!pass->token_scales[stream])
            return false;
    }
    number_rows(pass, stream);
    count_work(pass, stream, work);
    int64_t embedded = 0;
    if (embedding->projection.weight || embedding->token_projection.weight)
        embedded = (row_count + 1) * (columns_of(pass, stream) + embedding->tokens.width);
    if (embedded > 0)
        pass->embedded = pass_alloc(pass, embedded, sizeof *pass->embedded, fault);
    return embedded == 0 || pass->embedded;
}

/* ----------------------------------------------------------------- running -- */

static struct attn_rows_table table_of(const struct model_table *table)
{
    return (struct attn_rows_table){ table->rows, table->dtype, table->width };
}

static void run_gather(const struct pass *pass, int stream, int64_t first, int64_t count)
{
    const struct model_embedding *embedding = embedding_of(pass, stream);
    const struct attn_rows_table tokens = table_of(&embedding->tokens);
    const int64_t width = tokens.columns;
    float *rows = gathered_rows(pass, stream) + first * width;
    attn_rows_gather(pass->limits.kernels, &tokens, pass->ids[stream] + first, count, 1, false,
                     rows, width);
}

static void run_sum(const struct pass *pass, int stream, int64_t first, int64_t count)
{
    const struct model_embedding *embedding = embedding_of(pass, stream);
    const struct attn_kernels *kernels = pass->limits.kernels;
    const int64_t width = columns_of(pass, stream);
    const float scale = embedding->scale != 0 ? (float)embedding->scale : 1.0f;
    float *rows = summed_rows(pass, stream) + first * width;
    if (scale != 1 && !embedding->scales_sum)
        attn_rows_cap(kernels, rows, count * width, scale, 0);
    for (int64_t i = 0; pass->token_scales[stream] && i < count; i++)
        attn_rows_cap(kernels, rows + i * width, width, pass->token_scales[stream][first + i], 0);
    if (embedding->positions.rows) {
        const struct attn_rows_table positions = table_of(&embedding->positions);
        attn_rows_gather(kernels, &positions, pass->positions[stream] + first, count, 1, true, rows,
                         width);
    }
    if (embedding->types.rows) {
        const struct attn_rows_table types = table_of(&embedding->types);
        attn_rows_gather(kernels, &types, pass->types[stream] + first, count, 1, true, rows, width);
    }
    if (scale != 1 && embedding->scales_sum)
        attn_rows_cap(kernels, rows, count * width, scale, 0);
    if (embedding->norm.weight)
        attn_rows_norm(&embedding->norm, rows, width, rows, width, count, width);
}

static void put_given(const struct pass *pass, int stream, int64_t i)
{
    const struct pass_sequence *sequence = &pass->sequences[i];
    const int64_t width = pass->forward->streams[stream].width;
    if (sequence->item->streams[stream].is_given)
        memcpy(pass->rows[stream] + sequence->first[stream] * width,
               sequence->item->embeddings.data,
               (size_t)(sequence->length[stream] * width) * sizeof(float));
}

static int64_t embed_tasks(struct pass *pass, const struct pass_step *step, int turn,
                           struct fault *fault)
{
    const int stream = step->stream;
    const struct model_embedding *embedding = embedding_of(pass, stream);
    const int64_t row_count = pass->row_count[stream];
    (void)fault;
    if (is_image(pass, stream) && embedding->input == MODEL_INPUT_SOUND)
        return pass_sound_tasks(pass, turn);
    if (is_image(pass, stream))
        return turn > IMAGE_LAST_TURN ? PASS_OVER : image_tasks(pass, stream, turn);
    if (is_only_given(pass, stream) && turn < TURN_GIVEN)
        return 0;
    switch (turn) {
    case TURN_GATHER:
        return pass_row_tasks(row_count, embedding->tokens.width);
    case TURN_TOKEN_PROJECTION:
        return embedding->token_projection.weight
                   ? pass_product(pass, &embedding->token_projection, gathered_rows(pass, stream),
                                  summed_rows(pass, stream), row_count)
                   : 0;
    case TURN_SUM:
        return pass_row_tasks(row_count, columns_of(pass, stream));
    case TURN_PROJECTION:
        return embedding->projection.weight
                   ? pass_product(pass, &embedding->projection, summed_rows(pass, stream),
                                  pass->rows[stream], row_count)
                   : 0;
    case TURN_GIVEN:
        return is_any_given(pass, stream) ? pass->sequence_count : 0;
    default:
        return PASS_OVER;
    }
}

static void embed_run(const struct pass *pass, const struct pass_step *step, int turn, int64_t task,
                      void *workspace)
{
    const int stream = step->stream;
    const struct model_embedding *embedding = embedding_of(pass, stream);
    const int64_t columns =
        turn == TURN_GATHER ? embedding->tokens.width : columns_of(pass, stream);
    int64_t first, count;
    if (is_image(pass, stream)) {
        image_run(pass, stream, turn, task, workspace);
        return;
    }
    if (turn == TURN_GIVEN) {
        put_given(pass, stream, task);
        return;
    }
    if (turn == TURN_TOKEN_PROJECTION || turn == TURN_PROJECTION) {
        attn_product_run(&pass->product, task, workspace);
        return;
    }
    pass_task_rows(pass->row_count[stream], columns, task, &first, &count);
    if (turn == TURN_GATHER)
        run_gather(pass, stream, first, count);
    else
        run_sum(pass, stream, first, count);
}

const struct pass_step_functions pass_embed = { embed_plan, embed_tasks, embed_run };
