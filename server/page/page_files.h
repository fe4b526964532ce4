/* page_files.h - the files of the page, which lie in the program. The build makes the table from
 * the files beside this one (embed-page). */
#ifndef ATTND_PAGE_FILES_H
#define ATTND_PAGE_FILES_H

#include "base/bytes.h"

struct page_file {
    const char *path;         /* "index.html", "data/api.js" */
    const char *type;         /* for Content-Type */
    const char *tag;          /* for ETag; weak, for it is that of the packed file too */
    struct byte_slice packed; /* by gzip */
    size_t bytes;             /* unpacked */
};

extern const struct page_file PAGE_FILES[];
extern const int PAGE_FILE_COUNT;

/* The file of that path; NULL where there is none. */
const struct page_file *page_files_find(const char *path);

#endif
