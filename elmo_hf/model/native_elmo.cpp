// Copyright 2026 The elmo_hf authors. All rights reserved.
//
// Licensed under the Apache License, Version 2.0 (the "License");
// you may not use this file except in compliance with the License.
// You may obtain a copy of the License at
//
//     http://www.apache.org/licenses/LICENSE-2.0
//
// Unless required by applicable law or agreed to in writing, software
// distributed under the License is distributed on an "AS IS" BASIS,
// WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
// See the License for the specific language governing permissions and
// limitations under the License.

// The LSTMs of a layer, and the way back, computed in float32 on a CPU. native_elmo.py compiles and calls it.
//
// A step is a product of few rows and a large matrix, for which general libraries rearrange the matrix each time, and
// then non-linearities, each of which would read and write all gates again. Here the matrices are rearranged once a
// layer, and the cell is computed while its gates are in the cache. Where nothing is to be trained, the input's share
// of the gates is computed here too, for some steps at a time, so that it never fills the memory. Directions, and
// sentences, do not wait for each other: each thread runs its share of them from the first step to the last.
//
// Each number is added up in the same order, however many sentences and threads there are. Weights may be in bfloat16:
// they are widened when they are rearranged or read.

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
#include <vector>
#ifdef __linux__
#include <sys/mman.h>
#endif

namespace {

// numbers in a register, and rows of a product that are computed at a time: as many sums as there are registers for
#if defined(__AVX512F__)
constexpr int LANES = 16, ROWS = 12;
#elif defined(__AVX__)
constexpr int LANES = 8, ROWS = 6;
#else
constexpr int LANES = 4, ROWS = 6;
#endif
// columns of a rearranged matrix that lie together
constexpr int PANEL = 2 * LANES;
// terms that are added up in registers before they are added to the rest
constexpr int64_t DEPTH = 512;
// sentences for which the matrices are read as they are
constexpr int64_t FEW = 2;
// words for which the input's share of the gates is computed at a time
constexpr int64_t CHUNK = 256;

typedef float Vector __attribute__((vector_size(LANES * 4)));
typedef float Unaligned __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(LANES * 4)));
typedef uint16_t Half;
typedef Half Halves __attribute__((vector_size(LANES * 2), aligned(2), may_alias));

inline Vector load(const float* from) { return *reinterpret_cast<const Unaligned*>(from); }
inline void store(float* to, Vector values) { *reinterpret_cast<Unaligned*>(to) = values; }

// bfloat16 is the upper half of float32
inline Vector load(const Half* from) {
    const Halves halves = *reinterpret_cast<const Halves*>(from);
    return reinterpret_cast<Vector>(__builtin_convertvector(halves, Integers) << 16);
}
inline float widened(float value) { return value; }
inline float widened(Half value) {
    const uint32_t bits = uint32_t(value) << 16;
    float result;
    std::memcpy(&result, &bits, sizeof result);
    return result;
}

int64_t padded(int64_t width) { return (width + PANEL - 1) / PANEL * PANEL; }

// ---- products

// R rows of `a`, `[R, depth]`, times a panel `[depth, PANEL]`, to or added to `c`.
template <int R, bool AHEAD>
void tile(const float* a, int64_t a_stride, const float* panel, int64_t depth, float* c, int64_t c_stride, bool add) {
    Vector sums[R][2];
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) sums[r][0] = sums[r][1] = Vector{};
    for (int64_t k = 0; k < depth; k++, panel += PANEL) {
        // the next panel comes from memory while this one is used
        if (AHEAD) __builtin_prefetch(panel + depth * PANEL, 0, 2);
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

template <int R, bool AHEAD>
void tile_of(int rows, const float* a, int64_t a_stride, const float* panel, int64_t depth, float* c, int64_t c_stride,
             bool add) {
    if (rows == R) return tile<R, AHEAD>(a, a_stride, panel, depth, c, c_stride, add);
    if constexpr (R > 1) tile_of<R - 1, AHEAD>(rows, a, a_stride, panel, depth, c, c_stride, add);
}

// `[rows, depth]` times a panel, in tiles of nearly the same height.
void panel_product(int64_t rows, const float* a, int64_t a_stride, const float* panel, int64_t depth, float* c,
                   int64_t c_stride, bool add) {
    const int64_t count = (rows + ROWS - 1) / ROWS;
    for (int64_t n = 0, row = 0; n < count; n++) {
        const int height = int((rows - row + count - n - 1) / (count - n));
        const auto run = n ? tile_of<ROWS, false> : tile_of<ROWS, true>;
        run(height, a + row * a_stride, a_stride, panel, depth, c + row * c_stride, c_stride, add);
        row += height;
    }
}

// Rearranges `[depth, width]`, rows `stride` apart, in panels `panel_stride` apart.
template <class Weight>
void pack(const Weight* from, int64_t depth, int64_t width, int64_t stride, float* to, int64_t panel_stride) {
    // as many rows at a time as streams that a core follows
    for (int64_t first = 0; first < depth; first += 8)
        for (int64_t column = 0; column < width; column += PANEL) {
            const int64_t count = std::min<int64_t>(PANEL, width - column);
            for (int64_t k = first; k < std::min(first + 8, depth); k++) {
                float* place = to + column / PANEL * panel_stride + k * PANEL;
                if (count < PANEL) std::fill_n(place, PANEL, 0.f);
                std::transform(from + k * stride + column, from + k * stride + column + count, place,
                               [](Weight value) { return widened(value); });
            }
        }
}

// Makes a panel of the transpose of `[count, depth]`, rows `stride` apart.
template <class Weight>
void pack_rows(const Weight* from, int64_t count, int64_t depth, int64_t stride, float* panel) {
    if (count < PANEL) std::fill_n(panel, PANEL * depth, 0.f);
    for (int64_t first = 0; first < depth; first += 8) {
        const int64_t end = std::min(first + 8, depth);
        for (int64_t n = 0; n < count; n++)
            for (int64_t k = first; k < end; k++) panel[k * PANEL + n] = widened(from[n * stride + k]);
    }
}

// R rows times a matrix `[depth, width]` as it is: one pass over it, in the order of the memory.
template <int R, class Weight>
void plain_product(const float* a, int64_t a_stride, const Weight* weight, int64_t depth, int64_t width, float* sums) {
    // sums of as many columns as stay in the first cache
    constexpr int64_t STRIP = 2048;
    std::fill_n(sums, R * width, 0.f);
    for (int64_t strip = 0; strip < width; strip += STRIP) {
        const int64_t end = std::min(width, strip + STRIP), whole = strip + (end - strip) / LANES * LANES;
        for (int64_t k = 0; k < depth; k += 4) {
            const int64_t count = std::min<int64_t>(4, depth - k);
            const Weight* rows = weight + k * width;
            for (int64_t n = strip; n < whole && count == 4; n += LANES)
#pragma GCC unroll 4
                for (int r = 0; r < R; r++) {
                    const float* factors = a + r * a_stride + k;
                    Vector sum = load(sums + r * width + n);
                    sum += factors[0] * load(rows + n);
                    sum += factors[1] * load(rows + width + n);
                    sum += factors[2] * load(rows + 2 * width + n);
                    sum += factors[3] * load(rows + 3 * width + n);
                    store(sums + r * width + n, sum);
                }
            for (int64_t n = count == 4 ? whole : strip; n < end; n++)
                for (int r = 0; r < R; r++)
                    for (int64_t j = 0; j < count; j++)
                        sums[r * width + n] += a[r * a_stride + k + j] * widened(rows[j * width + n]);
        }
    }
}

// ---- non-linearities

// exp(x) - 1, right to the last digits also where it is small: x is n ln 2 and a rest, which goes into the series.
inline Vector exp_minus_one(Vector x) {
    const Vector most = Vector{} + 88.f;
    x = x > most ? most : x;
    x = x < -most ? -most : x;
    // adding 1.5 * 2^23 rounds; the last bits are n then
    const Vector rounder = Vector{} + 12582912.f;
    Vector n = x * 1.44269504f + rounder;
    const Integers bits = reinterpret_cast<Integers>(n);
    n -= rounder;
    // ln 2 in two parts, of which the first times n is exact
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

// Memory that is used again: what the system hands out anew for each layer, it first clears, page by page.
class Scratch {
public:
    explicit Scratch(int64_t count) {
        {
            std::lock_guard<std::mutex> guard(lock);
            if (count && !spare.empty()) {
                // the smallest that is large enough, else the largest: or all would grow to the size of the matrices
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
        memory = {static_cast<float*>(std::aligned_alloc(PAGE, bytes)), count};
        if (!memory.data) throw std::bad_alloc();
#ifdef __linux__
        madvise(memory.data, bytes, MADV_HUGEPAGE);
#endif
    }
    ~Scratch() {
        if (!memory.data) return;
        std::lock_guard<std::mutex> guard(lock);
        spare.push_back(memory);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    float* data() { return memory.data; }

private:
    struct Memory {
        float* data = nullptr;
        int64_t count = 0;
    } memory;
    static std::mutex lock;
    static std::vector<Memory> spare;
};
std::mutex Scratch::lock;
std::vector<Scratch::Memory> Scratch::spare;

// Does `count` pieces of work in threads, this one among them.
template <class Work>
void share(int64_t count, int64_t threads, Work work) {
    std::atomic<bool> failed{false};
    const auto part = [&](int64_t first) {
        try {
            for (int64_t n = first; n < count; n += threads) work(n);
        } catch (const std::bad_alloc&) {
            failed = true;
        }
    };
    std::vector<std::thread> others;
    for (int64_t n = 1; n < std::min(threads, count); n++) try {
            others.emplace_back(part, n);
        } catch (const std::system_error&) {
            // the system gives no more threads
            part(n);
        }
    part(0);
    for (auto& other : others) other.join();
    if (failed) throw std::bad_alloc();
}

}  // namespace

// What to compute; the fields are those of `Job` in native_elmo.py. The leading 2 is the direction.
struct Job {
    const float* inputs;     // [2, rows, 4 * C], the input's share of the gates i, f, g, o of each packed word, or null:
    const float* below;      // then [2, rows, D], what the layer below says of each packed word,
    const void* forward;     // [4 * C, D], the input weights of both directions,
    const void* backward;
    const float* bias;       // and [2, 4 * C]
    const void* recurrent;   // [2, P, 4 * C]
    const void* output;      // [2, C, P], or null if P is C
    float* hidden;           // [2, sentences, P], longest first: the state to start from, then the one they end with
    float* cell;             // [2, sentences, C]
    float* outputs;          // [2, words, P]
    float* gates;            // [2, words, 4 * C], as the backward pass needs them, or null
    float* cells;            // [2, words, C], or null
    // Back: `cell` is the state that was started from, `outputs`, `gates` and `cells` are what came of it.
    float* outputs_slope;    // [2, words, P]: the slopes of the outputs, then those of the projections' results
    float* hidden_slope;     // [2, sentences, P]: of the state they end with, then of that they started from
    float* cell_slope;       // [2, sentences, C]
    float* slopes;           // [2, words, 4 * C]: of the inputs
    const int64_t* steps;    // [length], how many sentences are running
    int64_t length, sentences, words, rows, input_width, width, cell_width, threads;
    float cell_clip, projection_clip;
};

namespace {

// Which sentences belong together: every `groups`-th, so that the lengths in each group are alike.
struct Division {
    const Job& job;
    const int64_t P = job.width, C = job.cell_width;
    const int64_t groups = std::max<int64_t>(1, std::min((job.threads + 1) / 2, job.sentences));

    int64_t count_of(int64_t group, int64_t all) const { return (all - group + groups - 1) / groups; }
    // where the r-th sentence of a group, and its word of a step that begins at `start`, are among all
    int64_t sentence(int64_t way, int64_t group, int64_t r) const { return way * job.sentences + group + r * groups; }
    int64_t word(int64_t way, int64_t group, int64_t start, int64_t r) const {
        return way * job.words + start + group + r * groups;
    }
};

// The steps, with weights in float32 or bfloat16.
template <class Weight>
class Recurrence : Division {
public:
    explicit Recurrence(const Job& job) : Division{job} {}

    void run() {
        if (packs) share(2 * 4, job.threads, [&](int64_t n) { pack_part(n % 2, n / 2); });
        share(2 * groups, job.threads, [&](int64_t n) { run_group(n % 2, n / 2); });
    }

private:
    const Weight* recurrent = static_cast<const Weight*>(job.recurrent);
    const Weight* output = static_cast<const Weight*>(job.output);
    const int64_t D = job.input_width, blocks = padded(C) / PANEL;
    const int64_t recurrent_size = 4 * padded(C) * P, output_size = output ? padded(P) * C : 0;
    const bool packs = job.sentences > FEW * groups;
    Scratch packed{packs ? 2 * (recurrent_size + output_size) : 0};

    float* packed_recurrent(int64_t way) { return packed.data() + way * (recurrent_size + output_size); }
    float* packed_output(int64_t way) { return packed_recurrent(way) + recurrent_size; }

    // Packs one gate of a direction, and a quarter of its output weights. The panels of a block of cells lie together.
    void pack_part(int64_t way, int64_t gate) {
        const int64_t size = PANEL * P;
        pack(recurrent + (way * P * 4 + gate) * C, P, C, 4 * C, packed_recurrent(way) + gate * size, 4 * size);
        const int64_t first = gate * C / 4, end = (gate + 1) * C / 4;
        if (output)
            pack(output + (way * C + first) * P, end - first, P, P, packed_output(way) + first * PANEL, PANEL * C);
    }

    // The sentences of a group in one direction, and where they are. Rows are a little apart from a power of two.
    struct Group {
        int64_t way, number, running;
        int64_t start;  // of the step's words, of all groups
        int64_t hidden_stride, cell_stride;
        std::vector<float> hidden, cell, squashed, sums;
        float* chunk;  // [blocks, most, 4, PANEL], the gates of some steps
        int64_t most, filled, used;

        // of a block of cells in this step, [running, 4, PANEL]
        float* gates(int64_t block) { return chunk + (block * most + used) * 4 * PANEL; }
    };

    void run_group(int64_t way, int64_t number) {
        const int64_t rows = count_of(number, job.sentences), most = std::max(rows, std::min(CHUNK, job.words));
        const int64_t hidden_stride = padded(P) + PANEL, cell_stride = padded(C) + PANEL;
        Scratch chunk(blocks * most * 4 * PANEL);
        Group group{way, number, rows, 0, hidden_stride, cell_stride, std::vector<float>(rows * hidden_stride),
                    std::vector<float>(rows * cell_stride), std::vector<float>(rows * cell_stride),
                    std::vector<float>(packs ? 0 : rows * std::max(4 * C, P)), chunk.data(), most, 0, 0};
        for (int64_t r = 0; r < rows; r++) {
            std::copy_n(job.hidden + sentence(way, number, r) * P, P, &group.hidden[r * hidden_stride]);
            std::copy_n(job.cell + sentence(way, number, r) * C, C, &group.cell[r * cell_stride]);
        }
        for (int64_t time = 0; time < job.length; group.start += job.steps[time++]) {
            group.running = count_of(number, job.steps[time]);
            if (!group.running) break;
            if (group.used == group.filled) fill(group, time);
            step(group);
            group.used += group.running;
        }
        for (int64_t r = 0; r < rows; r++) {
            std::copy_n(&group.hidden[r * hidden_stride], P, job.hidden + sentence(way, number, r) * P);
            std::copy_n(&group.cell[r * cell_stride], C, job.cell + sentence(way, number, r) * C);
        }
    }

    int64_t place(const Group& group, int64_t r) const { return word(group.way, group.number, group.start, r); }

    // Starts the gates of the steps from `time` on, as many as there is room for, with the input's share.
    void fill(Group& group, int64_t time) {
        // of the inputs there are more rows than words
        const int64_t spare = group.way * (job.rows - job.words);
        std::vector<int64_t> rows;
        for (int64_t start = group.start; time < job.length; start += job.steps[time++]) {
            const int64_t running = count_of(group.number, job.steps[time]);
            if (!running || int64_t(rows.size()) + running > group.most) break;
            for (int64_t r = 0; r < running; r++) rows.push_back(word(group.way, group.number, start, r) + spare);
        }
        group.filled = rows.size();
        group.used = 0;
        for (int64_t block = 0; block < blocks; block++)
            for (int64_t r = 0; r < group.filled; r++) {
                const float* from = job.inputs ? job.inputs + rows[r] * 4 * C : job.bias + group.way * 4 * C;
                set_gates(from, block, group.gates(block) + r * 4 * PANEL);
            }
        if (!job.inputs) add_products(group, rows);
    }

    // Copies a block of each gate.
    void set_gates(const float* from, int64_t block, float* to) {
        for (int64_t gate = 0; gate < 4; gate++, to += PANEL) {
            const float* share = from + gate * C + block * PANEL;
            if (block < C / PANEL) {
                store(to, load(share));
                store(to + LANES, load(share + LANES));
            } else {
                std::fill_n(to, PANEL, 0.f);
                std::copy_n(share, C % PANEL, to);
            }
        }
    }

    // Adds the products of rows of `below` and the input weights to the gates.
    void add_products(Group& group, const std::vector<int64_t>& rows) {
        const auto weights = static_cast<const Weight*>(group.way ? job.backward : job.forward);
        const int64_t stride = D + PANEL, depth = std::min(D, DEPTH);
        std::vector<float> below(group.filled * stride), panels(4 * depth * PANEL);
        for (int64_t r = 0; r < group.filled; r++) std::copy_n(job.below + rows[r] * D, D, &below[r * stride]);
        for (int64_t block = 0; block < blocks; block++)
            for (int64_t k = 0; k < D; k += DEPTH) {
                const int64_t size = std::min(DEPTH, D - k), count = std::min<int64_t>(PANEL, C - block * PANEL);
                for (int64_t gate = 0; gate < 4; gate++)
                    pack_rows(weights + (gate * C + block * PANEL) * D + k, count, size, D, &panels[gate * size * PANEL]);
                // a few rows at a time, which stay in the first cache for all gates
                for (int64_t row = 0; row < group.filled; row += ROWS)
                    for (int64_t gate = 0; gate < 4; gate++)
                        panel_product(std::min<int64_t>(ROWS, group.filled - row), &below[row * stride + k], stride,
                                      &panels[gate * size * PANEL], size,
                                      group.gates(block) + (row * 4 + gate) * PANEL, 4 * PANEL, true);
            }
    }

    void step(Group& group) {
        const int64_t running = group.running;
        if (!packs) {
            const Weight* weight = recurrent + group.way * P * 4 * C;
            product(group, group.hidden, group.hidden_stride, weight, P, 4 * C, [&](int64_t r, const float* sums) {
                for (int64_t gate = 0; gate < 4; gate++)
                    for (int64_t block = 0; block < blocks; block++)
                        add(sums + gate * C + block * PANEL, std::min<int64_t>(PANEL, C - block * PANEL),
                            group.gates(block) + (r * 4 + gate) * PANEL);
            });
        }
        for (int64_t block = 0; block < blocks; block++) {
            float* gates = group.gates(block);
            if (packs)
                for (int64_t gate = 0; gate < 4; gate++)
                    for (int64_t k = 0; k < P; k += DEPTH)
                        panel_product(running, &group.hidden[k], group.hidden_stride,
                                      packed_recurrent(group.way) + ((4 * block + gate) * P + k) * PANEL,
                                      std::min(DEPTH, P - k), gates + gate * PANEL, 4 * PANEL, true);
            for (int64_t r = 0; r < running; r++) update_cells(group, block, r, gates + r * 4 * PANEL);
        }
        project(group);
    }

    static void add(const float* sums, int64_t count, float* to) {
        for (int64_t n = 0; n < count; n++) to[n] += sums[n];
    }

    // The rows of a few sentences times a matrix as it is; `take` gets the sums of each, several times if they are deep.
    template <class Take>
    void product(Group& group, const std::vector<float>& a, int64_t stride, const Weight* weight, int64_t depth,
                 int64_t width, Take take) {
        for (int64_t k = 0; k < depth; k += DEPTH) {
            const int64_t size = std::min(DEPTH, depth - k);
            const auto run = group.running == 1 ? plain_product<1, Weight> : plain_product<2, Weight>;
            static_assert(FEW == 2, "one product for each number of sentences");
            run(&a[k], stride, weight + k * width, size, width, group.sums.data());
            for (int64_t r = 0; r < group.running; r++) take(r, group.sums.data() + r * width);
        }
    }

    void update_cells(Group& group, int64_t block, int64_t r, float* gates) {
        float* cell = &group.cell[r * group.cell_stride + block * PANEL];
        float* squashed = &group.squashed[r * group.cell_stride + block * PANEL];
        for (int lane = 0; lane < PANEL; lane += LANES) {
            float* gate = gates + lane;
            const Vector i = sigmoid(load(gate)), f = sigmoid(load(gate + PANEL));
            const Vector g = hyperbolic_tangent(load(gate + 2 * PANEL)), o = sigmoid(load(gate + 3 * PANEL));
            const Vector now = clip(f * load(cell + lane) + i * g, job.cell_clip);
            store(cell + lane, now);
            store(squashed + lane, o * hyperbolic_tangent(now));
            if (job.gates) {
                store(gate, i);
                store(gate + PANEL, f);
                store(gate + 2 * PANEL, g);
                store(gate + 3 * PANEL, o);
            }
        }
        if (!job.gates) return;
        const int64_t row = place(group, r), count = std::min<int64_t>(PANEL, C - block * PANEL);
        for (int64_t gate = 0; gate < 4; gate++)
            std::copy_n(gates + gate * PANEL, count, job.gates + (row * 4 + gate) * C + block * PANEL);
        std::copy_n(cell, count, job.cells + row * C + block * PANEL);
    }

    // From the squashed cells to the hidden state.
    void project(Group& group) {
        const int64_t running = group.running;
        if (!output) {
            std::copy_n(group.squashed.begin(), running * group.cell_stride, group.hidden.begin());
        } else if (packs) {
            for (int64_t column = 0; column < P; column += PANEL)
                for (int64_t k = 0; k < C; k += DEPTH)
                    panel_product(running, &group.squashed[k], group.cell_stride,
                                  packed_output(group.way) + column * C + k * PANEL, std::min(DEPTH, C - k),
                                  &group.hidden[column], group.hidden_stride, k > 0);
        } else {
            std::fill(group.hidden.begin(), group.hidden.begin() + running * group.hidden_stride, 0.f);
            product(group, group.squashed, group.cell_stride, output + group.way * C * P, C, P,
                    [&](int64_t r, const float* sums) { add(sums, P, &group.hidden[r * group.hidden_stride]); });
        }
        for (int64_t r = 0; r < running; r++) {
            float* hidden = &group.hidden[r * group.hidden_stride];
            if (output)
                for (int64_t n = 0; n < P; n += LANES) store(hidden + n, clip(load(hidden + n), job.projection_clip));
            std::copy_n(hidden, P, job.outputs + place(group, r) * P);
        }
    }
};

// The way back: what each step needs from the one after it. The gradients of the weights are products of all words,
// which are left to torch.
class Back : Division {
public:
    explicit Back(const Job& job) : Division{job} {}

    void run() {
        share(2 * 4, job.threads, [&](int64_t n) { pack_part(n % 2, n / 2); });
        share(2 * groups, job.threads, [&](int64_t n) { run_group(n % 2, n / 2); });
    }

private:
    const float* recurrent = static_cast<const float*>(job.recurrent);
    const float* output = static_cast<const float*>(job.output);
    const int64_t recurrent_size = padded(P) * 4 * C, output_size = output ? padded(C) * P : 0;
    Scratch packed{2 * (recurrent_size + output_size)};

    float* packed_recurrent(int64_t way) { return packed.data() + way * (recurrent_size + output_size); }
    float* packed_output(int64_t way) { return packed_recurrent(way) + recurrent_size; }

    // Packs a quarter of the panels of both matrices of a direction, transposed.
    void pack_part(int64_t way, int64_t quarter) {
        const auto pack_quarter = [&](const float* weight, int64_t depth, int64_t width, float* to) {
            const int64_t panels = padded(width) / PANEL;
            for (int64_t panel = panels * quarter / 4; panel < panels * (quarter + 1) / 4; panel++)
                pack_rows(weight + panel * PANEL * depth, std::min<int64_t>(PANEL, width - panel * PANEL), depth, depth,
                          to + panel * PANEL * depth);
        };
        pack_quarter(recurrent + way * P * 4 * C, 4 * C, P, packed_recurrent(way));
        if (output) pack_quarter(output + way * C * P, P, C, packed_output(way));
    }

    void run_group(int64_t way, int64_t group) {
        const int64_t rows = count_of(group, job.sentences);
        const int64_t hidden_stride = padded(P) + PANEL, cell_stride = padded(C) + PANEL, slope_stride = 4 * C + PANEL;
        std::vector<float> hidden(rows * hidden_stride), cell(rows * cell_stride), middle(rows * cell_stride);
        Scratch slopes(rows * slope_stride);
        for (int64_t r = 0; r < rows; r++) {
            std::copy_n(job.hidden_slope + sentence(way, group, r) * P, P, &hidden[r * hidden_stride]);
            std::copy_n(job.cell_slope + sentence(way, group, r) * C, C, &cell[r * cell_stride]);
        }
        int64_t start = job.words;
        for (int64_t time = job.length - 1; time >= 0; time--) {
            start -= job.steps[time];
            const int64_t running = count_of(group, job.steps[time]);
            for (int64_t r = 0; r < running; r++)
                take_slopes(word(way, group, start, r), &hidden[r * hidden_stride]);
            product(running, hidden.data(), hidden_stride, output ? packed_output(way) : nullptr, P, C,
                    middle.data(), cell_stride);
            for (int64_t r = 0; r < running; r++) {
                // the word before has the same place in its step
                const float* before = time ? job.cells + word(way, group, start - job.steps[time - 1], r) * C
                                           : job.cell + sentence(way, group, r) * C;
                cell_slopes(word(way, group, start, r), before, &middle[r * cell_stride], &cell[r * cell_stride],
                            slopes.data() + r * slope_stride);
            }
            product(running, slopes.data(), slope_stride, packed_recurrent(way), 4 * C, P, hidden.data(),
                    hidden_stride);
        }
        for (int64_t r = 0; r < rows; r++) {
            std::copy_n(&hidden[r * hidden_stride], P, job.hidden_slope + sentence(way, group, r) * P);
            std::copy_n(&cell[r * cell_stride], C, job.cell_slope + sentence(way, group, r) * C);
        }
    }

    // The slopes of a hidden state: from the step after, and from what reads the output. None where it was clipped.
    void take_slopes(int64_t word, float* hidden) {
        float* slope = job.outputs_slope + word * P;
        const float* result = job.outputs + word * P;
        for (int64_t n = 0; n < P; n++) {
            const float sum = hidden[n] + slope[n];
            hidden[n] = slope[n] = !output || std::fabs(result[n]) < job.projection_clip ? sum : 0.f;
        }
    }

    // `[rows, depth]` times a packed matrix; without one, a copy.
    void product(int64_t rows, const float* a, int64_t a_stride, const float* panels, int64_t depth, int64_t width,
                 float* c, int64_t c_stride) {
        if (!panels)
            for (int64_t r = 0; r < rows; r++) std::copy_n(a + r * a_stride, width, c + r * c_stride);
        else
            for (int64_t column = 0; column < width; column += PANEL)
                for (int64_t k = 0; k < depth; k += DEPTH)
                    panel_product(rows, a + k, a_stride, panels + column * depth + k * PANEL,
                                  std::min(DEPTH, depth - k), c + column, c_stride, k > 0);
    }

    // From the slopes of the squashed cell, `middle`, and of the cell to those of the gates and of the cell before.
    void cell_slopes(int64_t word, const float* before, const float* middle, float* cell, float* slopes) {
        const float* gates = job.gates + word * 4 * C;
        const float* cells = job.cells + word * C;
        int64_t n = 0;
        for (; n + LANES <= C; n += LANES) {
            const Vector i = load(gates + n), f = load(gates + C + n), g = load(gates + 2 * C + n);
            const Vector o = load(gates + 3 * C + n), now = load(cells + n), m = load(middle + n);
            const Vector squashed = hyperbolic_tangent(now), limit = Vector{} + job.cell_clip;
            const Vector sum = load(cell + n) + m * o * (1.f - squashed * squashed);
            // nothing flows back into what was clipped
            const Vector slope = (now < limit) & (now > -limit) ? sum : Vector{};
            store(slopes + n, slope * g * i * (1.f - i));
            store(slopes + C + n, slope * load(before + n) * f * (1.f - f));
            store(slopes + 2 * C + n, slope * i * (1.f - g * g));
            store(slopes + 3 * C + n, m * squashed * o * (1.f - o));
            store(cell + n, slope * f);
        }
        for (; n < C; n++) {
            const float i = gates[n], f = gates[C + n], g = gates[2 * C + n], o = gates[3 * C + n], m = middle[n];
            const float squashed = std::tanh(cells[n]);
            const float sum = cell[n] + m * o * (1.f - squashed * squashed);
            const float slope = std::fabs(cells[n]) < job.cell_clip ? sum : 0.f;
            slopes[n] = slope * g * i * (1.f - i);
            slopes[C + n] = slope * before[n] * f * (1.f - f);
            slopes[2 * C + n] = slope * i * (1.f - g * g);
            slopes[3 * C + n] = m * squashed * o * (1.f - o);
            cell[n] = slope * f;
        }
        std::copy_n(slopes, 4 * C, job.slopes + word * 4 * C);
    }
};

template <class Work>
bool run(const Job& job) {
    try {
        Work(job).run();
        return true;
    } catch (const std::bad_alloc&) {
        return false;
    }
}

}  // namespace

// Each runs a job; false if there is no memory for it. Weights are in float32; "halves" are bfloat16.
extern "C" bool elmo_recurrence(const Job* job) { return run<Recurrence<float>>(*job); }
extern "C" bool elmo_recurrence_of_halves(const Job* job) { return run<Recurrence<Half>>(*job); }
extern "C" bool elmo_back(const Job* job) { return run<Back>(*job); }

// Whether this processor multiplies bfloat16 itself.
extern "C" bool elmo_multiplies_halves() {
#if defined(__AVX512BF16__) || defined(__AMX_BF16__) || defined(__ARM_FEATURE_BF16)
    return true;
#else
    return false;
#endif
}
