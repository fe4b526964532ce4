/* model_directory.h - which models a directory holds, by the names of its files
 * alone (API.md section 2, "Models on disk"). Nothing is opened here.
 *
 * Versions are numbered as in Triton's model repository: a folder whose name is a
 * whole number above 0, without a leading zero. */
#ifndef ATTND_MODEL_DIRECTORY_H
#define ATTND_MODEL_DIRECTORY_H

#include "base/arena.h"
#include "base/fault.h"

struct model_place {
    const char *name;
    int64_t version;    /* of a numbered folder; else 1 */
    bool is_folder;     /* else one file, DIR/<name>.safetensors */
    const char *source; /* the file, the folder or the folder of the version */
    const char *path;   /* of the safetensors file, or of the index of its shards; NULL: there is
                           none, and problem says so */
    const char *config_path; /* NULL: the config is in the file's metadata */
    const char *root;    /* the models' directory, beyond which no link may lead; NULL: not known */
    const char *problem; /* NULL: none */
    uint64_t fingerprint; /* of the names, sizes, times and inodes of its files */
};

struct model_directory {
    struct model_place *places; /* by name; of a folder and a file of one name the folder first;
                                   versions rising */
    int64_t count;
    bool is_one_model;  /* the directory itself is the only one */
    struct arena arena; /* holds all strings */
    const char *root;   /* private: the directory's real path */
};

/* model_name names a directory that is itself one model; NULL: its own name. A folder of the hub's
 * cache (model_hub.h) is its snapshot; a file DIR/<name>.gguf is a place with a problem. Hidden
 * files, and those whose name is no model's, are passed over. A file whose real path is not below
 * that of the directory is a problem of its place. */
bool model_directory_scan(struct model_directory *directory, const char *path,
                          const char *model_name, struct fault *fault);

/* The same for one model alone, of a name that is good: the versions of its folder, or else its
 * file, or nothing. */
bool model_directory_find(struct model_directory *directory, const char *path, const char *name,
                          bool is_one_model, struct fault *fault);

/* The fingerprint that one file has as a model's place; 0 where it is not there. */
uint64_t model_directory_fingerprint(const char *path);

void model_directory_free(struct model_directory *directory);

/* Fills path, config_path and problem of place from what one model's folder holds, or the highest
 * numbered version in it. False where there is no memory. */
bool model_directory_look(struct arena *arena, struct model_place *place, const char *folder);

#endif
