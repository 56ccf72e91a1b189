#include "memory/seq_spans.h"

#include <string.h>
#include "base/memory_alloc.h"

static bool before(const kipu_kv_span *a, int32_t pos, int32_t round) {
    if (a->pos / KIPU_CHUNK != pos / KIPU_CHUNK) return a->pos / KIPU_CHUNK < pos / KIPU_CHUNK;
    return a->round != round ? a->round < round : a->pos < pos;
}

/* Index of the first span that is not before (pos, round); pos is a multiple of 16. */
static int32_t search(const kipu_seq_spans *list, int32_t pos, int32_t round) {
    int32_t lo = 0, hi = list->count;
    if (hi == 0 || before(&list->span[hi - 1], pos, round)) return hi;   /* the usual case: a sequence that grows */
    if (hi == 1 || before(&list->span[hi - 2], pos, round)) return hi - 1;
    while (lo < hi) {
        int32_t mid = lo + (hi - lo) / 2;
        if (before(&list->span[mid], pos, round)) lo = mid + 1; else hi = mid;
    }
    return lo;
}

static int32_t group_pos(int32_t pos) { return pos - pos % KIPU_BLOCK_CELLS; }

static kipu_kv_span *find(const kipu_seq_spans *list, int32_t pos, int32_t round) {
    int32_t start = group_pos(pos), i = search(list, start, round);
    return i < list->count && list->span[i].pos == start && list->span[i].round == round ? &list->span[i] : NULL;
}

const kipu_kv_span *kipu_seq_spans_find(const kipu_seq_spans *list, int32_t pos, int32_t round) { return find(list, pos, round); }

int32_t kipu_seq_spans_from(const kipu_seq_spans *list, int64_t pos) {
    return pos > INT32_MAX ? list->count : search(list, (int32_t)(pos - pos % KIPU_CHUNK), 0);
}

int32_t kipu_seq_spans_min(const kipu_seq_spans *list) {
    return list->count ? list->span[0].pos + __builtin_ctz(list->span[0].lanes) : -1;
}

int32_t kipu_seq_spans_max(const kipu_seq_spans *list) {
    int32_t i = list->count - 1;
    while (i >= 0 && list->span[i].round) i--;   /* every position is in round 0 */
    return i < 0 ? -1 : list->span[i].pos + (31 - __builtin_clz(list->span[i].lanes));
}

bool kipu_seq_spans_reserve(kipu_seq_spans *list, int64_t more) {
    int64_t need = list->count + more;
    if (need <= list->capacity) return true;
    int64_t capacity = need + list->capacity / 2 + 16;
    if (capacity > INT32_MAX) return false;
    kipu_kv_span *span = kipu_alloc_array((size_t)capacity, sizeof *span);
    if (!span) return false;
    if (list->count) memcpy(span, list->span, (size_t)list->count * sizeof *span);
    kipu_free(list->span);
    list->span = span;
    list->capacity = (int32_t)capacity;
    return true;
}

void kipu_seq_spans_free(kipu_seq_spans *list) {
    kipu_free(list->span);
    memset(list, 0, sizeof *list);
}

/* One block for all lanes, or -1. */
static int32_t block_of(const kipu_kv_span *span) {
    int32_t block = -1;
    for (uint32_t rest = span->lanes; rest; rest &= rest - 1) {
        int32_t lane = __builtin_ctz(rest), cell = span->cells[lane];
        if (cell % KIPU_BLOCK_CELLS != lane || (block >= 0 && block != cell / KIPU_BLOCK_CELLS)) return -1;
        block = cell / KIPU_BLOCK_CELLS;
    }
    return block;
}

static void set_lane(kipu_kv_span *span, int32_t lane, int32_t cell) {
    bool fits = cell % KIPU_BLOCK_CELLS == lane && (span->lanes == 0 || span->block == cell / KIPU_BLOCK_CELLS);
    bool replaces = span->lanes >> lane & 1;
    span->cells[lane] = cell;
    span->lanes |= (uint16_t)(1u << lane);
    span->block = replaces ? block_of(span) : fits ? cell / KIPU_BLOCK_CELLS : -1;
}

static void clear_lanes(kipu_kv_span *span, uint16_t lanes) {
    span->lanes &= (uint16_t)~lanes;
    for (uint32_t rest = lanes; rest; rest &= rest - 1) span->cells[__builtin_ctz(rest)] = -1;
    if (span->block < 0) span->block = block_of(span);
}

static kipu_kv_span *find_or_add(kipu_seq_spans *list, int32_t pos, int32_t round) {
    int32_t start = group_pos(pos), i = search(list, start, round);
    kipu_kv_span *span = &list->span[i];
    if (i < list->count && span->pos == start && span->round == round) return span;
    memmove(span + 1, span, (size_t)(list->count - i) * sizeof *span);
    list->count++;
    *span = (kipu_kv_span){.pos = start, .round = round, .block = -1};
    memset(span->cells, 0xff, sizeof span->cells);
    return span;
}

static void take_out(kipu_seq_spans *list, kipu_kv_span *span) {
    int64_t behind = list->span + list->count - (span + 1);
    memmove(span, span + 1, (size_t)behind * sizeof *span);
    list->count--;
}

/* Rounds of a position are in order of writing: an earlier cell pushes the later ones one round on. */
void kipu_seq_spans_insert(kipu_seq_spans *list, const kipu_cells *cells, int32_t cell) {
    int32_t pos = cells->pos[cell], lane = pos % KIPU_BLOCK_CELLS;
    for (int32_t round = 0; ; round++) {
        kipu_kv_span *span = find_or_add(list, pos, round);
        int32_t there = span->cells[lane];
        if (there < 0) {
            set_lane(span, lane, cell);
            return;
        }
        if (cells->written[there] > cells->written[cell]) {
            set_lane(span, lane, cell);
            cell = there;
        }
    }
}

void kipu_seq_spans_remove(kipu_seq_spans *list, const kipu_cells *cells, int32_t cell) {
    int32_t pos = cells->pos[cell], lane = pos % KIPU_BLOCK_CELLS, round = 0;
    kipu_kv_span *span = find(list, pos, round);
    while (span && span->cells[lane] != cell) span = find(list, pos, ++round);
    if (!span) return;
    for (kipu_kv_span *next; (next = find(list, pos, round + 1)) && next->cells[lane] >= 0; round++, span = next)
        set_lane(span, lane, next->cells[lane]);
    clear_lanes(span, (uint16_t)(1u << lane));
    if (!span->lanes) take_out(list, span);
}

void kipu_seq_spans_cut(kipu_seq_spans *list, kipu_cells *cells, uint64_t seq, int64_t p0, int64_t p1) {
    int32_t i = kipu_seq_spans_from(list, p0), kept = i;
    for (; i < list->count && kipu_span_chunk(&list->span[i]) < p1; i++) {
        kipu_kv_span *span = &list->span[i];
        uint16_t lanes = kipu_span_lanes(span, p0, p1);
        for (uint32_t rest = lanes; rest; rest &= rest - 1) kipu_cells_drop(cells, span->cells[__builtin_ctz(rest)], seq);
        if (lanes) clear_lanes(span, lanes);
        if (!span->lanes) continue;
        if (kept != i) list->span[kept] = *span;
        kept++;
    }
    if (kept != i) memmove(&list->span[kept], &list->span[i], (size_t)(list->count - i) * sizeof *list->span);
    list->count -= i - kept;
}
