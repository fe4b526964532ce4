/* coding.h - content codings of HTTP (RFC 9110, 8.4): gzip and deflate, both ways.
 *
 * The door to zlib, with coding_blocks.h for what is long. What costs time here, packing and
 * unpacking, is meant for a worker; reading a header line is not. */
#ifndef ATTND_CODING_H
#define ATTND_CODING_H

#include "base/bytes.h"
#include "base/fault.h"
#include "base/memory_budget.h"

/* What a Content-Encoding line says of a body; NULL is none. False, with the fault encoding,
 * for what is not offered, and for more codings than one. */
bool coding_of_body(const char *header, enum coding *coding, struct fault *fault);

/* What an Accept-Encoding line makes of an answer, by its quality values; NULL is none. Of equal
 * ones gzip comes first, and both before identity. *required: identity is refused. Where nothing
 * that is offered is acceptable, identity. */
enum coding coding_of_answer(const char *header, bool *required);

/* Its name in a header; "" for identity. */
const char *coding_name(enum coding coding);

/* Replaces a body that lies in *memory, which is malloc'd, by what it was packed from, in other
 * memory, as many bytes behind its begin. Several members of gzip are one body (RFC 1952, 2.2);
 * deflate is taken with and without the frame of zlib. Identity and no bytes stay as they are.
 * Never more than bytes_max bytes are made; share, unless NULL, is that of the request they are
 * reserved for. False, with nothing changed: too_large, coding (broken,
 * cut short, or followed by other bytes), memory. */
bool coding_unpack(enum coding coding, struct byte_slice *body, void **memory, size_t bytes_max,
                   struct memory_share *share, struct fault *fault);

/* The parts, one after the other, packed for speed: malloc'd, of *size bytes. NULL where there is
 * no memory or, unless required, where they do not shrink. */
char *coding_pack(enum coding coding, const struct byte_slice *parts, int part_count, bool required,
                  size_t *size);

#endif
