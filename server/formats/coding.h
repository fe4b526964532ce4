/* SPDX-License-Identifier: Apache-2.0 */
/* coding.h - content codings of HTTP (RFC 9110, section 8.4): gzip (RFC 1952) and deflate (RFC
 * 1950), packed and unpacked by zlib.
 *
 * Packing and unpacking take time, so workers call them; any thread may read a header line. For
 * long answers see coding_blocks.h. */
#ifndef ATTND_CODING_H
#define ATTND_CODING_H

#include "base/bytes.h"
#include "base/fault.h"
#include "base/memory_budget.h"

/* Reads the coding of a body from a Content-Encoding line; NULL: there is no such line. Returns
 * false, with the fault encoding, for a coding that the server does not offer and for more than
 * one. */
bool coding_of_body(const char *header, enum coding *coding, struct fault *fault);

/* Chooses the coding of an answer by the quality values of an Accept-Encoding line; NULL: there is
 * no such line. Of equal values gzip comes before deflate, and deflate before identity. *required:
 * the client refuses identity. Where the client accepts no coding that the server offers: identity.
 */
enum coding coding_of_answer(const char *header, bool *required);

/* The name of a coding in a header; "" for identity. */
const char *coding_name(enum coding coding);

/* Unpacks a body. The body lies in *memory, which is malloc'd, at some offset; both are replaced by
 * new memory and the unpacked body at the same offset. Several members of gzip are one body (RFC
 * 1952, section 2.2); deflate is taken with the frame of zlib (RFC 1950) and without it (RFC 1951).
 * A body of coding identity or of no bytes stays as it is. The unpacked body has at most bytes_max
 * bytes, which are reserved in share (NULL: not counted). Returns false, with nothing changed, for
 * the faults too_large, coding (broken, cut short, or followed by other bytes) and memory. */
bool coding_unpack(enum coding coding, struct byte_slice *body, void **memory, size_t bytes_max,
                   struct memory_share *share, struct fault *fault);

/* A guess how many bytes a body unpacks to, of which packed_bytes bytes were sent, for a prediction
 * of what reading it costs. bytes are the whole body, NULL where it has not come. gzip says the
 * size of its last member at its end; the word of a client, so it counts only as far as
 * packed_bytes can unpack to, and to bytes_max. Other codings are taken to have a usual size. */
size_t coding_unpacked_guess(enum coding coding, const void *bytes, size_t packed_bytes,
                             size_t bytes_max);

/* Packs the parts, one after the other, at zlib's fastest level. Returns *size malloc'd bytes, the
 * caller's; NULL where there is no memory or, unless required, where the parts do not shrink. */
char *coding_pack(enum coding coding, const struct byte_slice *parts, int part_count, bool required,
                  size_t *size);

#endif
