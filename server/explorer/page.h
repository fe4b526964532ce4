/* SPDX-License-Identifier: Apache-2.0 */
/* page.h - the explorer, the page at / with the files that it asks for, and the reference at /docs.
 */
#ifndef ATTND_PAGE_H
#define ATTND_PAGE_H

#include "http/http.h"

struct config;

/* Settles what the page may load and who may show it in a frame; before the first request. */
void page_begin(const struct config *config);

void page_get(struct exchange *exchange);
void page_file_get(struct exchange *exchange);
void page_docs_get(struct exchange *exchange);

#endif
