/* SPDX-License-Identifier: Apache-2.0 */
/* draw NAME [URL] - draws the picture of a concept, from numbers that the daemon answers, as an
 * SVG on standard output.
 *
 *     make run     # in one terminal
 *     cc -O2 examples/concepts/{draw,svg,numbers,passes,edits}.c \
 *         examples/sessions/daemon.c $(pkg-config --cflags --libs libcurl libcjson) -lm -o
 * build/draw build/draw attention >build/attention.svg    # in another
 *
 * The page of the same name shows the picture. */
#include "pictures.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    void (*draw)(struct daemon *daemon);
} pictures[] = {
    { "attention", picture_attention },
    { "heads", picture_heads },
    { "masks", picture_masks },
    { "decode", picture_decode },
    { "lse", picture_lse },
    { "layers", picture_layers },
    { "gradients", picture_gradients },
    { "causes", picture_causes },
    { "residual", picture_residual },
};

enum { PICTURES = sizeof pictures / sizeof pictures[0] };

cJSON *picture_ask(struct daemon *daemon, const char *path, const char *request)
{
    cJSON *body = cJSON_Parse(request);
    if (!body)
        fail(request, "is not JSON");
    return daemon_post(daemon, path, body);
}

int main(int argc, char **argv)
{
    struct daemon daemon;
    daemon_open(&daemon, argc > 2 ? argv[2] : "http://127.0.0.1:8080");
    int i = 0;
    while (argc > 1 && i < PICTURES && strcmp(argv[1], pictures[i].name) != 0)
        i++;
    if (argc < 2 || i == PICTURES)
        fail("draw NAME [URL]", "NAME is that of a page beside this program");
    pictures[i].draw(&daemon);
    daemon_close(&daemon);
    return 0;
}
