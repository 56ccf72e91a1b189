/* Vocabulary: token table, special ids, tokenizers SPM, BPE and none. Immutable after creation; any thread.
 *
 * Rules: docs/formats/vocabulary.md. No recursion, at most n log n.
 */
#ifndef KIPU_TEXT_VOCAB_H
#define KIPU_TEXT_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

typedef struct kipu_vocab kipu_vocab;

enum { KIPU_VOCAB_NONE = 0, KIPU_VOCAB_SPM = 1, KIPU_VOCAB_BPE = 2, KIPU_VOCAB_WPM = 3, KIPU_VOCAB_UGM = 4, KIPU_VOCAB_RWKV = 5 };
enum {
    KIPU_ATTR_UNKNOWN = 1, KIPU_ATTR_UNUSED = 2, KIPU_ATTR_NORMAL = 4, KIPU_ATTR_CONTROL = 8, KIPU_ATTR_USER_DEFINED = 16,
    KIPU_ATTR_BYTE = 32, KIPU_ATTR_NORMALIZED = 64, KIPU_ATTR_LSTRIP = 128, KIPU_ATTR_RSTRIP = 256, KIPU_ATTR_SINGLE_WORD = 512
};

typedef struct kipu_text { const char *data; size_t size; } kipu_text;   /* not NUL-terminated */

/* Where a vocabulary reads the metadata from; the engine implements it over a GGUF file (text knows base only). Returned strings must
 * outlive kipu_vocab_new. Every getter returns false / NULL where the key is absent or has another type. */
typedef struct kipu_vocab_source {
    void *self;
    bool (*text)(void *self, const char *key, kipu_text *out);
    bool (*integer)(void *self, const char *key, int64_t *out);
    bool (*boolean)(void *self, const char *key, bool *out);
    /* Number of elements of an array of strings; *out points to kipu_text[n] owned by the source. -1: absent. */
    int64_t (*texts)(void *self, const char *key, const kipu_text **out);
    int64_t (*floats)(void *self, const char *key, const float **out);
    int64_t (*integers)(void *self, const char *key, const int32_t **out);
} kipu_vocab_source;

/* Called with warnings during creation (doubtful metadata). May be NULL. level: 3 = WARN. */
typedef void (*kipu_vocab_warn)(void *arg, int level, const char *message);

/* Reads tokenizer.ggml.* (and general.architecture, general.name, {arch}.vocab_size). Errors name the key, what it
 * holds and what was expected.
 * WPM, UGM and RWKV load as tables: everything but kipu_tokenize works. */
kipu_status kipu_vocab_new(kipu_vocab **out, const kipu_vocab_source *source, kipu_vocab_warn warn, void *warn_arg, kipu_error *err);
void kipu_vocab_free(kipu_vocab *v);

int kipu_vocab_type(const kipu_vocab *v);
int32_t kipu_vocab_size(const kipu_vocab *v);
/* Out of range: text {NULL, 0}, score 0, attr 0 (undefined), is_* false. */
kipu_text kipu_vocab_text(const kipu_vocab *v, int32_t token);
float kipu_vocab_score(const kipu_vocab *v, int32_t token);
int kipu_vocab_attr(const kipu_vocab *v, int32_t token);
bool kipu_vocab_is_eog(const kipu_vocab *v, int32_t token);
bool kipu_vocab_is_control(const kipu_vocab *v, int32_t token);

typedef enum kipu_special {
    KIPU_SPECIAL_BOS, KIPU_SPECIAL_EOS, KIPU_SPECIAL_EOT, KIPU_SPECIAL_EOM, KIPU_SPECIAL_UNK, KIPU_SPECIAL_SEP, KIPU_SPECIAL_PAD,
    KIPU_SPECIAL_MASK, KIPU_SPECIAL_NL, KIPU_SPECIAL_FIM_PRE, KIPU_SPECIAL_FIM_SUF, KIPU_SPECIAL_FIM_MID, KIPU_SPECIAL_FIM_PAD,
    KIPU_SPECIAL_FIM_REP, KIPU_SPECIAL_FIM_SEP, KIPU_SPECIAL_COUNT
} kipu_special;
int32_t kipu_vocab_special(const kipu_vocab *v, kipu_special which);   /* -1: none */
bool kipu_vocab_add_bos(const kipu_vocab *v);
bool kipu_vocab_add_eos(const kipu_vocab *v);
bool kipu_vocab_add_sep(const kipu_vocab *v);
bool kipu_vocab_add_space_prefix(const kipu_vocab *v);

/* Token ids of `text` (any bytes). *n_out = number of tokens; written only if it is <= capacity (tokens may be NULL with capacity 0).
 * KIPU_E_STATE for type none; KIPU_E_UNSUPPORTED for a type without tokenizer; KIPU_E_FORMAT if the vocabulary lacks a byte of the text
 * (SPM); KIPU_E_ARG beyond 2^29 bytes; KIPU_E_MEMORY. A doubled bos or eos is left to the caller to see. */
kipu_status kipu_tokenize(const kipu_vocab *v, const char *text, size_t size, int32_t *tokens, int64_t capacity, int64_t *n_out,
                          bool add_special, bool parse_special, kipu_error *err);
/* Bytes of one piece: llama_token_to_piece. *needed = length; written only if it fits `size`. KIPU_E_ARG: token out of range. */
kipu_status kipu_token_to_piece(const kipu_vocab *v, int32_t token, char *out, int64_t size, int32_t lstrip, bool special, int64_t *needed,
                                kipu_error *err);
/* llama_detokenize. *needed = length; written only if it fits. */
kipu_status kipu_detokenize(const kipu_vocab *v, const int32_t *tokens, int64_t n, char *out, int64_t size, bool remove_special,
                            bool unparse_special, int64_t *needed, kipu_error *err);

#endif
