/* Feeds the GGUF reader, the vocabulary and the weight loader with damaged files.
 *
 *     fuzz_gguf FILE N SEED example.gguf...
 *
 * N times: takes an example, changes it in a few places, writes it to FILE, opens it, looks at everything, loads it as a model. In every
 * eighth round some allocation fails. The same arguments give the same files. Prints how far the rounds came; exit code 1 and a line that
 * names the round where a promise is broken (crashes are the sanitizers' business). FILE then holds the bytes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/memory_alloc.h"
#include "engine/model.h"

enum { MOST_EXAMPLES = 32, ROOM = 1 << 20, KEPT = 4096 };

typedef struct bytes { unsigned char *at; size_t size; } bytes;

static bytes examples[MOST_EXAMPLES];
static int n_examples;
static uint64_t state, round_no;
static long n_opened, n_models, n_loaded;
static volatile unsigned sink;      /* what was looked at */

static void fail(const char *what) {
    printf("round %" PRIu64 ": %s\n", round_no, what);
    exit(1);
}

/* splitmix64 */
static uint64_t draw(void) {
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static size_t below(size_t n) { return n ? draw() % n : 0; }

/* ------------------------------------------------------------------------------------------------ changes */

/* Most changes hit the head, where the structure is. */
static size_t place(const bytes *b) { return below(draw() % 4 && b->size > KEPT ? KEPT : b->size); }

static void put_number(bytes *b) {
    static const uint64_t numbers[] = {0, 1, 2, 7, 8, 9, 12, 13, 31, 32, 63, 64, 255, 256, 65535, 65536, INT32_MAX, UINT32_MAX,
                                       UINT64_C(1) << 32, UINT64_C(1) << 61, INT64_MAX, UINT64_C(1) << 63, UINT64_MAX - 7, UINT64_MAX};
    uint64_t n = draw() % 2 ? numbers[below(sizeof numbers / sizeof *numbers)] : b->size - below(64);
    size_t width = draw() % 2 ? 8 : 4, at = place(b);
    if (at + width <= b->size) memcpy(b->at + at, &n, width);
}

static void remove_part(bytes *b) {
    size_t at = place(b), n = below(b->size - at < 64 ? b->size - at : 64);
    memmove(b->at + at, b->at + at + n, b->size - at - n);
    b->size -= n;
}

/* A part of an example (perhaps of this one) goes in between, or over what is there. */
static void mix_in(bytes *b) {
    const bytes *from = &examples[below(n_examples)];
    size_t start = place(from), n = below(from->size - start < 256 ? from->size - start : 256), at = place(b);
    if (b->size + n > ROOM) return;
    if (draw() % 2) {
        memmove(b->at + at + n, b->at + at, b->size - at);
        b->size += n;
    } else if (at + n > b->size) return;
    memcpy(b->at + at, from->at + start, n);
}

static void change(bytes *b) {
    if (b->size == 0) return;
    switch (draw() % 8) {
    case 0: b->size = draw() % 4 ? b->size - below(b->size < 64 ? b->size : 64) : below(b->size); break;
    case 1: remove_part(b); break;
    case 2: mix_in(b); break;
    case 3: case 4: put_number(b); break;
    case 5: b->at[place(b)] = (unsigned char)draw(); break;
    default: b->at[place(b)] ^= (unsigned char)(1u << draw() % 8); break;
    }
}

/* ------------------------------------------------------------------------------------------------ looking */

static void touch(const void *p, size_t size) {
    const unsigned char *c = p;
    for (size_t i = 0; i < size; i++) sink += c[i];
}

static void touch_value(const kipu_gguf_value *v) {
    static const int widths[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    int kind = v->type == KIPU_KV_ARRAY ? v->item : v->type;
    if (kind < 0 || kind > KIPU_KV_F64 || kind == KIPU_KV_ARRAY) fail("a value has no type");
    if (v->count < 0) fail("a value has a negative count");
    if (kind != KIPU_KV_STRING) {
        if ((uintptr_t)v->data % 8) fail("a value is not aligned");
        touch(v->data, (size_t)v->count * widths[kind]);
        return;
    }
    const kipu_text *texts = v->data;
    for (int64_t i = 0; i < v->count; i++) touch(texts[i].data, texts[i].size);
}

static void look_at_values(kipu_gguf *g) {
    for (int64_t i = 0; i < kipu_gguf_n_values(g); i++) {
        const kipu_gguf_value *v = kipu_gguf_value_at(g, i);
        char key[65536];
        touch_value(v);
        if (v->key.size >= sizeof key) fail("a key is too long");
        memcpy(key, v->key.data, v->key.size);
        key[v->key.size] = 0;
        if (kipu_gguf_find(g, key) != v) fail("a key is not found");
    }
}

static void look_at_tensors(const kipu_gguf *g) {
    char part[KEPT];
    kipu_error err = {0};
    for (int64_t i = 0; i < kipu_gguf_n_tensors(g); i++) {
        const kipu_gguf_tensor *t = kipu_gguf_tensor_at(g, i);
        if (kipu_gguf_find_tensor(g, t->name) != t) fail("a tensor is not found");
        uint64_t n = t->bytes < sizeof part ? t->bytes : sizeof part;
        if (kipu_gguf_read(g, t, t->bytes - n, n, part, &err) != KIPU_OK) fail("the end of a tensor cannot be read");
        if (kipu_gguf_read(g, t, t->bytes, 1, part, &err) != KIPU_E_ARG) fail("a tensor is longer than it says");
    }
}

static void check_failure(kipu_status status, const kipu_error *err, const void *out) {
    if (status == KIPU_OK) fail(out ? "impossible" : "success without a result");
    if (out) fail("a failure has a result");
    if (err->status != status || !err->message[0]) fail("a failure has no message");
    if (status == KIPU_E_INTERNAL || status == KIPU_E_ARG) fail("a file is called our fault or the caller's");
}

static bool cancel_sometimes(void *arg, float progress) {
    (void)arg;
    if (!(progress >= 0 && progress <= 1)) fail("progress is beyond 0..1");
    return draw() % 64;
}

/* Every tensor of at most two dimensions as a weight of a program. */
static void load(kipu_model *m) {
    const kipu_gguf *g = kipu_model_file(m);
    kipu_error err = {0};
    for (int64_t i = 0; i < kipu_gguf_n_tensors(g); i++) {
        const kipu_gguf_tensor *t = kipu_gguf_tensor_at(g, i);
        int32_t index = -2;
        if (kipu_model_weight(m, t->name, t->n_dims, t->ne, false, &index, &err) != KIPU_OK) return;
    }
    kipu_status status = kipu_model_load(m, 1 + (int)(draw() % 2), draw() % 2, cancel_sometimes, NULL, &err);
    if (status != KIPU_OK) {
        check_failure(status, &err, NULL);
        return;
    }
    n_loaded++;
    for (int32_t i = 0; i < kipu_model_n_weights(m); i++) {
        const kipu_weight *w = kipu_model_weight_at(m, i);
        touch(w->data, w->layout == KIPU_PANELS ? w->n_panels * w->panel_bytes : w->k * sizeof(float));
    }
}

static void try(const char *path) {
    kipu_gguf *g = NULL;
    kipu_model *m = NULL;
    kipu_error err = {0};
    if (draw() % 8 == 0) kipu_alloc_fail_after((long)below(40));
    kipu_status status = kipu_gguf_open(&g, &path, 1, &err);
    if (!g || status != KIPU_OK) {
        kipu_alloc_fail_after(-1);
        check_failure(status, &err, g);
        return;
    }
    n_opened++;
    look_at_values(g);
    look_at_tensors(g);
    bool vocab_only = draw() % 8 == 0;
    status = kipu_model_new(&m, g, vocab_only, NULL, NULL, &err);     /* the file is the model's now, or closed */
    if (m && status == KIPU_OK) {
        n_models++;
        if (!vocab_only) load(m);
    } else check_failure(status, &err, m);
    kipu_alloc_fail_after(-1);
    kipu_model_free(m);
}

/* ------------------------------------------------------------------------------------------------ files */

static void read_example(const char *path) {
    bytes *b = &examples[n_examples++];
    FILE *f = fopen(path, "rb");
    b->at = malloc(ROOM);
    if (!f || !b->at) fail(path);
    b->size = fread(b->at, 1, ROOM, f);
    fclose(f);
}

static void write_file(int fd, const bytes *b) {
    if (ftruncate(fd, (off_t)b->size) || pwrite(fd, b->at, b->size, 0) != (ssize_t)b->size) fail("cannot write");
}

int main(int argc, char **argv) {
    if (argc < 5 || argc > 4 + MOST_EXAMPLES) return 2;
    for (int i = 4; i < argc; i++) read_example(argv[i]);
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    bytes b = {malloc(ROOM), 0};
    if (fd < 0 || !b.at) fail("cannot begin");
    uint64_t n = strtoull(argv[2], NULL, 10), seed = strtoull(argv[3], NULL, 10);
    for (round_no = 0; round_no < n; round_no++) {
        state = seed ^ round_no << 20;          /* each round can be repeated alone */
        const bytes *example = &examples[below(n_examples)];
        memcpy(b.at, example->at, b.size = example->size);
        for (size_t changes = below(4); changes > 0; changes--) change(&b);
        write_file(fd, &b);
        try(argv[1]);
    }
    printf("%ld opened, %ld models, %ld loaded\n", n_opened, n_models, n_loaded);
    for (int i = 0; i < n_examples; i++) free(examples[i].at);
    free(b.at);
    close(fd);
    return 0;
}
