/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.h - SHA-256 (FIPS 180-4) of bytes that come in pieces, by GnuTLS, which libmicrohttpd is
 * linked with. */
#ifndef ATTND_SHA256_H
#define ATTND_SHA256_H

#include <stdbool.h>
#include <stddef.h>

enum { SHA256_HEX_BYTES = 65 }; /* 64 digits and a NUL */

/* A failure stays until the end, so that only sha256_end() needs a check. */
struct sha256 {
    void *state; /* GnuTLS's; NULL: it has failed */
};

void sha256_begin(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *bytes, size_t size);

/* Writes the digest in lower-case hexadecimal digits. False: there was no memory. The hash is over
 * in both cases. */
bool sha256_end(struct sha256 *hash, char hex[SHA256_HEX_BYTES]);

#endif
