/* trace_texts.h - from the text of an item to tokens. Items of a batch may share one text, which
 * becomes tokens once: the time that a batch takes to be read then follows from its bytes, not from
 * how many of its requests have the text. */
#ifndef ATTND_TRACE_TEXTS_H
#define ATTND_TRACE_TEXTS_H

#include "forward/trace.h"

/* Sets the stream's encoded: the tokens of text and pair, or of decoder_text, without the token
 * that a decoder starts with. The items before this one are planned. */
bool trace_encode(struct trace_request *request, struct trace_item *item, int stream,
                  bool of_decoder, struct fault *fault);

#endif
