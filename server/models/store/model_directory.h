/* SPDX-License-Identifier: Apache-2.0 */
/* model_directory.h - finds the models in a directory by the names of its files (API_MODELS.md,
 * "Models on disk"). It opens no file of a model.
 *
 * Versions are numbered as in Triton's model repository: a version is a folder whose name is a
 * whole number above 0 without a leading zero. */
#ifndef ATTND_MODEL_DIRECTORY_H
#define ATTND_MODEL_DIRECTORY_H

#include "base/arena.h"
#include "base/fault.h"

struct model_place {
    const char *name;
    int64_t version;         /* the number of its folder; 1 without one */
    bool is_folder;          /* false: a file, DIR/<name>.safetensors or DIR/<name>.gguf */
    const char *source;      /* the file, the folder or the folder of the version */
    const char *path;        /* of the file, of the index of its shards, or of its first part; NULL:
                                there is none, and problem says so */
    const char *config_path; /* NULL: the config is in the file's metadata */
    const char *root;    /* the models' directory, which no link may lead out of; NULL: not known */
    const char *problem; /* NULL: none */
    uint64_t fingerprint; /* of the names, sizes, times and inodes of its files */
};

struct model_directory {
    struct model_place *places; /* sorted by name, then folders before files, then version */
    int64_t count;
    bool is_one_model;  /* the directory is itself one model */
    struct arena arena; /* holds all strings */
    const char *root;   /* private: the directory's real path */
};

/* Lists the models in the directory at path. model_name is for a directory that is itself one
 * model; NULL: the name of the directory. A folder of the hub's cache means its snapshot
 * (model_hub_snapshot()). Listed with a problem are a file whose real path is not below that of the
 * directory, and models whose name no model can have (model_paths.h). Hidden files, the hub's
 * datasets--* and spaces--*, and DIR/<name>.gguf beside another model of that name are passed over.
 */
bool model_directory_scan(struct model_directory *directory, const char *path,
                          const char *model_name, struct fault *fault);

/* The same for one name, which must be good (model_paths.h): the versions of its folder, else its
 * file, else nothing. */
bool model_directory_find(struct model_directory *directory, const char *path, const char *name,
                          bool is_one_model, struct fault *fault);

/* The fingerprint of a place that is one file; 0: there is no such file. */
uint64_t model_directory_fingerprint(const char *path);

void model_directory_free(struct model_directory *directory);

/* Fills path, config_path and problem of place from the folder of one model, or from the highest
 * numbered version in it. False: no memory. */
bool model_directory_look(struct arena *arena, struct model_place *place, const char *folder);

#endif
