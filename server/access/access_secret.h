/* SPDX-License-Identifier: Apache-2.0 */
/* access_secret.h - the secret of a key: made at random, hashed, found in a request's headers.
 *
 * The keys' file has SHA-256 of a secret. A secret that attnd makes has 256 random bits, which
 * nobody can try out, so a slow hash would protect nothing more and would cost each request its
 * time. */
#ifndef ATTND_ACCESS_SECRET_H
#define ATTND_ACCESS_SECRET_H

#include <stdbool.h>
#include <stddef.h>

enum {
    ACCESS_HASH_BYTES = 32,
    ACCESS_SECRET_BYTES_MAX = 512,
    ACCESS_SECRET_NEW_BYTES = 50, /* of a text that attnd makes, with its NUL byte */
};

/* SHA-256 (FIPS 180-4). False where the library has no memory for it. */
bool access_secret_hash(const void *secret, size_t size, unsigned char hash[ACCESS_HASH_BYTES]);

/* Makes a secret of 256 random bits: "attnd_" and 43 characters of base64url (RFC 4648, section 5)
 * without padding. Programs that look for leaked keys find it by its beginning, and unlike 64
 * hexadecimal digits it cannot be taken for its own hash. False where there is no random source. */
bool access_secret_new(char text[ACCESS_SECRET_NEW_BYTES]);

/* Whether the text is 1 to 512 characters of a bearer token (RFC 6750, section 2.1: b64token). */
bool access_secret_is_token(const char *text, size_t size);

enum access_secret_outcome {
    ACCESS_SECRET_NONE,    /* no key is given */
    ACCESS_SECRET_GIVEN,   /* one is */
    ACCESS_SECRET_REFUSED, /* what is given is no token, or two keys are given that differ */
};

/* Finds the secret in the values of the headers Authorization and X-Api-Key; NULL: there is no such
 * header. An Authorization of another scheme than Bearer gives no key. *secret lies in one of the
 * values; it is set where the outcome is ACCESS_SECRET_GIVEN. */
enum access_secret_outcome access_secret_of_headers(const char *authorization,
                                                    const char *x_api_key, const char **secret,
                                                    size_t *size);

#endif
