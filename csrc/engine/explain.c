/* The plan as text: one line per step, then the totals. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/memory_alloc.h"
#include "engine/context.h"
#include "engine/plan.h"

/* A string that grows. `failed` sticks; the text is checked once at the end. */
typedef struct text {
    char *data;
    size_t size, room;
    bool failed;
} text;

static bool reserve(text *t, size_t more) {
    if (t->size + more < t->room) return true;
    size_t room = 2 * t->room + more + 1024;
    char *bigger = kipu_alloc(room);
    if (!bigger) return false;
    if (t->size) memcpy(bigger, t->data, t->size);
    kipu_free(t->data);
    t->data = bigger;
    t->room = room;
    return true;
}

__attribute__((format(printf, 2, 3)))
static void say(text *t, const char *format, ...) {
    char line[256];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (n < 0) return;
    if (n >= (int)sizeof line) n = sizeof line - 1;
    if (t->failed || !reserve(t, n)) {
        t->failed = true;
        return;
    }
    memcpy(t->data + t->size, line, n + 1);
    t->size += n;
}

static void say_name(text *t, const kipu_node *n) {
    if (n->il >= 0) say(t, "%s-%d", n->name, n->il);
    else say(t, "%s", n->name);
}

static const char *act_name(const kipu_node *n) { return n->i[0] ? "gelu" : "silu"; }

static void say_chain_node(text *t, const kipu_node *n) {
    switch (n->op) {
    case KIPU_OP_RMS_NORM: say(t, "rms_norm[%d]", n->i[0]); break;
    case KIPU_OP_ROPE: say(t, "rope[%d of %d, %s]", n->i[1], n->i[0], n->i[2] ? "halves" : "pairs"); break;
    case KIPU_OP_ADD: say(t, "add"); break;
    case KIPU_OP_GLU: say(t, "%s glu", act_name(n)); break;
    case KIPU_OP_SOFTCAP: say(t, "softcap %g", n->f[0]); break;
    default: say(t, "?"); break;
    }
    say(t, " -> ");
}

/* Bytes of weights the step reads. */
static uint64_t say_linears(text *t, const kipu_model *model, const kipu_plan *p, const kipu_step *s) {
    uint64_t bytes = 0;
    for (int32_t i = 0; i < s->n_linear; i++) {
        const kipu_weight *w = kipu_model_weight_at(model, p->nodes[s->linear[i]].weight);
        const kipu_format *f = kipu_format_of(w->type);
        say(t, "%s%s [%lld, %lld] %s", i ? " | " : "", w->name, (long long)w->k, (long long)w->rows, f ? f->name : "?");
        if (p->nodes[s->linear[i]].bias >= 0) say(t, " + bias");
        bytes += (uint64_t)w->n_panels * w->panel_bytes;
    }
    return bytes;
}

static void say_finish(text *t, const kipu_plan *p, const kipu_step *s) {
    if (s->glu >= 0) say(t, " -> %s glu", act_name(&p->nodes[s->glu]));
    if (s->softcap >= 0) say(t, " -> softcap %g", p->nodes[s->softcap].f[0]);
    if (s->add >= 0) {
        say(t, " + residual -> ");
        say_name(t, &p->nodes[s->add]);
    }
}

static void say_attention(text *t, const kipu_node *n) {
    say(t, "attention %d heads over %d kv heads, scale %g", n->i[0], n->i[1], n->f[0]);
    if (n->f[1] != 0) say(t, ", softcap %g", n->f[1]);
    if (n->i[2]) say(t, ", window");
    say(t, " -> ");
    say_name(t, n);
}

static uint64_t say_step(text *t, const kipu_model *model, const kipu_plan *p, int32_t i) {
    const kipu_step *s = &p->steps[i];
    uint64_t bytes = 0;
    say(t, "%4d  ", i);
    for (int32_t c = 0; c < s->n_chain; c++) say_chain_node(t, &p->nodes[s->chain[c]]);
    switch (s->kind) {
    case KIPU_STEP_EMBED: say(t, "embed [%d]", p->nodes[s->main].width); break;
    case KIPU_STEP_ROWS: say(t, "output rows of "), say_name(t, &p->nodes[s->main]); break;
    case KIPU_STEP_MATMUL:
        bytes = say_linears(t, model, p, s);
        say_finish(t, p, s);
        break;
    case KIPU_STEP_ATTENTION: say_attention(t, &p->nodes[s->main]); break;
    case KIPU_STEP_CHAIN: say_name(t, &p->nodes[s->chain[s->n_chain - 1]]); break;
    }
    const char *codes = s->need_codes ? ", int8 activations by 32" : s->need_wide ? ", int8 activations by 256" : "";
    if (bytes) say(t, "  (%.1f KiB%s)", bytes / 1024.0, codes);
    say(t, "\n");
    return bytes;
}

static void say_plan(text *t, const kipu_model *model, const kipu_plan *p) {
    uint64_t bytes = 0;
    for (int32_t i = 0; i < p->n_steps; i++) bytes += say_step(t, model, p, i);
    say(t, "%d nodes in %d steps; %.1f MiB of weights read per pass; %zu bytes of values per token; tier %s\n", p->n_nodes, p->n_steps,
        bytes / 1048576.0, p->row_floats * sizeof(float), kipu_tier_name(kipu_model_kernels(model)->tier));
}

static kipu_status hand_out(text *t, char **out, kipu_error *err) {
    if (t->failed || !t->data) {
        kipu_free(t->data);
        return kipu_fail(err, KIPU_E_MEMORY, "no memory for the explanation");
    }
    *out = t->data;
    return KIPU_OK;
}

kipu_status kipu_model_explain(kipu_model *m, char **out, kipu_error *err) {
    kipu_plan *plan;
    text t = {0};
    KIPU_TRY(kipu_plan_new(&plan, m, true, err));
    say_plan(&t, m, plan);
    kipu_plan_free(plan);
    return hand_out(&t, out, err);
}

kipu_status kipu_context_explain(kipu_context *c, char **out, kipu_error *err) {
    const kipu_context_params *p = kipu_context_get_params(c);
    kipu_plan *plan;
    text t = {0};
    KIPU_TRY(kipu_plan_new(&plan, kipu_context_model(c), p->fused, err));
    say_plan(&t, kipu_context_model(c), plan);
    say(&t, "n_ctx %u, n_batch %u, n_ubatch %u, threads %d and %d, %s program; cache %.1f MiB in use\n", p->n_ctx, p->n_batch, p->n_ubatch,
        p->n_threads, p->n_threads_batch, p->fused ? "fused" : "plain", kipu_memory_bytes(kipu_context_memory(c)) / 1048576.0);
    kipu_plan_free(plan);
    return hand_out(&t, out, err);
}
