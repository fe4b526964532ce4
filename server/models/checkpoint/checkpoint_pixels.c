/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_pixels.c - how a picture becomes pixels, by preprocessor_config.json.
 *
 * Source: transformers, image_processing_utils.py and image_transforms.py: a picture is scaled,
 * maybe cut, then rescaled and normalized, each where its flag says so. Files of before 2023 have
 * no do_rescale, and were always rescaled. */
#include "models/checkpoint/checkpoint.h"

#include "models/checkpoint/checkpoint_fields.h"
#include "models/model/model_forward.h"
#include "models/model/model_storage.h"

#include <string.h>

/* The embedding that takes pixels; NULL: none does. */
static const struct model_embedding *embedding_of(const struct model *model)
{
    for (int i = 0; model->forward && i < model->forward->stream_count; i++)
        if (model->forward->streams[i].embedding.input == MODEL_INPUT_PIXELS)
            return &model->forward->streams[i].embedding;
    return NULL;
}

struct reader {
    const char *text;
    struct json_document document;
    int64_t channels;
    struct fault *fault;
};

/* A number for each channel, or one for all. */
static bool read_channels(const struct reader *reader, const char *name, double *values)
{
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(reader->document.root, name);
    const struct json_numbers *numbers = json_numbers_of(&reader->document, node);
    if (!node || cJSON_IsNull(node))
        return true;
    if (cJSON_IsNumber(node)) {
        for (int64_t c = 0; c < reader->channels; c++)
            values[c] = node->valuedouble;
        return true;
    }
    if (!numbers || numbers->rank != 1 || numbers->count != reader->channels || numbers->has_bool
        || numbers->has_null)
        return fault_set(reader->fault, FAULT_TYPE,
                         "%s is %s; expected a number or a list of %lld, one for each channel",
                         name, json_kind(&reader->document, node), (long long)reader->channels);
    return json_read_doubles(reader->text, numbers, values) < 0
           || fault_set(reader->fault, FAULT_OPTION, "%s has a number that no float holds", name);
}

static bool check_std(const struct reader *reader, const double *std)
{
    for (int64_t c = 0; c < reader->channels; c++)
        if (!(std[c] > 0))
            return fault_set(reader->fault, FAULT_OPTION, "image_std is %g; expected more than 0",
                             std[c]);
    return true;
}

/* Whatever is done to a value, it is (value / 255 - mean) / std. */
static bool read_scale(const struct reader *reader, double *mean, double *std)
{
    const cJSON *root = reader->document.root;
    bool rescales, normalizes;
    double factor;
    if (!checkpoint_read_flag(root, "do_rescale=true", &rescales, reader->fault)
        || !checkpoint_read_flag(root, "do_normalize=true", &normalizes, reader->fault)
        || !checkpoint_read_number(root, "rescale_factor=0.00392156862745098", &factor,
                                   reader->fault)
        || !read_channels(reader, "image_mean", mean) || !read_channels(reader, "image_std", std)
        || !check_std(reader, std))
        return false;
    if (rescales && !(factor > 0))
        return fault_set(reader->fault, FAULT_OPTION, "rescale_factor is %g; expected more than 0",
                         factor);
    const double whole = rescales ? 255 * factor : 255;
    for (int64_t c = 0; c < reader->channels; c++) {
        mean[c] = normalizes ? mean[c] / whole : 0;
        std[c] = (normalizes ? std[c] : 1) / whole;
    }
    return true;
}

static bool read_file(struct reader *reader, double *mean, double *std, bool *crop)
{
    const struct json_options options = { .nonfinite_allowed = false };
    if (!json_read(&reader->document, reader->text, strlen(reader->text), &options, reader->fault))
        return false;
    const cJSON *node = cJSON_GetObjectItemCaseSensitive(reader->document.root, "do_center_crop");
    const bool good =
        (cJSON_IsObject(reader->document.root)
         || fault_set(reader->fault, FAULT_TYPE, "the file is %s; expected an object",
                      json_kind(&reader->document, reader->document.root)))
        && (!node
            || checkpoint_read_flag(reader->document.root, "do_center_crop", crop, reader->fault))
        && read_scale(reader, mean, std);
    json_free(&reader->document);
    return good;
}

/* A picture of other than three channels has no values of the family: 0 to 1 becomes -1 to 1. */
static void set_family(struct model_pixels *pixels, const struct model_embedding *embedding,
                       double *mean, double *std)
{
    const struct model_pixel_range *range = embedding->pixel_range;
    const bool is_known = range && embedding->channels == 3;
    for (int64_t c = 0; c < embedding->channels; c++) {
        mean[c] = is_known ? range->mean[c] : 0.5;
        std[c] = is_known ? range->std[c] : 0.5;
    }
    pixels->crop = range && range->crop;
}

bool checkpoint_pixels_set(struct model *model, const char *text, const char *refused,
                           struct fault *fault)
{
    struct arena *arena = &model->storage->arena;
    const struct model_embedding *embedding = embedding_of(model);
    struct fault why = { .code = FAULT_NONE };
    if (!embedding)
        return true;
    struct model_pixels *pixels = arena_calloc(arena, 1, sizeof *pixels);
    double *mean = arena_calloc(arena, (size_t)embedding->channels, sizeof *mean);
    double *std = arena_calloc(arena, (size_t)embedding->channels, sizeof *std);
    if (!pixels || !mean || !std)
        return fault_no_memory(fault);
    *pixels = (struct model_pixels){ .embedding = embedding, .mean = mean, .std = std };
    set_family(pixels, embedding, mean, std);
    struct reader reader = { .text = text, .channels = embedding->channels, .fault = &why };
    pixels->from_file = text && !refused && read_file(&reader, mean, std, &pixels->crop);
    if (why.code == FAULT_MEMORY)
        return fault_no_memory(fault);
    if (why.code != FAULT_NONE) {
        set_family(pixels, embedding, mean, std);
        refused = why.message;
    }
    pixels->reason = refused ? arena_strdup(arena, refused) : NULL;
    model->pixels = pixels;
    return !refused || pixels->reason || fault_no_memory(fault);
}
