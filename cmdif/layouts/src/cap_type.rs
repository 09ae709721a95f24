//! Capability sets by number.

use crate::codes::codes;

codes! {
    /// A set of capabilities (`MLX5_CAP_*`): the operation modifier of QUERY_HCA_CAP and SET_HCA_CAP
    /// without its lowest bit.
    CapType: u16 {
        GENERAL = 0x00,
        ETHERNET_OFFLOADS = 0x01,
        ODP = 0x02,
        ATOMIC = 0x03,
        ROCE = 0x04,
        IPOIB_OFFLOADS = 0x05,
        IPOIB_ENHANCED_OFFLOADS = 0x06,
        FLOW_TABLE = 0x07,
        ESWITCH_FLOW_TABLE = 0x08,
        ESWITCH = 0x09,
        VECTOR_CALC = 0x0b,
        QOS = 0x0c,
        DEBUG = 0x0d,
        DEV_MEM = 0x0f,
        TLS = 0x11,
        VDPA_EMULATION = 0x13,
        DEV_EVENT = 0x14,
        IPSEC = 0x15,
        CRYPTO = 0x1a,
        SHAMPO = 0x1d,
        PSP = 0x1e,
        MACSEC = 0x1f,
        GENERAL_2 = 0x20,
        PORT_SELECTION = 0x25,
        ADV_VIRTUALIZATION = 0x26,
        ADV_RDMA = 0x28,
        TLP_EMULATION = 0x2a,
    }
}
