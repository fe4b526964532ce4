/* SPDX-License-Identifier: Apache-2.0 */
/* sha256.c - see sha256.h. */
#include "base/sha256.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

enum { DIGEST_BYTES = 32 };

void sha256_begin(struct sha256 *hash)
{
    gnutls_hash_hd_t state;
    hash->state = gnutls_hash_init(&state, GNUTLS_DIG_SHA256) == 0 ? state : NULL;
}

void sha256_add(struct sha256 *hash, const void *bytes, size_t size)
{
    if (!hash->state || size == 0 || gnutls_hash(hash->state, bytes, size) == 0)
        return;
    gnutls_hash_deinit(hash->state, NULL);
    hash->state = NULL;
}

bool sha256_end(struct sha256 *hash, char hex[SHA256_HEX_BYTES])
{
    static const char DIGITS[] = "0123456789abcdef";
    unsigned char digest[DIGEST_BYTES];
    if (!hash->state)
        return false;
    gnutls_hash_deinit(hash->state, digest);
    hash->state = NULL;
    for (size_t i = 0; i < DIGEST_BYTES; i++) {
        hex[2 * i] = DIGITS[digest[i] >> 4];
        hex[2 * i + 1] = DIGITS[digest[i] & 15];
    }
    hex[(size_t)2 * DIGEST_BYTES] = '\0';
    return true;
}
