/* Preloaded into the reference kernel: what it asks the host for random bytes, it gets from a seed (ORACLE_SEED), so that the
 * kernel's own random numbers and hash keys, and with them a whole recording, are a function of the seed. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

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
