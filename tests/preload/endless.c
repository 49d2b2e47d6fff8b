/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* endless.c: victim: threads that pass blocks on to each other under a mutex, until the program is killed. */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "check.h"

#define PLACES 64

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *place[PLACES];

static void *thread(void *unused)
{
	for (unsigned i = 0;; i++) {
		void *mine = malloc(i % 1000 + 1), *other;

		CHECK(mine);
		pthread_mutex_lock(&mutex);
		other = place[i % PLACES];
		place[i % PLACES] = mine;
		pthread_mutex_unlock(&mutex);
		free(other);
		if (i % 8 == 0)
			usleep(1000);
	}
	return unused;
}

int main(void)
{
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&threads[i], NULL, thread, NULL));
	alarm(900); /* whatever becomes of the one who should kill us */
	pause();
	return 0;
}
