/* SPDX-License-Identifier: Apache-2.0 */
/* scale_report.c - the model's tables and picture: 4 to 1024 nodes, two networks.
 *
 * A node is assumed: 64 cores that compute as one of two does here, memory that they read at 300
 * GB/s, and 1 TB for keys and values. So are the networks. */
#include "scale_report.h"

#include "scale_model.h"
#include "scale_placement.h"

#include <math.h>
#include <stdbool.h>

enum { CORES = 64, LAYERS = 32, SIZES = 5 };

static const int NODES[SIZES] = { 4, 16, 64, 256, 1024 };

static const struct scale_link NETWORKS[2] = { { "25 Gb/s, TCP", 30e-6, 2.9e9 },
                                               { "200 Gb/s, RDMA", 2e-6, 24e9 } };
static const double READ_BYTES_S = 300e9, MEMORY_BYTES = 1e12;
static const double SESSIONS = 1e6, SESSION_TOKENS = 8192;

/* Ranks of a core, or one of the whole node. */
static struct scale_cluster make_cluster(int network, int threads)
{
    const struct scale_node *here = &scale_measured_node;
    return (struct scale_cluster){
        .node = { .name = "node",
                  .cores = CORES,
                  .read_all = fmin(READ_BYTES_S, CORES / 2 * here->read_all),
                  .flops_all = CORES / 2 * here->flops_all,
                  .memory_bytes = MEMORY_BYTES },
        .inside = scale_measured_links[0],
        .between = NETWORKS[network],
        .merge_s = scale_measured_merge_s,
        .threads = threads,
        .shape = { LAYERS, 32, 8, 128, 2 },
    };
}

/* "3.4 min" */
static const char *duration(double seconds)
{
    static char texts[8][24];
    static int next;
    static const struct {
        double until, unit;
        const char *name;
    } UNITS[] = { { 1, 1e-3, "ms" },
                  { 120, 1, "s" },
                  { 7200, 60, "min" },
                  { 172800, 3600, "h" },
                  { INFINITY, 86400, "d" } };
    int i = 0;
    while (seconds >= UNITS[i].until)
        i++;
    const double value = seconds / UNITS[i].unit;
    next = (next + 1) % 8;
    snprintf(texts[next], sizeof texts[next], value < 10 ? "%.1f %s" : "%.0f %s", value,
             UNITS[i].name);
    return texts[next];
}

/* Seconds of all layers, and what part of them is attention. */
static double prefill_s(int network, int threads, int nodes, double tokens, double *share)
{
    const struct scale_cluster cluster = make_cluster(network, threads);
    double attend_s;
    const double layer = scale_prefill(&cluster, nodes, CORES / threads, tokens, &attend_s);
    *share = attend_s / layer;
    return LAYERS * layer;
}

static double decode_s(int network, int threads, int nodes, double keys, double *share)
{
    const struct scale_cluster cluster = make_cluster(network, threads);
    const double layer = scale_decode(&cluster, nodes, CORES / threads, keys, 1);
    *share =
        keys * scale_token_bytes(&cluster.shape) / LAYERS / (nodes * cluster.node.read_all) / layer;
    return LAYERS * layer;
}

static const struct column {
    int network, threads;
    double tokens;
} COLUMNS[] = { { 0, 1, 1e6 }, { 0, CORES, 1e6 }, { 1, CORES, 1e6 }, { 0, CORES, 1e8 } };

static void print_long_context(FILE *file, double (*seconds)(int, int, int, double, double *))
{
    for (int i = 0; i < SIZES; i++) {
        fprintf(file, "| %d |", NODES[i]);
        for (size_t n = 0; n < sizeof COLUMNS / sizeof COLUMNS[0]; n++) {
            double share;
            const double took = seconds(COLUMNS[n].network, COLUMNS[n].threads, NODES[i],
                                        COLUMNS[n].tokens, &share);
            fprintf(file, " %s (%.2f) |", duration(took), share);
        }
        fprintf(file, "\n");
    }
}

/* Sessions that fit, tokens a second of all, and users who read 5 tokens a second. */
static void print_sessions(FILE *file)
{
    const struct scale_cluster cluster = make_cluster(0, CORES);
    const double bytes = SESSION_TOKENS * scale_token_bytes(&cluster.shape);
    for (int i = 0; i < SIZES; i++) {
        const double fit = NODES[i] * floor(cluster.node.memory_bytes / bytes);
        const double tokens_s = NODES[i] * cluster.node.read_all / bytes;
        fprintf(file, "| %d | %.0f | %.0f | %.0f |\n", NODES[i], fmin(fit, SESSIONS), tokens_s,
                tokens_s / 5);
    }
}

static void print_placement(FILE *file)
{
    static const double BOUNDS[] = { 0, 1.25, 1.1 };
    for (int i = 0; i < 3; i++) {
        const struct scale_placement placement = scale_place(256, (int)SESSIONS, BOUNDS[i]);
        fprintf(file, i ? "| %.2f |" : "| none |", BOUNDS[i]);
        fprintf(file, " %.2f | %.2f %% |\n", placement.greatest, 100 * placement.moved);
    }
}

/* One of three regions of 400 nodes is lost, with a third of the sessions. */
static void print_region(FILE *file)
{
    const struct scale_cluster cluster = make_cluster(0, CORES);
    enum { LEFT = 800 };
    const double lost = SESSIONS / 3;
    const double bytes = SESSION_TOKENS * scale_token_bytes(&cluster.shape);
    const double again =
        scale_prefill_flops(&cluster.shape, SESSION_TOKENS) / cluster.node.flops_all;
    fprintf(file, "| from saved files, over the network | %s | %s |\n",
            duration(bytes / cluster.between.bytes_s),
            duration(lost * bytes / (LEFT * cluster.between.bytes_s)));
    fprintf(file, "| from their tokens, attention alone | %s | %s |\n", duration(again),
            duration(lost * again / LEFT));
    fprintf(file, "| they fit beside the others | %.0f of %.0f |  |\n",
            fmin(SESSIONS, LEFT * floor(cluster.node.memory_bytes / bytes)), SESSIONS);
}

void scale_print(FILE *file)
{
    fprintf(file,
            "prefill: 10^6 tokens, a rank a core, a rank a node, RDMA; 10^8, a rank a node\n");
    print_long_context(file, prefill_s);
    fprintf(file, "decode: the same, for a token over so many keys\n");
    print_long_context(file, decode_s);
    fprintf(file, "sessions\n");
    print_sessions(file);
    fprintf(file, "placement\n");
    print_placement(file);
    fprintf(file, "a region is lost\n");
    print_region(file);
}

/* ------------------------------------------------------------------------------- the picture -- */

enum { WIDTH = 720, HEIGHT = 380, LEFT = 70, TOP = 30, RIGHT = 20, BOTTOM = 50 };
static const double LOG_MOST = 8, LOG_LEAST = 0; /* of seconds */

static double x_of(int size)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * (double)size / (SIZES - 1);
}

static double y_of(double seconds)
{
    return TOP + (HEIGHT - TOP - BOTTOM) * (LOG_MOST - log10(seconds)) / (LOG_MOST - LOG_LEAST);
}

static void draw_axes(FILE *file)
{
    static const char *const MARKS[] = { "1 s", "", "100 s", "", "3 h", "", "12 d", "", "3 y" };
    for (int i = 0; i <= (int)LOG_MOST; i += 2) {
        const double y = y_of(pow(10, i));
        fprintf(file, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, y, WIDTH - RIGHT);
        fprintf(file, "<text x=\"%d\" y=\"%.1f\" class=\"mark\">%s</text>\n", LEFT - 8, y + 4,
                MARKS[i]);
    }
    for (int i = 0; i < SIZES; i++)
        fprintf(file, "<text x=\"%.1f\" y=\"%d\" class=\"node\">%d</text>\n", x_of(i),
                HEIGHT - BOTTOM + 18, NODES[i]);
    fprintf(file, "<text x=\"%d\" y=\"%d\" class=\"node\">nodes of 64 cores</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12);
}

/* A way to prefill, and dashed what attention alone would take. */
static void draw_prefill(FILE *file, const struct column *column, double tokens, const char *color,
                         bool is_ideal)
{
    double share;
    fprintf(file, "<polyline stroke=\"%s\"%s points=\"", color,
            is_ideal ? " stroke-dasharray=\"4 4\"" : "");
    for (int i = 0; i < SIZES; i++) {
        const double took = prefill_s(column->network, column->threads, NODES[i], tokens, &share);
        fprintf(file, "%.1f,%.1f ", x_of(i), y_of(is_ideal ? took * share : took));
    }
    fprintf(file, "\"/>\n");
}

void scale_draw(FILE *file)
{
    static const char *const COLORS[3] = { "#c0392b", "#c77f17", "#1f6fb2" };
    static const char *const NAMES[3] = { "a rank a core, 25 Gb/s", "a rank a node, 25 Gb/s",
                                          "a rank a node, 200 Gb/s" };
    double share;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\">\n"
            "<style>text{font:12px sans-serif;fill:#333}.mark{text-anchor:end}"
            ".node{text-anchor:middle}polyline{fill:none;stroke-width:1.8}.grid{stroke:#ddd}"
            "</style>\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
            WIDTH, HEIGHT, WIDTH, WIDTH, HEIGHT);
    draw_axes(file);
    for (int i = 0; i < 3; i++) {
        draw_prefill(file, &COLUMNS[i], 1e8, COLORS[i], false);
        draw_prefill(file, &COLUMNS[i], 1e6, COLORS[i], false);
        fprintf(file, "<text x=\"%d\" y=\"18\" style=\"fill:%s\">%s</text>\n", LEFT + 170 * i,
                COLORS[i], NAMES[i]);
    }
    draw_prefill(file, &COLUMNS[1], 1e8, "#999", true);
    draw_prefill(file, &COLUMNS[1], 1e6, "#999", true);
    fprintf(file, "<text x=\"%d\" y=\"18\" style=\"fill:#777\">- - attention alone</text>\n",
            LEFT + 510);
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\">prefill of 100 million tokens</text>\n",
            x_of(1) + 10, y_of(prefill_s(0, 1, NODES[1], 1e8, &share)) - 8);
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\">prefill of 1 million tokens</text>\n", x_of(1) + 10,
            y_of(prefill_s(0, 1, NODES[1], 1e6, &share)) - 8);
    fprintf(file, "</svg>\n");
}
