# SPDX-License-Identifier: MIT OR Apache-2.0
"""The benchmark suite of kymo: drives the programs of bench/src, compares, prints. See bench/README.md."""
