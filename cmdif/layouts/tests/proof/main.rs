//! Proves the declarations against the headers of the supported kernels, which `ci/headers`
//! fetches.

mod bits;
mod c;
mod codes;
mod differences;
mod headers;
mod ifc;
mod plain;

/// Structures that are in no header, or not as such; each declaration names its source.
const NO_HEADER: &[&str] = &[
    "cq_doorbell",
    "eq_doorbell",
    "qp_doorbell_record",
    "cq_doorbell_record",
    "ib_smp",
    "ib_node_info",
    "ib_port_info",
    "ib_perf_mad",
    "ib_class_port_info",
    "ib_port_counters",
    "ib_port_counters_ext",
];
