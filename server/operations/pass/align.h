/* SPDX-License-Identifier: Apache-2.0 */
/* align.h - which keys a sequence of rows goes along: times of the words of speech, by the weights
 * of cross attention.
 *
 * Source: whisper/timing.py of openai/whisper, find_alignment(), dtw_cpu(), median_filter();
 * generation_whisper.py of Hugging Face transformers, _extract_token_timestamps(). Of each head and
 * key the weights of all rows are centred and divided by their standard deviation; a median along
 * the keys smooths them; the heads are averaged. Dynamic time warping (Sakoe and Chiba 1978) finds
 * the path from the first row and key to the last that has the largest sum, along which rows and
 * keys never go back. */
#ifndef ATTND_ALIGN_H
#define ATTND_ALIGN_H

#include <stddef.h>
#include <stdint.h>

enum { ALIGN_MEDIAN = 7, ALIGN_MEDIAN_MAX = 31 };

/* Smooths the map of one head, [rows][keys], in place. width is odd, at most ALIGN_MEDIAN_MAX; keys
 * beyond both ends are reflected, and rows with no more than width / 2 keys are not smoothed. copy
 * has room for keys numbers. */
void align_smooth(float *map, int64_t rows, int64_t keys, int width, float *copy);

/* The mean of maps, [heads][rows][keys], into the first of them. */
void align_average(float *maps, int64_t heads, int64_t rows, int64_t keys);

/* Sets first[row] to the first key that the path has with the row, for row in [0, rows). rows and
 * keys are 1 or more. The workspace has align_workspace_bytes(). */
size_t align_workspace_bytes(int64_t rows, int64_t keys); /* SIZE_MAX on overflow */
void align_path(const float *map, int64_t rows, int64_t keys, int64_t *first, void *workspace);

#endif
