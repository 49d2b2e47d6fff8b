// SPDX-License-Identifier: MIT OR Apache-2.0
// cplusplus.cpp: the same macros in C++17, in templates and lambdas too.
//
//	c++ -std=c++17 cplusplus.cpp -lkymo -o cplusplus
//	kymo record -o trace -- ./cplusplus && kymo read trace
#include <kymo/tracepoint.h>

#include <numeric>
#include <string>
#include <vector>

KYMO_EVENT(cplusplus, sum, (str, what), (seq(i32), values), (i64, total))

template <typename Container> static void trace_sum(const std::string &what, const Container &values)
{
	kymo_trace(cplusplus, sum, what.c_str(), values.data(), values.size(),
		   std::accumulate(values.begin(), values.end(), int64_t{ 0 }));
}

int main()
{
	auto run = [](int32_t last) {
		std::vector<int32_t> values(static_cast<size_t>(last));
		std::iota(values.begin(), values.end(), 1);
		trace_sum("one to " + std::to_string(last), values);
	};
	run(3);
	run(10);
}
