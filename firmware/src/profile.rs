//! What a card says of itself: one table of capability values a profile.
//!
//! A value is here only when the device honours it; what a real card has beyond that is left at
//! zero until it works. Values that follow from the configured limits are filled in by
//! [`Profile::connectx6`].

use crate::Limits;
use crate::multicast::{LOG_MAX_GROUPS, MAX_MEMBERS};

/// A capability field, by the name that its layout gives it, and its value.
pub type Value = (&'static str, u64);

/// The vendor's IEEE organisation identifier.
pub const VENDOR_OUI: u32 = 0x0002c9;

/// One card.
#[derive(Debug, Clone)]
pub struct Profile {
    /// PCI device id.
    pub device_id: u16,
    /// Firmware version: major, minor, sub-minor.
    pub fw_version: (u16, u16, u16),
    /// Board id, up to 16 characters (QUERY_ADAPTER's psid).
    pub psid: &'static str,
    /// Frequency of the internal timer.
    pub device_frequency_khz: u32,
    /// Fields of the general capabilities (cmd_hca_cap).
    pub general: Vec<Value>,
    /// Fields of the capabilities of atomic operations (atomic_caps).
    pub atomic: Vec<Value>,
    /// Fields of the second general capabilities (cmd_hca_cap_2).
    pub general2: Vec<Value>,
}

/// ConnectX-6 as an InfiniBand card, PCI device 0x101b.
const CONNECTX6: &[Value] = &[
    ("hca_cap_2", 1),
    ("log_max_srq_sz", 15),
    ("log_max_qp_sz", 15),
    ("log_max_cq_sz", 22),
    ("log_max_eq_sz", 22),
    ("relaxed_ordering_write_umr", 1),
    ("relaxed_ordering_read_umr", 1),
    ("relaxed_ordering_write", 1),
    ("relaxed_ordering_read", 1),
    ("relaxed_ordering_read_pci_enabled", 1),
    ("dump_fill_mkey", 1),
    ("log_max_eq", 8),
    ("max_indirection", 4),
    ("fixed_buffer_size", 1),
    ("umr_extended_translation_offset", 1),
    ("null_mkey", 1),
    ("log_max_klm_list_size", 16),
    ("log_max_ra_req_qp", 4),
    ("log_max_ra_res_qp", 4),
    // Codes: 8 GIDs, 128 P_Keys.
    ("gid_table_size", 0),
    ("pkey_table_size", 0),
    ("rts2rts_qp_counters_set_id", 1),
    ("out_of_seq_cnt", 1),
    ("vport_counters", 1),
    ("retransmission_q_counters", 1),
    ("max_qp_cnt", 32),
    ("ib_virt", 1),
    ("local_ca_ack_delay", 16),
    ("enhanced_error_q_counters", 1),
    ("port_type", 0),
    ("num_ports", 1),
    ("log_max_msg", 30),
    ("cqe_version", 1),
    ("compact_address_vector", 1),
    ("sctr_data_cqe", 1),
    // Keys have the right for remote atomics. Which operations there are is said by the atomic
    // capabilities.
    ("atomic", 1),
    ("cq_resize", 1),
    ("cq_moderation", 1),
    ("block_lb_mc", 1),
    // Drivers listen for it. It is never too hot, unless a fault rule says so.
    ("temp_warn_event", 1),
    // Memory windows of both types, and invalidation by a peer.
    ("imaicl", 1),
    ("xrc", 1),
    ("ud", 1),
    ("uc", 1),
    ("rc", 1),
    ("uar_4k", 1),
    ("log_pg_sz", 12),
    ("driver_version", 1),
    ("log_bf_reg_size", 9),
    ("max_wqe_sz_sq", 1024),
    ("max_wqe_sz_rq", 512),
    ("max_qp_mcg", MAX_MEMBERS as u64),
    ("log_max_mcg", LOG_MAX_GROUPS as u64),
    ("log_max_transport_domain", 12),
    ("log_max_xrcd", 12),
    ("log_max_uctx", 12),
    ("num_of_uars_per_page", 1),
    ("cqe_128_always", 1),
];

/// Compare-and-swap and fetch-and-add, plain and extended (masked), of 4 and 8 bytes (a bit for
/// each size in bytes). The driver may choose that answers come in the host's byte order.
const CONNECTX6_ATOMIC: &[Value] = &[
    ("atomic_req_8B_endianness_mode", 1),
    ("supported_atomic_req_8B_endianness_mode_1", 1),
    ("atomic_operations", 0b1111),
    ("atomic_size_qp", 4 | 8),
];

const CONNECTX6_2: &[Value] = &[
    ("umr_log_entity_size_5", 1),
    ("log_min_mkey_entity_size", 12),
    ("max_mkey_log_entity_size_mtt", 63),
];

impl Profile {
    /// Profile `connectx-6`. With `umr` off, memory is registered by CREATE_MKEY alone
    /// (umr_modify_entity_size_disabled): the way to bring a driver up step by step.
    pub fn connectx6(limits: &Limits, umr: bool) -> Self {
        let device_frequency_khz = 156_250;
        let mut general = CONNECTX6.to_vec();
        general.extend([
            ("log_max_qp", log2(limits.qps)),
            ("log_max_cq", log2(limits.cqs)),
            ("log_max_srq", log2(limits.srqs)),
            ("log_max_mkey", log2(limits.mkeys)),
            ("log_max_pd", log2(limits.pds)),
            ("max_num_eqs", limits.eqs.into()),
            ("log_max_umem", log2(limits.umems)),
            ("device_frequency_mhz", u64::from(device_frequency_khz / 1000)),
            ("device_frequency_khz", device_frequency_khz.into()),
            ("umr_modify_entity_size_disabled", u64::from(!umr)),
        ]);
        Self {
            device_id: 0x101b,
            fw_version: (20, 43, 1014),
            psid: "EMU0000000010",
            device_frequency_khz,
            general,
            atomic: CONNECTX6_ATOMIC.to_vec(),
            general2: CONNECTX6_2.to_vec(),
        }
    }
}

impl Profile {
    /// How long the port takes to answer, as 4.096 us << n.
    pub fn local_ca_ack_delay(&self) -> u8 {
        let value = self.general.iter().find(|(name, _)| *name == "local_ca_ack_delay");
        value.map_or(0, |(_, delay)| *delay as u8)
    }
}

fn log2(limit: u32) -> u64 {
    limit.max(1).ilog2().into()
}
