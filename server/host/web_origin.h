/* SPDX-License-Identifier: Apache-2.0 */
/* web_origin.h - the origin of a web page, and the name of a host, as they are typed and sent. */
#ifndef ATTND_WEB_ORIGIN_H
#define ATTND_WEB_ORIGIN_H

#include <stdbool.h>

enum { WEB_ORIGIN_BYTES = 320 };

/* What an origin may be, for messages. */
#define WEB_ORIGIN_FORMS                                                                           \
    "expected an origin as in https://app.example or http://localhost:3000, without a path, or * " \
    "for the pages of all origins"

/* What the name of a host may be, for messages. */
#define WEB_HOST_FORMS "expected the name of a host as in attnd.example, without a scheme or a path"

/* Writes the origin at text as RFC 6454 (6.2) serialises it, so that two texts name one origin
 * where their serialised forms are equal: scheme and host in lower case, without the port where it
 * is the default one of http or https. An IPv6 address gets one form. False where text is no
 * origin of a host: "null", "*", a path or a blank behind the port, no host, a file. */
bool web_origin_read(char serialised[WEB_ORIGIN_BYTES], const char *text);

/* Whether text is the name of a host, or its address, with or without a port. */
bool web_host_is_valid(const char *text);

#endif
