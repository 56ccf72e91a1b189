#include "sample/random.h"
#include <math.h>
#include <stdatomic.h>
#include <time.h>

enum { N = 624, M = 397 };

void kipu_mt19937_seed(kipu_mt19937 *r, uint32_t seed) {
    r->state[0] = seed;
    for (int i = 1; i < N; i++) r->state[i] = 1812433253u * (r->state[i - 1] ^ r->state[i - 1] >> 30) + (uint32_t)i;
    r->next = N;
}

static uint32_t twist(uint32_t high, uint32_t low, uint32_t far) {
    uint32_t y = (high & 0x80000000u) | (low & 0x7fffffffu);
    return far ^ y >> 1 ^ (y & 1 ? 0x9908b0dfu : 0);
}

static void renew(kipu_mt19937 *r) {
    uint32_t *s = r->state;
    for (int i = 0; i < N; i++) s[i] = twist(s[i], s[(i + 1) % N], s[(i + M) % N]);
    r->next = 0;
}

uint32_t kipu_mt19937_next(kipu_mt19937 *r) {
    if (r->next >= N) renew(r);
    uint32_t y = r->state[r->next++];
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680u;
    y ^= y << 15 & 0xefc60000u;
    return y ^ y >> 18;
}

double kipu_mt19937_unit(kipu_mt19937 *r) {
    double low = kipu_mt19937_next(r);
    double high = kipu_mt19937_next(r);
    double unit = (low + high * 0x1p32) * 0x1p-64;
    return unit < 1 ? unit : nextafter(1, 0);   /* rounding may have reached 1 */
}

uint32_t kipu_random_seed(void) {
    static _Atomic uint64_t calls;   /* the only state of this room that is shared: makes calls within one clock tick differ */
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    uint64_t x = (uint64_t)t.tv_sec * 1000000007u + (uint64_t)t.tv_nsec + (uintptr_t)&t + 0x9e3779b97f4a7c15u * ++calls;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return (uint32_t)x == 0xffffffffu ? 0 : (uint32_t)x;
}
