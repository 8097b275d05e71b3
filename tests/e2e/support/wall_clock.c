/* Loaded into the operator by LD_PRELOAD: its wall clock is wrong by as many seconds as the file says that
   OPERATOR_WALL_CLOCK names, and moves when the file changes. All other clocks are the kernel's. Nothing here allocates:
   an allocator may ask for the time. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long wrong_by(void) {
  const char *path = getenv("OPERATOR_WALL_CLOCK");
  int before = errno;
  int file = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  char text[32] = "";
  if (file >= 0) {
    if (read(file, text, sizeof text - 1) < 0)
      text[0] = '\0';
    close(file);
  }
  errno = before;
  return strtol(text, NULL, 10);
}

int clock_gettime(clockid_t clock, struct timespec *shown) {
  int failed = syscall(SYS_clock_gettime, clock, shown);
  if (failed == 0 && clock == CLOCK_REALTIME)
    shown->tv_sec += wrong_by();
  return failed;
}

int gettimeofday(struct timeval *restrict shown, void *restrict zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  shown->tv_sec = now.tv_sec;
  shown->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *shown) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (shown != NULL)
    *shown = now.tv_sec;
  return now.tv_sec;
}
