/* SPDX-License-Identifier: Apache-2.0 */
/* scale_report.h - what deploy/SCALE.md shows of the model: its tables and its picture. */
#ifndef SCALE_REPORT_H
#define SCALE_REPORT_H

#include <stdio.h>

/* Rows of the page's tables, as Markdown. */
void scale_print(FILE *file);

/* The picture, an SVG. */
void scale_draw(FILE *file);

#endif
