/* SPDX-License-Identifier: Apache-2.0 */
/* svg.c - see svg.h. */
#include "svg.h"

#include <math.h>
#include <stdio.h>

/* Lengths that numbers of the daemon give are rounded, since these differ between CPUs in the last
 * place. */
static double tenth(double length)
{
    return round(length * 10) / 10;
}

void svg_begin(int width, int height)
{
    printf("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\">\n", width,
           height, width);
    puts("<style>text{font:13px sans-serif;fill:#222}.bold{font-weight:bold}"
         ".small{font-size:11px;fill:#555}.cell{font-size:11px}.light{font-size:11px;fill:#fff}"
         ".arrow{stroke:#777;stroke-width:1.5}</style>");
    puts("<marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" orient=\"auto\" "
         "markerWidth=\"7\" markerHeight=\"7\"><path d=\"M0 0L8 4L0 8z\" fill=\"#777\"/></marker>");
    printf("<rect width=\"%d\" height=\"%d\" rx=\"6\" fill=\"#fff\"/>\n", width, height);
}

void svg_end(void)
{
    puts("</svg>");
}

static void put_text(double x, double y, const char *anchor, const char *class, const char *text)
{
    printf("<text x=\"%g\" y=\"%g\" text-anchor=\"%s\" class=\"%s\">", tenth(x), tenth(y), anchor,
           class);
    for (; *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", stdout);
            break;
        case '<':
            fputs("&lt;", stdout);
            break;
        case '>':
            fputs("&gt;", stdout);
            break;
        default:
            putchar(*text);
        }
    puts("</text>");
}

void svg_text(double x, double y, const char *anchor, const char *text)
{
    put_text(x, y, anchor, "plain", text);
}

void svg_bold(double x, double y, const char *anchor, const char *text)
{
    put_text(x, y, anchor, "bold", text);
}

void svg_small(double x, double y, const char *anchor, const char *text)
{
    put_text(x, y, anchor, "small", text);
}

void svg_box(double x, double y, double width, double height, const char *fill, double opacity)
{
    printf("<rect x=\"%g\" y=\"%g\" width=\"%g\" height=\"%g\" rx=\"3\" fill=\"%s\"", tenth(x),
           tenth(y), tenth(width), tenth(height), fill);
    if (opacity < 1)
        printf(" opacity=\"%.2f\"", opacity);
    puts("/>");
}

void svg_arrow(double x1, double y1, double x2, double y2)
{
    printf("<path class=\"arrow\" marker-end=\"url(#head)\" d=\"M%g %gL%g %g\"/>\n", x1, y1, x2,
           y2);
}

/* What is behind a cell or, where cells have colours, behind all of them. */
static void put_ground(double x, double y, double width, double height)
{
    svg_box(x + 1, y + 1, width - 2, height - 2, SVG_PALE, 1);
}

static void put_cell(const struct svg_table *table, double x, double y, double value)
{
    const double width = table->width - 2, height = table->height - 2;
    char text[32];
    if (!table->fill)
        put_ground(x, y, table->width, table->height);
    if (table->fill && fabs(value) < 0.005)
        return;
    if (table->fill)
        svg_box(x + 1, y + 1, width, height, value < 0 ? SVG_BLUE : table->fill, fabs(value));
    if (table->decimals < 0)
        return;
    snprintf(text, sizeof text, "%.*f", table->decimals, value);
    put_text(x + table->width / 2, y + table->height / 2 + 4, "middle",
             table->fill && value > 0.6 ? "light" : "cell", text);
}

void svg_table(const struct svg_table *table, const cJSON *rows)
{
    const cJSON *row, *number;
    int columns = 0, i = 0;
    cJSON_ArrayForEach(row, rows)
    {
        const double y = table->y + i * table->height;
        int column = 0;
        if (table->fill)
            put_ground(table->x, y, cJSON_GetArraySize(row) * table->width, table->height);
        if (table->row_names)
            svg_text(table->x - 8, y + table->height / 2 + 4.5, "end", table->row_names[i]);
        cJSON_ArrayForEach(number, row)
            put_cell(table, table->x + column++ * table->width, y, number->valuedouble);
        columns = column > columns ? column : columns;
        i++;
    }
    for (i = 0; table->column_names && i < columns; i++)
        svg_small(table->x + (i + 0.5) * table->width, table->y - 6, "middle",
                  table->column_names[i]);
    if (table->title)
        svg_bold(table->x, table->y - (table->column_names ? 26 : 10), "start", table->title);
}
