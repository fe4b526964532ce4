/* json_array.h - one array of numbers, from text into a block of floats. */
#ifndef ATTND_JSON_ARRAY_H
#define ATTND_JSON_ARRAY_H

#include "text/json.h"
#include "text/json_scan.h"

enum json_array_kind {
    JSON_ARRAY_NUMBERS, /* read; the scan is after its ']' and the space behind it */
    JSON_ARRAY_PLAIN,   /* a string or an object is in it; the scan has not moved */
    JSON_ARRAY_FAULT
};

/* The offset of the '[' that encloses a value at each depth, for arrays known to be plain. */
struct json_plain_arrays {
    size_t offset[JSON_DEPTH_MAX];
};

/* Reads the array whose '[' is at the scan's p, depth containers deep (0: it is the
 * whole text), with its elements at values, where there is room for any that the
 * text can hold. Where it is plain, all the arrays that enclose what makes it so
 * are entered in plain, so that the text before that is read only once more. */
enum json_array_kind json_array_read(struct json_scan *scan, int depth, float *values,
                                     struct json_numbers *numbers, struct json_plain_arrays *plain);

#endif
