/* read: --fields value,single */
#include "common.h"

KYMO_EVENT(floats, pair, (f64, value), (f32, single))

int main(void)
{
	kymo_trace(floats, pair, 0.1, 0.1f);
	kymo_trace(floats, pair, 1.0, 16777216.0f);
	kymo_trace(floats, pair, -0.0, -0.0f);
	kymo_trace(floats, pair, 1e300, 1e-40f);
	kymo_trace(floats, pair, 1.0 / 0.0, (float)(-1.0 / 0.0));
	return 0;
}
