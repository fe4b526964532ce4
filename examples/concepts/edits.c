/* SPDX-License-Identifier: Apache-2.0 */
/* edits.c - the pictures of edited passes of stories260K; see pictures.h. */
#include "pictures.h"
#include "svg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const cJSON *first_of(const cJSON *answer, const char *name)
{
    const cJSON *list = cJSON_GetObjectItem(answer, name);
    if (!list || !list->child)
        fail(name, "is not in the answer");
    return list->child;
}

static double number_of(const cJSON *item, const char *name)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItem(item, name));
}

/* ---------------------------------------------------------------------------- causes.md -- */

enum { DOCUMENTS = 3, HEADS = 8, LAYER = 4 };

static const char *const documents[DOCUMENTS] = {
    "Tim had a toy boat. He played with it in the water.",
    "Sue saw a big cake. She wanted to eat the cake.",
    "Pip was a little bird. Pip liked to sing all day."
};

/* A trace of the documents and the question, with more members. */
static cJSON *ask_of_prompt(struct daemon *daemon, const char *members)
{
    char body[1024];
    snprintf(body, sizeof body,
             "{\"model\":\"stories260K\",\"text\":\"%s %s %s Sue asked her mom, \\\"Can I eat "
             "the\",%s}",
             documents[0], documents[1], documents[2], members);
    return picture_ask(daemon, "/v1/trace", body);
}

/* By how much the log-prob of cake changes where a document is hidden, with more members of the
 * edit. */
static double effect_of(struct daemon *daemon, int document, const char *more)
{
    char members[512];
    snprintf(members, sizeof members,
             "\"layers\":[],\"compare\":true,\"targets\":[{\"token\":\"▁c\"}],"
             "\"edits\":[{\"hide_texts\":[\"%s\"]%s}]",
             documents[document], more);
    cJSON *answer = ask_of_prompt(daemon, members);
    const double effect = number_of(first_of(answer, "targets"), "difference");
    cJSON_Delete(answer);
    return effect;
}

/* The weights of the last row on each document, of each head of each layer. */
static cJSON *weights_of(struct daemon *daemon)
{
    char members[512];
    snprintf(members, sizeof members,
             "\"rows\":[-1],\"outputs\":[],\"span_texts\":[\"%s\",\"%s\",\"%s\"]", documents[0],
             documents[1], documents[2]);
    return ask_of_prompt(daemon, members);
}

static double weight_of(const cJSON *layer, int head, int document)
{
    const cJSON *rows = cJSON_GetArrayItem(cJSON_GetObjectItem(layer, "spans"), head);
    return cJSON_GetArrayItem(rows->child, document)->valuedouble;
}

static double mean_weight(const cJSON *layers, int document)
{
    const cJSON *layer;
    double sum = 0;
    int count = 0;
    cJSON_ArrayForEach(layer, layers)
        for (int head = 0; head < HEADS; head++, count++)
            sum += weight_of(layer, head, document);
    return sum / count;
}

enum { NAMES = 345, BARS = 210, AXIS = NAMES + BARS + 290, NAT = 75, STEP = 24 };

/* A name, a weight to its right, and an effect beyond: above 0 to the right of the axis. */
static void draw_line(double y, const char *name, double weight, double effect)
{
    char text[32];
    svg_text(NAMES - 10, y + 13, "end", name);
    svg_box(NAMES, y, BARS * weight + 1, 17, SVG_BLUE, 0.8);
    snprintf(text, sizeof text, "%.2f", weight);
    svg_small(NAMES + BARS * weight + 6, y + 12.5, "start", text);
    if (effect > -0.005 && effect < 0.005) /* its sign may differ between CPUs */
        effect = 0;
    const double length = NAT * (effect < 0 ? -effect : effect) + 1;
    svg_box(effect < 0 ? AXIS - length : AXIS, y, length, 17, SVG_ORANGE, 0.8);
    snprintf(text, sizeof text, effect == 0 ? "%.2f" : "%+.2f", effect);
    svg_small(effect < 0 ? AXIS - length - 5 : AXIS + length + 5, y + 12.5,
              effect < 0 ? "end" : "start", text);
}

void picture_causes(struct daemon *daemon)
{
    cJSON *answer = weights_of(daemon);
    const cJSON *layers = cJSON_GetObjectItem(answer, "layers");
    const cJSON *layer = cJSON_GetArrayItem(layers, LAYER);
    double y = 34;
    svg_begin(AXIS + 60, 400);
    svg_bold(NAMES, y - 10, "start", "how much the last row looks there");
    svg_bold(AXIS, y - 10, "end", "log-prob of “cake” without it");
    svg_small(20, y + 12, "start", "a document, hidden from all rows; the mean of all heads");
    y += 24;
    for (int i = 0; i < DOCUMENTS; i++, y += STEP)
        draw_line(y, documents[i], mean_weight(layers, i), effect_of(daemon, i, ""));
    y += 20;
    svg_small(20, y + 12, "start",
              "the second document, hidden from one head of layer 4 in its last row");
    y += 24;
    for (int head = 0; head < HEADS; head++, y += STEP) {
        char name[32], more[64];
        snprintf(name, sizeof name, "head %d", head);
        snprintf(more, sizeof more, ",\"layers\":[%d],\"heads\":[%d],\"rows\":[-1]", LAYER, head);
        draw_line(y, name, weight_of(layer, head, 1), effect_of(daemon, 1, more));
    }
    svg_end();
    cJSON_Delete(answer);
}

/* -------------------------------------------------------------------------- residual.md -- */

enum { LAYERS = 5, TOKENS_MAX = 32 };

#define BEHIND_NAME " had a big dog. One day,"
#define ASKED       "\"targets\":[{\"token\":\"▁Lily\",\"against\":\"▁Tim\"}]"

/* The difference of the log-probs of both names in an answer. */
static double names_apart(const cJSON *answer)
{
    return number_of(first_of(answer, "targets"), "logit_difference");
}

/* The pass of Tim with one row of that of Lily, which is kept, at each place: one batch, whose
 * results are layer by layer. */
static cJSON *ask_patched(struct daemon *daemon, const char *kept, int count)
{
    cJSON *body = cJSON_Parse("{\"model\":\"stories260K\",\"layers\":[]," ASKED "}");
    cJSON *requests = cJSON_AddArrayToObject(body, "requests");
    for (int i = 0; i < LAYERS * count; i++) {
        char item[512];
        snprintf(item, sizeof item,
                 "{\"text\":\"Tim" BEHIND_NAME "\",\"edits\":[{\"at\":\"hidden_states\","
                 "\"layers\":[%d],\"rows\":[%d],\"from\":{\"trace\":\"%s\"}}]}",
                 i / count, i % count, kept);
        cJSON_AddItemToArray(requests, cJSON_Parse(item));
    }
    return daemon_post(daemon, "/v1/trace/batch", body);
}

/* How far each patch goes from Tim's answer, 0, to Lily's, 1: [row][layer]. */
static cJSON *make_rows(const cJSON *patched, int count, double of_tim, double of_lily)
{
    cJSON *rows = cJSON_CreateArray();
    for (int row = 0; row < count; row++) {
        cJSON *numbers = cJSON_CreateArray();
        for (int layer = 0; layer < LAYERS; layer++) {
            const cJSON *answer =
                cJSON_GetArrayItem(cJSON_GetObjectItem(patched, "results"), layer * count + row);
            const double way = (names_apart(answer) - of_tim) / (of_lily - of_tim);
            cJSON_AddItemToArray(numbers, cJSON_CreateNumber(way < 0.005 ? 0 : way > 1 ? 1 : way));
        }
        cJSON_AddItemToArray(rows, numbers);
    }
    return rows;
}

/* The places of a block beside its stream, which goes down from y on. */
static void draw_block(double x, double y)
{
    static const struct {
        const char *part, *inside, *behind;
    } parts[] = { { "attention", "head", "attention_output" },
                  { "feed-forward", NULL, "feed_forward" } };
    svg_text(x, y, "middle", "hidden_states");
    for (int i = 0; i < 2; i++, y += 96) {
        svg_arrow(x, y + 8, x, y + 94);
        svg_arrow(x + 4, y + 18, x + 66, y + 34);
        svg_box(x + 70, y + 22, 110, 30, SVG_BLUE, 0.2);
        svg_text(x + 125, y + 41, "middle", parts[i].part);
        if (parts[i].inside)
            svg_small(x + 188, y + 41, "start", parts[i].inside);
        svg_arrow(x + 66, y + 46, x + 6, y + 76);
        svg_text(x + 70, y + 72, "start", parts[i].behind);
        svg_bold(x - 8, y + 82, "end", "+");
    }
    svg_text(x, y + 14, "middle", "hidden_states of the next layer");
}

void picture_residual(struct daemon *daemon)
{
    enum { CELL = 46, HEIGHT = 24, LEFT = 90, TOP = 84 };
    static const char *const columns[LAYERS] = { "0", "1", "2", "3", "4" };
    const char *names[TOKENS_MAX];
    int count = 0;
    cJSON *lily = picture_ask(daemon, "/v1/trace",
                              "{\"model\":\"stories260K\",\"text\":\"Lily" BEHIND_NAME
                              "\",\"outputs\":[],\"keep\":\"1m\",\"states\":true," ASKED "}");
    cJSON *tim = picture_ask(daemon, "/v1/trace",
                             "{\"model\":\"stories260K\",\"text\":\"Tim" BEHIND_NAME
                             "\",\"layers\":[]," ASKED "}");
    const cJSON *token;
    cJSON_ArrayForEach(token, cJSON_GetObjectItem(tim, "tokens")) {
        const char *text = cJSON_GetObjectItem(token, "text")->valuestring;
        if (count < TOKENS_MAX)
            names[count++] = strncmp(text, "▁", strlen("▁")) == 0 ? text + strlen("▁") : text;
    }
    const char *kept = cJSON_GetStringValue(cJSON_GetObjectItem(lily, "trace"));
    cJSON *patched = ask_patched(daemon, kept, count);
    cJSON *rows = make_rows(patched, count, names_apart(tim), names_apart(lily));
    const struct svg_table table = { NULL, LEFT, TOP, CELL, HEIGHT, 2, SVG_ORANGE, names, columns };
    svg_begin(LEFT + LAYERS * CELL + 440, TOP + count * HEIGHT + 20);
    svg_bold(20, 28, "start", "Tim had a big dog. One day, … with one row of Lily’s pass");
    svg_small(20, 48, "start",
              "a row as it enters a layer; 0: the next token is as after Tim, 1: as after Lily");
    svg_table(&table, rows);
    draw_block(LEFT + LAYERS * CELL + 130, 104);
    svg_end();
    cJSON_Delete(rows), cJSON_Delete(patched), cJSON_Delete(tim), cJSON_Delete(lily);
}
