/* What the files of the text room share. The public face is vocab.h. */
#ifndef KIPU_TEXT_VOCAB_INTERNAL_H
#define KIPU_TEXT_VOCAB_INTERNAL_H

#include "text/grow.h"
#include "text/strings.h"
#include "text/vocab.h"

enum {
    ATTR_EOG = 1 << 15,   /* beside the public attributes: ends a generation */
    ATTR_SPECIAL = KIPU_ATTR_CONTROL | KIPU_ATTR_UNKNOWN,
    ATTR_CUT = ATTR_SPECIAL | KIPU_ATTR_USER_DEFINED   /* cut out of a text before the tokenizer sees it */
};

/* A token that is cut out of texts. Entries are sorted by their text, so that all that share a prefix are neighbours. */
typedef struct cut_token {
    int32_t id;
    uint32_t rank;        /* 0 = looked for first: longest text, then smallest id */
} cut_token;

typedef struct merge_table merge_table;   /* bpe.c */
struct pre_tokenizer;                     /* pre_tokenizer.h */

struct kipu_vocab {
    int type;
    int32_t n_tokens;
    strings names;        /* numbers below n_tokens are the token ids; BPE puts symbols that are no token behind them */
    float *score;         /* [n_tokens] */
    uint16_t *attr;       /* [n_tokens] KIPU_ATTR_* and ATTR_EOG */
    int32_t special[KIPU_SPECIAL_COUNT];
    bool add_bos, add_eos, add_sep, add_space_prefix, clean_spaces, ignore_merges;

    cut_token *cut;       /* [n_cut] */
    int32_t *cut_by_rank; /* [n_cut] ids */
    size_t n_cut;
    uint32_t cut_first[257];   /* cut tokens that begin with byte b are cut_first[b] .. cut_first[b + 1] - 1 */

    const struct pre_tokenizer *pre;   /* BPE */
    merge_table *merges;               /* BPE */
    size_t longest;       /* bytes of the longest token text */
    bool before_blank[256];   /* SPM: some token goes on with U+2581 behind this byte */
};

static inline bool is_token(const kipu_vocab *v, int32_t id) { return id >= 0 && id < v->n_tokens; }

/* The token with exactly this text, or -1. */
static inline int32_t find_token(const kipu_vocab *v, const char *data, size_t size) {
    int32_t id = kipu_strings_find(&v->names, data, size);
    return id < v->n_tokens ? id : -1;
}

/* SPM and UGM: the token of a byte, "<0x0A>" or else the one-byte text; -1: none. */
int32_t kipu_byte_token(const kipu_vocab *v, unsigned char byte);

/* ---- special tokens: cut.c */

/* Fills v->cut from the attributes. False without memory. */
bool kipu_cut_index(kipu_vocab *v);

/* A stretch of text, or a token that stood there (then begin = end). */
typedef struct fragment { size_t begin, end; int32_t token; } fragment;
typedef struct fragment_list { fragment *data; size_t size, capacity; } fragment_list;

/* Cuts the special tokens out of a text of less than 2^32 - 1 bytes. KIPU_OK or KIPU_E_MEMORY. */
kipu_status kipu_cut(const kipu_vocab *v, const char *text, size_t size, bool parse_special, fragment_list *out);

/* ---- tokenizers */

/* Builds the table of merges. */
kipu_status kipu_bpe_read_merges(kipu_vocab *v, const kipu_text *lines, int64_t n, kipu_error *err);
void kipu_bpe_free(merge_table *merges);

/* Buffers of one kipu_tokenize call; all zero at the start. */
typedef struct bpe_work bpe_work;
bpe_work *kipu_bpe_work_new(const kipu_vocab *v, size_t longest_fragment);
void kipu_bpe_work_free(bpe_work *w);
kipu_status kipu_bpe_tokenize(bpe_work *w, const char *text, size_t size, id_list *out);

typedef struct spm_work spm_work;
spm_work *kipu_spm_work_new(const kipu_vocab *v, size_t longest_fragment);
void kipu_spm_work_free(spm_work *w);
/* KIPU_E_FORMAT: the vocabulary has no token for some byte. */
kipu_status kipu_spm_tokenize(spm_work *w, const char *text, size_t size, bool prefix, id_list *out, kipu_error *err);

/* ---- loading: vocab_load.c, vocab_special.c */

typedef struct loader {
    kipu_vocab *v;
    const kipu_vocab_source *source;
    kipu_vocab_warn warn;
    void *warn_arg;
    kipu_error *err;
} loader;

void kipu_loader_warn(const loader *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
kipu_status kipu_load_vocab(loader *l);
/* Ids from the metadata, then what is found by text, then the set that ends a generation. */
void kipu_load_special_ids(loader *l);
void kipu_find_special_by_text(loader *l);
void kipu_mark_end_of_generation(loader *l);
/* Stripping of blanks around special tokens, which files do not record: by pre-tokenizer, architecture and model name. */
void kipu_fix_attributes(loader *l);

#endif
