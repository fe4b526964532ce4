/* json_string.h - a string of the tree with U+0000 in it.
 *
 * A string of cJSON ends at its first NUL byte, so json_read() refuses U+0000 unless its caller
 * sets nul_is_kept. Then it writes each U+0000 as the two bytes C0 80, which are no UTF-8 and so
 * stand for nothing else (the Java virtual machine does the same), and json_string_read() turns
 * them back. */
#ifndef ATTND_JSON_STRING_H
#define ATTND_JSON_STRING_H

#include "base/arena.h"
#include "base/bytes.h"
#include "text/json.h"

#define JSON_STRING_NUL "\xC0\x80"

/* The bytes of a string that json_read() wrote with nul_is_kept. They are in the string itself, or
 * in the arena where it has U+0000. False: no memory. */
bool json_string_read(const char *string, struct arena *arena, struct byte_slice *bytes);

#endif
