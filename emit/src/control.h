/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * control.h: what lock.c, control.c, answers.c and helper.c share: start and fork, waiting for collectors'
 * answers, and the helper thread. All under kymo_lock.
 */
#ifndef KYMO_SRC_CONTROL_H
#define KYMO_SRC_CONTROL_H

#include <poll.h>
#include <pthread.h>

#include "internal.h"

struct kymo_control {
	pthread_mutex_t lock;
	pthread_cond_t news; /* the helper thread has begun, or a collector has spoken */
	uint32_t generation;
	int startup_wait_ms;
	bool without_thread;
	bool helper_began;   /* it has gone to all sessions that it found */
	bool helper_settled; /* it opens nothing more until somebody speaks */
	bool gone_ahead;     /* the program went on before the helper thread had gone to the sessions */
	bool child_goes_on;  /* forked, and the child did not wait */
	bool is_sandboxed;   /* a filter of system calls was installed: children inherit it, and start no helper */
	bool helper_shall_end;
	uint32_t helper_tid; /* 0: it has not run yet */
	uint32_t helper_pid; /* the process that has begun to talk; 0: none has */
};

/* lock.c */
extern struct kymo_control kymo_control;
int64_t kymo_now_ms(void);

/* answers.c */
void kymo_session_found(int fd);
bool kymo_all_answered(void);
nfds_t kymo_poll_set(struct pollfd *polls);
void kymo_receive_all(void);
void kymo_expect_answers(void);
void kymo_helper_has_begun(void);
void kymo_say_news(void);
void kymo_end_wait_if_due(void);
int kymo_wait_left_ms(void);
void kymo_talk_for_answers(void);
void kymo_wait_for_helper(void);
void kymo_answers_after_fork(void);

/* helper.c */
void kymo_choose_nonce(void);
bool kymo_helper_start(void);
void kymo_helper_stay_loaded(void);
void kymo_helper_after_fork(void);
void kymo_helper_end(void);

#endif
