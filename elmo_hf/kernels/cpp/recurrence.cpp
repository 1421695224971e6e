// The LSTMs of a layer, their backward pass, and linear maps, computed in float32 on a CPU. setup.py compiles this file, once for
// each level of instructions, and native.py calls the library of the highest level that the processor has.
//
// A step multiplies a few rows by a large matrix, which general libraries pack anew each time, and then applies
// non-linearities, each of which would read and write all gates again. This file packs each matrix once per layer,
// and computes the cell while its gates are in the cache. In inference it also computes the gate inputs, a few steps at
// a time, so that they never fill the memory. Directions and sentences do not wait for each other: each thread runs
// its share of them from the first step to the last.
//
// Every sum is in the same order, however many sentences and threads there are. Weights may be in bfloat16, or integers
// with scales; they become float32 when they are packed or read. Where a processor has AMX tiles, which multiply
// bfloat16, both factors are bfloat16 instead.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>
#ifdef __AVX2__
#include <immintrin.h>
#endif
#ifdef __linux__
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if defined(__AVX512F__) && defined(__linux__)
#include <cpuid.h>
#define HAS_TILE_CODE
#endif

namespace {

// numbers in a register, and rows of a product computed at a time: as many sums as there are registers for
#if defined(__AVX512F__)
constexpr int LANES = 16, ROWS = 12;
#elif defined(__AVX__)
constexpr int LANES = 8, ROWS = 6;
#else
constexpr int LANES = 4, ROWS = 6;
#endif
// adjacent columns of a packed matrix
constexpr int PANEL = 2 * LANES;
// terms summed in registers before they are added to memory
constexpr int64_t DEPTH = 512;
// up to so many sentences in a group, the matrices are read without packing
constexpr int64_t FEW = 2;
// rows of such a matrix that are read at a time: as many as a core fetches streams
constexpr int64_t TERMS = 8;
// words whose gate inputs are computed at a time
constexpr int64_t CHUNK = 256;
// shares of the work of packing
constexpr int64_t PARTS = 16;
// rows and pairs of terms of an AMX tile
constexpr int64_t TILE = 16;
// numbers of an output matrix that are fetched before they are needed
constexpr int64_t OUTPUT_AHEAD = 32768;
// terms of a tile: products of bfloat16 have as many, the last of which may be zeros
constexpr int64_t TERMS_OF_TILE = 2 * TILE;

typedef float Vector __attribute__((vector_size(LANES * 4)));
typedef float Unaligned __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(LANES * 4)));
typedef uint32_t Bits __attribute__((vector_size(LANES * 4)));
typedef uint16_t BFloat16;
typedef BFloat16 BFloat16s __attribute__((vector_size(LANES * 2), aligned(2), may_alias));

inline Vector load(const float* from) { return *reinterpret_cast<const Unaligned*>(from); }
inline void store(float* to, Vector values) { *reinterpret_cast<Unaligned*>(to) = values; }

// the first `count` numbers of a vector; the others are read as zero and not written
inline Vector load_some(const float* from, int64_t count) {
    Vector values{};
    std::memcpy(&values, from, count * sizeof(float));
    return values;
}
inline void store_some(float* to, Vector values, int64_t count) { std::memcpy(to, &values, count * sizeof(float)); }

// bfloat16 is the upper half of float32
#if defined(__AVX2__)
inline __m256 load_eight(const float* from) { return _mm256_loadu_ps(from); }
inline __m256 load_eight(const BFloat16* from) {
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(values), 16));
}
inline __m256 load_eight(const int8_t* from) {
    const __m128i values = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(values));
}
#endif
inline Vector load(const BFloat16* from) {
#if defined(__AVX512F__)
    const __m256i values = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return reinterpret_cast<Vector>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(values), 16));
#elif defined(__AVX2__)
    return reinterpret_cast<Vector>(load_eight(from));
#else
    const BFloat16s values = *reinterpret_cast<const BFloat16s*>(from);
    return reinterpret_cast<Vector>(__builtin_convertvector(values, Integers) << 16);
#endif
}
inline Vector load(const int8_t* from) {
#if defined(__AVX512F__)
    const __m128i values = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return reinterpret_cast<Vector>(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(values)));
#elif defined(__AVX2__)
    return reinterpret_cast<Vector>(load_eight(from));
#else
    Vector values;
    for (int n = 0; n < LANES; n++) values[n] = from[n];
    return values;
#endif
}
inline float widened(float value) { return value; }
inline float widened(int8_t value) { return value; }
inline float widened(BFloat16 value) {
    const uint32_t bits = uint32_t(value) << 16;
    float result;
    std::memcpy(&result, &bits, sizeof result);
    return result;
}

// the first `count` numbers of a vector; the others are zero
inline Vector load_some(const BFloat16* from, int64_t count) {
    if (count == LANES) return load(from);
    Vector values{};
    for (int64_t n = 0; n < count; n++) values[n] = widened(from[n]);
    return values;
}

// Rounds to the nearest, a tie to even; what is no number stays so.
inline BFloat16 narrowed(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    if (value != value) return BFloat16(bits >> 16 | 0x40);
    return BFloat16((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline void narrow(const float* from, int64_t count, BFloat16* to) {
    int64_t n = 0;
    for (; n + LANES <= count; n += LANES) {
        const Vector values = load(from + n);
        const Bits bits = reinterpret_cast<Bits>(values), rounded = bits + 0x7fff + (bits >> 16 & 1);
        const Bits upper = (values == values ? rounded : bits | 0x400000) >> 16;
        *reinterpret_cast<BFloat16s*>(to + n) = __builtin_convertvector(upper, BFloat16s);
    }
    for (; n < count; n++) to[n] = narrowed(from[n]);
}

// Copies numbers, each to the type of its place.
inline void convert(const float* from, int64_t count, float* to) { std::copy_n(from, count, to); }
inline void convert(const BFloat16* from, int64_t count, BFloat16* to) { std::copy_n(from, count, to); }
inline void convert(const float* from, int64_t count, BFloat16* to) { narrow(from, count, to); }
inline void convert(const BFloat16* from, int64_t count, float* to) {
    int64_t n = 0;
    for (; n + LANES <= count; n += LANES) store(to + n, load(from + n));
    for (; n < count; n++) to[n] = widened(from[n]);
}

// Returns numbers in float32: where they are, or in `copy`.
inline const float* as_floats(const float* from, int64_t, float*) { return from; }
inline const float* as_floats(const BFloat16* from, int64_t count, float* copy) {
    convert(from, count, copy);
    return copy;
}

// Integers have a scale for each output. The product of the two is what torch makes of them.
template <class Weight>
constexpr bool SCALED = std::is_same<Weight, int8_t>::value;
// the scales from the n-th output on, or null
inline const float* scales_from(const float* scales, int64_t n) { return scales ? scales + n : nullptr; }

// Reads a vector, or one, of the weights of adjacent outputs.
template <class Weight>
inline Vector load_weights(const Weight* from, const float* scales) {
    if constexpr (SCALED<Weight>) return load(from) * load(scales);
    return load(from);
}
template <class Weight>
inline float load_weight(const Weight* from, const float* scale) {
    if constexpr (SCALED<Weight>) return widened(*from) * *scale;
    return widened(*from);
}

// Fetches memory that is needed soon into the second-level cache, which has more fetches under way than the first.
inline void fetch(const void* from, int64_t bytes) {
    for (int64_t n = 0; n < bytes; n += 64) __builtin_prefetch(static_cast<const char*>(from) + n, 0, 2);
}

int64_t padded(int64_t width) { return (width + PANEL - 1) / PANEL * PANEL; }

// ---- products

// Multiplies R rows of `a`, `[R, depth]`, by a panel `[depth, PANEL]`, and writes the result to `c` or adds it. Meanwhile
// it fetches `ahead_step * PANEL / 16` bytes a term from `ahead` on, which is needed next.
template <int R>
void tile(const float* a, int64_t a_stride, const float* panel, int64_t depth, float* c, int64_t c_stride, bool add,
          const char* ahead, int64_t ahead_step) {
    Vector sums[R][2];
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) sums[r][0] = sums[r][1] = Vector{};
    for (int64_t k = 0; k < depth; k++, panel += PANEL) {
#pragma GCC unroll 2
        for (int n = 0; n < PANEL; n += 16, ahead += ahead_step) __builtin_prefetch(ahead, 0, 2);
        const Vector left = load(panel), right = load(panel + LANES);
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            const float factor = a[r * a_stride + k];
            sums[r][0] += factor * left;
            sums[r][1] += factor * right;
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
        float* to = c + r * c_stride;
        store(to, add ? load(to) + sums[r][0] : sums[r][0]);
        store(to + LANES, add ? load(to + LANES) + sums[r][1] : sums[r][1]);
    }
}

template <int R>
void tile_of(int rows, const float* a, int64_t a_stride, const float* panel, int64_t depth, float* c, int64_t c_stride,
             bool add, const char* ahead, int64_t ahead_step) {
    if (rows == R) return tile<R>(a, a_stride, panel, depth, c, c_stride, add, ahead, ahead_step);
    if constexpr (R > 1) tile_of<R - 1>(rows, a, a_stride, panel, depth, c, c_stride, add, ahead, ahead_step);
}

// Multiplies `[rows, depth]` by a panel, in tiles of nearly the same height. Each tile fetches its share of the next
// panel from memory: all at once would keep the first tile waiting.
void panel_product(int64_t rows, const float* a, int64_t a_stride, const float* panel, int64_t depth, float* c,
                   int64_t c_stride, bool add) {
    if (!rows) return;
    const int64_t count = (rows + ROWS - 1) / ROWS, ahead_step = (64 + count - 1) / count;
    for (int64_t n = 0, row = 0; n < count; n++) {
        const int height = int((rows - row + count - n - 1) / (count - n));
        const char* ahead = reinterpret_cast<const char*>(panel + depth * PANEL) + n * depth * PANEL / 16 * ahead_step;
        tile_of<ROWS>(height, a + row * a_stride, a_stride, panel, depth, c + row * c_stride, c_stride, add, ahead,
                      ahead_step);
        row += height;
    }
}

// Packs `[depth, width]`, whose rows are `stride` apart, in panels `panel_stride` apart.
template <class Weight>
void pack(const Weight* from, const float* scales, int64_t depth, int64_t width, int64_t stride, float* to,
          int64_t panel_stride) {
    // as many rows at a time as a core prefetches streams
    for (int64_t first = 0; first < depth; first += 8)
        for (int64_t column = 0; column < width; column += PANEL) {
            const int64_t count = std::min<int64_t>(PANEL, width - column);
            for (int64_t k = first; k < std::min(first + 8, depth); k++) {
                const Weight* row = from + k * stride + column;
                float* place = to + column / PANEL * panel_stride + k * PANEL;
                if (count == PANEL) {
                    store(place, load_weights(row, scales_from(scales, column)));
                    store(place + LANES, load_weights(row + LANES, scales_from(scales, column + LANES)));
                } else {
                    std::fill_n(place, PANEL, 0.f);
                    for (int64_t n = 0; n < count; n++)
                        place[n] = load_weight(row + n, scales_from(scales, column + n));
                }
            }
        }
}

// Transposes 8 rows of 8 numbers; rows are `stride` apart, and those of the result PANEL.
template <class Weight>
inline void transpose(const Weight* from, const float* scales, int64_t stride, float* to) {
#if defined(__AVX2__)
    // pairs of rows, then fours, then halves of all eight
    __m256 pairs[8], fours[8];
    const auto row = [&](int n) {
        const __m256 values = load_eight(from + n * stride);
        if constexpr (SCALED<Weight>) return _mm256_mul_ps(values, _mm256_set1_ps(scales[n]));
        return values;
    };
#pragma GCC unroll 4
    for (int n = 0; n < 8; n += 2) {
        const __m256 even = row(n), odd = row(n + 1);
        pairs[n] = _mm256_unpacklo_ps(even, odd);
        pairs[n + 1] = _mm256_unpackhi_ps(even, odd);
    }
#pragma GCC unroll 4
    for (int n = 0; n < 4; n++) {
        const int first = n / 2 * 4 + n % 2;
        fours[2 * n] = _mm256_shuffle_ps(pairs[first], pairs[first + 2], 0x44);
        fours[2 * n + 1] = _mm256_shuffle_ps(pairs[first], pairs[first + 2], 0xee);
    }
#pragma GCC unroll 4
    for (int n = 0; n < 4; n++) {
        _mm256_storeu_ps(to + n * PANEL, _mm256_permute2f128_ps(fours[n], fours[n + 4], 0x20));
        _mm256_storeu_ps(to + (n + 4) * PANEL, _mm256_permute2f128_ps(fours[n], fours[n + 4], 0x31));
    }
#else
    for (int n = 0; n < 8; n++)
        for (int k = 0; k < 8; k++) to[k * PANEL + n] = load_weight(from + n * stride + k, scales_from(scales, n));
#endif
}

// Packs the transpose of `[count, depth]`, whose rows are `stride` apart, as one panel.
template <class Weight>
void pack_rows(const Weight* from, const float* scales, int64_t count, int64_t depth, int64_t stride, float* panel) {
    if (count < PANEL) std::fill_n(panel, PANEL * depth, 0.f);
    for (int64_t k = 0; k < depth; k += 8)
        for (int64_t n = 0; n < count; n += 8) {
            const Weight* block = from + n * stride + k;
            float* place = panel + k * PANEL + n;
            if (n + 8 <= count && k + 8 <= depth) {
                transpose(block, scales_from(scales, n), stride, place);
                continue;
            }
            for (int64_t row = 0; row < std::min<int64_t>(8, count - n); row++)
                for (int64_t j = 0; j < std::min<int64_t>(8, depth - k); j++)
                    place[j * PANEL + row] = load_weight(block + row * stride + j, scales_from(scales, n + row));
        }
}

// Multiplies R rows by an unpacked matrix `[depth, width]` in one pass over its memory, TERMS whole rows at a time.
template <int R, class Weight>
void plain_product(const float* a, int64_t a_stride, const Weight* weight, const float* scales, int64_t depth,
                   int64_t width, float* sums) {
    std::fill_n(sums, R * width, 0.f);
    for (int64_t k = 0; k < depth; k += TERMS, weight += TERMS * width) {
        const int64_t count = std::min<int64_t>(TERMS, depth - k), whole = count == TERMS ? width / LANES * LANES : 0;
        for (int64_t n = 0; n < whole; n += LANES) {
            Vector scale{};
            if constexpr (SCALED<Weight>) scale = load(scales + n);
            Vector total[R];
#pragma GCC unroll 2
            for (int r = 0; r < R; r++) total[r] = load(sums + r * width + n);
#pragma GCC unroll 8
            for (int j = 0; j < TERMS; j++) {
                Vector weights = load(weight + j * width + n);
                if constexpr (SCALED<Weight>) weights *= scale;
#pragma GCC unroll 2
                for (int r = 0; r < R; r++) total[r] += a[r * a_stride + k + j] * weights;
            }
#pragma GCC unroll 2
            for (int r = 0; r < R; r++) store(sums + r * width + n, total[r]);
        }
        for (int64_t n = whole; n < width; n++)
            for (int r = 0; r < R; r++)
                for (int64_t j = 0; j < count; j++)
                    sums[r * width + n] += a[r * a_stride + k + j] * load_weight(weight + j * width + n, scales_from(scales, n));
    }
}

// ---- products of bfloat16
//
// The sums are those of the instruction TDPBF16PS: of 32 terms, the even and the odd ones are each summed from zero, and
// then both sums together are added to the result, which begins at zero. A product of two numbers in bfloat16 is exact in
// float32, so all processors compute the same.

int64_t padded_terms(int64_t depth) { return (depth + TERMS_OF_TILE - 1) / TERMS_OF_TILE * TERMS_OF_TILE; }

// the even and the odd ones of pairs of numbers
inline Vector even(Integers pairs) { return reinterpret_cast<Vector>(pairs << 16); }
inline Vector odd(Integers pairs) { return reinterpret_cast<Vector>(pairs & int32_t(0xffff0000)); }

// Multiplies R rows of `a`, `[R, depth]`, by a panel `[depth / 2, PANEL, 2]`, and writes the result to `c`.
template <int R>
void pair_tile(const BFloat16* a, int64_t a_stride, const BFloat16* panel, int64_t depth, float* c, int64_t c_stride) {
    for (int64_t first = 0; first < depth; first += TERMS_OF_TILE) {
        Vector evens[R][2], odds[R][2];
#pragma GCC unroll 4
        for (int r = 0; r < R; r++) evens[r][0] = evens[r][1] = odds[r][0] = odds[r][1] = Vector{};
        for (int64_t k = first; k < first + TERMS_OF_TILE; k += 2, panel += 2 * PANEL) {
            Integers left, right;
            std::memcpy(&left, panel, sizeof left);
            std::memcpy(&right, panel + PANEL, sizeof right);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++) {
                const float one = widened(a[r * a_stride + k]), other = widened(a[r * a_stride + k + 1]);
                evens[r][0] += one * even(left);
                odds[r][0] += other * odd(left);
                evens[r][1] += one * even(right);
                odds[r][1] += other * odd(right);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < R; r++)
            for (int half = 0; half < 2; half++) {
                float* to = c + r * c_stride + half * LANES;
                store(to, (first ? load(to) : Vector{}) + (evens[r][half] + odds[r][half]));
            }
    }
}

#ifdef HAS_TILE_CODE
// Returns whether this process may use AMX tiles with products of bfloat16; the system is asked once.
bool has_tiles() {
    static const bool allowed = [] {
        constexpr unsigned AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24;
        unsigned a, b, c, d;
        if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & AMX_BF16) || !(d & AMX_TILE)) return false;
        // the system refuses if it does not keep the tiles of a thread that waits
        constexpr int REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;
        return !syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA);
    }();
    return allowed;
}

#define WITH_TILES __attribute__((target("amx-tile,amx-bf16")))

// what LDTILECFG reads
struct alignas(64) TileShapes {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t bytes_of_row[16] = {};
    uint8_t rows[16] = {};
};

// The rows of the tiles that this thread has set: of sums in 0 to 3, rows in 4 and 5, the panel in 6 and 7.
thread_local int upper_rows = 0, lower_rows = 0;

WITH_TILES void set_tiles(int upper, int lower) {
    if (upper == upper_rows && lower == lower_rows) return;
    TileShapes shapes;
    const int rows[8] = {upper, upper, lower, lower, upper, lower, TILE, TILE};
    for (int n = 0; n < 8; n++) {
        shapes.rows[n] = uint8_t(rows[n]);
        shapes.bytes_of_row[n] = rows[n] ? 4 * TILE : 0;
    }
    // some compilers take the instruction for one that reads 8 bytes, and leave the others unset
    asm volatile("" : : "r"(&shapes) : "memory");
    _tile_loadconfig(&shapes);
    upper_rows = upper;
    lower_rows = lower;
}

// Gives the tiles back, which the system would otherwise save whenever it changes threads.
WITH_TILES void release_tiles() {
    if (upper_rows) _tile_release();
    upper_rows = lower_rows = 0;
}

// Does what `pair_tile` does for up to 32 rows. Meanwhile it fetches `ahead_step` bytes in each step, from `ahead` on.
WITH_TILES void amx_tile(int rows, const BFloat16* a, int64_t a_stride, const BFloat16* panel, int64_t depth, float* c,
                         int64_t c_stride, const char* ahead, int64_t ahead_step) {
    static_assert(PANEL == 2 * TILE, "two tiles of the panel");
    const int upper = std::min<int>(rows, TILE), lower = rows - upper;
    set_tiles(upper, lower);
    const BFloat16* lower_a = a + TILE * a_stride;
    float* lower_c = c + TILE * c_stride;
    const int64_t c_bytes = c_stride * sizeof(float), a_bytes = a_stride * sizeof(BFloat16);
    constexpr int64_t PANEL_BYTES = 2 * PANEL * sizeof(BFloat16);
    _tile_zero(0);
    _tile_zero(1);
    if (lower) {
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t k = 0; k < depth; k += TERMS_OF_TILE, panel += TERMS_OF_TILE * PANEL, ahead += ahead_step) {
        fetch(ahead, ahead_step);
        _tile_loadd(4, a + k, a_bytes);
        _tile_loadd(6, panel, PANEL_BYTES);
        _tile_loadd(7, panel + 2 * TILE, PANEL_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        if (lower) {
            _tile_loadd(5, lower_a + k, a_bytes);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, c, c_bytes);
    _tile_stored(1, c + TILE, c_bytes);
    if (lower) {
        _tile_stored(2, lower_c, c_bytes);
        _tile_stored(3, lower_c + TILE, c_bytes);
    }
}
#else
constexpr bool has_tiles() { return false; }
inline void release_tiles() {}
#endif

// Multiplies `[rows, depth]` by a panel and writes the result to `c`; `depth` is a multiple of TERMS_OF_TILE. Meanwhile
// it fetches `ahead_bytes` from `ahead` on.
void panel_product(int64_t rows, const BFloat16* a, int64_t a_stride, const BFloat16* panel, int64_t depth, float* c,
                   int64_t c_stride, [[maybe_unused]] const void* ahead, [[maybe_unused]] int64_t ahead_bytes) {
    int64_t row = 0;
#ifdef HAS_TILE_CODE
    if (has_tiles()) {
        const int64_t steps = (rows + 2 * TILE - 1) / (2 * TILE) * (depth / TERMS_OF_TILE);
        // whole lines of the cache
        const int64_t step = steps ? (ahead_bytes / steps + 63) / 64 * 64 : 0;
        for (auto from = static_cast<const char*>(ahead); row < rows; row += 2 * TILE, from += step * (depth / TERMS_OF_TILE))
            amx_tile(int(std::min<int64_t>(2 * TILE, rows - row)), a + row * a_stride, a_stride, panel, depth,
                     c + row * c_stride, c_stride, from, step);
        return;
    }
#endif
    for (; row + 2 <= rows; row += 2) pair_tile<2>(a + row * a_stride, a_stride, panel, depth, c + row * c_stride, c_stride);
    if (row < rows) pair_tile<1>(a + row * a_stride, a_stride, panel, depth, c + row * c_stride, c_stride);
}

// Packs `[depth, width]`, whose rows are `stride` apart, in panels of pairs `panel_stride` apart, and zeros up to
// `terms`.
void pack_pairs(const BFloat16* from, int64_t depth, int64_t width, int64_t stride, int64_t terms, BFloat16* to,
                int64_t panel_stride) {
    const BFloat16 zeros[PANEL] = {};
    for (int64_t k = 0; k < terms; k += 2)
        for (int64_t column = 0; column < width; column += PANEL) {
            const int64_t count = std::min<int64_t>(PANEL, width - column);
            const BFloat16* one = k < depth ? from + k * stride + column : zeros;
            const BFloat16* other = k + 1 < depth ? from + (k + 1) * stride + column : zeros;
            BFloat16* place = to + column / PANEL * panel_stride + k * PANEL;
            if (count < PANEL) std::fill_n(place, 2 * PANEL, 0);
            for (int64_t n = 0; n < count; n++) {
                place[2 * n] = one[n];
                place[2 * n + 1] = other[n];
            }
        }
}

// Packs the transpose of `[count, depth]`, whose rows are `stride` apart, as one panel of pairs, and zeros up to
// `terms`.
void pack_pairs_of_rows(const BFloat16* from, int64_t count, int64_t depth, int64_t stride, int64_t terms,
                        BFloat16* panel) {
    if (depth % 2 == 0 && stride % 2 == 0) {
        // pairs are moved like numbers of their size
        const auto pairs = reinterpret_cast<const float*>(from);
        const auto to = reinterpret_cast<float*>(panel);
        pack_rows(pairs, nullptr, count, depth / 2, stride / 2, to);
        return void(std::fill_n(to + depth / 2 * PANEL, (terms - depth) / 2 * PANEL, 0.f));
    }
    std::fill_n(panel, terms * PANEL, 0);
    // a few terms at a time, whose places stay in the first-level cache
    for (int64_t first = 0; first < depth; first += TERMS_OF_TILE)
        for (int64_t n = 0; n < count; n++) {
            const BFloat16* row = from + n * stride + first;
            BFloat16* place = panel + first * PANEL + 2 * n;
            const int64_t terms_here = std::min(TERMS_OF_TILE, depth - first);
            for (int64_t k = 0; k < terms_here; k++) place[k / 2 * 2 * PANEL + k % 2] = row[k];
        }
}

// Adds the product of R rows and an unpacked matrix `[depth, width]` to `sums`, in one pass over its memory.
template <int R>
void plain_pair_product(const BFloat16* a, int64_t a_stride, const BFloat16* weight, int64_t depth, int64_t width,
                        float* sums) {
    // columns whose even and odd sums stay in the first-level cache, while TERMS rows at a time are read
    constexpr int64_t COLUMNS = 2048 / R;
    float evens[R][COLUMNS], odds[R][COLUMNS];
    for (int64_t first = 0; first < depth; first += TERMS_OF_TILE)
        for (int64_t column = 0; column < width; column += COLUMNS) {
            const int64_t count = std::min(COLUMNS, width - column), end = std::min(first + TERMS_OF_TILE, depth);
            for (int64_t k = first; k < end; k += TERMS) {
                const BFloat16* rows = weight + k * width + column;
                const int64_t terms = std::min(TERMS, end - k), whole = terms == TERMS ? count / LANES * LANES : 0;
                for (int64_t n = 0; n < whole; n += LANES) {
                    Vector even[R], odd[R];
#pragma GCC unroll 2
                    for (int r = 0; r < R; r++) {
                        even[r] = k == first ? Vector{} : load(evens[r] + n);
                        odd[r] = k == first ? Vector{} : load(odds[r] + n);
                    }
#pragma GCC unroll 8
                    for (int j = 0; j < TERMS; j++) {
                        const Vector weights = load(rows + j * width + n);
#pragma GCC unroll 2
                        for (int r = 0; r < R; r++) (j % 2 ? odd : even)[r] += widened(a[r * a_stride + k + j]) * weights;
                    }
#pragma GCC unroll 2
                    for (int r = 0; r < R; r++) {
                        store(evens[r] + n, even[r]);
                        store(odds[r] + n, odd[r]);
                    }
                }
                for (int64_t n = whole; n < count; n++)
                    for (int r = 0; r < R; r++) {
                        if (k == first) evens[r][n] = odds[r][n] = 0;
                        for (int64_t j = 0; j < terms; j++)
                            (j % 2 ? odds : evens)[r][n] += widened(a[r * a_stride + k + j]) * widened(rows[j * width + n]);
                    }
            }
            for (int r = 0; r < R; r++)
                for (int64_t n = 0; n < count; n++) sums[r * width + column + n] += evens[r][n] + odds[r][n];
        }
}

// ---- non-linearities

// Computes exp(x) - 1 accurately for small x too: x = n ln 2 + rest, and the series takes the rest.
inline Vector exp_minus_one(Vector x) {
    const Vector most = Vector{} + 88.f;
    x = x > most ? most : x;
    x = x < -most ? -most : x;
    // adding 1.5 * 2^23 rounds to an integer, which the last bits then hold
    const Vector rounder = Vector{} + 12582912.f;
    Vector n = x * 1.44269504f + rounder;
    const Integers bits = reinterpret_cast<Integers>(n);
    n -= rounder;
    // ln 2 in two parts; the product of n and the first is exact
    const Vector rest = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    Vector series = Vector{} + 1.f / 5040;
    series = series * rest + 1.f / 720;
    series = series * rest + 1.f / 120;
    series = series * rest + 1.f / 24;
    series = series * rest + 1.f / 6;
    series = series * rest + 0.5f;
    series = series * rest * rest + rest;
    const Vector power = reinterpret_cast<Vector>((bits << 23) + (127 << 23));
    return power * series + (power - 1.f);
}

inline Vector sigmoid(Vector x) { return 1.f / (2.f + exp_minus_one(-x)); }

inline Vector hyperbolic_tangent(Vector x) {
    const Vector e = exp_minus_one(2.f * x);
    return e / (e + 2.f);
}

inline Vector clip(Vector x, float limit) {
    const Vector most = Vector{} + limit;
    x = x > most ? most : x;
    return x < -most ? -most : x;
}

// ---- memory

// Memory that is reused from layer to layer: the system clears new memory page by page. Memory that was not needed
// for KEPT_JOBS jobs is freed.
class Scratch {
public:
    explicit Scratch(int64_t count) {
        {
            std::lock_guard<std::mutex> guard(lock);
            if (count && !spare.empty()) {
                // the smallest that is large enough, else the largest; otherwise all would grow to the largest size
                auto best = spare.begin();
                for (auto each = best; each != spare.end(); each++) {
                    const bool fits = each->count >= count, smaller = each->count < best->count;
                    if (best->count < count ? !smaller : fits && smaller) best = each;
                }
                memory = *best;
                spare.erase(best);
            }
        }
        if (memory.count >= count) return;
        std::free(memory.data);
        constexpr size_t PAGE = size_t(1) << 21;
        const size_t bytes = (count * sizeof(float) + PAGE - 1) / PAGE * PAGE;
        memory = {static_cast<float*>(std::aligned_alloc(PAGE, bytes)), count, 0};
        if (!memory.data) throw std::bad_alloc();
#ifdef __linux__
        madvise(memory.data, bytes, MADV_HUGEPAGE);
#endif
    }
    ~Scratch() {
        if (!memory.data) return;
        std::lock_guard<std::mutex> guard(lock);
        memory.last_job = jobs;
        spare.push_back(memory);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    float* data() { return memory.data; }

    // Counts a job, and frees the memory that the last ones did not need.
    static void finish_job() {
        std::lock_guard<std::mutex> guard(lock);
        jobs++;
        const auto unused = std::partition(spare.begin(), spare.end(),
                                           [](const Memory& each) { return jobs - each.last_job <= KEPT_JOBS; });
        std::for_each(unused, spare.end(), [](const Memory& each) { std::free(each.data); });
        spare.erase(unused, spare.end());
    }

private:
    static constexpr int64_t KEPT_JOBS = 64;
    struct Memory {
        float* data = nullptr;
        int64_t count = 0, last_job = 0;
    } memory;
    static std::mutex lock;
    static std::vector<Memory> spare;
    static int64_t jobs;
};
std::mutex Scratch::lock;
std::vector<Scratch::Memory> Scratch::spare;
int64_t Scratch::jobs = 0;

// Runs a function in the threads of OpenMP that torch runs in: these wait for work by spinning, for milliseconds, and
// other threads would share the cores with them. Null where torch does without GCC's OpenMP.
typedef void (*Region)(void (*work)(void*), void* data, unsigned threads, unsigned flags);
Region find_region() {
#ifdef __linux__
    static const auto found = reinterpret_cast<Region>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
    return found;
#else
    return nullptr;
#endif
}

// Calls `work(n)` for `count` numbers in several threads, one of them the caller's.
template <class Work>
void share(int64_t count, int64_t threads, const Work& work) {
    struct Shared {
        const Work& work;
        const int64_t count;
        std::atomic<int64_t> next{0};
        std::atomic<bool> failed{false};
    } shared{work, count};
    // each thread takes the next number, however many threads there are
    const auto take = [](void* data) {
        Shared& all = *static_cast<Shared*>(data);
        try {
            for (int64_t n = all.next++; n < all.count; n = all.next++) all.work(n);
        } catch (const std::bad_alloc&) {
            all.failed = true;
        }
    };
    threads = std::min(threads, count);
    if (const Region region = threads > 1 ? find_region() : nullptr) {
        region(take, &shared, unsigned(threads), 0);
    } else {
        std::vector<std::thread> others;
        try {
            for (int64_t n = 1; n < threads; n++) others.emplace_back(take, &shared);
        } catch (const std::system_error&) {
            // the system refuses another thread: there are enough without it
        }
        take(&shared);
        for (auto& other : others) other.join();
    }
    if (shared.failed) throw std::bad_alloc();
}

}  // namespace

// The arguments; the fields are those of `Job` in native.py. Whoever changes them raises `elmo_job_version`. The leading
// 2 is the direction, of which there may be one. There are 4 gates G, or 5 with a highway. What `void` points to has the
// type of the weights; numbers of words beside weights that are integers are in float32.
struct Job {
    const void* inputs;       // [2, rows, G * C], the inputs of the gates i, f, g, o, r of each packed word, or null, then:
    const void* below;        // [2, rows, D], the output of the layer below for each packed word,
    const void* forward;      // [G * C, D], the input weights of both directions,
    const void* backward;
    const float* bias;        // [2, G * C]
    const void* carried;      // [2, rows, C], what a highway carries around the cell, or null
    const float* dropout;     // [2, sentences, P], the factors of the hidden states, or null
    const void* recurrent;    // [2, P, G * C]
    const void* output;       // [2, C, P], or null if P is C
    // the scales of weights that are integers, otherwise null:
    const float* forward_scales;    // [G * C], of the input weights of both directions,
    const float* backward_scales;
    const float* recurrent_scales;  // [2, G * C]
    const float* output_scales;     // [2, P]
    float* hidden;            // [2, sentences, P], longest first: the initial state, overwritten by the final one
    float* cell;              // [2, sentences, C], likewise
    void* outputs;            // [2, words, P]
    void* gates;              // [2, words, G * C], saved for the backward pass, or null
    void* cells;              // [2, words, C], likewise
    // The backward pass reads the initial `cell`, and `outputs`, `gates` and `cells` of the forward pass.
    void* outputs_gradient;   // [2, words, P], overwritten by the gradients of the hidden states before clip and dropout
    float* hidden_gradient;   // [2, sentences, P], of the final state, overwritten by that of the initial one
    float* cell_gradient;     // [2, sentences, C], likewise
    void* gradients;          // [2, words, G * C], of the gate inputs
    const int64_t* batch_sizes;  // [length], the number of running sentences at each time
    int64_t length, sentences, words, rows, input_width, width, cell_width, threads, directions;
    float cell_clip, projection_clip;
};

namespace {

// Divides sentences into groups: every `groups`-th one, so that the lengths in each group are alike.
struct Division {
    const Job& job;
    const int64_t P = job.width, C = job.cell_width, G = job.carried ? 5 : 4, directions = job.directions;
    const int64_t groups = std::max<int64_t>(1, std::min((job.threads + directions - 1) / directions, job.sentences));

    int64_t count_of(int64_t group, int64_t all) const { return (all - group + groups - 1) / groups; }
    // the index of the r-th sentence of a group, and of its word in a step that begins at `start`
    int64_t sentence(int64_t direction, int64_t group, int64_t r) const { return direction * job.sentences + group + r * groups; }
    int64_t word(int64_t direction, int64_t group, int64_t start, int64_t r) const {
        return direction * job.words + start + group + r * groups;
    }
};

// The forward pass, with weights in float32 or bfloat16, or integers with scales. The factors of its products are in
// float32, or both in bfloat16.
template <class Weight, class Factor = float>
class Forward : Division {
public:
    explicit Forward(const Job& job) : Division{job} {}

    void run() {
        if (packs) share(directions * PARTS, job.threads, [&](int64_t n) { pack_part(n % directions, n / directions); });
        share(directions * groups, job.threads, [&](int64_t n) { run_group(n % directions, n / directions); });
    }

private:
    static constexpr bool NARROW = std::is_same<Factor, BFloat16>::value;
    static_assert(!NARROW || std::is_same<Weight, BFloat16>::value, "the weights are not rounded here");
    // of what each word has
    using Number = typename std::conditional<std::is_same<Weight, BFloat16>::value, BFloat16, float>::type;
    const Number* inputs = static_cast<const Number*>(job.inputs);
    const Number* below = static_cast<const Number*>(job.below);
    const Number* carried = static_cast<const Number*>(job.carried);
    const Weight* recurrent = static_cast<const Weight*>(job.recurrent);
    const Weight* output = static_cast<const Weight*>(job.output);
    const int64_t D = job.input_width, blocks = padded(C) / PANEL;
    // terms of the products as they are packed
    const int64_t P_terms = NARROW ? padded_terms(P) : P, C_terms = NARROW ? padded_terms(C) : C;
    const int64_t D_terms = NARROW ? padded_terms(D) : D;
    const bool packs = job.sentences > FEW * groups;
    // input weights that are used once are packed where they are used
    const bool packs_inputs = packs && job.below && job.words > CHUNK * groups;
    const int64_t recurrent_size = G * padded(C) * P_terms, output_size = output ? padded(P) * C_terms : 0;
    const int64_t input_size = packs_inputs ? G * padded(C) * D_terms : 0;
    const int64_t size = recurrent_size + output_size + input_size;
    Scratch packed{packs ? int64_t(directions * size * sizeof(Factor) / sizeof(float)) : 0};

    Factor* packed_recurrent(int64_t direction) { return reinterpret_cast<Factor*>(packed.data()) + direction * size; }
    Factor* packed_output(int64_t direction) { return packed_recurrent(direction) + recurrent_size; }
    Factor* packed_inputs(int64_t direction) { return packed_output(direction) + output_size; }

    // Packs the matrices of a share of the cells of a direction. The panels of a block of cells are adjacent.
    void pack_part(int64_t direction, int64_t part) {
        const int64_t first = blocks * part / PARTS, end = blocks * (part + 1) / PARTS;
        const int64_t cell = first * PANEL, count = std::min(C, end * PANEL) - cell;
        for (int64_t gate = 0; gate < G; gate++) {
            const Weight* from = recurrent + (direction * P * G + gate) * C + cell;
            Factor* to = packed_recurrent(direction) + (first * G + gate) * PANEL * P_terms;
            if constexpr (NARROW)
                pack_pairs(from, P, count, G * C, P_terms, to, G * PANEL * P_terms);
            else
                pack(from, scales_from(job.recurrent_scales, (direction * G + gate) * C + cell), P, count, G * C, to,
                     G * PANEL * P);
        }
        if (output) {
            const Weight* from = output + (direction * C + cell) * P;
            Factor* to = packed_output(direction) + cell * PANEL;
            if constexpr (NARROW)
                pack_pairs(from, count, P, P, end < blocks ? count : C_terms - cell, to, PANEL * C_terms);
            else
                pack(from, scales_from(job.output_scales, direction * P), count, P, P, to, PANEL * C);
        }
        for (int64_t block = first; block < end && packs_inputs; block++)
            pack_inputs(direction, block, packed_inputs(direction) + block * G * D_terms * PANEL);
    }

    // Packs the input weights of a block of cells, `[D / DEPTH, G, DEPTH, PANEL]`, or `[G, D_terms / 2, PANEL, 2]`.
    void pack_inputs(int64_t direction, int64_t block, Factor* to) {
        const auto weights = static_cast<const Weight*>(direction ? job.backward : job.forward);
        const int64_t count = std::min<int64_t>(PANEL, C - block * PANEL);
        if constexpr (NARROW) {
            for (int64_t gate = 0; gate < G; gate++)
                pack_pairs_of_rows(weights + (gate * C + block * PANEL) * D, count, D, D, D_terms,
                                   to + gate * D_terms * PANEL);
        } else {
            pack_inputs_in_parts(weights, direction, block, count, to);
        }
    }

    void pack_inputs_in_parts(const Weight* weights, int64_t direction, int64_t block, int64_t count, float* to) {
        const float* scales = direction ? job.backward_scales : job.forward_scales;
        for (int64_t k = 0; k < D; k += DEPTH)
            for (int64_t gate = 0; gate < G; gate++, to += std::min(DEPTH, D - k) * PANEL)
                pack_rows(weights + (gate * C + block * PANEL) * D + k, scales_from(scales, gate * C + block * PANEL),
                          count, std::min(DEPTH, D - k), D, to);
    }

    // The state of a group's sentences in one direction. Strides are no powers of two, which would share cache lines.
    struct Group {
        int64_t direction, number, running;
        int64_t start;  // of the words of the step, of all groups
        int64_t hidden_stride, cell_stride;
        std::vector<float> hidden, cell, squashed, sums;
        std::vector<BFloat16> narrow_hidden, narrow_squashed;  // the same as factors, if these are in bfloat16
        std::vector<float> bias;  // [blocks, G, PANEL], what the gates of products of bfloat16 do not have yet
        float* chunk;  // [blocks, most, G, PANEL], the gates of some steps
        int64_t most, count, filled, used;

        // the gates of a block of cells in this step, [running, G, PANEL]
        float* gates(int64_t block) { return chunk + (block * most + used) * count * PANEL; }
    };

    void run_group(int64_t direction, int64_t number) {
        const int64_t rows = count_of(number, job.sentences), most = std::max(rows, std::min(CHUNK, job.words));
        const int64_t hidden_stride = padded(P) + PANEL, cell_stride = padded(C) + PANEL;
        // a job that failed may have kept the tiles, and others use them too
        release_tiles();
        Scratch chunk(blocks * most * G * PANEL);
        Group group{direction, number, rows, 0, hidden_stride, cell_stride, std::vector<float>(rows * hidden_stride),
                    std::vector<float>(rows * cell_stride), std::vector<float>(rows * cell_stride),
                    std::vector<float>(packs ? NARROW * rows * G * PANEL : rows * std::max(G * C, P)),
                    std::vector<BFloat16>(NARROW ? rows * narrow_stride(P_terms) : 0),
                    std::vector<BFloat16>(NARROW ? rows * narrow_stride(C_terms) : 0),
                    std::vector<float>(NARROW ? blocks * G * PANEL : 0), chunk.data(), most, G, 0, 0};
        for (int64_t block = 0; block < blocks && NARROW && job.below; block++)
            set_gates(job.bias + direction * G * C, block, &group.bias[block * G * PANEL]);
        for (int64_t r = 0; r < rows; r++) {
            std::copy_n(job.hidden + sentence(direction, number, r) * P, P, &group.hidden[r * hidden_stride]);
            std::copy_n(job.cell + sentence(direction, number, r) * C, C, &group.cell[r * cell_stride]);
        }
        narrow_rows(group.hidden, hidden_stride, P, group.narrow_hidden, P_terms, rows);
        for (int64_t time = 0; time < job.length; group.start += job.batch_sizes[time++]) {
            group.running = count_of(number, job.batch_sizes[time]);
            if (!group.running) break;
            if (group.used == group.filled) fill(group, time);
            step(group);
            group.used += group.running;
        }
        for (int64_t r = 0; r < rows; r++) {
            std::copy_n(&group.hidden[r * hidden_stride], P, job.hidden + sentence(direction, number, r) * P);
            std::copy_n(&group.cell[r * cell_stride], C, job.cell + sentence(direction, number, r) * C);
        }
        release_tiles();
    }

    // no power of two, which would share cache lines
    static int64_t narrow_stride(int64_t terms) { return terms + TERMS_OF_TILE; }

    // Rounds rows of factors where these are in bfloat16.
    static void narrow_rows(const std::vector<float>& from, int64_t stride, int64_t count, std::vector<BFloat16>& to,
                            int64_t terms, int64_t rows) {
        for (int64_t r = 0; r < rows && NARROW; r++) narrow(&from[r * stride], count, &to[r * narrow_stride(terms)]);
    }

    int64_t place(const Group& group, int64_t r) const { return word(group.direction, group.number, group.start, r); }

    // Sets the gates of as many steps from `time` on as the chunk holds to their inputs.
    void fill(Group& group, int64_t time) {
        // the inputs have more rows than words
        const int64_t spare = group.direction * (job.rows - job.words);
        std::vector<int64_t> rows;
        for (int64_t start = group.start; time < job.length; start += job.batch_sizes[time++]) {
            const int64_t running = count_of(group.number, job.batch_sizes[time]);
            if (!running || int64_t(rows.size()) + running > group.most) break;
            for (int64_t r = 0; r < running; r++) rows.push_back(word(group.direction, group.number, start, r) + spare);
        }
        group.filled = rows.size();
        group.used = 0;
        for (int64_t block = 0; block < blocks && (inputs || !NARROW); block++)
            for (int64_t r = 0; r < group.filled; r++) {
                float* gates = group.gates(block) + r * G * PANEL;
                if (inputs)
                    set_gates(inputs + rows[r] * G * C, block, gates);
                else
                    set_gates(job.bias + group.direction * G * C, block, gates);
            }
        if (!inputs) add_products(group, rows);
    }

    // Copies a block of each gate.
    template <class From>
    void set_gates(const From* from, int64_t block, float* to) {
        for (int64_t gate = 0; gate < G; gate++, to += PANEL) {
            const From* share = from + gate * C + block * PANEL;
            if (block < C / PANEL) {
                store(to, load(share));
                store(to + LANES, load(share + LANES));
            } else {
                std::fill_n(to, PANEL, 0.f);
                convert(share, C % PANEL, to);
            }
        }
    }

    // Adds the products of rows of `below` and the input weights to the gates, or sets the gates to products of bfloat16.
    void add_products(Group& group, const std::vector<int64_t>& rows) {
        const int64_t stride = NARROW ? narrow_stride(D_terms) : D + PANEL;
        std::vector<Factor> factors(group.filled * stride), panels(packs_inputs ? 0 : G * D_terms * PANEL);
        for (int64_t r = 0; r < group.filled; r++) convert(below + rows[r] * D, D, &factors[r * stride]);
        for (int64_t block = 0; block < blocks; block++) {
            if (!packs_inputs) pack_inputs(group.direction, block, panels.data());
            const Factor* panel =
                packs_inputs ? packed_inputs(group.direction) + block * G * D_terms * PANEL : panels.data();
            if constexpr (NARROW) {
                // the panels of the next block and, a gate at a time, the places of the next rows
                const int64_t parts = (group.filled + 2 * TILE - 1) / (2 * TILE), bytes = packs_inputs ? 2 * D_terms * PANEL : 0;
                for (int64_t row = 0; row < group.filled; row += 2 * TILE)
                    for (int64_t gate = 0; gate < G; gate++) {
                        float* gates = group.gates(block) + (row * G + gate) * PANEL;
                        fetch(group.gates(block) + ((row + 2 * TILE) * G + gate * 2 * TILE) * PANEL, 2 * TILE * PANEL * 4);
                        const BFloat16* own = panel + gate * D_terms * PANEL;
                        const auto ahead = reinterpret_cast<const char*>(own + G * D_terms * PANEL);
                        panel_product(std::min<int64_t>(2 * TILE, group.filled - row), &factors[row * stride], stride, own,
                                      D_terms, gates, G * PANEL, ahead + row / (2 * TILE) * bytes / parts, bytes / parts);
                    }
            } else {
                add_panels(group, block, factors, stride, panel);
            }
        }
    }

    // Adds the products with the panels of a block of cells.
    void add_panels(Group& group, int64_t block, const std::vector<float>& factors, int64_t stride, const float* panel) {
        for (int64_t k = 0, size = std::min(DEPTH, D); k < D; k += DEPTH, panel += G * size * PANEL) {
            size = std::min(DEPTH, D - k);
            // a few rows at a time, which stay in the first-level cache for all gates
            for (int64_t row = 0; row < group.filled; row += ROWS)
                for (int64_t gate = 0; gate < G; gate++)
                    panel_product(std::min<int64_t>(ROWS, group.filled - row), &factors[row * stride + k], stride,
                                  panel + gate * size * PANEL, size, group.gates(block) + (row * G + gate) * PANEL,
                                  G * PANEL, true);
        }
    }

    void step(Group& group) {
        const int64_t running = group.running;
        if (!packs) add_unpacked(group);
        for (int64_t block = 0; block < blocks; block++) {
            // products of bfloat16 go where they stay in the first-level cache
            float* gates = NARROW && packs ? group.sums.data() : group.gates(block);
            for (int64_t gate = 0; gate < G && packs; gate++) {
                const Factor* panel = packed_recurrent(group.direction) + (G * block + gate) * P_terms * PANEL;
                if constexpr (NARROW)
                    // the panel after the next one; of the one after the last gate, the cells below fetch the other half
                    panel_product(running, group.narrow_hidden.data(), narrow_stride(P_terms), panel, P_terms,
                                  gates + gate * PANEL, G * PANEL, panel + 2 * P_terms * PANEL,
                                  P_terms * PANEL * (gate + 1 < G ? 2 : 1));
                else
                    for (int64_t k = 0; k < P; k += DEPTH)
                        panel_product(running, &group.hidden[k], group.hidden_stride, panel + k * PANEL,
                                      std::min(DEPTH, P - k), gates + gate * PANEL, G * PANEL, true);
            }
            for (int64_t r = 0; r < running; r++) {
                float* row = gates + r * G * PANEL;
                if constexpr (NARROW)
                    if (packs) {
                        const BFloat16* half = packed_recurrent(group.direction) + (G * (block + 1) + 1) * P_terms * PANEL +
                                               P_terms * PANEL / 2;
                        fetch(half + r * (P_terms * PANEL / 2) / running, P_terms * PANEL / running);
                        if (block + 1 < blocks) fetch(group.gates(block + 1) + r * G * PANEL, G * PANEL * sizeof(float));
                        add_gates(group, block, r, row);
                    }
                update_cells(group, block, r, row);
            }
        }
        project(group);
    }

    // Adds the inputs of a block of gates of a sentence, with the bias, to the recurrent products of bfloat16, `sums`.
    void add_gates(Group& group, int64_t block, int64_t r, float* sums) {
        const float *inputs = group.gates(block) + r * G * PANEL, *bias = &group.bias[block * G * PANEL];
        for (int64_t n = 0; n < G * PANEL; n += LANES)
            store(sums + n, load(inputs + n) + load(bias + n) + load(sums + n));
    }

    // Adds the products of the hidden states of a few sentences and the recurrent weights to their gates.
    void add_unpacked(Group& group) {
        const Weight* weight = recurrent + group.direction * P * G * C;
        // calls `work` for a block of the sums of a sentence's gates, and for the gates themselves
        const auto each_block = [&](int64_t r, float* sums, auto work) {
            for (int64_t gate = 0; gate < G; gate++)
                for (int64_t block = 0; block < blocks; block++)
                    work(sums + gate * C + block * PANEL, std::min<int64_t>(PANEL, C - block * PANEL),
                         group.gates(block) + (r * G + gate) * PANEL);
        };
        if constexpr (NARROW) {
            std::fill_n(group.sums.begin(), group.running * G * C, 0.f);
            pair_product(group.running, group.narrow_hidden.data(), narrow_stride(P_terms), weight, P, G * C,
                         group.sums.data());
            for (int64_t r = 0; r < group.running; r++) {
                const float* bias = group.bias.data();
                // gates are where their bias is, among all blocks
                each_block(r, &group.sums[r * G * C], [&](const float* sums, int64_t count, float* gates) {
                    const int64_t column = sums - &group.sums[r * G * C], gate = column / C, block = column % C / PANEL;
                    const float* own = bias + (block * G + gate) * PANEL;
                    for (int64_t n = 0; n < count; n++) gates[n] = gates[n] + own[n] + sums[n];
                });
            }
        } else {
            product(group, group.hidden, group.hidden_stride, weight,
                    scales_from(job.recurrent_scales, group.direction * G * C), P, G * C,
                    [&](int64_t r, float* sums) { each_block(r, sums, add); });
        }
    }

    // Adds the products of rows of a few sentences and an unpacked matrix to `sums`, `[rows, width]`.
    static void pair_product(int64_t rows, const BFloat16* a, int64_t a_stride, const BFloat16* weight, int64_t depth,
                             int64_t width, float* sums) {
        static_assert(FEW == 2, "one product for each number of sentences");
        const auto run = rows == 1 ? plain_pair_product<1> : plain_pair_product<2>;
        run(a, a_stride, weight, depth, width, sums);
    }

    static void add(const float* sums, int64_t count, float* to) {
        for (int64_t n = 0; n < count; n++) to[n] += sums[n];
    }

    // Multiplies the rows of a few sentences by an unpacked matrix; `take` receives the partial sums of each row.
    template <class Take>
    void product(Group& group, const std::vector<float>& a, int64_t stride, const Weight* weight, const float* scales,
                 int64_t depth, int64_t width, Take take) {
        for (int64_t k = 0; k < depth; k += DEPTH) {
            const int64_t size = std::min(DEPTH, depth - k);
            const auto run = group.running == 1 ? plain_product<1, Weight> : plain_product<2, Weight>;
            static_assert(FEW == 2, "one product for each number of sentences");
            run(&a[k], stride, weight + k * width, scales, size, width, group.sums.data());
            for (int64_t r = 0; r < group.running; r++) take(r, group.sums.data() + r * width);
        }
    }

    void update_cells(Group& group, int64_t block, int64_t r, float* gates) {
        float* cell = &group.cell[r * group.cell_stride + block * PANEL];
        float* squashed = &group.squashed[r * group.cell_stride + block * PANEL];
        const int64_t row = place(group, r), count = std::min<int64_t>(PANEL, C - block * PANEL);
        // beyond the last cell the hidden states are 0, as there is nothing to carry
        float around[PANEL] = {};
        if (carried) convert(carried + (row + group.direction * (job.rows - job.words)) * C + block * PANEL, count, around);
        for (int lane = 0; lane < PANEL; lane += LANES) {
            float* gate = gates + lane;
            const Vector i = sigmoid(load(gate)), f = sigmoid(load(gate + PANEL));
            const Vector g = hyperbolic_tangent(load(gate + 2 * PANEL)), o = sigmoid(load(gate + 3 * PANEL));
            const Vector now = clip(f * load(cell + lane) + i * g, job.cell_clip);
            store(cell + lane, now);
            Vector result = o * hyperbolic_tangent(now);
            if (carried) {
                const Vector share = sigmoid(load(gate + 4 * PANEL)), other = load(around + lane);
                result = other + share * (result - other);
                if (job.gates) store(gate + 4 * PANEL, share);
            }
            store(squashed + lane, result);
            if constexpr (NARROW)
                narrow(squashed + lane, LANES, &group.narrow_squashed[r * narrow_stride(C_terms) + block * PANEL + lane]);
            if (job.gates) {
                store(gate, i);
                store(gate + PANEL, f);
                store(gate + 2 * PANEL, g);
                store(gate + 3 * PANEL, o);
            }
        }
        // beyond the last cell may be NaN, which zeros among the weights do not undo
        if constexpr (NARROW)
            std::fill_n(&group.narrow_squashed[r * narrow_stride(C_terms) + block * PANEL] + count, PANEL - count, BFloat16(0));
        if (!job.gates) return;
        for (int64_t gate = 0; gate < G; gate++)
            convert(gates + gate * PANEL, count, static_cast<Number*>(job.gates) + (row * G + gate) * C + block * PANEL);
        convert(cell, count, static_cast<Number*>(job.cells) + row * C + block * PANEL);
    }

    // Sets the hidden states to the products of the squashed cells and the output weights.
    void multiply_squashed(Group& group) {
        const int64_t running = group.running;
        const Weight* weight = output + group.direction * C * P;
        if (!packs) std::fill_n(group.hidden.begin(), running * group.hidden_stride, 0.f);
        if constexpr (NARROW) {
            const BFloat16* squashed = group.narrow_squashed.data();
            const int64_t stride = narrow_stride(C_terms);
            if (packs) {
                for (int64_t column = 0; column < P; column += PANEL)
                    panel_product(running, squashed, stride, packed_output(group.direction) + column * C_terms, C_terms,
                                  &group.hidden[column], group.hidden_stride,
                                  packed_output(group.direction) + column * C_terms + OUTPUT_AHEAD, 2 * C_terms * PANEL);
            } else {
                std::fill_n(group.sums.begin(), running * P, 0.f);
                pair_product(running, squashed, stride, weight, C, P, group.sums.data());
                for (int64_t r = 0; r < running; r++)
                    std::copy_n(&group.sums[r * P], P, &group.hidden[r * group.hidden_stride]);
            }
        } else if (packs) {
            for (int64_t column = 0; column < P; column += PANEL)
                for (int64_t k = 0; k < C; k += DEPTH)
                    panel_product(running, &group.squashed[k], group.cell_stride,
                                  packed_output(group.direction) + column * C + k * PANEL, std::min(DEPTH, C - k),
                                  &group.hidden[column], group.hidden_stride, k > 0);
        } else {
            product(group, group.squashed, group.cell_stride, weight,
                    scales_from(job.output_scales, group.direction * P), C, P,
                    [&](int64_t r, const float* sums) { add(sums, P, &group.hidden[r * group.hidden_stride]); });
        }
    }

    // Computes the hidden states from the squashed cells.
    void project(Group& group) {
        const int64_t running = group.running;
        if (output)
            multiply_squashed(group);
        else
            std::copy_n(group.squashed.begin(), running * group.cell_stride, group.hidden.begin());
        for (int64_t r = 0; r < running; r++) {
            float* hidden = &group.hidden[r * group.hidden_stride];
            if (output)
                for (int64_t n = 0; n < P; n += LANES) store(hidden + n, clip(load(hidden + n), job.projection_clip));
            if (job.dropout) {
                const float* factors = job.dropout + sentence(group.direction, group.number, r) * P;
                for (int64_t n = 0; n < P; n++) hidden[n] *= factors[n];
            }
            convert(hidden, P, static_cast<Number*>(job.outputs) + place(group, r) * P);
        }
        narrow_rows(group.hidden, group.hidden_stride, P, group.narrow_hidden, P_terms, running);
    }
};

// The backward pass: what each step needs from the next one. Torch computes the gradients of the weights, which are
// products over all words.
template <class Number, class Factor = float>
class Backward : Division {
public:
    explicit Backward(const Job& job) : Division{job} {}

    void run() {
        share(directions * PARTS, job.threads, [&](int64_t n) { pack_part(n % directions, n / directions); });
        share(directions * groups, job.threads, [&](int64_t n) { run_group(n % directions, n / directions); });
    }

private:
    static constexpr bool NARROW = std::is_same<Factor, BFloat16>::value;
    static_assert(!NARROW || std::is_same<Number, BFloat16>::value, "the weights are not rounded here");
    const Number* recurrent = static_cast<const Number*>(job.recurrent);
    const Number* output = static_cast<const Number*>(job.output);
    const Number* outputs = static_cast<const Number*>(job.outputs);
    const Number* cells = static_cast<const Number*>(job.cells);
    const Number* carried = static_cast<const Number*>(job.carried);
    // terms of the products as they are packed
    const int64_t gate_terms = NARROW ? padded_terms(G * C) : G * C, P_terms = NARROW ? padded_terms(P) : P;
    const int64_t recurrent_size = padded(P) * gate_terms, output_size = output ? padded(C) * P_terms : 0;
    const int64_t size = recurrent_size + output_size;
    Scratch packed{int64_t(directions * size * sizeof(Factor) / sizeof(float))};

    Factor* packed_recurrent(int64_t direction) { return reinterpret_cast<Factor*>(packed.data()) + direction * size; }
    Factor* packed_output(int64_t direction) { return packed_recurrent(direction) + recurrent_size; }

    // Packs a share of the panels of both matrices of a direction, transposed.
    void pack_part(int64_t direction, int64_t part) {
        const auto pack_share = [&](const Number* weight, int64_t depth, int64_t terms, int64_t width, Factor* to) {
            const int64_t panels = padded(width) / PANEL;
            for (int64_t panel = panels * part / PARTS; panel < panels * (part + 1) / PARTS; panel++) {
                const Number* from = weight + panel * PANEL * depth;
                const int64_t count = std::min<int64_t>(PANEL, width - panel * PANEL);
                if constexpr (NARROW)
                    pack_pairs_of_rows(from, count, depth, depth, terms, to + panel * PANEL * terms);
                else
                    pack_rows(from, nullptr, count, depth, depth, to + panel * PANEL * depth);
            }
        };
        pack_share(recurrent + direction * P * G * C, G * C, gate_terms, P, packed_recurrent(direction));
        if (output) pack_share(output + direction * C * P, P, P_terms, C, packed_output(direction));
    }

    void run_group(int64_t direction, int64_t group) {
        const int64_t rows = count_of(group, job.sentences);
        const int64_t hidden_stride = padded(P) + PANEL, cell_stride = padded(C) + PANEL, gradient_stride = G * C + PANEL;
        // a job that failed may have kept the tiles, and others use them too
        release_tiles();
        std::vector<float> hidden(rows * hidden_stride), cell(rows * cell_stride), middle(rows * cell_stride);
        std::vector<float> incoming(P);
        std::vector<Factor> factors(NARROW ? rows * (std::max(gate_terms, P_terms) + TERMS_OF_TILE) : 0);
        Scratch gradients(rows * gradient_stride);
        for (int64_t r = 0; r < rows; r++) {
            std::copy_n(job.hidden_gradient + sentence(direction, group, r) * P, P, &hidden[r * hidden_stride]);
            std::copy_n(job.cell_gradient + sentence(direction, group, r) * C, C, &cell[r * cell_stride]);
        }
        int64_t start = job.words;
        for (int64_t time = job.length - 1; time >= 0; time--) {
            start -= job.batch_sizes[time];
            const int64_t running = count_of(group, job.batch_sizes[time]);
            for (int64_t r = 0; r < running; r++)
                add_gradients(word(direction, group, start, r), sentence(direction, group, r), &hidden[r * hidden_stride],
                              incoming.data());
            product(running, hidden.data(), hidden_stride, output ? packed_output(direction) : nullptr, P, P_terms, C,
                    middle.data(), cell_stride, factors.data());
            for (int64_t r = 0; r < running; r++) {
                const auto compute = [&](const auto* before) {
                    cell_gradients(word(direction, group, start, r), direction, before, &middle[r * cell_stride],
                                   &cell[r * cell_stride], gradients.data() + r * gradient_stride);
                };
                // the previous word has the same index in its step
                if (time)
                    compute(cells + word(direction, group, start - job.batch_sizes[time - 1], r) * C);
                else
                    compute(job.cell + sentence(direction, group, r) * C);
            }
            product(running, gradients.data(), gradient_stride, packed_recurrent(direction), G * C, gate_terms, P,
                    hidden.data(), hidden_stride, factors.data());
        }
        for (int64_t r = 0; r < rows; r++) {
            std::copy_n(&hidden[r * hidden_stride], P, job.hidden_gradient + sentence(direction, group, r) * P);
            std::copy_n(&cell[r * cell_stride], C, job.cell_gradient + sentence(direction, group, r) * C);
        }
        release_tiles();
    }

    // Adds the gradients of a hidden state from the next step and from the output; a clipped one passes none. `copies`
    // has room for a hidden state.
    void add_gradients(int64_t word, int64_t sentence, float* hidden, float* copies) {
        Number* gradient = static_cast<Number*>(job.outputs_gradient) + word * P;
        const Number* result = outputs + word * P;
        const float* incoming = as_floats(gradient, P, copies);
        for (int64_t n = 0; n < P; n++) {
            const float sum = (hidden[n] + incoming[n]) * (job.dropout ? job.dropout[sentence * P + n] : 1.f);
            hidden[n] = !output || std::fabs(widened(result[n])) < job.projection_clip ? sum : 0.f;
        }
        convert(hidden, P, gradient);
    }

    // Multiplies `[rows, depth]` by a packed matrix, or copies it if there is none. `factors` has room for the rows.
    void product(int64_t rows, const float* a, int64_t a_stride, const Factor* panels, int64_t depth,
                 [[maybe_unused]] int64_t terms, int64_t width, float* c, int64_t c_stride,
                 [[maybe_unused]] Factor* factors) {
        if (!panels) {
            for (int64_t r = 0; r < rows; r++) std::copy_n(a + r * a_stride, width, c + r * c_stride);
        } else if constexpr (NARROW) {
            // no power of two
            const int64_t stride = terms + TERMS_OF_TILE;
            for (int64_t r = 0; r < rows; r++) {
                narrow(a + r * a_stride, depth, factors + r * stride);
                std::fill_n(factors + r * stride + depth, terms - depth, BFloat16(0));
            }
            for (int64_t column = 0; column < width; column += PANEL) {
                const Factor* panel = panels + column * terms;
                panel_product(rows, factors, stride, panel, terms, c + column, c_stride, panel + terms * PANEL,
                              terms * PANEL * sizeof(Factor));
            }
        } else {
            for (int64_t column = 0; column < width; column += PANEL)
                for (int64_t k = 0; k < depth; k += DEPTH)
                    panel_product(rows, a + k, a_stride, panels + column * depth + k * PANEL,
                                  std::min(DEPTH, depth - k), c + column, c_stride, k > 0);
        }
    }

    // Computes the gradients of the gates and of the previous cell from those of the squashed cell, `middle`, and the cell.
    template <class Before>
    void cell_gradients(int64_t word, int64_t direction, const Before* before, const float* middle, float* cell,
                        float* gradients) {
        const Number *gates = static_cast<const Number*>(job.gates) + word * G * C, *own_cells = cells + word * C;
        const Number* around = carried ? carried + (word + direction * (job.rows - job.words)) * C : nullptr;
        // `count` is a constant where a whole vector is read, so that no copy is left of its loads and stores
        const auto compute = [&](int64_t n, auto count) {
            const auto read = [&](const auto* from) { return load_some(from + n, count); };
            const auto write = [&](float* to, Vector values) { store_some(to + n, values, count); };
            const Vector i = read(gates), f = read(gates + C), g = read(gates + 2 * C), o = read(gates + 3 * C);
            const Vector now = read(own_cells), squashed = hyperbolic_tangent(now), limit = Vector{} + job.cell_clip;
            Vector m = read(middle);
            if (around) {
                const Vector share = read(gates + 4 * C);
                write(gradients + 4 * C, m * (o * squashed - read(around)) * share * (1.f - share));
                m *= share;
            }
            const Vector sum = read(cell) + m * o * (1.f - squashed * squashed);
            // a clipped cell passes no gradient
            const Vector gradient = (now < limit) & (now > -limit) ? sum : Vector{};
            write(gradients, gradient * g * i * (1.f - i));
            write(gradients + C, gradient * read(before) * f * (1.f - f));
            write(gradients + 2 * C, gradient * i * (1.f - g * g));
            write(gradients + 3 * C, m * squashed * o * (1.f - o));
            write(cell, gradient * f);
        };
        int64_t n = 0;
        for (; n + LANES <= C; n += LANES) compute(n, std::integral_constant<int64_t, LANES>());
        if (n < C) compute(n, C - n);
        convert(gradients, G * C, static_cast<Number*>(job.gradients) + word * G * C);
    }
};

// A linear map, whose sums are in the same order however many rows there are: of rows `below`, by the matrix `forward`.
template <class Number, class Factor = float>
class Linear {
public:
    explicit Linear(const Job& job) : job(job) {}

    void run() {
        if (copies) share((rows + COPIED - 1) / COPIED, job.threads, [&](int64_t n) { copy_rows(n * COPIED); });
        share((width + PANEL - 1) / PANEL, job.threads, [&](int64_t n) { multiply(n * PANEL); });
    }

private:
    static constexpr bool NARROW = std::is_same<Factor, BFloat16>::value;
    static constexpr int64_t COPIED = 32;
    const Job& job;
    const int64_t rows = job.words, depth = job.input_width, width = job.width;
    const int64_t terms = NARROW ? padded_terms(depth) : depth;
    // rows whose distance is a power of two would share cache lines
    const bool copies = !std::is_same<Number, Factor>::value || terms > depth || depth % 256 == 0;
    const int64_t stride = copies ? terms + TERMS_OF_TILE : depth;
    Scratch copied{copies ? floats(rows * stride) : 0};
    const Factor* factors = static_cast<const Factor*>(copies ? copied.data() : job.below);

    static int64_t floats(int64_t count) { return (count * sizeof(Factor) + sizeof(float) - 1) / sizeof(float); }

    // Copies rows as factors, with zeros up to `terms`.
    void copy_rows(int64_t first) {
        for (int64_t row = first; row < std::min(first + COPIED, rows); row++) {
            Factor* to = reinterpret_cast<Factor*>(copied.data()) + row * stride;
            convert(static_cast<const Number*>(job.below) + row * depth, depth, to);
            std::fill_n(to + depth, terms - depth, Factor(0));
        }
    }

    // Computes a panel of the columns of the result, CHUNK rows at a time.
    void multiply(int64_t column) {
        const int64_t count = std::min<int64_t>(PANEL, width - column);
        const auto from = static_cast<const Number*>(job.forward) + column * depth;
        Scratch memory(floats(terms * PANEL));
        const auto panel = reinterpret_cast<Factor*>(memory.data());
        if constexpr (NARROW)
            pack_pairs_of_rows(from, count, depth, depth, terms, panel);
        else
            for (int64_t k = 0; k < depth; k += DEPTH)
                pack_rows(from + k, nullptr, count, std::min(DEPTH, depth - k), depth, panel + k * PANEL);
        float sums[CHUNK * PANEL];
        // others use the tiles of this thread, too
        release_tiles();
        for (int64_t first = 0; first < rows; first += CHUNK) {
            const int64_t part = std::min(CHUNK, rows - first);
            const Factor* a = factors + first * stride;
            if constexpr (NARROW)
                panel_product(part, a, stride, panel, terms, sums, PANEL, panel, 0);
            else
                for (int64_t k = 0; k < depth; k += DEPTH)
                    panel_product(part, a + k, stride, panel + k * PANEL, std::min(DEPTH, depth - k), sums, PANEL, k > 0);
            for (int64_t row = 0; row < part; row++) {
                float* own = sums + row * PANEL;
                for (int64_t n = 0; job.bias && n < count; n++) own[n] += job.bias[column + n];
                convert(own, count, static_cast<Number*>(job.outputs) + (first + row) * width + column);
            }
        }
        release_tiles();
    }
};

template <class Work>
bool run(const Job& job) {
    bool done = true;
    try {
        Work(job).run();
    } catch (const std::bad_alloc&) {
        done = false;
    }
    Scratch::finish_job();
    return done;
}

}  // namespace

// Each runs a job and returns false if there is no memory for it. Weights are in float32 unless the name says otherwise.
extern "C" bool elmo_forward(const Job* job) { return run<Forward<float>>(*job); }
extern "C" bool elmo_forward_bfloat16(const Job* job) { return run<Forward<BFloat16>>(*job); }
// its sums are those of products of bfloat16
extern "C" bool elmo_forward_bfloat16_products(const Job* job) { return run<Forward<BFloat16, BFloat16>>(*job); }
extern "C" bool elmo_forward_int8(const Job* job) { return run<Forward<int8_t>>(*job); }
extern "C" bool elmo_backward(const Job* job) { return run<Backward<float>>(*job); }
extern "C" bool elmo_backward_bfloat16(const Job* job) { return run<Backward<BFloat16>>(*job); }
extern "C" bool elmo_backward_bfloat16_products(const Job* job) { return run<Backward<BFloat16, BFloat16>>(*job); }

// These read `below`, `[words, input_width]`, `forward`, `[width, input_width]`, and `bias`, `[width]` or null, of a job,
// and write `outputs`, `[words, width]`.
extern "C" bool elmo_linear(const Job* job) { return run<Linear<float>>(*job); }
extern "C" bool elmo_linear_bfloat16(const Job* job) { return run<Linear<BFloat16>>(*job); }
extern "C" bool elmo_linear_bfloat16_products(const Job* job) { return run<Linear<BFloat16, BFloat16>>(*job); }

// Returns the version of `Job` and of these functions: raise it, and JOB_VERSION in native.py, when one of them changes.
extern "C" int elmo_job_version() { return 5; }

// Returns whether products of bfloat16 run on AMX tiles here.
extern "C" bool elmo_has_tiles() { return has_tiles(); }
