/* SPDX-License-Identifier: Apache-2.0 */
/* routes.h - every path of the daemon, in one table. */
#ifndef ATTND_ROUTES_H
#define ATTND_ROUTES_H

#include "http/http.h"

/* The table, whose routes have their metrics labels; *count is its length. */
struct route *routes_table(int *count);

/* The metrics index of requests whose path is in no route. */
int routes_unknown(void);

#endif
