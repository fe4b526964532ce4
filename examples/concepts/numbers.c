/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.c - the pictures of one layer alone; see pictures.h. */
#include "pictures.h"
#include "svg.h"

#include <math.h>
#include <stdio.h>

/* ------------------------------------------------------------------------- attention.md -- */

static const char *const words[] = { "the", "cat", "sat" };

void picture_attention(struct daemon *daemon)
{
    static const char request[] = "{\"model\":\"sdpa\","
                                  "\"query\":[[0,1,0,0],[0,0,2,0],[1,3,0,0]],"
                                  "\"key\":[[2,0,0,0],[0,2,0,0],[0,0,2,0]],"
                                  "\"value\":[[1,0],[0,1],[1,1]],"
                                  "\"outputs\":[\"context\",\"weights\",\"scores\"]}";
    const struct svg_table
        query = { "query [3][4]", 60, 50, 24, 30, 0, NULL, words, NULL },
        key = { "key [3][4]", 60, 220, 24, 30, 0, NULL, words, NULL },
        scores = { "scores [3][3]", 280, 140, 46, 30, 1, NULL, words, words },
        weights = { "weights [3][3]", 530, 140, 46, 30, 2, SVG_BLUE, words, words },
        value = { "value [3][2]", 780, 50, 46, 30, 0, NULL, words, NULL },
        context = { "context [3][2]", 780, 220, 46, 30, 2, NULL, words, NULL };
    cJSON *asked = cJSON_Parse(request), *answer = picture_ask(daemon, "/v1/attention", request);
    svg_begin(900, 330);
    svg_table(&query, cJSON_GetObjectItem(asked, "query"));
    svg_table(&key, cJSON_GetObjectItem(asked, "key"));
    svg_arrow(166, 95, 240, 172);
    svg_arrow(166, 265, 240, 198);
    svg_table(&scores, cJSON_GetObjectItem(answer, "scores")->child);
    svg_small(280, 250, "start", "query · key / √4");
    svg_arrow(428, 185, 492, 185);
    svg_small(458, 175, "middle", "softmax");
    svg_table(&weights, cJSON_GetObjectItem(answer, "weights")->child);
    svg_small(530, 250, "start", "each row sums to 1");
    svg_table(&value, cJSON_GetObjectItem(asked, "value"));
    svg_arrow(678, 205, 740, 255);
    svg_arrow(826, 150, 826, 194);
    svg_table(&context, cJSON_GetObjectItem(answer, "context"));
    svg_end();
    cJSON_Delete(asked);
    cJSON_Delete(answer);
}

/* ------------------------------------------------------------------------- gradients.md -- */

void picture_gradients(struct daemon *daemon)
{
    static const char request[] = "{\"model\":\"sdpa\","
                                  "\"query\":[[0,1,0,0],[0,0,2,0],[1,3,0,0]],"
                                  "\"key\":[[2,0,0,0],[0,2,0,0],[0,0,2,0]],"
                                  "\"value\":[[1,0],[0,1],[1,1]],"
                                  "\"context_gradient\":[[0,0],[0,0],[1,0]]}";
    const struct svg_table
        context = { "context_gradient", 50, 60, 46, 30, 0, SVG_ORANGE, words, NULL },
        query = { "of query [3][4]", 280, 60, 46, 30, 2, SVG_ORANGE, words, NULL },
        key = { "of key [3][4]", 524, 60, 46, 30, 2, SVG_ORANGE, words, NULL },
        value = { "of value [3][2]", 768, 60, 46, 30, 2, SVG_ORANGE, words, NULL };
    cJSON *asked = cJSON_Parse(request),
          *answer = picture_ask(daemon, "/v1/attention/gradients", request);
    svg_begin(880, 190);
    svg_table(&context, cJSON_GetObjectItem(asked, "context_gradient"));
    svg_small(50, 170, "start", "what is asked about");
    svg_arrow(160, 105, 232, 105);
    svg_table(&query, cJSON_GetObjectItem(answer, "query"));
    svg_table(&key, cJSON_GetObjectItem(answer, "key"));
    svg_table(&value, cJSON_GetObjectItem(answer, "value"));
    svg_small(280, 170, "start",
              "how much it grows (orange) or falls (blue) with each number of the inputs");
    svg_end();
    cJSON_Delete(asked);
    cJSON_Delete(answer);
}

/* ----------------------------------------------------------------------------- masks.md -- */

void picture_masks(struct daemon *daemon)
{
    static const struct {
        const char *title, *fields;
        int rows;
    } panels[] = {
        { "nothing hidden", "", 6 },
        { "causal", ",\"causal\":true", 6 },
        { "causal, window_left 2", ",\"causal\":true,\"window_left\":2", 6 },
        { "window 1 to each side", ",\"window_left\":1,\"window_right\":1", 6 },
        { "kv_len 4", ",\"kv_len\":4", 6 },
        { "causal, past_len 4", ",\"causal\":true,\"past_len\":4", 2 },
        { "causal, a sink of score 0", ",\"causal\":true,\"sinks\":[0]", 6 },
        { "a mask of two documents",
          ",\"mask\":[[true,true,true,false,false,false],[true,true,true,false,false,false],"
          "[true,true,true,false,false,false],[false,false,false,true,true,true],"
          "[false,false,false,true,true,true],[false,false,false,true,true,true]]",
          6 },
    };
    static const char *const zeros[] = {
        "", "[0]", "[0],[0]", "", "", "", "[0],[0],[0],[0],[0],[0]"
    };
    static const char *const numbers[] = { "0", "1", "2", "3", "4", "5" };
    static const char *const behind[] = { "4", "5" };
    svg_begin(900, 476);
    for (int i = 0; i < 8; i++) {
        const struct svg_table table = { .title = panels[i].title,
                                         .x = 34 + i % 4 * 220,
                                         .y = 60 + i / 4 * 240,
                                         .width = 29,
                                         .height = 26,
                                         .decimals = 2,
                                         .fill = SVG_BLUE,
                                         .row_names = panels[i].rows == 2 ? behind : numbers,
                                         .column_names = numbers };
        char request[512];
        snprintf(request, sizeof request,
                 "{\"model\":\"sdpa\",\"outputs\":[\"weights\"],\"query\":[%s],"
                 "\"key\":[[0],[0],[0],[0],[0],[0]]%s}",
                 zeros[panels[i].rows], panels[i].fields);
        cJSON *answer = picture_ask(daemon, "/v1/attention", request);
        svg_table(&table, cJSON_GetObjectItem(answer, "weights")->child);
        cJSON_Delete(answer);
    }
    svg_end();
}

/* ------------------------------------------------------------------------------- lse.md -- */

enum { FIRST = 3, BAR = 34, BAR_MAX = 150, BASE = 190 };

/* One bar a weight, with the weight above it. */
static void bars(double x, const cJSON *weights, double factor, const char *fill)
{
    const cJSON *weight;
    char text[32];
    cJSON_ArrayForEach(weight, weights)
    {
        const double value = weight->valuedouble * factor, height = value * BAR_MAX;
        svg_box(x + 2, BASE - height, BAR - 4, height, fill, 1);
        snprintf(text, sizeof text, "%.2f", value);
        svg_small(x + BAR / 2., BASE - height - 5, "middle", text);
        x += BAR;
    }
}

static void named(double x, double y, const char *format, double number)
{
    char text[64];
    snprintf(text, sizeof text, format, number);
    svg_text(x, y, "start", text);
}

static double lse_of(const cJSON *answer)
{
    return cJSON_GetObjectItem(answer, "lse")->child->child->valuedouble;
}

static const cJSON *weights_of(const cJSON *answer)
{
    return cJSON_GetObjectItem(answer, "weights")->child->child;
}

void picture_lse(struct daemon *daemon)
{
    static const char first[] = "{\"model\":\"sdpa\",\"query\":[[1]],\"key\":[[0],[1],[2]],"
                                "\"value\":[[1],[2],[3]],\"outputs\":[\"weights\",\"lse\"]}";
    static const char second[] = "{\"model\":\"sdpa\",\"query\":[[1]],\"key\":[[2],[3]],"
                                 "\"value\":[[4],[5]],\"outputs\":[\"weights\",\"lse\"]}";
    static const char whole[] =
        "{\"model\":\"sdpa\",\"query\":[[1]],\"key\":[[0],[1],[2],[2],[3]],"
        "\"value\":[[1],[2],[3],[4],[5]],\"outputs\":[\"weights\",\"lse\"]}";
    cJSON *a = picture_ask(daemon, "/v1/attention", first),
          *b = picture_ask(daemon, "/v1/attention", second),
          *all = picture_ask(daemon, "/v1/attention", whole);
    const double lse = lse_of(all);
    svg_begin(660, 290);
    svg_bold(30, 40, "start", "part 1: keys 0 to 2");
    bars(30, weights_of(a), 1, SVG_BLUE);
    named(30, 220, "lse %.3f", lse_of(a));
    named(30, 244, "factor %.3f", exp(lse_of(a) - lse));
    svg_bold(230, 40, "start", "part 2: keys 3, 4");
    bars(230, weights_of(b), 1, SVG_ORANGE);
    named(230, 220, "lse %.3f", lse_of(b));
    named(230, 244, "factor %.3f", exp(lse_of(b) - lse));
    svg_arrow(350, 130, 430, 130);
    svg_small(386, 120, "middle", "merge");
    svg_bold(460, 40, "start", "all keys at once");
    bars(460, weights_of(a), exp(lse_of(a) - lse), SVG_BLUE);
    bars(460 + FIRST * BAR, weights_of(b), exp(lse_of(b) - lse), SVG_ORANGE);
    named(460, 220, "lse %.3f", lse);
    svg_small(30, 272, "start", "factor = exp(lse of the part − lse of all): what a part counts");
    svg_end();
    cJSON_Delete(a);
    cJSON_Delete(b);
    cJSON_Delete(all);
}
