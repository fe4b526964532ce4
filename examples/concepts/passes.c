/* SPDX-License-Identifier: Apache-2.0 */
/* passes.c - the pictures of a text that goes through stories260K; see pictures.h. */
#include "pictures.h"
#include "svg.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TOKENS_MAX = 32 };

/* The texts of an answer's tokens, behind those that are there; how many there are then. The "▁"
 * that begins a word is left out. */
static int take_tokens(const char *names[TOKENS_MAX], int count, const cJSON *answer)
{
    const cJSON *token;
    cJSON_ArrayForEach(token, cJSON_GetObjectItem(answer, "tokens"))
    {
        const char *text = cJSON_GetObjectItem(token, "text")->valuestring;
        if (count < TOKENS_MAX)
            names[count++] = strncmp(text, "▁", strlen("▁")) == 0 ? text + strlen("▁") : text;
    }
    return count;
}

/* The maps of the first layer of an answer, [heads][query][key]. */
static const cJSON *maps_of(const cJSON *answer)
{
    return cJSON_GetObjectItem(cJSON_GetObjectItem(answer, "layers")->child, "weights")->child;
}

/* ----------------------------------------------------------------------------- heads.md -- */

void picture_heads(struct daemon *daemon)
{
    enum { HEADS = 8, GROUP = 2, CELL = 17, STEP = 108, LEFT = 60, TOP = 150 };
    static const char request[] = "{\"model\":\"stories260K\",\"text\":\"Once upon a time\","
                                  "\"layers\":[1]}";
    const char *names[TOKENS_MAX];
    cJSON *answer = picture_ask(daemon, "/v1/trace", request);
    const cJSON *map = maps_of(answer);
    char title[32];
    take_tokens(names, 0, answer);
    svg_begin(LEFT + HEADS * STEP + 10, 260);
    for (int i = 0; i < HEADS; i++, map = map->next) {
        const double x = LEFT + i * STEP;
        const int key_head = i / GROUP;
        const struct svg_table table = { title, x, TOP, CELL, CELL, -1, SVG_BLUE, i ? NULL : names,
                                         NULL };
        if (i % GROUP == 0) {
            snprintf(title, sizeof title, "key and value head %d", key_head);
            svg_box(x, 24, GROUP * STEP - 20, 30, SVG_ORANGE, 0.2);
            svg_text(x + STEP - 10, 44, "middle", title);
        }
        svg_arrow(x + STEP / 2., 58, x + STEP / 2. - 8, TOP - 32);
        snprintf(title, sizeof title, "query head %d", i);
        svg_table(&table, map);
    }
    svg_end();
    cJSON_Delete(answer);
}

/* ---------------------------------------------------------------------------- layers.md -- */

/* The most probable next tokens, as bars of their probability. */
static void draw_predictions(double x, double y, const cJSON *predictions)
{
    const cJSON *token;
    char text[64];
    svg_bold(x, y - 10, "start", "the next token");
    cJSON_ArrayForEach(token, cJSON_GetObjectItem(predictions->child, "tokens"))
    {
        const double probability = exp(cJSON_GetObjectItem(token, "logprob")->valuedouble);
        const char *word = cJSON_GetObjectItem(token, "text")->valuestring;
        snprintf(text, sizeof text, "%s %.2f",
                 strncmp(word, "▁", strlen("▁")) == 0 ? word + strlen("▁") : word, probability);
        svg_box(x, y + 3, 200 * probability, 16, SVG_ORANGE, 0.5);
        svg_text(x + 200 * probability + 6, y + 16, "start", text);
        y += 24;
    }
}

void picture_layers(struct daemon *daemon)
{
    enum { LAYERS = 5, CELL = 12, STEP = 156, LEFT = 60, TOP = 80 };
    static const char request[] =
        "{\"model\":\"stories260K\",\"text\":\"Tim had a red ball. He\","
        "\"outputs\":[\"weights\",\"predictions\"],\"weight_map\":{\"heads\":\"mean\"}}";
    const char *names[TOKENS_MAX];
    cJSON *answer = picture_ask(daemon, "/v1/trace", request);
    const cJSON *layer = cJSON_GetObjectItem(answer, "layers")->child;
    const int count = take_tokens(names, 0, answer);
    const double middle = TOP + count * CELL / 2.;
    char title[32];
    svg_begin(LEFT + LAYERS * STEP + 150, 240);
    for (int i = 0; i < LAYERS; i++, layer = layer->next) {
        const double x = LEFT + i * STEP;
        const struct svg_table table = { title, x, TOP, CELL, CELL, -1, SVG_BLUE, NULL, NULL };
        snprintf(title, sizeof title, "layer %d", i);
        svg_table(&table, cJSON_GetObjectItem(layer, "weights")->child);
        svg_arrow(x + count * CELL + 4, middle, x + STEP - 4, middle);
        for (int token = 0; i == 0 && token < count; token++)
            svg_small(x - 6, TOP + (token + 0.8) * CELL, "end", names[token]);
    }
    svg_small(LEFT, 34, "start",
              "hidden states [10][64] go in and out of each layer; its map is the mean of 8 heads");
    draw_predictions(LEFT + LAYERS * STEP, TOP, cJSON_GetObjectItem(answer, "predictions"));
    svg_end();
    cJSON_Delete(answer);
}

/* ---------------------------------------------------------------------------- decode.md -- */

/* One request of a session: a text, or a token behind what is there. */
static cJSON *go_on(struct daemon *daemon, const char *session, const char *what)
{
    char path[128], request[256];
    snprintf(path, sizeof path, "/v1/sessions/%s/trace", session);
    snprintf(request, sizeof request,
             "{%s,\"layers\":[1],\"outputs\":[\"weights\",\"predictions\"],"
             "\"top_k_tokens\":1,\"weight_map\":{\"heads\":[4]}}",
             what);
    return picture_ask(daemon, path, request);
}

static int predicted(const cJSON *answer)
{
    const cJSON *tokens =
        cJSON_GetObjectItem(cJSON_GetObjectItem(answer, "predictions")->child, "tokens");
    return cJSON_GetObjectItem(tokens->child, "id")->valueint;
}

void picture_decode(struct daemon *daemon)
{
    enum { STEPS = 4, CELL = 30, LEFT = 70, TOP = 50, RIGHT = LEFT + 9 * CELL + 24 };
    const char *names[TOKENS_MAX];
    char session[DAEMON_ID_BYTES], text[96] = "\"text\":\"Once upon a time\"";
    cJSON *answers[STEPS];
    int rows = 0, kept = 0;
    daemon_make_session(daemon, "stories260K", session);
    svg_begin(RIGHT + 330, 308);
    svg_bold(RIGHT, TOP - 10, "start", "requests");
    svg_bold(RIGHT + 270, TOP - 10, "middle", "kv_len after");
    for (int i = 0; i < STEPS; i++) {
        answers[i] = go_on(daemon, session, text);
        snprintf(text, sizeof text, "\"tokens\":[%d],\"at\":%d", predicted(answers[i]),
                 cJSON_GetObjectItem(answers[i], "kv_len")->valueint);
        rows = take_tokens(names, kept, answers[i]);
        const double y = TOP + kept * CELL, height = (rows - kept) * CELL;
        const struct svg_table table = {
            NULL, LEFT, y, CELL, CELL, 2, SVG_BLUE, names + kept, NULL
        };
        char line[64];
        svg_box(LEFT - 66, y + 1, RIGHT - LEFT + 386, height - 2, i % 2 ? "#fff" : SVG_ORANGE, 0.1);
        svg_table(&table, maps_of(answers[i]));
        snprintf(line, sizeof line, i ? "decode: %d row, %d keys" : "prefill: %d rows, %d keys",
                 rows - kept, rows);
        svg_text(RIGHT, y + height / 2 + 4.5, "start", line);
        snprintf(line, sizeof line, "%d", cJSON_GetObjectItem(answers[i], "kv_len")->valueint);
        svg_text(RIGHT + 270, y + height / 2 + 4.5, "middle", line);
        kept = rows;
    }
    for (int i = 0; i < rows; i++)
        svg_small(LEFT + (i + 0.5) * CELL, TOP - 8, "middle", names[i]);
    svg_end();
    for (int i = 0; i < STEPS; i++)
        cJSON_Delete(answers[i]);
    daemon_delete(daemon, session);
}
