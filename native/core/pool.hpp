// The threads of a context. They are started by the first call that is worth splitting, take parts
// of a call as they get free, and are joined with the pool.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <pthread.h>

namespace hotfire {

class Pool {
  public:
    using Part = void (*)(const void *job, int64_t index);

    // NULL if there is no memory. A thread that the system refuses is done without.
    static std::unique_ptr<Pool> start(uint32_t n_threads);

    Pool(const Pool &) = delete;
    ~Pool();

    // Calls part(job, i) for every i below n_parts, on the caller's thread too, and returns when all
    // are done.
    void run(Part part, const void *job, int64_t n_parts);

    // Whether this process is a fork's child of the one that has the threads.
    bool is_lost() const;

  private:
    Pool() = default;
    static void *work(void *pool);
    void wait_for_job(uint32_t seen);
    void wake();
    void take_parts();

    Part part_ = nullptr;
    const void *job_ = nullptr;
    int64_t n_parts_ = 0;
    std::atomic<int64_t> next_{0};       // the part to be taken next
    std::atomic<uint32_t> n_inside_{0};  // workers that may look at the job
    std::atomic<bool> is_open_{false};   // whether there is a job to look at
    std::atomic<uint32_t> n_posted_{0};  // jobs so far, and the end
    std::atomic<uint32_t> n_asleep_{0};
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t posted_ = PTHREAD_COND_INITIALIZER;
    std::atomic<bool> is_ending_{false};
    uint32_t n_forks_ = 0; // of this process, when the pool was started
    uint32_t n_workers_ = 0;
    std::unique_ptr<pthread_t[]> workers_;
};

} // namespace hotfire
