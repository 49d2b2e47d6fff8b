/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* layout.c: what the file of a stream must be, whoever made it [posix.md 3.1]. */
#define _GNU_SOURCE
#include "linux.h"

#if KYMOP_ACTIVE
size_t kymop_control_bytes(uint32_t lane_count)
{
	return (lane_count * sizeof(struct kymo_ring) + KYMO_POSIX_STREAMS * KYMOP_SKEW_BYTES + 4095) &
	       ~(size_t)4095;
}

/* header is a copy that nobody else can write. */
bool kymop_is_sane(const struct kymop_shared *header, off_t file_bytes)
{
	uint32_t ring = header->ring_bytes;

	return header->magic == KYMOP_MAGIC && header->generation && header->lane_count >= 3 &&
	       header->lane_count <= KYMOP_CPUS_MAX + 16 && header->cpu_count < header->lane_count - 1 &&
	       ring >= KYMO_RING_BYTES_MIN && ring <= KYMO_RING_BYTES_MAX && !(ring & (ring - 1)) &&
	       header->data_max <= KYMO_POSIX_DATA_BYTES_MAX &&
	       header->memory_bytes == KYMOP_HEADER_BYTES + kymop_control_bytes(header->lane_count) +
					       (uint64_t)header->lane_count * ring &&
	       (uint64_t)file_bytes == header->memory_bytes;
}
#else
typedef int kymop_no_layout; /* a file must not be empty */
#endif
