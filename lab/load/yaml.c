/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * yaml.c: what stress-ng says that it did (--yaml). No YAML in general: only the lines of its
 * metrics are looked for.
 */
#include "load.h"

#include <inttypes.h>
#include <stdio.h>

int64_t stress_ng_operations(const char *path)
{
	FILE *file = fopen(path, "re");
	int64_t sum = -1;
	char line[256];

	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file)) {
		uint32_t operations;

		/* Not bogo-ops-per-second-...: the colon follows. 9 digits are enough for any run. */
		if (sscanf(line, " bogo-ops: %9" SCNu32, &operations) == 1)
			sum = (sum < 0 ? 0 : sum) + operations;
	}
	fclose(file);
	return sum;
}
