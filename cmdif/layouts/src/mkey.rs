//! The memory key context and the translation entries behind it.

use crate::layout;

layout! {
    /// Memory key context (mkc), in CREATE_MKEY, QUERY_MKEY and the second segment of a UMR WQE.
    Mkc = "mkc", 0x40 {
        /// The key can't be used until a UMR clears this.
        free: bool = 0x00[30:30],
        access_mode_4_2: u8 = 0x00[28:26],
        relaxed_ordering_write: bool = 0x00[18:18],
        small_fence_on_rdma_read_response: bool = 0x00[16:16],
        umr_en: bool = 0x00[15:15],
        /// Remote atomic.
        a: bool = 0x00[14:14],
        rw: bool = 0x00[13:13],
        rr: bool = 0x00[12:12],
        lw: bool = 0x00[11:11],
        lr: bool = 0x00[10:10],
        access_mode_1_0: u8 = 0x00[9:8],
        ma_translation_mode: u8 = 0x00[5:4],
        qpn: u32 = 0x04[31:8],
        mkey_7_0: u8 = 0x04[7:0],
        length64: bool = 0x0c[31:31],
        bsf_en: bool = 0x0c[30:30],
        sync_umr: bool = 0x0c[29:29],
        expected_sigerr_count: bool = 0x0c[26:26],
        en_rinval: bool = 0x0c[24:24],
        pd: u32 = 0x0c[23:0],
        start_addr: u64 = 0x10[63:0],
        len: u64 = 0x18[63:0],
        bsf_octword_size: u32 = 0x20[31:0],
        crossing_target_vhca_id: u16 = 0x30[31:16],
        /// Room for translations, in 16-byte octwords.
        translations_octword_size: u32 = 0x34[31:0],
        relaxed_ordering_read: bool = 0x38[6:6],
        log_page_size: u8 = 0x38[5:0],
        pcie_tph_en: bool = 0x3c[26:26],
        pcie_tph_ph: u8 = 0x3c[25:24],
        pcie_tph_steering_tag_index: u8 = 0x3c[23:16],
    }
}
