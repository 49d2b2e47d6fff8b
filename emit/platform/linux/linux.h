/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * linux.h: what the files of this platform share. process.c knows the process: page, names, fork;
 * memory.c the streams' memory; both meet in the directory of dir.c.
 */
#ifndef KYMO_POSIX_LINUX_H
#define KYMO_POSIX_LINUX_H

#include <sys/types.h>

#include "../../posix/internal.h"

#pragma GCC visibility push(hidden)

/* clock.c */
void kymop_clock_init(void);

/* dir.c: files by kind ('p' page, 'n' names, 's' stream) and number. fd, or -1 and errno. */
#define KYMOP_PATH_BYTES 192
bool kymop_dir_init(void);
bool kymop_dir_make(void);
void kymop_path(char *path, char kind, uint32_t number);
int kymop_dir_open(char kind, uint32_t number, int flags);
void kymop_dir_unlink(char kind, uint32_t number);
int kymop_dir_lock(void);
void kymop_dir_sweep(void);
void *kymop_map(int fd, size_t bytes, void *at);

/* process.c */
extern struct kymop_names *kymop_process_names;
uint64_t kymop_process_start(pid_t pid);
bool kymop_process_ready(void);
int kymop_names_map(pid_t pid, uint64_t start, struct kymop_names **names);
uint64_t kymop_own_start(void);

/* flusher.c */
void kymop_flusher_forget(void);

/* memory.c */
extern intptr_t kymop_rseq_offset, kymop_thread_offset;
void kymop_memory_init(void);
void kymop_memory_after_fork(uint32_t kept);
void kymop_join_own_streams(void);
bool kymop_stream_is_inherited(uint32_t slot);

#pragma GCC visibility pop

#endif
