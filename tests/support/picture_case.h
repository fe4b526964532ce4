/* SPDX-License-Identifier: Apache-2.0 */
/* picture_case.h - what the tests of encoders of pictures share: a small picture, its patches, and
 * the comparison of a whole pass with the daemon's. */
#ifndef PICTURE_CASE_H
#define PICTURE_CASE_H

#include "forward_reference.h"

enum { PICTURE_PATCH = 2, PICTURE_CHANNELS = 3 };

/* Pixels [channel][row][column]; a channel is a row of the result. */
struct rows picture_case(int height, int width);

/* They as a field of a request, malloc'd. */
char *picture_case_field(struct rows pixels, int height, int width);

/* The columns of torch.nn.Conv2d's weight [out][channel][y][x] that each patch meets, a patch a
 * row: kernel and stride are PICTURE_PATCH. */
struct rows picture_case_patches(struct rows pixels, int height, int width);

/* torch.nn.functional.interpolate() with align_corners False: mode "bicubic", the same and
 * "bilinear" with antialias True. */
enum picture_mode { PICTURE_BICUBIC, PICTURE_BICUBIC_SMOOTH, PICTURE_BILINEAR_SMOOTH };

/* Positions of a grid of side x side patches as those of a picture of this size, the first `before`
 * rows as they are. */
struct rows picture_case_positions(struct rows positions, int before, int side, int height,
                                   int width, enum picture_mode mode);

/* Serves the open checkpoint and compares its trace. */
void picture_case_compare(const char *name, const char *config, const char *fields,
                          const struct forward *want);

/* The same for a picture of this size, and closes the checkpoint. */
void picture_case_check(const char *name, const char *config, int height, int width,
                        const struct forward *want);

#endif
