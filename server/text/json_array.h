/* json_array.h - one array of numbers, read from text into a block of floats. */
#ifndef ATTND_JSON_ARRAY_H
#define ATTND_JSON_ARRAY_H

#include "text/json.h"
#include "text/json_scan.h"

enum json_array_kind {
    JSON_ARRAY_NUMBERS, /* read; the scan is behind its ']' and the white space after it */
    JSON_ARRAY_PLAIN,   /* it contains a string or an object; the scan has not moved */
    JSON_ARRAY_FAULT
};

/* The arrays that are known to be plain: at each depth the offset of the '[' of the last one. */
struct json_plain_arrays {
    size_t offset[JSON_DEPTH_MAX];
};

/* Reads the array whose '[' is at the scan's p and which is inside `depth` containers (0: it is the
 * whole text). Its elements go to values, which has room for all that the text can hold. Where the
 * array is plain, all open arrays around the string or object that makes it plain are entered in
 * plain, so that the text before that is read only once more. */
enum json_array_kind json_array_read(struct json_scan *scan, int depth, float *values,
                                     struct json_numbers *numbers, struct json_plain_arrays *plain);

#endif
