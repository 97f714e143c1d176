#include "pool.hpp"

#include <new>
#include <sched.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hotfire {

static std::atomic<uint32_t> n_forks{0};

[[gnu::constructor]] static void count_forks() {
    pthread_atfork(nullptr, nullptr, [] { n_forks.fetch_add(1); });
}

static void relax() {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

// Some 50 microseconds. An engine's next call mostly comes sooner, and waking a thread takes longer.
static constexpr int N_SPINS = 1000;

// ThreadSanitizer sees a race only between threads, and small calls are mostly over before a second
// thread is awake: there, whoever has taken a part waits a while for another to take the next.
#ifdef __SANITIZE_THREAD__
static constexpr int N_YIELDS_A_PART = 1000;
#else
static constexpr int N_YIELDS_A_PART = 0;
#endif

std::unique_ptr<Pool> Pool::start(uint32_t n_threads) {
    std::unique_ptr<Pool> pool(new (std::nothrow) Pool);
    if (!pool)
        return nullptr;
    pool->workers_.reset(new (std::nothrow) pthread_t[n_threads]);
    if (!pool->workers_)
        return nullptr;
    pool->n_forks_ = n_forks;
    while (pool->n_workers_ + 1 < n_threads &&
           pthread_create(&pool->workers_[pool->n_workers_], nullptr, work, pool.get()) == 0)
        ++pool->n_workers_;
    return pool;
}

Pool::~Pool() {
    if (is_lost())
        return; // the threads are the parent's
    is_ending_ = true;
    n_posted_.fetch_add(1);
    wake();
    for (uint32_t i = 0; i < n_workers_; ++i)
        pthread_join(workers_[i], nullptr);
}

bool Pool::is_lost() const { return n_forks_ != n_forks; }

// A worker that wakes late finds the job closed and is not waited for; one that is inside is.
void Pool::run(Part part, const void *job, int64_t n_parts) {
    part_ = part;
    job_ = job;
    n_parts_ = n_parts;
    next_ = 0;
    is_open_ = true;
    n_posted_.fetch_add(1);
    wake();
    take_parts();
    is_open_ = false;
    for (int i = 0; n_inside_ > 0; ++i) {
        if (i < N_SPINS)
            relax();
        else
            sched_yield(); // a worker may wait for this very processor
    }
}

// Parts have no order among each other; `relaxed` promises none, or ThreadSanitizer would take it for
// one.
void Pool::take_parts() {
    const auto take = [&] { return next_.fetch_add(1, std::memory_order_relaxed); };
    for (int64_t i = take(); i < n_parts_; i = take()) {
        part_(job_, i);
        for (int n = 0; n < N_YIELDS_A_PART && next_.load(std::memory_order_relaxed) == i + 1; ++n)
            sched_yield();
    }
}

void Pool::wait_for_job(uint32_t seen) {
    for (int i = 0; i < N_SPINS; ++i) {
        if (n_posted_ != seen)
            return;
        relax();
    }
    pthread_mutex_lock(&mutex_);
    n_asleep_.fetch_add(1);
    while (n_posted_ == seen)
        pthread_cond_wait(&posted_, &mutex_);
    n_asleep_.fetch_sub(1);
    pthread_mutex_unlock(&mutex_);
}

// Either this sees who is asleep, or who falls asleep sees what was posted before.
void Pool::wake() {
    if (n_asleep_ == 0)
        return;
    pthread_mutex_lock(&mutex_);
    pthread_cond_broadcast(&posted_);
    pthread_mutex_unlock(&mutex_);
}

void *Pool::work(void *pool) {
    Pool &mine = *static_cast<Pool *>(pool);
    uint32_t seen = 0;
    while (!mine.is_ending_) {
        mine.wait_for_job(seen);
        seen = mine.n_posted_;
        mine.n_inside_.fetch_add(1);
        if (mine.is_open_)
            mine.take_parts();
        mine.n_inside_.fetch_sub(1);
    }
    return nullptr;
}

} // namespace hotfire
