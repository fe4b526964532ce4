/* picture_case.c - see picture_case.h. */
#include "picture_case.h"

#include "fixture.h"
#include "request_text.h"
#include "trace_client.h"

#include <stdlib.h>

struct rows picture_case(int height, int width)
{
    const struct rows numbers = forward_scale(published_input(height * width), 2);
    return forward_slice(numbers, 0, PICTURE_CHANNELS);
}

char *picture_case_field(struct rows pixels, int height, int width)
{
    struct request_text text = { .data = NULL };
    for (int c = 0; c < PICTURE_CHANNELS; c++)
        for (int i = 0; i < height * width; i++) {
            const char *before = ",";
            if (i == 0)
                before = c == 0 ? "\"pixels\":[[[" : "]],[[";
            else if (i % width == 0)
                before = "],[";
            request_text_add(&text, "%s%.9g", before, pixels.data[c * pixels.columns + i]);
        }
    request_text_add(&text, "]]]");
    return text.data;
}

struct rows picture_case_patches(struct rows pixels, int height, int width)
{
    const int down = height / PICTURE_PATCH, across = width / PICTURE_PATCH;
    const struct rows rows =
        published_rows(down * across, PICTURE_CHANNELS * PICTURE_PATCH * PICTURE_PATCH);
    for (int p = 0; p < down * across; p++)
        for (int n = 0; n < PICTURE_CHANNELS * PICTURE_PATCH * PICTURE_PATCH; n++) {
            const int y = p / across * PICTURE_PATCH + n / PICTURE_PATCH % PICTURE_PATCH;
            const int x = p % across * PICTURE_PATCH + n % PICTURE_PATCH;
            rows.data[p * rows.columns + n] =
                pixels.data[n / (PICTURE_PATCH * PICTURE_PATCH) * pixels.columns + y * width + x];
        }
    return rows;
}

void picture_case_compare(const char *name, const char *config, const char *fields,
                          const struct forward *want)
{
    published_save(fixture_path(name), config);
    fixture_serve("--models", directory);
    trace_client_expect(&client, name, fields, want);
    fixture_stop(NULL);
}

void picture_case_check(const char *name, const char *config, int height, int width,
                        const struct forward *want)
{
    char *fields = picture_case_field(picture_case(height, width), height, width);
    picture_case_compare(name, config, fields, want);
    free(fields);
    published_close();
}
