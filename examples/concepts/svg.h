/* SPDX-License-Identifier: Apache-2.0 */
/* svg.h - the shapes that the pictures of the concepts are made of, as an SVG on standard output.
 *
 * Lengths are pixels, y grows downwards. A picture is a white card, so that it can be read on a
 * light page and on a dark one. */
#ifndef SVG_H
#define SVG_H

#include <cjson/cJSON.h>

#define SVG_BLUE   "#1f4e9c"
#define SVG_ORANGE "#b4540a"
#define SVG_PALE   "#eef1f6"

void svg_begin(int width, int height);
void svg_end(void);

/* A line of text; anchor is "start", "middle" or "end": where x is. */
void svg_text(double x, double y, const char *anchor, const char *text);
void svg_bold(double x, double y, const char *anchor, const char *text);
void svg_small(double x, double y, const char *anchor, const char *text);

void svg_box(double x, double y, double width, double height, const char *fill, double opacity);

/* From one point to another, with a head there. */
void svg_arrow(double x1, double y1, double x2, double y2);

/* A table of numbers, [rows][columns]. */
struct svg_table {
    const char *title;
    double x, y;          /* of the left upper cell; titles and names are outside */
    double width, height; /* of a cell */
    int decimals;         /* of the number in a cell; -1: none */

    /* A cell is the darker the larger its number, which lies in [-1, 1]; one of 0 is empty. Weights
     * are blue. Numbers of both signs are orange above 0 and blue below, as in the explorer. NULL:
     * all cells are alike. */
    const char *fill;
    const char *const *row_names, *const *column_names; /* one for each; NULL: none */
};

/* Columns that a row has less than others are not drawn. */
void svg_table(const struct svg_table *table, const cJSON *rows);

#endif
