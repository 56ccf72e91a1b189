#include "engine/api_table.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>
#include "engine/context.h"
#include "sample/sampler.h"

/* One layout under two names: the public header stands alone. */
_Static_assert(sizeof(kipu_api_batch) == sizeof(kipu_batch) && offsetof(kipu_api_batch, logits) == offsetof(kipu_batch, logits)
                   && offsetof(kipu_api_batch, seq_id) == offsetof(kipu_batch, seq_id), "kipu_api_batch is kipu_batch");

static kipu_context *engine_of(kipu_ctx *ctx) { return (kipu_context *)ctx; }
static const kipu_vocab *text_of(const kipu_voc *vocab) { return (const kipu_vocab *)vocab; }

/* ------------------------------------------------------------------------------------------------ computing */

static void put_message(char *message, size_t size, const kipu_error *err) {
    if (!message || !size) return;
    size_t n = strlen(err->message);
    if (n >= size) n = size - 1;
    memcpy(message, err->message, n);
    message[n] = 0;
}

static int32_t api_decode(kipu_ctx *ctx, const kipu_api_batch *batch, char *message, size_t size) {
    kipu_context *c = engine_of(ctx);
    kipu_error err = {0};
    int32_t code = -1;
    kipu_context_lock(c);
    if (kipu_context_decode(c, (const kipu_batch *)batch, &code, &err) != KIPU_OK) code = -1;
    kipu_context_unlock(c);
    put_message(message, size, &err);
    return code;
}

static float *api_logits_ith(kipu_ctx *ctx, int32_t i) {
    kipu_context_lock(engine_of(ctx));
    float *row = kipu_context_logits_ith(engine_of(ctx), i, NULL);
    kipu_context_unlock(engine_of(ctx));
    return row;
}

static uint32_t api_n_ctx(kipu_ctx *ctx) { return kipu_context_get_params(engine_of(ctx))->n_ctx; }

static int32_t api_sample(kipu_smpl *sampler, kipu_ctx *ctx, int32_t i) {
    kipu_context *c = engine_of(ctx);
    int32_t token = -1, n_vocab = kipu_vocab_size(kipu_model_vocab(kipu_context_model(c)));
    kipu_context_lock(c);
    const float *row = kipu_context_logits_ith(c, i, NULL);
    if (row && kipu_sampler_sample((kipu_sampler *)sampler, row, n_vocab, &token, NULL) != KIPU_OK) token = -1;
    kipu_context_unlock(c);
    return token;
}

/* ------------------------------------------------------------------------------------------------ memory */

/* Locks and hands out; unlock with release. */
static kipu_memory *hold(kipu_ctx *ctx) {
    kipu_context_lock(engine_of(ctx));
    return kipu_context_memory(engine_of(ctx));
}

static void release(kipu_ctx *ctx) { kipu_context_unlock(engine_of(ctx)); }

static void api_clear(kipu_ctx *ctx, int data) {
    kipu_memory_clear(hold(ctx), data != 0);
    release(ctx);
}

static int api_seq_rm(kipu_ctx *ctx, int32_t seq, int32_t p0, int32_t p1) {
    bool removed = false;
    kipu_status status = kipu_memory_seq_rm(hold(ctx), seq, p0, p1, &removed, NULL);
    release(ctx);
    return status == KIPU_OK && removed;
}

static void api_seq_cp(kipu_ctx *ctx, int32_t src, int32_t dst, int32_t p0, int32_t p1) {
    kipu_memory_seq_cp(hold(ctx), src, dst, p0, p1, NULL);
    release(ctx);
}

static void api_seq_keep(kipu_ctx *ctx, int32_t seq) {
    kipu_memory_seq_keep(hold(ctx), seq, NULL);
    release(ctx);
}

static int32_t api_pos_min(kipu_ctx *ctx, int32_t seq) {
    int32_t pos = kipu_memory_pos_min(hold(ctx), seq);
    release(ctx);
    return pos;
}

static int32_t api_pos_max(kipu_ctx *ctx, int32_t seq) {
    int32_t pos = kipu_memory_pos_max(hold(ctx), seq);
    release(ctx);
    return pos;
}

/* ------------------------------------------------------------------------------------------------ text */

static int32_t api_n_vocab(const kipu_voc *vocab) { return kipu_vocab_size(text_of(vocab)); }
static int api_is_eog(const kipu_voc *vocab, int32_t token) { return kipu_vocab_is_eog(text_of(vocab), token); }

/* n, or -n where n is more than there is room for; INT32_MIN for what is no answer. */
static int32_t sized(kipu_status status, int64_t n, int64_t room) {
    if (status != KIPU_OK || n > INT32_MAX) return INT32_MIN;
    return (int32_t)(n <= room ? n : -n);
}

static int32_t api_tokenize(const kipu_voc *vocab, const char *text, int32_t text_len, int32_t *tokens, int32_t n_max, int add_special,
                            int parse_special) {
    int64_t n = 0;
    int32_t room = n_max > 0 && tokens ? n_max : 0;
    if (text_len < 0 || (text_len && !text)) return INT32_MIN;
    kipu_status status = kipu_tokenize(text_of(vocab), text, (size_t)text_len, tokens, room, &n, add_special != 0, parse_special != 0,
                                       NULL);
    return sized(status, n, room);
}

static int32_t api_token_to_piece(const kipu_voc *vocab, int32_t token, char *buf, int32_t length, int32_t lstrip, int special) {
    int64_t n = 0;
    int32_t room = length > 0 && buf ? length : 0;
    kipu_status status = kipu_token_to_piece(text_of(vocab), token, buf, room, lstrip, special != 0, &n, NULL);
    return sized(status, n, room);
}

kipu_api *kipu_api_table(void) {
    static kipu_api table = {
        .version = KIPU_API_VERSION, .size = sizeof(kipu_api), .decode = api_decode, .logits_ith = api_logits_ith, .n_ctx = api_n_ctx,
        .memory_clear = api_clear, .memory_seq_rm = api_seq_rm, .memory_seq_cp = api_seq_cp, .memory_seq_keep = api_seq_keep,
        .memory_seq_pos_min = api_pos_min, .memory_seq_pos_max = api_pos_max, .n_vocab = api_n_vocab, .tokenize = api_tokenize,
        .token_to_piece = api_token_to_piece, .is_eog = api_is_eog, .sample = api_sample};
    return &table;
}
