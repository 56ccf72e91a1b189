/* Pre-tokenizers: how a text is split before byte pairs are merged inside of each piece.
 *
 * A rule is a hand-written scanner for one alternative of a pattern. A step is a list of rules, tried in order at each position; what
 * lies between two matches is a piece of its own. The steps of a pre-tokenizer follow one another, each splitting the pieces of the
 * step before. Pure functions; any thread.
 */
#ifndef KIPU_TEXT_PRE_TOKENIZER_H
#define KIPU_TEXT_PRE_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct split_text {
    const uint32_t *code;   /* code points */
    const uint8_t *kind;    /* their UNICODE_* bits */
    size_t begin, end;      /* the piece that is being split; rules see nothing outside of it */
    size_t digits_end;      /* remembered by the rule that groups digits from the right */
} split_text;

/* End of a match that begins at `at` < t->end, or `at` if there is none. */
typedef size_t (*split_rule)(split_text *t, size_t at);
typedef const split_rule *split_step;   /* rules, NULL at the end */

typedef struct pre_tokenizer {
    const char *name;         /* value of tokenizer.ggml.pre */
    const split_step *steps;  /* NULL at the end */
    unsigned flags;           /* PRE_* */
} pre_tokenizer;

enum {
    PRE_IGNORE_MERGES = 1,    /* a piece that is a token is taken whole */
    PRE_ADD_BOS = 2, PRE_ADD_SEP = 4, PRE_NO_BOS = 8,   /* NO_BOS: there is no default bos token */
    PRE_KEEP_SPACES = 16      /* detokenize does not clean up blanks */
};

/* NULL: unknown name. The name "default" exists. */
const pre_tokenizer *kipu_pre_tokenizer_find(const char *name, size_t size);

/* Splits code points [0, n): `ends` gets the end of every piece, `other` is scratch; both of n numbers. The result is in the array that
 * is returned (one of the two), its length in *n_pieces. */
const uint32_t *kipu_pre_tokenize(const pre_tokenizer *pre, const uint32_t *code, const uint8_t *kind, size_t n, uint32_t *ends,
                                  uint32_t *other, size_t *n_pieces);

#endif
