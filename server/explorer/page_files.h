/* SPDX-License-Identifier: Apache-2.0 */
/* page_files.h - the files of the explorer and the pages of the reference, which lie in the
 * program. The build makes both tables (embed-page): one of what pack-page makes of the files
 * beside this one, one of what the room reference/ writes. */
#ifndef ATTND_PAGE_FILES_H
#define ATTND_PAGE_FILES_H

#include "base/bytes.h"

struct page_file {
    const char *path;         /* "index.html", "data/api.js", "docs/types.md" */
    const char *type;         /* for Content-Type */
    const char *tag;          /* for ETag; weak, for it is that of the packed file too */
    struct byte_slice packed; /* by gzip */
    size_t bytes;             /* unpacked */
};

extern const struct page_file PAGE_FILES[];
extern const int PAGE_FILE_COUNT;

extern const struct page_file DOCS_FILES[];
extern const int DOCS_FILE_COUNT;

/* The file of the explorer at that path; NULL where there is none. */
const struct page_file *page_files_find(const char *path);

#endif
