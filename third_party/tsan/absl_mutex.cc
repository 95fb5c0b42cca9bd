// Debian's Abseil is not instrumented, so ThreadSanitizer does not see that an
// absl::Mutex orders the accesses it protects. The linker sends our calls of
// absl::Mutex and absl::CondVar (--wrap in BUILD) through these functions,
// which tell it. Only for --config=tsan.
//
// absl::Condition is beyond this: Abseil evaluates a waiter's condition on the
// thread that unlocks. The engine waits on absl::CondVar.
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

// The mangled names have Debian's inline namespace in them.
#define HEARTH_MUTEX(name) "_ZN4absl7debian35Mutex" name
#define HEARTH_CONDVAR(name) "_ZN4absl7debian37CondVar" name
#define HEARTH_REAL(name) __asm__("__real_" name)
#define HEARTH_WRAP(name) __asm__("__wrap_" name)

using absl::CondVar;
using absl::Duration;
using absl::Mutex;

void RealLock(Mutex* mutex) HEARTH_REAL(HEARTH_MUTEX("4LockEv"));
void WrapLock(Mutex* mutex) HEARTH_WRAP(HEARTH_MUTEX("4LockEv"));
void WrapLock(Mutex* mutex) {
  RealLock(mutex);
  __tsan_acquire(mutex);
}

void RealUnlock(Mutex* mutex) HEARTH_REAL(HEARTH_MUTEX("6UnlockEv"));
void WrapUnlock(Mutex* mutex) HEARTH_WRAP(HEARTH_MUTEX("6UnlockEv"));
void WrapUnlock(Mutex* mutex) {
  __tsan_release(mutex);
  RealUnlock(mutex);
}

bool RealTryLock(Mutex* mutex) HEARTH_REAL(HEARTH_MUTEX("7TryLockEv"));
bool WrapTryLock(Mutex* mutex) HEARTH_WRAP(HEARTH_MUTEX("7TryLockEv"));
bool WrapTryLock(Mutex* mutex) {
  const bool locked = RealTryLock(mutex);
  if (locked) __tsan_acquire(mutex);
  return locked;
}

void RealReaderLock(Mutex* mutex) HEARTH_REAL(HEARTH_MUTEX("10ReaderLockEv"));
void WrapReaderLock(Mutex* mutex) HEARTH_WRAP(HEARTH_MUTEX("10ReaderLockEv"));
void WrapReaderLock(Mutex* mutex) {
  RealReaderLock(mutex);
  __tsan_acquire(mutex);
}

void RealReaderUnlock(Mutex* mutex)
    HEARTH_REAL(HEARTH_MUTEX("12ReaderUnlockEv"));
void WrapReaderUnlock(Mutex* mutex)
    HEARTH_WRAP(HEARTH_MUTEX("12ReaderUnlockEv"));
void WrapReaderUnlock(Mutex* mutex) {
  __tsan_release(mutex);
  RealReaderUnlock(mutex);
}

void RealWait(CondVar* condition, Mutex* mutex)
    HEARTH_REAL(HEARTH_CONDVAR("4WaitEPNS0_5MutexE"));
void WrapWait(CondVar* condition, Mutex* mutex)
    HEARTH_WRAP(HEARTH_CONDVAR("4WaitEPNS0_5MutexE"));
void WrapWait(CondVar* condition, Mutex* mutex) {
  __tsan_release(mutex);
  RealWait(condition, mutex);
  __tsan_acquire(mutex);
}

bool RealWaitWithTimeout(CondVar* condition, Mutex* mutex, Duration timeout)
    HEARTH_REAL(HEARTH_CONDVAR("15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE"));
bool WrapWaitWithTimeout(CondVar* condition, Mutex* mutex, Duration timeout)
    HEARTH_WRAP(HEARTH_CONDVAR("15WaitWithTimeoutEPNS0_5MutexENS0_8DurationE"));
bool WrapWaitWithTimeout(CondVar* condition, Mutex* mutex, Duration timeout) {
  __tsan_release(mutex);
  const bool timed_out = RealWaitWithTimeout(condition, mutex, timeout);
  __tsan_acquire(mutex);
  return timed_out;
}
