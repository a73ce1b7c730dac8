/* Preloaded into the reference kernel, so that a whole recording is a function of the seed (ORACLE_SEED) and of nothing on the host: the random
 * bytes that the kernel asks the host for (its random numbers, its hash keys) and the time of day at which it boots. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

/* 2025-01-01 00:00:00 UTC */
#define BOOT_SECONDS 1735689600

static uint64_t state;
static int seeded;

/* splitmix64 (Steele, Lea, Flood 2014) */
static uint64_t next(void)
{
	uint64_t z = (state += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

ssize_t getrandom(void *buf, size_t len, unsigned flags)
{
	unsigned char *out = buf;
	(void)flags;
	if (!seeded) {
		const char *seed = getenv("ORACLE_SEED");
		state = seed ? strtoull(seed, 0, 0) : 0;
		seeded = 1;
	}
	for (size_t i = 0; i < len; i++)
		out[i] = (unsigned char)next();
	return (ssize_t)len;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	if (clock == CLOCK_REALTIME) {
		t->tv_sec = BOOT_SECONDS;
		t->tv_nsec = 0;
		return 0;
	}
	return (int)syscall(SYS_clock_gettime, clock, t);
}
