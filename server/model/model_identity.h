/* model_identity.h - what tells one model from another: a digest of its name, of what its config
 * says of each layer, and of the bytes of its files. */
#ifndef ATTND_MODEL_IDENTITY_H
#define ATTND_MODEL_IDENTITY_H

#include "base/sha256.h"
#include "model/model.h"

/* Writes the digest, in hexadecimal digits. The same model has the same one on every machine. Of a
 * file of more than 8 MiB some blocks stand for all, so that a model of any size takes some
 * milliseconds; the model keeps the digest. False: no memory. */
bool model_identity(struct model *model, char hex[SHA256_HEX_BYTES], struct fault *fault);

#endif
