// SPDX-License-Identifier: MIT OR Apache-2.0
//! The exception of the package.

pyo3::create_exception!(
    kymotrace,
    KymoError,
    pyo3::exceptions::PyException,
    "A trace cannot be opened, a table not read, or a command of kymo failed."
);
