//! Our vfio-user server: the only place that knows the protocol.
